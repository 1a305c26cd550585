//! Bytes of index rows, and the entries of rows with siblings.

use super::keys::TreeKeyRange;
use super::*;
use crate::layout::{Row, StoredValue, row_key, write_row};
use crate::slots::Slot;
use base::{Actor, BucketName, Content, Headers, NodeId};
use bytes::Bytes;
use indexes::{
    DefinitionSet, IndexDefinition, IndexEntry, IndexField, IndexName, IndexNumber, JsonPath, Term,
    ValueFormat, ValueType,
};
use logic::causal::Dot;
use std::ops::Bound;

fn bucket() -> BucketName {
    BucketName::new("available", "b").expect("a name")
}

fn definition(number: u32) -> IndexDefinition {
    IndexDefinition {
        number: IndexNumber(number),
        name: IndexName::parse(&format!("i{number}")).expect("a name"),
        path: JsonPath::parse("$.n").expect("a path"),
        value_type: ValueType::Int,
        format: ValueFormat::Json,
        is_unique: false,
        is_strict: false,
    }
}

fn declared(number: u32) -> IndexId {
    IndexId::Declared(bucket(), IndexNumber(number))
}

#[test]
fn keys_and_values_of_index_rows_have_their_kept_bytes() {
    let entry = IndexEntry { field: IndexField::Declared(IndexNumber(258)), term: Term::int(7) };
    let key = entry_key(&bucket(), &entry, b"k");
    let kept = b"\x80\x01\0\0\0\0\x0bavailable/b\x02\0\0\x01\x02\x03\x80\0\0\0\0\0\0\x07k";
    assert_eq!(key, kept[..]);
    assert_eq!(read_entry_key(&key), Ok((bucket(), entry, Bytes::from_static(b"k"))));
    assert_eq!(IndexId::Tags.record_key(), b"\x80\x01\0\0\x01\0\0\0\0\0\0"[..]);
    let kept = b"\x80\x01\0\0\x01\0\x0bavailable/b\0\0\x01\x02";
    assert_eq!(declared(258).record_key(), kept[..]);
    for id in [IndexId::Tags, declared(258)] {
        let key = id.record_key();
        assert_eq!(read_record_key(&key), Ok(id));
        for end in 0..key.len() {
            assert!(read_record_key(&key[..end]).is_err(), "cut at {end}");
        }
    }
    let plain = EntryValue { slot: Slot(258), expires_ms: None };
    let expiring = EntryValue { slot: Slot(1), expires_ms: Some(300) };
    assert_eq!(
        (plain.write(), expiring.write()),
        (b"\x01\x02"[..].into(), b"\0\x01\xac\x02"[..].into())
    );
    for value in [plain, expiring] {
        assert_eq!(EntryValue::read(&value.write()), Ok(value));
    }
    for bytes in [&b""[..], b"\x01", b"\x04\0", b"\0\x01\xac", b"\0\x01\x05\x05"] {
        assert!(EntryValue::read(bytes).is_err(), "{bytes:?}");
    }
}

#[test]
fn record_of_an_index_has_its_kept_bytes() {
    let record = IndexRecord {
        phase: IndexPhase::Building,
        rows: 3,
        cursor: Bytes::from_static(b"c"),
        definition: Some(definition(1)),
    };
    let front = b"\x01\x01\x03\0\0\0\0\0\0\0\x01\0\0\0c";
    assert_eq!(record.write(), [&front[..], &definition(1).encode()].concat());
    assert_eq!(IndexRecord::read(&declared(1), &record.write()), Ok(record.clone()));
    assert!(IndexRecord::read(&declared(2), &record.write()).is_err(), "another number");
    assert!(IndexRecord::read(&IndexId::Tags, &record.write()).is_err());
    let tags = IndexRecord { phase: IndexPhase::Ready, ..IndexRecord::new(None) };
    assert_eq!(tags.write(), b"\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0"[..]);
    assert_eq!(IndexRecord::read(&IndexId::Tags, &tags.write()), Ok(tags.clone()));
    assert!(IndexRecord::read(&declared(1), &tags.write()).is_err());
    let bytes = record.write();
    for end in 0..bytes.len() {
        assert!(IndexRecord::read(&declared(1), &bytes.slice(..end)).is_err(), "cut at {end}");
    }
}

#[test]
fn range_of_records_holds_records_alone() {
    let (low, high): TreeKeyRange = record_keys();
    let is_inside = |key: &Bytes| {
        let (Bound::Included(low), Bound::Excluded(high)) = (&low, &high) else { return false };
        low <= key && key < high
    };
    let entry = IndexEntry { field: IndexField::Declared(IndexNumber(1)), term: Term::int(7) };
    assert!(is_inside(&IndexId::Tags.record_key()) && is_inside(&declared(u32::MAX).record_key()));
    assert!(!is_inside(&entry_key(&bucket(), &entry, b"k")));
    assert!(!is_inside(&row_key(&bucket(), b"k")));
}

fn value(text: &'static str, tag: Option<&'static str>, expires_ms: Option<u64>) -> StoredValue {
    let tags = tag.map(|tag| (Bytes::from_static(b"x_bin"), Bytes::from(tag)));
    let headers = Headers { indexes: tags.into_iter().collect(), ..Headers::default() };
    let content = Content { value: Bytes::from(text), headers };
    let value = StoredValue::new(Some(&content), 5);
    expires_ms.map_or(value.clone(), |at_ms| value.with_expiry(at_ms))
}

fn row(values: Vec<StoredValue>) -> Bytes {
    let mut row = Row::empty();
    for (count, value) in (1..).zip(values) {
        row.event(Dot { id: Actor { node: NodeId(1), vnode: 7, incarnation: 1 }, count }, value);
    }
    write_row(&row)
}

fn entries(row: &Bytes, has_tags: bool) -> Vec<(String, Option<u64>)> {
    let mut definitions = DefinitionSet::default();
    definitions.insert(definition(1)).expect("the first");
    let entries = RowDeriver { definitions: &definitions, has_tags }.entries(Some(row));
    entries.into_iter().map(|(entry, expiry)| (format!("{:?}", entry.term), expiry)).collect()
}

#[test]
fn entries_of_a_row_are_the_union_of_its_living_siblings() {
    let (seven, eight) = ("Int(7)".to_string(), "Int(8)".to_string());
    let all = row(vec![
        value(r#"{"n":7}"#, None, None),
        value(r#"{"n":8}"#, Some("t"), None),
        value(r#"{"n":8}"#, None, None),
        value("no JSON", None, None),
        StoredValue::new(None, 5),
        StoredValue::typed(br#"{"n":9}"#.to_vec(), 5),
    ]);
    assert_eq!(entries(&all, false), [(seven.clone(), None), (eight.clone(), None)]);
    let tagged = entries(&all, true);
    assert_eq!(tagged.len(), 3);
    assert_eq!(tagged[0], (r#"TagBytes(b"t")"#.to_string(), None));
    assert_eq!(entries(&Bytes::from_static(b"damaged"), true), []);
}

#[test]
fn entry_of_two_siblings_is_shown_until_the_last_of_them_expires() {
    let expiries = |one, other| {
        let both = row(vec![value(r#"{"n":7}"#, None, one), value(r#"{"n":7}"#, None, other)]);
        entries(&both, false).into_iter().map(|(_, expiry)| expiry).collect::<Vec<_>>()
    };
    assert_eq!(expiries(Some(10), Some(20)), [Some(20)]);
    assert_eq!(expiries(Some(20), Some(10)), [Some(20)]);
    assert_eq!(expiries(Some(10), None), [None]);
    assert_eq!(expiries(None, Some(10)), [None]);
}

#[test]
fn index_set_derives_what_is_in_force_and_reports_dropped_entries() {
    let mut indexes = IndexSet::default();
    let name = bucket();
    let name = name.full().as_bytes();
    assert!(indexes.is_empty() && indexes.deriver(name).is_none());
    let record = IndexRecord::new(Some(definition(1)));
    indexes.insert(&declared(1), record.clone()).expect("the first");
    assert!(!indexes.is_empty() && indexes.deriver(b"available/c").is_none());
    assert!(indexes.deriver(name).is_some_and(|it| !it.definitions.is_empty() && !it.has_tags));
    let other_number = IndexDefinition { number: IndexNumber(2), ..definition(1) };
    let taken = IndexRecord::new(Some(other_number));
    assert!(indexes.insert(&declared(2), taken).is_err(), "the name is taken");
    assert_eq!(indexes.iter().count(), 1, "nothing was left of it");

    let entry = IndexEntry { field: IndexField::Declared(IndexNumber(1)), term: Term::int(7) };
    let key = entry_key(&bucket(), &entry, b"k");
    assert!(!indexes.is_dropped(&key));
    let dropped = IndexRecord { phase: IndexPhase::Dropping, ..record };
    indexes.insert(&declared(1), dropped).expect("it is there");
    assert!(indexes.is_dropped(&key) && indexes.deriver(name).is_none() && !indexes.is_empty());
    assert_eq!(indexes.first_in(IndexPhase::Dropping), Some(declared(1)));
    indexes.remove(&declared(1));
    assert!(indexes.is_empty());

    indexes.insert(&IndexId::Tags, IndexRecord::new(None)).expect("no definition");
    let tags = indexes.deriver(name).expect("tags are in force");
    assert!(tags.definitions.is_empty() && tags.has_tags);
}

#[test]
fn index_is_complete_where_its_build_has_read() {
    let mut indexes = IndexSet::default();
    let keys = [row_key(&bucket(), b"a"), row_key(&bucket(), b"b")];
    let (first, second) = if keys[0] < keys[1] { (0, 1) } else { (1, 0) };
    let cursor = keys[first].clone();
    let record = IndexRecord { cursor, ..IndexRecord::new(Some(definition(1))) };
    indexes.insert(&declared(1), record.clone()).expect("the first");
    let name = bucket();
    let is_complete = |indexes: &IndexSet, key: &Bytes| {
        !indexes.complete_at(name.full().as_bytes(), key).0.is_empty()
    };
    assert!(is_complete(&indexes, &keys[first]) && !is_complete(&indexes, &keys[second]));
    let ready = IndexRecord { phase: IndexPhase::Ready, ..record };
    indexes.insert(&declared(1), ready).expect("it is there");
    assert!(is_complete(&indexes, &keys[second]));
}
