//! Golden bytes of version 1. `CREDENZA_KEEP=golden cargo test -p base wire` writes the file if it
//! is missing.

use super::examples::{
    batch_call, bodies, calls, cluster_bodies, cluster_calls, ending_calls, expiry_call,
    group_bodies, group_calls, kept, outcomes, place_bodies, place_calls, secret_bodies,
    secret_calls, token_calls, updates,
};
use super::{answered, available, failed, replied, request, ring, updated, written};
use crate::wire::read_answer;
use crate::{Body, Call, Error, LogIndex, Reason, Reply, Request, RetryId, SessionId};
use std::fmt::{Debug, Write};
use std::path::Path;

#[test]
fn the_kept_bytes_of_version_1_are_written_and_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/calls-v1.txt");
    let of = kept();
    let mut text = String::new();
    for call in calls(&of) {
        let request = request(call);
        let bytes = written(&request);
        assert_eq!(Request::read(&bytes), Ok(request.clone()));
        line(&mut text, "request", &request.call, &bytes);
    }
    let retry = Some(RetryId { session: SessionId(0xA1), number: 0xB2 });
    let repeated = Request { retry, ..updated(crate::Update::Nop) };
    let bytes = written(&repeated);
    assert_eq!(Request::read(&bytes), Ok(repeated));
    line(&mut text, "request", &"Repeated", &bytes);
    for body in bodies(&of) {
        let reply = Reply::new(LogIndex(0xC3), body);
        let bytes = replied(&reply);
        assert_eq!(Reply::read(&bytes), Ok(reply.clone()));
        line(&mut text, "reply", &reply.body, &bytes);
    }
    let (first, later_reasons) = Reason::ALL.split_at(25);
    reasons(&mut text, first);
    let done = Ok(Reply::new(LogIndex(0xC3), crate::Body::Done));
    for answer in [done, Err(Error::new(Reason::Moved, "there"))] {
        let bytes = answered(&answer, usize::MAX).expect("sound");
        assert_eq!(read_answer(&bytes), Ok(answer.clone()));
        line(&mut text, "answer", &answer, &bytes);
    }
    // Later additions follow.
    let later_calls = [cluster_calls(&of), group_calls(), place_calls(&of), available::calls(&of)];
    let later_bodies =
        [cluster_bodies(&of), group_bodies(&of), place_bodies(&of), available::bodies(&of)];
    for (calls, bodies) in later_calls.into_iter().zip(later_bodies) {
        later(&mut text, calls, bodies);
    }
    let (later_reasons, latest_reasons) = later_reasons.split_at(4);
    let (latest_reasons, newest_reasons) = latest_reasons.split_at(1);
    let (newest_reasons, split_reasons) = newest_reasons.split_at(1);
    reasons(&mut text, later_reasons);
    later(&mut text, ending_calls(), Vec::new());
    reasons(&mut text, latest_reasons);
    later(&mut text, ring::calls(&of), ring::bodies(&of));
    later(&mut text, available::type_calls(&of), available::type_bodies(&of));
    later(&mut text, ring::later_calls(&of), Vec::new());
    later(&mut text, token_calls(&of), Vec::new());
    later(&mut text, vec![batch_call()], Vec::new());
    later(&mut text, Vec::new(), available::once_bodies());
    later(&mut text, vec![expiry_call(&of)], Vec::new());
    later(&mut text, secret_calls(), secret_bodies(&of));
    reasons(&mut text, newest_reasons);
    reasons(&mut text, split_reasons);
    if std::env::var("CREDENZA_KEEP").is_ok_and(|what| what == "golden") && !path.exists() {
        std::fs::write(&path, &text).expect("the kept bytes can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("the kept bytes are there");
    assert_eq!(text, kept, "what was once said between nodes is never changed");
}

fn reasons(text: &mut String, reasons: &[Reason]) {
    for reason in reasons {
        let error = Error::key(*reason, &kept().keys[1]);
        let bytes = failed(&error);
        assert_eq!(Error::read(&bytes), Ok(error));
        line(text, "error", reason, &bytes);
    }
}

fn later(text: &mut String, calls: Vec<Call>, bodies: Vec<Body>) {
    for call in calls {
        let request = request(call);
        let bytes = written(&request);
        assert_eq!(Request::read(&bytes), Ok(request.clone()));
        line(text, "request", &request.call, &bytes);
    }
    for body in bodies {
        let reply = Reply::new(LogIndex(0xC3), body);
        let bytes = replied(&reply);
        assert_eq!(Reply::read(&bytes), Ok(reply.clone()));
        line(text, "reply", &reply.body, &bytes);
    }
}

/// Writes one line: the category, the outermost names of the value, its bytes.
fn line(text: &mut String, what: &str, of: &impl Debug, bytes: &[u8]) {
    let debug = format!("{of:?}").to_lowercase();
    let plain = |c: char| c.is_ascii_lowercase();
    let names: Vec<_> = debug.split(|c| !plain(c)).filter(|name| !name.is_empty()).collect();
    let name = names[..names.len().min(2)].join(".");
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(text, "{what} {name} {hexadecimal}").expect("a string takes all");
}

#[test]
fn the_examples_hold_every_variant_in_the_order_of_its_number() {
    let of = kept();
    let front = written(&updated(crate::Update::Nop)).len() - 1;
    for (number, update) in updates(&of).into_iter().take(21).enumerate() {
        assert_eq!(usize::from(written(&updated(update))[front]), number);
    }
    let number = |body| usize::from(replied(&Reply::new(LogIndex(1), body))[8]);
    for (at, body) in bodies(&of).into_iter().take(9).enumerate() {
        assert_eq!(number(body), at);
    }
    for (at, outcome) in outcomes(&of).into_iter().take(12).enumerate() {
        let body = crate::Body::Updated(outcome);
        let bytes = replied(&Reply::new(LogIndex(1), body));
        assert_eq!(usize::from(bytes[9]), at);
    }
}
