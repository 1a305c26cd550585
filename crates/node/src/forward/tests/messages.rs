//! Encoding of forwarded requests: they read back as written, and other bytes are refused.

use crate::forward::message;
use crate::tests::{bytes, request, set};
use base::{Call, DirectoryCall, LogIndex, Reason};
use bytes::Bytes;
use transport::CallKind;

#[test]
fn a_letter_reads_back_with_what_its_writer_had_seen() {
    let asked = request(Call::Update(set("k", "v")));
    let written = message::write(LogIndex(77), &asked).expect("small");
    assert_eq!(written[0], CallKind::RequestForVersion.byte());
    assert_eq!(message::read(&written), Ok((LogIndex(77), asked.clone())));
    // As a node of an older version writes and reads it.
    let plain = message::without_version(&written);
    assert_eq!((plain[0], &plain[1..]), (CallKind::Request.byte(), &written[1..]));
    assert_eq!(message::read(&plain), Ok((LogIndex(77), asked)));
    let look = request(Call::Read(base::Read::KeyCount, base::ReadLevel::Dirty));
    assert_eq!(message::write(LogIndex(77), &look).expect("small")[0], CallKind::Request.byte());
}

#[test]
fn every_shorter_or_longer_letter_is_none() {
    let written =
        message::write(LogIndex(1), &request(Call::Update(set("k", "v")))).expect("small");
    for end in 0..written.len() {
        assert!(message::read(&written.slice(..end)).is_err(), "cut at {end}");
    }
    let longer = Bytes::from([&written[..], &[0]].concat());
    assert!(message::read(&longer).is_err());
    let mut other = written.to_vec();
    other[0] = CallKind::Request.byte() + 1;
    assert!(![CallKind::Request.byte(), CallKind::RequestForVersion.byte()].contains(&other[0]));
    assert!(message::read(&Bytes::from(other)).is_err());
}

#[test]
fn an_answer_brings_the_row_s_version_to_who_asks_for_it_alone() {
    let asked = message::write(LogIndex(1), &request(Call::Update(set("k", "v")))).expect("small");
    let plain = message::without_version(&asked);
    let reply = |version| {
        let body = base::Body::Updated(base::Outcome::Done);
        Ok(base::Reply { index: LogIndex(9), version, body })
    };
    let answered = |letter: &Bytes, answer: &base::Result<base::Reply>| {
        let mut bytes = Vec::new();
        message::put_version(letter, answer, &mut bytes);
        base::wire::write_answer(answer, message::BYTES_MAX, &mut bytes);
        Bytes::from(bytes)
    };
    let version = Some(base::Version(17));
    for (letter, version, seen) in
        [(&asked, version, version), (&asked, None, None), (&plain, version, None)]
    {
        let bytes = answered(letter, &reply(version));
        assert_eq!(message::read_answer_to(letter, bytes.clone()), Ok(reply(seen)));
        for end in 0..bytes.len() {
            assert!(message::read_answer_to(letter, bytes.slice(..end)).is_err(), "cut at {end}");
        }
    }
    // The bytes that an older node writes and reads are as ever.
    let mut before = Vec::new();
    base::wire::write_answer(&reply(None), message::BYTES_MAX, &mut before);
    assert_eq!(answered(&plain, &reply(version)), before);
    let failed = Err(base::Error::new(Reason::Changed, "words"));
    assert_eq!(message::read_answer_to(&asked, answered(&asked, &failed)), Ok(failed));
}

#[test]
fn what_could_not_be_read_back_is_refused_before_it_is_sent() {
    let changes = vec![("ttl".to_string(), "1".to_string()); base::limits::CHANGES_MAX + 1];
    let asked = request(Call::Directory(DirectoryCall::CreateBucket(changes)));
    let refused = message::write(LogIndex(0), &asked).expect_err("too many changes");
    assert_eq!(refused.reason, Reason::TooLarge);
    let value = "v".repeat(message::BYTES_MAX);
    let asked = request(Call::Update(set("k", &value)));
    let refused = message::write(LogIndex(0), &asked).expect_err("too large");
    assert_eq!(refused.reason, Reason::TooLarge);
    assert!(refused.detail.len() < 1_000 && bytes("k").len() == 1);
}
