//! Codec of questions and answers: values read back, and no bytes cause a panic.

use super::key_of;
use crate::sync::{Leaf, RowDigest, SyncAnswer, SyncQuestion};
use base::codec::Reader;
use proptest::prelude::*;

fn questions() -> Vec<SyncQuestion> {
    vec![
        SyncQuestion::Root { sum: u128::MAX - 5, rows: 7 },
        SyncQuestion::Nodes { level: 2, places: vec![0, 9, 255] },
        SyncQuestion::Rows { leaves: vec![Leaf(0), Leaf(65_535)], after: None },
        SyncQuestion::Rows { leaves: vec![Leaf(3)], after: Some(key_of(1)) },
    ]
}

fn answers() -> Vec<SyncAnswer> {
    let row = |number| RowDigest { key: key_of(number), digest: u128::from(number) << 70 };
    vec![
        SyncAnswer::Same,
        SyncAnswer::Sums(vec![1, u64::MAX]),
        SyncAnswer::Rows { rows: vec![row(1), row(2)], more: true },
        SyncAnswer::Rows { rows: Vec::new(), more: false },
    ]
}

fn question_bytes(question: &SyncQuestion) -> Vec<u8> {
    let mut bytes = Vec::new();
    question.write(&mut bytes);
    bytes
}

fn answer_bytes(answer: &SyncAnswer) -> Vec<u8> {
    let mut bytes = Vec::new();
    answer.write(&mut bytes);
    bytes
}

#[test]
fn sync_messages_round_trip_and_prefixes_are_malformed() {
    for question in questions() {
        let bytes = question_bytes(&question);
        assert_eq!(SyncQuestion::read(&mut Reader::new(&bytes)), Ok(question));
        for end in 0..bytes.len() {
            assert!(SyncQuestion::read(&mut Reader::new(&bytes[..end])).is_err(), "cut at {end}");
        }
    }
    for answer in answers() {
        let bytes = answer_bytes(&answer);
        assert_eq!(SyncAnswer::read(&mut Reader::new(&bytes)), Ok(answer));
        for end in 0..bytes.len() {
            assert!(SyncAnswer::read(&mut Reader::new(&bytes[..end])).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn sync_message_encoding_matches_golden_bytes() {
    let question = SyncQuestion::Rows { leaves: vec![Leaf(258)], after: Some(key_of(1)) };
    let expected = [&[2, 1, 0, 0, 0, 2, 1, 1, 5, 0, 0, 0][..], b"key:1"].concat();
    assert_eq!(question_bytes(&question), expected);
    let answer = SyncAnswer::Sums(vec![1, 256]);
    let expected = [1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    assert_eq!(answer_bytes(&answer), expected);
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn corrupt_sync_message_is_rejected_or_reencodes_identically(
        index in 0..4_usize,
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = question_bytes(&questions()[index]);
        let place = at.index(bytes.len());
        bytes[place] = byte;
        if let Ok(question) = SyncQuestion::read(&mut Reader::new(&bytes)) {
            let reencoded = question_bytes(&question);
            prop_assert_eq!(&reencoded[..], &bytes[..reencoded.len()]);
        }
        let mut bytes = answer_bytes(&answers()[index]);
        let place = at.index(bytes.len());
        bytes[place] = byte;
        if let Ok(answer) = SyncAnswer::read(&mut Reader::new(&bytes)) {
            let reencoded = answer_bytes(&answer);
            prop_assert_eq!(&reencoded[..], &bytes[..reencoded.len()]);
        }
    }
}
