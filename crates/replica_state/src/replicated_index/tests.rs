//! Examples and laws of index records' bytes.

use super::*;
use indexes::{IndexName, JsonPath, ValueFormat, ValueType};

/// Returns the record of a unique index that has failed.
fn record() -> ReplicatedIndex {
    let definition = IndexDefinition {
        number: IndexNumber(7),
        name: IndexName::parse("n").expect("a name"),
        path: JsonPath::parse("$.a").expect("a path"),
        value_type: ValueType::Int,
        format: ValueFormat::Json,
        is_unique: true,
        is_strict: false,
    };
    let duplicate =
        DuplicateTerm { term: Term::int(1), key: Key::from("k"), holder: Key::from("h") };
    ReplicatedIndex {
        definition,
        phase: IndexPhase::Failed,
        cursor: Some(Bytes::from("cu")),
        rows: 0x0102,
        entries: 3,
        skipped: SkipCounts { unreadable: 4, absent: 5, mistyped: 6, oversized: 7 },
        duplicates: vec![duplicate],
        oversized: Some(Key::from("o")),
    }
}

#[test]
fn index_record_round_trips_and_keeps_its_format() {
    // As version 1 wrote it.
    let kept = b"\x01\x03\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\
                 \x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\
                 \x01\x02\0\0\0cu\
                 \x01\0\0\0\x09\0\0\0\x03\x80\0\0\0\0\0\0\x01\x01\0\0\0k\x01\0\0\0h\
                 \x01\x01\0\0\0o\
                 \x14\0\0\0\x01\x07\0\0\0\x01\x01\x01\x01\0\0\0n\x03\0\0\0$.a";
    let record = record();
    assert_eq!(
        (record.encode().as_slice(), ReplicatedIndex::decode(kept)),
        (&kept[..], Ok(record))
    );
    for end in 0..kept.len() {
        assert!(ReplicatedIndex::decode(&kept[..end]).is_err(), "{end} bytes");
    }
    assert!(ReplicatedIndex::decode(&[kept, &[0][..]].concat()).is_err());
    assert!(ReplicatedIndex::decode(&[&[2], &kept[1..]].concat()).is_err(), "a later format");
    let (duplicates, oversized) = (Vec::new(), None);
    let begun = ReplicatedIndex { cursor: None, duplicates, oversized, ..self::record() };
    assert_eq!(ReplicatedIndex::decode(&begun.encode()), Ok(begun));
}

#[test]
fn record_keys_stand_by_bucket_and_number_and_keep_their_bytes() {
    let key = record_key(BucketId(0x0102), IndexNumber(3));
    assert_eq!(key[..], *b"x\0\0\x01\x02\0\0\0\x03");
    assert_eq!(read_record_key(&key), Some((BucketId(0x0102), IndexNumber(3))));
    assert!(key.starts_with(&records_prefix(BucketId(0x0102))));
    for other in [&b"x\0\0\x01\x02\0\0\0"[..], b"x\0\0\x01\x02\0\0\0\x03\0", b"c\0\0\0\0\0\0\0\0"] {
        assert_eq!(read_record_key(other), None);
    }
}

#[test]
fn listed_duplicates_are_bounded_in_number_and_bytes() {
    let mut small = ReplicatedIndex { duplicates: Vec::new(), ..record() };
    let duplicate = |key: Key| DuplicateTerm { key, ..record().duplicates.remove(0) };
    while small.add_duplicate(duplicate(Key::from("k"))) {}
    assert_eq!(small.duplicates.len(), DUPLICATES_MAX);
    let mut large = ReplicatedIndex { duplicates: Vec::new(), ..record() };
    while large.add_duplicate(duplicate(Key::from(vec![b'k'; KEY_BYTES_MAX]))) {}
    assert_eq!(large.duplicates.len(), 1, "two are too many bytes");
    let one =
        DuplicateTerm { holder: Key::from(vec![b'h'; KEY_BYTES_MAX]), ..duplicate(Key::new()) };
    let mut first = ReplicatedIndex { duplicates: Vec::new(), ..record() };
    assert!(first.add_duplicate(DuplicateTerm { key: one.holder.clone(), ..one }));
    assert_eq!(ReplicatedIndex::decode(&first.encode()), Ok(first), "one is always listed");
}
