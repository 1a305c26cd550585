//! Messages of a transfer: encoding and decoding, and the refusal of other bytes.

use super::test_node::{initial, mark};
use crate::layout::Mark;
use crate::snapshot::message::{
    Offer, PartEnd, PartHead, SnapshotAnswer, SnapshotQuestion, read_rows, write_rows,
};
use base::LogIndex;
use base::codec::Malformed;
use bytes::Bytes;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn questions() -> [SnapshotQuestion; 4] {
    [
        SnapshotQuestion::Begin { stream: 0x0102_0304 },
        SnapshotQuestion::Resume { stream: 5, id: 6, after: None },
        SnapshotQuestion::Resume { stream: 7, id: 8, after: Some("a key".into()) },
        SnapshotQuestion::End { id: u64::MAX },
    ]
}

fn answers() -> [SnapshotAnswer; 5] {
    let offer = Offer {
        id: 9,
        mark: mark(1_000),
        base: LogIndex(77),
        configuration: initial(),
        rows_estimated: 10,
        bytes_estimated: 11,
    };
    [
        SnapshotAnswer::Offer(offer),
        SnapshotAnswer::Accepted,
        SnapshotAnswer::Expired,
        SnapshotAnswer::Busy,
        SnapshotAnswer::UnknownGroup,
    ]
}

fn head() -> PartHead {
    PartHead { id: 1, stream: 2, number: 3, end: PartEnd::Snapshot, digest: 4 }
}

#[test]
fn snapshot_messages_round_trip_and_other_lengths_are_rejected() {
    fn assert_round_trip<T: PartialEq + std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
        value: &T,
        bytes: &[u8],
        read: impl Fn(&[u8]) -> Result<T, E>,
    ) {
        assert_eq!(read(bytes).as_ref(), Ok(value));
        (0..bytes.len()).for_each(|length| assert!(read(&bytes[..length]).is_err()));
        assert!(read(&[bytes, &[0]].concat()).is_err());
        assert!(read(&[&[bytes[0] ^ 0x80], &bytes[1..]].concat()).is_err());
    }
    questions().iter().for_each(|one| assert_round_trip(one, &one.write(), SnapshotQuestion::read));
    answers().iter().for_each(|one| assert_round_trip(one, &one.write(), SnapshotAnswer::read));
    assert_eq!(PartHead::read(&head().write()), Ok(head()));
}

/// A state that leaves no number for what follows: the group that installs it could never go on.
#[test]
fn offer_with_a_mark_at_the_end_of_all_numbers_is_malformed() {
    let [SnapshotAnswer::Offer(offer), ..] = answers() else { panic!("the first is an offer") };
    let sound = offer.mark;
    for mark in [
        Mark { applied: u64::MAX, ..sound },
        Mark { time: u64::MAX / 2 + 1, ..sound },
        Mark { next_version: u64::MAX, ..sound },
    ] {
        let bytes = SnapshotAnswer::Offer(Offer { mark, ..offer.clone() }).write();
        assert_eq!(SnapshotAnswer::read(&bytes), Err(Malformed("mark")), "{mark:?}");
    }
}

proptest! {
    #[test]
    fn snapshot_rows_round_trip(rows: Vec<(Vec<u8>, Vec<u8>)>) {
        let row = |(key, value): (Vec<u8>, Vec<u8>)| (key.into(), value.into());
        let rows: Vec<_> = rows.into_iter().map(row).collect();
        prop_assert_eq!(read_rows(&write_rows(&rows)), Ok(rows));
    }

    #[test]
    fn arbitrary_bytes_never_panic_the_snapshot_decoder(bytes: Vec<u8>) {
        let _ = (SnapshotQuestion::read(&bytes), SnapshotAnswer::read(&bytes));
        let _ = PartHead::read(&bytes);
        let _ = read_rows(&Bytes::from(bytes));
    }
}

fn golden_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/snapshots-v1.txt")
}

/// `CREDENZA_KEEP=golden cargo test -p replication golden` writes the file if it is missing.
#[test]
fn snapshot_messages_match_golden_bytes() {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let rows = [("key".into(), "value".into()), ("other".into(), Bytes::new())];
    let all = questions().map(|one| one.write()).into_iter();
    let all = all.chain(answers().map(|one| one.write()));
    let all = all.chain([head().write().to_vec().into(), write_rows(&rows)]);
    let lines: Vec<_> = all.map(|bytes| hex(&bytes)).collect();
    let text = format!("# What nodes say about snapshots, version 1.\n{}\n", lines.join("\n"));
    if std::env::var_os("CREDENZA_KEEP").is_some_and(|what| what == "golden")
        && !golden_path().exists()
    {
        std::fs::write(golden_path(), &text).unwrap();
    }
    let found = std::fs::read_to_string(golden_path()).unwrap();
    assert_eq!(found, text, "a later version appends; these bytes are never written otherwise");
}
