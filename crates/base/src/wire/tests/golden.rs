//! Golden bytes of version 1. `CREDENZA_KEEP=golden cargo test -p base wire` writes the file if it
//! is missing.

use super::examples::{
    batch_call, bodies, calls, cluster_bodies, cluster_calls, drop_group_calls, expiry_call,
    golden_data, group_bodies, group_calls, outcomes, place_bodies, place_calls, secret_bodies,
    secret_calls, token_calls, updates,
};
use super::{
    access, answer_bytes, available, counted, error_bytes, feed, index, key_versions, level,
    reply_bytes, request, request_bytes, ring, tags, update_request,
};
use crate::wire::read_answer;
use crate::{Body, Call, Error, LogIndex, Reason, Reply, Request, RetryId, SessionId};
use std::fmt::{Debug, Write};
use std::path::Path;

#[test]
fn version_1_wire_bytes_match_golden_file() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/calls-v1.txt");
    let data = golden_data();
    let mut text = String::new();
    write_later(&mut text, calls(&data), Vec::new());
    let retry = Some(RetryId { session: SessionId(0xA1), number: 0xB2 });
    let repeated = Request { retry, ..update_request(crate::Update::Nop) };
    let bytes = request_bytes(&repeated);
    assert_eq!(Request::read(&bytes), Ok(repeated));
    write_line(&mut text, "request", &"Repeated", &bytes);
    for body in bodies(&data) {
        let reply = Reply::new(LogIndex(0xC3), body);
        let bytes = reply_bytes(&reply);
        assert_eq!(Reply::read(&bytes), Ok(reply.clone()));
        write_line(&mut text, "reply", &reply.body, &bytes);
    }
    let mut reasons = Reason::ALL.into_iter();
    write_reasons(&mut text, reasons.by_ref().take(25));
    let done = Ok(Reply::new(LogIndex(0xC3), crate::Body::Done));
    for answer in [done, Err(Error::new(Reason::Moved, "there"))] {
        let bytes = answer_bytes(&answer, usize::MAX).expect("sound");
        assert_eq!(read_answer(&bytes), Ok(answer.clone()));
        write_line(&mut text, "answer", &answer, &bytes);
    }
    // Later additions are appended.
    let later_calls =
        [cluster_calls(&data), group_calls(), place_calls(&data), available::calls(&data)];
    let later_bodies =
        [cluster_bodies(&data), group_bodies(&data), place_bodies(&data), available::bodies(&data)];
    for (calls, bodies) in later_calls.into_iter().zip(later_bodies) {
        write_later(&mut text, calls, bodies);
    }
    write_reasons(&mut text, reasons.by_ref().take(4));
    write_later(&mut text, drop_group_calls(), Vec::new());
    write_reasons(&mut text, reasons.by_ref().take(1));
    write_later(&mut text, ring::calls(&data), ring::bodies(&data));
    write_later(&mut text, available::type_calls(&data), available::type_bodies(&data));
    write_later(&mut text, ring::later_calls(&data), Vec::new());
    write_later(&mut text, token_calls(&data), Vec::new());
    write_later(&mut text, vec![batch_call()], Vec::new());
    write_later(&mut text, Vec::new(), available::once_bodies());
    write_later(&mut text, vec![expiry_call(&data)], Vec::new());
    write_later(&mut text, secret_calls(), secret_bodies(&data));
    write_reasons(&mut text, reasons.by_ref().take(6));
    write_later(&mut text, Vec::new(), counted::bodies(&data));
    write_later(&mut text, level::calls(&data), level::bodies(&data));
    write_later(&mut text, access::calls(&data), Vec::new());
    write_reasons(&mut text, reasons.by_ref().take(1));
    access::write_principals(&mut text);
    write_later(&mut text, access::quota_calls(), Vec::new());
    write_reasons(&mut text, reasons.by_ref().take(1));
    write_later(&mut text, Vec::new(), counted::later_bodies(&data));
    let latest = [level::token_calls(&data), access::session_quota_calls()];
    write_later(&mut text, latest.concat(), Vec::new());
    write_reasons(&mut text, reasons.by_ref().take(3));
    write_later(&mut text, index::calls(&data), index::bodies(&data));
    write_reasons(&mut text, reasons);
    write_later(&mut text, feed::calls(&data), feed::bodies(&data));
    write_later(&mut text, key_versions::calls(&data), key_versions::bodies(&data));
    write_later(&mut text, tags::calls(&data), tags::bodies(&data));
    if std::env::var("CREDENZA_KEEP").is_ok_and(|what| what == "golden") && !path.exists() {
        std::fs::write(&path, &text).expect("the kept bytes can be written");
    }
    let expected = std::fs::read_to_string(&path).expect("the kept bytes are there");
    assert_eq!(text, expected, "what was once said between nodes is never changed");
}

fn write_reasons(text: &mut String, reasons: impl Iterator<Item = Reason>) {
    for reason in reasons {
        let error = Error::key(reason, &golden_data().keys[1]);
        let bytes = error_bytes(&error);
        assert_eq!(Error::read(&bytes), Ok(error));
        write_line(text, "error", &reason, &bytes);
    }
}

fn write_later(text: &mut String, calls: Vec<Call>, bodies: Vec<Body>) {
    for call in calls {
        let request = request(call);
        let bytes = request_bytes(&request);
        assert_eq!(Request::read(&bytes), Ok(request.clone()));
        write_line(text, "request", &request.call, &bytes);
    }
    for body in bodies {
        let reply = Reply::new(LogIndex(0xC3), body);
        let bytes = reply_bytes(&reply);
        assert_eq!(Reply::read(&bytes), Ok(reply.clone()));
        write_line(text, "reply", &reply.body, &bytes);
    }
}

/// Writes one line: the category, the outermost names of the value, its bytes.
fn write_line(text: &mut String, what: &str, of: &impl Debug, bytes: &[u8]) {
    let debug = format!("{of:?}").to_lowercase();
    let plain = |c: char| c.is_ascii_lowercase();
    let names: Vec<_> = debug.split(|c| !plain(c)).filter(|name| !name.is_empty()).collect();
    let name = names[..names.len().min(2)].join(".");
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(text, "{what} {name} {hexadecimal}").expect("a string takes all");
}

#[test]
fn wire_examples_cover_variants_in_tag_order() {
    let data = golden_data();
    let tag_offset = request_bytes(&update_request(crate::Update::Nop)).len() - 1;
    for (number, update) in updates(&data).into_iter().take(21).enumerate() {
        assert_eq!(usize::from(request_bytes(&update_request(update))[tag_offset]), number);
    }
    let number = |body| usize::from(reply_bytes(&Reply::new(LogIndex(1), body))[8]);
    for (tag, body) in bodies(&data).into_iter().take(9).enumerate() {
        assert_eq!(number(body), tag);
    }
    for (tag, outcome) in outcomes(&data).into_iter().take(12).enumerate() {
        let body = crate::Body::Updated(outcome);
        let bytes = reply_bytes(&Reply::new(LogIndex(1), body));
        assert_eq!(usize::from(bytes[9]), tag);
    }
}
