//! Golden examples of a feed's rows, and their derivation.

use super::*;
use crate::layout::{self, StoredRow};
use base::{BucketId, GroupId, LogIndex, Version};
use bytes::Bytes;
use change_feed::{
    FeedMaking, FeedPhase, FeedPosition, FeedRecord, FeedTotals, Retention, feed_record_key,
};
use store::RowChange;

const PLACE: (GroupId, BucketId) = (GroupId(0x0102), BucketId(0x0304));

fn record(phase: FeedPhase, has_values: bool) -> FeedRecord {
    let making = FeedMaking { group: PLACE.0, index: LogIndex(1) };
    FeedRecord { phase, has_values, era: 2, making, begun: 1, rows: 0, cursor: None }
}

fn row(version: u64, expires: Option<u64>, value: &[u8]) -> Bytes {
    let mut row = Vec::new();
    StoredRow::write_head(Version(version), expires, &mut row);
    row.extend_from_slice(value);
    row.into()
}

fn row_key(bucket: BucketId, name: &[u8]) -> Bytes {
    let mut key = Vec::new();
    layout::row_key(PLACE.0, bucket, name, &mut key);
    key.into()
}

fn put_record(record: &FeedRecord) -> RowChange {
    let key = row_key(layout::BOOKKEEPING_BUCKET, &feed_record_key(PLACE.1));
    RowChange::Put(key, row(1, None, &record.encode()))
}

fn put(name: &str, version: u64) -> RowChange {
    RowChange::Put(row_key(PLACE.1, name.as_bytes()), row(version, None, b"v"))
}

fn remove(name: &str) -> RowChange {
    RowChange::Remove(row_key(PLACE.1, name.as_bytes()))
}

fn derive(feeds: &AppliedFeeds, effects: &[RowChange]) -> Vec<RowChange> {
    let mut derivation = feeds.derive(PLACE.0, LogIndex(5));
    effects.iter().for_each(|effect| derivation.observe(effect));
    derivation.finish(EntryStamp { time: 7, next_version: 9 }).expect("sound rows")
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn rows_of_feeds_keep_their_keys_and_bytes() {
    let feeds = AppliedFeeds::default();
    let effects = [put_record(&record(FeedPhase::Ready, true)), put("k", 3), remove("gone")];
    let derived = derive(&feeds, &effects);
    let texts: Vec<_> = derived
        .iter()
        .map(|change| match change {
            RowChange::Put(key, row) => format!("{} {}", hexadecimal(key), hexadecimal(row)),
            RowChange::Remove(_) => panic!("nothing is removed"),
        })
        .collect();
    // Key: group, space, bucket, era, index, ordinal. Row: kind, version, time, key, value.
    let front = "000001020900000304";
    let position = |number| format!("{front}000200000000000000050000000{number}");
    let put = "0203000000000000000700000000000000010000006b76";
    let delete = "000800000000000000070000000000000004000000676f6e65";
    let expected = [
        format!("{} {put}", position(0)),
        format!("{} {delete}", position(1)),
        // Two entries of 94 bytes together.
        "000001020a0000030474 0102000000000000005e00000000000000".to_string(),
    ];
    assert_eq!(texts, expected);
    assert_eq!(hexadecimal(&retention_key(PLACE.0, PLACE.1)), "000001020a0000030472");
    let position = FeedPosition { era: 2, index: LogIndex(5), ordinal: 1 };
    let key = feed_key(PLACE.0, PLACE.1, position);
    assert_eq!(read_feed_key(&key), Ok(position));
    assert!(read_feed_key(&key[..9]).is_err());
    assert_eq!(read_retention(None), Ok(Retention::default()));
    assert_eq!(read_totals(None), Ok(FeedTotals::default()));
}

#[test]
fn record_counts_for_the_effects_behind_it_and_last_effects_count() {
    let feeds = AppliedFeeds::default();
    assert!(derive(&feeds, &[put("a", 1)]).is_empty(), "it has no feed");
    let begin = put_record(&record(FeedPhase::Building, false));
    let derived = derive(&feeds, &[put("before", 1), begin, put("a", 2), put("b", 2), put("a", 3)]);
    assert_eq!(derived.len(), 3, "two keys and the totals");
    let again = AppliedFeeds::default();
    let begin = put_record(&record(FeedPhase::Building, false));
    let effects = [begin, put("a", 2), put("b", 2), put("a", 3)];
    assert_eq!(derive(&again, &effects), derived, "all replicas derive the same");
    let end = put_record(&record(FeedPhase::Dropping, false));
    assert!(derive(&feeds, &[end, put("a", 4)]).is_empty());
    let key = row_key(layout::BOOKKEEPING_BUCKET, &feed_record_key(PLACE.1));
    assert!(derive(&feeds, &[RowChange::Remove(key), put("a", 5)]).is_empty());
    assert_eq!((feeds.find(PLACE.1), feeds.buckets().len()), (None, 0));
}

#[test]
fn rows_that_arrive_have_no_entries_and_those_that_go_meanwhile_do() {
    let feeds = AppliedFeeds::default();
    let receive = put_record(&record(FeedPhase::Receiving, true));
    let derived = derive(&feeds, &[receive, put("a", 2), remove("b"), put("c", 2), remove("c")]);
    assert_eq!(derived.len(), 3, "two deletes and the totals");
    let RowChange::Put(_, entry) = &derived[0] else { panic!("an entry") };
    let entry = change_feed::FeedEntry::decode(entry).expect("an entry");
    assert_eq!(entry.change, change_feed::FeedChange::DeleteArriving);
}

#[test]
fn unreadable_records_and_rows_are_corrupt() {
    let feeds = AppliedFeeds::default();
    let begin = put_record(&record(FeedPhase::Ready, true));
    let key = row_key(layout::BOOKKEEPING_BUCKET, &feed_record_key(PLACE.1));
    let unreadable = RowChange::Put(key, Bytes::from_static(b"\0"));
    let stamp = EntryStamp { time: 7, next_version: 9 };
    let finish = |effects: &[RowChange]| {
        let mut derivation = feeds.derive(PLACE.0, LogIndex(5));
        effects.iter().for_each(|effect| derivation.observe(effect));
        derivation.finish(stamp).map_err(|error| error.reason)
    };
    assert_eq!(finish(&[unreadable]), Err(base::Reason::Corrupt));
    let row = RowChange::Put(row_key(PLACE.1, b"k"), Bytes::from_static(b"\x07"));
    assert_eq!(finish(&[begin, row]), Err(base::Reason::Corrupt));
}
