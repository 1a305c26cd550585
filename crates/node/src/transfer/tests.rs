//! Tests of a move's messages and rows, kept as version 1 wrote them.

use super::intake::BucketIntake;
use super::message::{Item, MoveAnswer, MoveQuestion};
use super::progress::{MovePhase, MoveProgress};
use base::{BucketDigest, BucketId, Error, NodeId, Reason, SessionId};
use bytes::Bytes;
use replication::layout::StoredSession;
use replication::seals::Seal;
use std::fmt::Write;
use std::path::Path;

const BUCKET: BucketId = BucketId(0x0102);

fn session(bucket: Option<BucketDigest>) -> StoredSession {
    StoredSession { used: 4, highest: 5, bucket }
}

fn items() -> Vec<Item> {
    let (key, row) = (Bytes::from_static(b"key"), Bytes::from_static(b"row"));
    let outcome = Bytes::from_static(b"outcome");
    vec![
        Item::Row { key: key.clone(), row },
        Item::Gone { key },
        Item::Session { session: SessionId(3), stored: session(None) },
        Item::Outcome { session: SessionId(3), number: 5, outcome },
    ]
}

fn questions() -> Vec<MoveQuestion> {
    vec![
        MoveQuestion::Begin { bucket: BUCKET, time: 7 },
        MoveQuestion::Take { bucket: BUCKET, part: 8, items: items() },
        MoveQuestion::Take { bucket: BUCKET, part: 9, items: Vec::new() },
        MoveQuestion::Close { bucket: BUCKET, time: 10, version: 11 },
        MoveQuestion::Progress { bucket: BUCKET },
    ]
}

/// Questions that came after version 1 was kept.
fn later_questions() -> Vec<MoveQuestion> {
    let stored = session(Some(BucketDigest(0x0605)));
    let items = vec![Item::Session { session: SessionId(u64::MAX), stored }];
    vec![MoveQuestion::Take { bucket: BUCKET, part: 19, items }]
}

fn answers() -> Vec<MoveAnswer> {
    let progress = MoveProgress {
        phase: MovePhase::Sealed,
        rows: 1,
        rows_total: 2,
        bytes: 3,
        bytes_total: 4,
        again: 5,
        left: 6,
        waits_for: "a friend".into(),
    };
    vec![
        MoveAnswer::Done { time: 12 },
        MoveAnswer::Early { ms: 13 },
        MoveAnswer::NotMaster { master: None },
        MoveAnswer::NotMaster { master: Some(NodeId(14)) },
        MoveAnswer::Refused(Error::new(Reason::Changed, "other")),
        MoveAnswer::Progress(None),
        MoveAnswer::Progress(Some(progress)),
    ]
}

#[test]
fn the_kept_bytes_of_version_1_are_written_and_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/moves-v1.txt");
    let mut text = String::new();
    let mut line = |what: &str, bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{what} {digits}").expect("a string takes all");
    };
    for question in questions() {
        let bytes = question.write();
        assert_eq!(MoveQuestion::read(&bytes), Ok(question));
        line("question", &bytes);
    }
    for answer in answers() {
        let bytes = answer.write();
        assert_eq!(MoveAnswer::read(&bytes), Ok(answer));
        line("answer", &bytes);
    }
    let intake = BucketIntake { closed: true, ahead: -15, part: 16 };
    assert_eq!(BucketIntake::read(&intake.write()), Ok(intake));
    line("intake", &intake.write());
    let seal = Seal { time: 17, version: 18 };
    assert_eq!(Seal::read(&seal.write().into()), Ok(seal));
    line("seal", &seal.write());
    for question in later_questions() {
        let bytes = question.write();
        assert_eq!(MoveQuestion::read(&bytes), Ok(question));
        line("question", &bytes);
    }
    if std::env::var("CREDENZA_KEEP").is_ok_and(|what| what == "golden") && !path.exists() {
        std::fs::write(&path, &text).expect("the kept bytes can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("the kept bytes are there");
    assert_eq!(text, kept, "what was once said between nodes is never changed");
}

#[test]
fn no_beginning_of_a_letter_is_one_and_none_is_read_beyond_its_end() {
    for question in questions().into_iter().chain(later_questions()) {
        let bytes = question.write();
        for end in 0..bytes.len() {
            assert!(MoveQuestion::read(&bytes.slice(..end)).is_err(), "{question:?} to {end}");
        }
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        assert!(MoveQuestion::read(&longer).is_err(), "{question:?}");
    }
    // A count of items that are not there sets nothing aside.
    let mut many =
        MoveQuestion::Take { bucket: BUCKET, part: 1, items: Vec::new() }.write().to_vec();
    let at = many.len() - 4;
    many[at..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(MoveQuestion::read(&many.into()).is_err());
    for answer in answers() {
        let bytes = answer.write();
        for end in 0..bytes.len() {
            assert!(MoveAnswer::read(&bytes.slice(..end)).is_err(), "{answer:?} to {end}");
        }
    }
}
