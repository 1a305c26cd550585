//! Encoding of forwarded requests: they read back as written, and other bytes are refused.

use crate::forward::message;
use crate::tests::{bytes, request, set};
use base::{Call, DirectoryCall, LogIndex, Reason};
use bytes::Bytes;
use transport::CallKind;

#[test]
fn forwarded_request_round_trips_with_directory_index() {
    let written_request = request(Call::Update(set("k", "v")));
    let written = message::write(LogIndex(77), None, &written_request).expect("small");
    assert_eq!(written[0], CallKind::RequestForVersion.byte());
    assert_eq!(message::read(&written), Ok((LogIndex(77), None, written_request.clone())));
    // As a node of an older version writes and reads it.
    let plain = message::without_version(&written);
    assert_eq!((plain[0], &plain[1..]), (CallKind::Request.byte(), &written[1..]));
    assert_eq!(message::read(&plain), Ok((LogIndex(77), None, written_request)));
    let read = request(Call::Read(base::Read::KeyCount, base::ReadLevel::Dirty));
    assert_eq!(
        message::write(LogIndex(77), None, &read).expect("small")[0],
        CallKind::Request.byte()
    );
}

#[test]
fn forwarded_request_of_wrong_length_or_kind_is_rejected() {
    let written =
        message::write(LogIndex(1), None, &request(Call::Update(set("k", "v")))).expect("small");
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
fn answer_carries_row_version_only_if_requested() {
    let written_request =
        message::write(LogIndex(1), None, &request(Call::Update(set("k", "v")))).expect("small");
    let plain = message::without_version(&written_request);
    let reply = |version| {
        let body = base::Body::Updated(base::Outcome::Done);
        Ok(base::Reply { index: LogIndex(9), version, body })
    };
    let encode_answer = |payload: &Bytes, answer: &base::Result<base::Reply>| {
        let mut bytes = Vec::new();
        message::put_version(payload, answer, &mut bytes);
        base::wire::write_answer(answer, message::BYTES_MAX, &mut bytes);
        Bytes::from(bytes)
    };
    let version = Some(base::Version(17));
    for (payload, version, expected) in [
        (&written_request, version, version),
        (&written_request, None, None),
        (&plain, version, None),
    ] {
        let bytes = encode_answer(payload, &reply(version));
        assert_eq!(message::read_answer_to(payload, bytes.clone()), Ok(reply(expected)));
        for end in 0..bytes.len() {
            assert!(message::read_answer_to(payload, bytes.slice(..end)).is_err(), "cut at {end}");
        }
    }
    // The bytes that an older node writes and reads are as ever.
    let mut before = Vec::new();
    base::wire::write_answer(&reply(None), message::BYTES_MAX, &mut before);
    assert_eq!(encode_answer(&plain, &reply(version)), before);
    let failed = Err(base::Error::new(Reason::Changed, "words"));
    assert_eq!(
        message::read_answer_to(&written_request, encode_answer(&written_request, &failed)),
        Ok(failed)
    );
}

#[test]
fn oversized_request_is_refused_before_forwarding() {
    let changes = vec![("ttl".to_string(), "1".to_string()); base::limits::CHANGES_MAX + 1];
    let written_request = request(Call::Directory(DirectoryCall::CreateBucket(changes)));
    let refused =
        message::write(LogIndex(0), None, &written_request).expect_err("too many changes");
    assert_eq!(refused.reason, Reason::TooLarge);
    let value = "v".repeat(message::BYTES_MAX);
    let written_request = request(Call::Update(set("k", &value)));
    let refused = message::write(LogIndex(0), None, &written_request).expect_err("too large");
    assert_eq!(refused.reason, Reason::TooLarge);
    assert!(refused.detail.len() < 1_000 && bytes("k").len() == 1);
}
