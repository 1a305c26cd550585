//! Keys of rows, hints and of the spaces behind them, and the bytes of values.

use super::*;
use base::{Headers, Link};

#[test]
fn stored_value_round_trips_with_headers_and_expiry() {
    let text = |text: &'static str| Bytes::from_static(text.as_bytes());
    let headers = Headers {
        content_type: text("text/plain"),
        charset: text("utf-8"),
        encoding: Bytes::new(),
        meta: vec![(text("colour"), text("red"))],
        links: vec![Link { bucket: text("b"), key: text("k"), tag: text("t") }],
        indexes: vec![(text("age_int"), text("7")), (text("x_bin"), Bytes::new())],
    };
    for headers in [headers, Headers::default()] {
        let content = Content { value: text("value"), headers };
        let stored = StoredValue::new(Some(&content), 1_700_000_000_000);
        let sibling = stored.sibling(None).expect("it reads");
        assert_eq!((sibling.content, sibling.tombstone), (content, false));
        assert_eq!(stored.written_ms(), 1_700_000_000_000);
        assert!(!stored.has_expired(u64::MAX));
        let expiring = stored.clone().with_expiry(1_700_000_000_500);
        assert_eq!(expiring.sibling(None).expect("it reads"), stored.sibling(None).expect("so"));
        assert!(
            expiring.has_expired(1_700_000_000_500) && !expiring.has_expired(1_700_000_000_499)
        );
    }
    let tombstone = StoredValue::new(None, 5);
    assert!(tombstone.is_tombstone());
    assert!(tombstone.sibling(None).expect("it reads").tombstone);
    for length in 0..3 {
        let cut = StoredValue(StoredValue::new(None, 300).0.slice(..length));
        assert_eq!(cut.sibling(None).is_err(), length < 3, "{length}");
    }
}

#[test]
fn row_and_hint_keys_decode_to_bucket_and_key() {
    let bucket = BucketName::new("available", "a%2Fb").expect("a name");
    let key = Bytes::from_static(b"any\xffkey");
    let (slot, tree) = (Slot::for_key(&bucket, &key), row_key(&bucket, &key));
    assert!(tree.starts_with(&rows_prefix(slot)));
    assert!(tree.starts_with(&bucket_prefix(slot, &bucket)));
    assert_eq!(read_row_key(&tree), Some((bucket.clone(), key.clone())));
    assert_eq!(slot_of(&tree), Some(slot));
    assert_eq!(slot_of(&record_key(slot)), None);
    assert_eq!(slot_of(&mark_key()), None);
    let hint = hint_key(slot, NodeId(9), &bucket, &key);
    assert!(hint.starts_with(&hints_prefix(slot)));
    assert!(hint.starts_with(&node_hints_prefix(slot, NodeId(9))));
    assert_eq!(read_hint_key(&hint), Some((NodeId(9), bucket, key)));
    assert_eq!(read_row_key(&record_key(Slot(1))), None);
}

#[test]
fn spaces_of_a_node_lie_behind_all_slots_and_before_the_mark() {
    assert_eq!(node_space_prefix(NodeSpace::Index, 1), b"\x80\x01\0\0\x01");
    assert_eq!(node_space_prefix(NodeSpace::Feed, 0), b"\x80\x01\0\x01\0");
    assert_eq!(node_space_prefix(NodeSpace::Views, 0), b"\x80\x01\0\x02\0");
    let last = key_prefix(SLOT_OWNERS - 1, Space::Hint, 0);
    assert!(last < slots_end() && slots_end() < mark_key());
    let (bucket, key) = (BucketName::new("available", "b").expect("a name"), &b"k"[..]);
    for space in [NodeSpace::Index, NodeSpace::Feed, NodeSpace::Views] {
        for kind in 0..=u8::MAX {
            // The rest of a row's key, and that of a hint's.
            let mut row = node_space_prefix(space, kind);
            push_bucket_and_key(&bucket, key, &mut row);
            let row = Bytes::from(row);
            assert!(row > slots_end() && row < mark_key());
            assert_eq!((slot_of(&row), read_row_key(&row)), (None, None), "{space:?} {kind}");
            let mut hint = node_space_prefix(space, kind);
            hint.extend_from_slice(&7_u64.to_be_bytes());
            push_bucket_and_key(&bucket, key, &mut hint);
            assert_eq!(read_hint_key(&hint.into()), None, "{space:?} {kind}");
        }
    }
}

#[test]
fn range_of_slots_begins_after_a_key_and_ends_before_the_spaces_of_the_node() {
    let end = Bound::Excluded(slots_end());
    assert_eq!(slot_keys(None), (Bound::Included(first_key()), end.clone()));
    let key = row_key_in(Slot(7), &BucketName::new("available", "b").expect("a name"), b"k");
    assert_eq!(slot_keys(Some(key.clone())), (Bound::Excluded(key), end));
}
