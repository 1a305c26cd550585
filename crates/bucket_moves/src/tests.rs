//! Tests of a move's messages and rows, kept as version 1 wrote them.

use crate::intake::BucketIntake;
use crate::message::{Item, MoveReply, MoveRequest};
use crate::progress::{MovePhase, MoveProgress};
use base::{
    BucketDigest, BucketId, Error, GroupId, LogIndex, NodeId, Reason, SessionId, UserDigest,
};
use bytes::Bytes;
use change_feed::{
    FeedMaking, FeedPhase, FeedPosition, FeedRecord, FeedTotals, Retention, SentEntry, SentFeed,
};
use replica_state::layout::StoredSession;
use replica_state::replicated_index::ReplicatedIndex;
use replication::seals::Seal;
use std::fmt::Write;
use std::path::Path;

const BUCKET: BucketId = BucketId(0x0102);

fn session(bucket: Option<BucketDigest>) -> StoredSession {
    StoredSession { used: 4, highest: 5, bucket, user: None }
}

fn items() -> Vec<Item> {
    let (key, row) = (Bytes::from_static(b"key"), Bytes::from_static(b"row"));
    let outcome = Bytes::from_static(b"outcome");
    vec![
        Item::Row { key: key.clone(), row },
        Item::Removed { key },
        Item::Session { session: SessionId(3), stored: session(None) },
        Item::Outcome { session: SessionId(3), number: 5, outcome },
    ]
}

fn close(time: u64, version: u64, indexes: Vec<ReplicatedIndex>) -> MoveRequest {
    MoveRequest::Close { bucket: BUCKET, time, version, indexes, feed: None }
}

fn requests() -> Vec<MoveRequest> {
    vec![
        MoveRequest::Begin { bucket: BUCKET, time: 7, indexes: Vec::new(), feed: None },
        MoveRequest::Part { bucket: BUCKET, part: 8, items: items() },
        MoveRequest::Part { bucket: BUCKET, part: 9, items: Vec::new() },
        close(10, 11, Vec::new()),
        MoveRequest::Progress { bucket: BUCKET },
    ]
}

/// Requests that were added after version 1 was recorded.
fn later_requests() -> Vec<MoveRequest> {
    let stored = session(Some(BucketDigest(0x0605)));
    let items = vec![Item::Session { session: SessionId(u64::MAX), stored }];
    let indexes = vec![index()];
    vec![
        MoveRequest::Part { bucket: BUCKET, part: 19, items },
        MoveRequest::Begin { bucket: BUCKET, time: 20, indexes: indexes.clone(), feed: None },
        close(21, 22, indexes),
    ]
}

/// Requests about a bucket with a feed, in the order in which they were added.
fn fed_requests() -> Vec<MoveRequest> {
    let record = FeedRecord {
        phase: FeedPhase::Building,
        has_values: true,
        era: 23,
        making: FeedMaking { group: GroupId(24), index: LogIndex(25) },
        begun: 26,
        rows: 27,
        cursor: Some(Bytes::from_static(b"k")),
    };
    let position = FeedPosition { era: 28, index: LogIndex(29), ordinal: 30 };
    let entry = Bytes::from_static(b"entry");
    let items = vec![Item::FeedEntry(SentEntry { position, entry })];
    let (totals, retention) = (FeedTotals { entries: 31, bytes: 32 }, Retention::default());
    let sent = SentFeed { record: record.clone(), totals, retention };
    let close = |indexes| MoveRequest::Close {
        bucket: BUCKET,
        time: 33,
        version: 34,
        indexes,
        feed: Some(Box::new(sent.clone())),
    };
    let (indexes, feed) = (vec![index()], Some(record));
    vec![
        MoveRequest::Begin { bucket: BUCKET, time: 35, indexes: Vec::new(), feed: feed.clone() },
        MoveRequest::Begin { bucket: BUCKET, time: 36, indexes: indexes.clone(), feed },
        MoveRequest::Part { bucket: BUCKET, part: 37, items },
        close(Vec::new()),
        close(indexes),
    ]
}

/// Returns the record of an index that is being built.
fn index() -> ReplicatedIndex {
    let definition = b"\x14\0\0\0\x01\x07\0\0\0\x01\x01\x01\x01\0\0\0n\x03\0\0\0$.a";
    let record = [&b"\x01\x01"[..], &[0; 6 * 8 + 1 + 4 + 1], definition].concat();
    ReplicatedIndex::decode(&record).expect("as `replication` keeps it")
}

fn answers() -> Vec<MoveReply> {
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
        MoveReply::Done { time: 12 },
        MoveReply::RetryLater { ms: 13 },
        MoveReply::NotMaster { master: None },
        MoveReply::NotMaster { master: Some(NodeId(14)) },
        MoveReply::Refused(Error::new(Reason::Changed, "other")),
        MoveReply::Progress(None),
        MoveReply::Progress(Some(progress)),
    ]
}

#[test]
fn move_messages_match_golden_bytes_of_version_1() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/moves-v1.txt");
    let mut text = String::new();
    let mut line = |what: &str, bytes: &[u8]| {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{what} {digits}").expect("a string takes all");
    };
    for request in requests() {
        let bytes = request.write();
        assert_eq!(MoveRequest::read(&bytes), Ok(request));
        line("question", &bytes);
    }
    for answer in answers() {
        let bytes = answer.write();
        assert_eq!(MoveReply::read(&bytes), Ok(answer));
        line("answer", &bytes);
    }
    let intake = BucketIntake { closed: true, time_offset_ms: -15, part: 16 };
    assert_eq!(BucketIntake::read(&intake.write()), Ok(intake));
    line("intake", &intake.write());
    let seal = Seal { time: 17, version: 18 };
    assert_eq!(Seal::read(&seal.write().into()), Ok(seal));
    line("seal", &seal.write());
    for request in later_requests().into_iter().chain(fed_requests()) {
        let bytes = request.write();
        assert_eq!(MoveRequest::read(&bytes), Ok(request));
        line("question", &bytes);
    }
    if std::env::var("CREDENZA_KEEP").is_ok_and(|what| what == "golden") && !path.exists() {
        std::fs::write(&path, &text).expect("the kept bytes can be written");
    }
    let stored = std::fs::read_to_string(&path).expect("the kept bytes are there");
    assert_eq!(text, stored, "what was once said between nodes is never changed");
}

/// Kept as it was first sent. Programs before it refuse the kind, and know no users.
#[test]
fn session_of_a_user_is_an_item_of_its_own_kind() {
    let (bucket, user) = (Some(BucketDigest(0x0605)), Some(UserDigest(0x0807)));
    let item = |bucket, user| {
        let stored = StoredSession { user, ..session(bucket) };
        let items = vec![Item::Session { session: SessionId(3), stored }];
        MoveRequest::Part { bucket: BUCKET, part: 19, items }
    };
    let (owned, bound) = (item(bucket, user), item(bucket, None));
    let (bytes, before) = (owned.write(), bound.write());
    assert_eq!(MoveRequest::read(&bytes), Ok(owned));
    assert_eq!(bytes.len(), before.len() + 8);
    assert!(bytes.ends_with(&[5, 6, 0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 0, 0, 0, 0]), "{bytes:?}");
    let kind = before.len() - 33;
    assert_eq!((before[kind], bytes[kind]), (4, 5));
    for end in 0..bytes.len() {
        assert!(MoveRequest::read(&bytes.slice(..end)).is_err(), "{end}");
    }
    // As its row: without a bucket it is nobody's.
    assert_eq!(item(None, user).write(), item(None, None).write());
}

/// A group goes on above the version that it is told: after the last one it could never write
/// again.
#[test]
fn close_with_a_version_at_the_end_of_all_numbers_is_rejected() {
    for (version, is_sound) in [(u64::MAX / 2, true), (u64::MAX / 2 + 1, false), (u64::MAX, false)]
    {
        let close = close(10, version, Vec::new());
        assert_eq!(MoveRequest::read(&close.write()).is_ok(), is_sound, "{version}");
    }
}

#[test]
fn move_message_of_wrong_length_is_rejected() {
    let later = later_requests().into_iter().chain(fed_requests());
    for question in requests().into_iter().chain(later) {
        let bytes = question.write();
        for end in 0..bytes.len() {
            assert!(MoveRequest::read(&bytes.slice(..end)).is_err(), "{question:?} to {end}");
        }
        let longer = Bytes::from([&bytes[..], &[0]].concat());
        assert!(MoveRequest::read(&longer).is_err(), "{question:?}");
    }
    // A count of items that are not there sets nothing aside.
    let mut oversized =
        MoveRequest::Part { bucket: BUCKET, part: 1, items: Vec::new() }.write().to_vec();
    let position = oversized.len() - 4;
    oversized[position..].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(MoveRequest::read(&oversized.into()).is_err());
    for answer in answers() {
        let bytes = answer.write();
        for end in 0..bytes.len() {
            assert!(MoveReply::read(&bytes.slice(..end)).is_err(), "{answer:?} to {end}");
        }
    }
}
