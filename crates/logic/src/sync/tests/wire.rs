//! The bytes of what is said: read back as they were, never a panic.

use super::name;
use crate::sync::{Answer, Leaf, Question, RowDigest};
use base::codec::Reader;
use proptest::prelude::*;

fn questions() -> Vec<Question> {
    vec![
        Question::Root { sum: u128::MAX - 5, rows: 7 },
        Question::Nodes { level: 2, places: vec![0, 9, 255] },
        Question::Rows { leaves: vec![Leaf(0), Leaf(65_535)], after: None },
        Question::Rows { leaves: vec![Leaf(3)], after: Some(name(1)) },
    ]
}

fn answers() -> Vec<Answer> {
    let row = |number| RowDigest { key: name(number), digest: u128::from(number) << 70 };
    vec![
        Answer::Same,
        Answer::Sums(vec![1, u64::MAX]),
        Answer::Rows { rows: vec![row(1), row(2)], more: true },
        Answer::Rows { rows: Vec::new(), more: false },
    ]
}

fn question_bytes(question: &Question) -> Vec<u8> {
    let mut bytes = Vec::new();
    question.write(&mut bytes);
    bytes
}

fn answer_bytes(answer: &Answer) -> Vec<u8> {
    let mut bytes = Vec::new();
    answer.write(&mut bytes);
    bytes
}

#[test]
fn what_is_said_is_heard() {
    for question in questions() {
        let bytes = question_bytes(&question);
        assert_eq!(Question::read(&mut Reader::new(&bytes)), Ok(question));
        for end in 0..bytes.len() {
            assert!(Question::read(&mut Reader::new(&bytes[..end])).is_err(), "cut at {end}");
        }
    }
    for answer in answers() {
        let bytes = answer_bytes(&answer);
        assert_eq!(Answer::read(&mut Reader::new(&bytes)), Ok(answer));
        for end in 0..bytes.len() {
            assert!(Answer::read(&mut Reader::new(&bytes[..end])).is_err(), "cut at {end}");
        }
    }
}

#[test]
fn the_bytes_of_a_question_are_for_ever() {
    let question = Question::Rows { leaves: vec![Leaf(258)], after: Some(name(1)) };
    let expected = [&[2, 1, 0, 0, 0, 2, 1, 1, 5, 0, 0, 0][..], b"key:1"].concat();
    assert_eq!(question_bytes(&question), expected);
    let answer = Answer::Sums(vec![1, 256]);
    let expected = [1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    assert_eq!(answer_bytes(&answer), expected);
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(3_000) }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn any_bytes_are_heard_or_refused(
        which in 0..4_usize,
        at in any::<prop::sample::Index>(),
        byte: u8,
    ) {
        let mut bytes = question_bytes(&questions()[which]);
        let place = at.index(bytes.len());
        bytes[place] = byte;
        if let Ok(question) = Question::read(&mut Reader::new(&bytes)) {
            let again = question_bytes(&question);
            prop_assert_eq!(&again[..], &bytes[..again.len()]);
        }
        let mut bytes = answer_bytes(&answers()[which]);
        let place = at.index(bytes.len());
        bytes[place] = byte;
        if let Ok(answer) = Answer::read(&mut Reader::new(&bytes)) {
            let again = answer_bytes(&answer);
            prop_assert_eq!(&again[..], &bytes[..again.len()]);
        }
    }
}
