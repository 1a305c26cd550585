//! Letters read back as they were written, and nothing else is one.

use crate::forward::letter::{self, PASSED_ON};
use crate::tests::{bytes, request, set};
use base::{Call, DirectoryCall, LogIndex, Reason};
use bytes::Bytes;

#[test]
fn a_letter_reads_back_with_what_its_writer_had_seen() {
    let asked = request(Call::Update(set("k", "v")));
    let written = letter::write(LogIndex(77), &asked).expect("small");
    assert_eq!(written[0], PASSED_ON);
    assert_eq!(letter::read(&written), Ok((LogIndex(77), asked)));
}

#[test]
fn every_shorter_or_longer_letter_is_none() {
    let written = letter::write(LogIndex(1), &request(Call::Update(set("k", "v")))).expect("small");
    for end in 0..written.len() {
        assert!(letter::read(&written.slice(..end)).is_err(), "cut at {end}");
    }
    let longer = Bytes::from([&written[..], &[0]].concat());
    assert!(letter::read(&longer).is_err());
    let mut other = written.to_vec();
    other[0] = PASSED_ON + 1;
    assert!(letter::read(&Bytes::from(other)).is_err());
}

#[test]
fn what_could_not_be_read_back_is_refused_before_it_is_sent() {
    let changes = vec![("ttl".to_string(), "1".to_string()); base::limits::CHANGES_MAX + 1];
    let asked = request(Call::Directory(DirectoryCall::CreateBucket(changes)));
    let refused = letter::write(LogIndex(0), &asked).expect_err("too many changes");
    assert_eq!(refused.reason, Reason::TooLarge);
    let value = "v".repeat(letter::BYTES_MAX);
    let asked = request(Call::Update(set("k", &value)));
    let refused = letter::write(LogIndex(0), &asked).expect_err("too large");
    assert_eq!(refused.reason, Reason::TooLarge);
    assert!(refused.detail.len() < 1_000 && bytes("k").len() == 1);
}
