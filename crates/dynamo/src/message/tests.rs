//! Examples of questions between vnodes: what is written is read, and nothing else.

use super::*;
use base::range::Direction;
use indexes::{IndexField, IndexNumber, TermKind, TermRange};
use vnode_rows::index_rows::IndexContent;

#[test]
fn invalid_partitions_are_rejected_and_key_slot_is_recomputed() {
    let bucket = BucketName::new("available", "b").expect("a name");
    let span = SlotSpan { partition: Partition(5), partitions: 64 };
    let rows = VnodeQuestion::Rows { tree_id: (span, 3), after: None, bytes_max: 7 }.write();
    assert_eq!(rows[..7], [16, 9, 5, 0, 64, 0, 3]);
    let read = VnodeQuestion::read(&rows).expect("it reads");
    assert!(matches!(read, VnodeQuestion::Rows { tree_id, .. } if tree_id == (span, 3)));
    for word in [5, 64 << 16 | 64, 48 << 16 | 5, u32::MAX] {
        let mut bytes = rows.to_vec();
        bytes[2..6].copy_from_slice(&word.to_le_bytes());
        assert!(VnodeQuestion::read(&bytes.into()).is_err(), "{word:x}");
    }
    let key_ref = KeyRef::new(bucket, Bytes::from_static(b"k"));
    let mut fetch = VnodeQuestion::Fetch(key_ref.clone()).write().to_vec();
    fetch[2] = 9;
    let read = VnodeQuestion::read(&fetch.into()).expect("it reads");
    assert!(matches!(read, VnodeQuestion::Fetch(found) if found.slot == key_ref.slot));
}

#[test]
fn tombstone_question_round_trips_and_more_than_a_page_is_rejected() {
    let bucket = BucketName::new("available", "b").expect("a name");
    let row = |key: u8| (KeyRef::new(bucket.clone(), vec![key; 3].into()), u128::from(key) << 99);
    let rows: Vec<_> = [1, 2, 3].into_iter().map(row).collect();
    for drop in [false, true] {
        let bytes = VnodeQuestion::Tombstones { epoch: 7, rows: rows.clone(), drop }.write();
        let read = match VnodeQuestion::read(&bytes) {
            Ok(VnodeQuestion::Tombstones { epoch: 7, rows, drop: read }) if read == drop => rows,
            _ => panic!("it reads as it was written"),
        };
        let named = |rows: &[(KeyRef, u128)]| {
            rows.iter().map(|(key_ref, digest)| (key_ref.key.clone(), *digest)).collect::<Vec<_>>()
        };
        assert_eq!(named(&read), named(&rows));
        for end in 2..bytes.len() {
            assert!(VnodeQuestion::read(&bytes.slice(..end)).is_err(), "cut at {end}");
        }
    }
    let many = vec![row(1); TOMBSTONES_MAX + 1];
    let bytes = VnodeQuestion::Tombstones { epoch: 7, rows: many, drop: true }.write();
    assert!(VnodeQuestion::read(&bytes).is_err(), "more than a page");
}

#[test]
fn question_in_its_envelope_has_the_bytes_of_both_and_the_size_that_it_takes() {
    let bucket = BucketName::new("available", "b").expect("a name");
    let key_ref = KeyRef::new(bucket, Bytes::from_static(b"key"));
    let policy = WritePolicy {
        sync: true,
        keep_newest_only: false,
        last_write_wins: false,
        siblings_max: SIBLINGS_HARD_MAX.into(),
    };
    let row = Bytes::from_static(b"a row");
    let store =
        |hint| VnodeQuestion::Store { key_ref: key_ref.clone(), policy, hint, row: row.clone() };
    let frequent = [VnodeQuestion::Fetch(key_ref.clone()), store(None), store(Some(NodeId(7)))];
    for question in &frequent {
        assert_eq!(question.write().len(), question.usual_bytes());
    }
    for question in frequent.iter().chain([&VnodeQuestion::Size, &VnodeQuestion::Ring]) {
        let bytes = question.write_enveloped(9);
        assert_eq!(bytes, write_enveloped(9, &question.write()));
        let (epoch, _) = read_enveloped(&bytes).expect("it reads");
        assert_eq!(epoch, 9);
    }
}

#[test]
fn index_question_has_its_kept_bytes_and_cut_ones_are_rejected() {
    let bucket = BucketName::new("available", "b").expect("a name");
    let spans = vec![SlotSpan { partition: Partition(5), partitions: 64 }];
    let query = IndexQuery {
        field: IndexField::Declared(IndexNumber(7)),
        terms: TermRange::all(TermKind::Int),
        after: None,
        direction: Direction::Ascending,
        content: IndexContent::Entries,
        rows_max: 9,
    };
    let question =
        VnodeQuestion::Index { spans: spans.clone(), bucket: bucket.clone(), query: query.clone() };
    let bytes = question.write();
    let head = [CallKind::Vnodes.byte(), 20, 1, 0, 0, 0, 5, 0, 64, 0];
    let name_and_field = b"\x0b\0\0\0available/b\x05\0\0\0\x02\0\0\0\x07";
    let terms_and_rest = b"\x03\x01\0\0\0\x03\x01\0\0\0\x04\0\0\x09\0\0\0";
    assert_eq!(bytes, [&head[..], name_and_field, terms_and_rest].concat());
    match VnodeQuestion::read(&bytes) {
        Ok(VnodeQuestion::Index { spans: of, bucket: name, query: read }) => {
            assert_eq!((of, name, read), (spans, bucket, query));
        }
        _ => panic!("it reads as it was written"),
    }
    for end in 2..bytes.len() {
        assert!(VnodeQuestion::read(&bytes.slice(..end)).is_err(), "cut at {end}");
    }
}
