//! Keys of index rows: their order, their spans, and pages over them.

use super::{any_term, cases, telling_bytes};
use crate::layout::{EntryQuery, EntrySpace, decode_available, decode_consistent, decode_unique};
use crate::{IndexEntry, IndexField, IndexNumber, Term, TermKind, TermRange};
use base::BucketName;
use base::range::Direction;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;

fn entry() -> impl Strategy<Value = IndexEntry> {
    let name = prop::sample::select(&["a_", "a_a_", "A", "b", ""][..]);
    (any_term(), name, 0_u32..3).prop_map(|(term, name, number)| {
        let suffix = match term.kind() {
            TermKind::TagInteger => "_int",
            TermKind::TagBytes => "_bin",
            _ => return IndexEntry { field: IndexField::Declared(IndexNumber(number)), term },
        };
        let field = IndexField::tag(format!("{name}{suffix}").as_bytes()).expect("a field");
        IndexEntry { field, term }
    })
}

fn bucket() -> impl Strategy<Value = BucketName> {
    let names = ["a/a", "a/aa", "available/a", "a/zzzz%2F"];
    prop::sample::select(names.to_vec()).prop_map(|name| BucketName::parse(name).expect(name))
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn keys_round_trip_and_order_as_field_term_and_key(
        rows in prop::collection::vec((entry(), telling_bytes()), 2),
        bucket in bucket(),
    ) {
        let spaces = [EntrySpace::Consistent, EntrySpace::Available(&bucket)];
        for space in spaces {
            let keys: Vec<_> = rows.iter().map(|(entry, key)| space.key(entry, key)).collect();
            prop_assert_eq!(keys[0].cmp(&keys[1]), rows[0].cmp(&rows[1]));
        }
        for (entry, key) in &rows {
            let row = (entry.clone(), key.clone().into());
            let bytes = EntrySpace::Consistent.key(entry, key);
            prop_assert_eq!(decode_consistent(&bytes), Ok(row.clone()));
            let bytes = EntrySpace::Available(&bucket).key(entry, key);
            prop_assert_eq!(decode_available(&bytes), Ok((bucket.clone(), row.0, row.1)));
            let bytes = EntrySpace::Unique.key(entry, key);
            prop_assert_eq!(decode_unique(&bytes), Ok(entry.clone()));
            let longer = [&bytes[..], &[0]].concat();
            prop_assert!(decode_unique(&longer).is_err());
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(
        bytes in prop_oneof![telling_bytes(), prop::collection::vec(any::<u8>(), 0..40)],
    ) {
        if let Ok((entry, key)) = decode_consistent(&bytes) {
            prop_assert_eq!(EntrySpace::Consistent.key(&entry, &key), bytes.clone());
        }
        if let Ok(entry) = decode_unique(&bytes) {
            prop_assert_eq!(EntrySpace::Unique.key(&entry, b""), bytes.clone());
        }
        if let Ok((bucket, entry, key)) = decode_available(&bytes) {
            prop_assert_eq!(EntrySpace::Available(&bucket).key(&entry, &key), bytes);
        }
    }

    #[test]
    fn span_of_a_field_contains_its_rows_alone(
        one in entry(),
        other in entry(),
        key in telling_bytes(),
        bucket in bucket(),
    ) {
        for space in [EntrySpace::Consistent, EntrySpace::Unique, EntrySpace::Available(&bucket)] {
            let span = space.field_span(&one.field);
            prop_assert!(!span.is_empty() && span.contains(&space.key(&one, &key)));
            let is_inside = span.contains(&space.key(&other, &key));
            prop_assert_eq!(is_inside, one.field == other.field);
        }
    }

    #[test]
    fn pages_show_each_row_of_a_range_once_and_in_order(
        numbers in prop::collection::btree_set((-4_i64..4, telling_bytes()), 0..20),
        bounds in (-4_i64..4, -4_i64..4),
        is_unique in any::<bool>(),
        is_descending in any::<bool>(),
        page_rows in 1_usize..4,
    ) {
        let field = IndexField::Declared(IndexNumber(5));
        let space = if is_unique { EntrySpace::Unique } else { EntrySpace::Consistent };
        let mut rows = BTreeMap::new();
        for (number, key) in &numbers {
            for field in [field.clone(), IndexField::Declared(IndexNumber(6))] {
                let entry = IndexEntry { field, term: Term::int(*number) };
                rows.insert(space.key(&entry, key), (entry, key.clone()));
            }
        }
        let (low, high) = (Term::int(bounds.0), Term::int(bounds.1));
        let terms =
            TermRange::between(TermKind::Int, Bound::Included(&low), Bound::Excluded(&high));
        let terms = terms.expect("one kind");
        let direction =
            if is_descending { Direction::Descending } else { Direction::Ascending };
        let mut expected: Vec<_> = rows
            .values()
            .filter(|(entry, _)| entry.field == field && low <= entry.term && entry.term < high)
            .cloned()
            .collect();
        if is_descending {
            expected.reverse();
        }
        let mut shown: Vec<(IndexEntry, Vec<u8>)> = Vec::new();
        loop {
            let after = shown.last().map(|(entry, key)| (entry.term.clone(), key.clone()));
            let after = after.as_ref().map(|(term, key)| (term, &key[..]));
            let query = EntryQuery { field: &field, terms: &terms, after, direction };
            let span = space.span(&query);
            if span.is_empty() {
                break;
            }
            let inside = rows.range(span.low..span.high).map(|(_, row)| row.clone());
            let inside: Vec<_> = inside.collect();
            if inside.is_empty() {
                break;
            }
            match direction {
                Direction::Ascending => shown.extend(inside.into_iter().take(page_rows)),
                Direction::Descending => shown.extend(inside.into_iter().rev().take(page_rows)),
            }
        }
        prop_assert_eq!(shown, expected);
    }
}

#[test]
fn page_goes_on_behind_a_row_that_is_gone() {
    let field = IndexField::tag(b"a_bin").expect("a field");
    let term = Term::tag_bytes(b"t").expect("short");
    let row = |key: &[u8]| {
        EntrySpace::Consistent.key(&IndexEntry { field: field.clone(), term: term.clone() }, key)
    };
    let terms = TermRange::equality(&term);
    let after = Some((&term, &b"k"[..]));
    let direction = Direction::Ascending;
    let query = EntryQuery { field: &field, terms: &terms, after, direction };
    let span = EntrySpace::Consistent.span(&query);
    assert!(!span.contains(&row(b"k")) && span.contains(&row(b"k\0")) && span.contains(&row(b"l")));
    let query = EntryQuery { direction: Direction::Descending, ..query };
    let span = EntrySpace::Consistent.span(&query);
    assert!(!span.contains(&row(b"k")) && span.contains(&row(b"j")) && span.contains(&row(b"")));
}

#[test]
fn term_of_another_kind_than_its_field_is_malformed() {
    let pairs = [
        (IndexField::tag(b"a_bin").expect("a field"), Term::tag_integer(b"1").expect("digits")),
        (IndexField::tag(b"a_int").expect("a field"), Term::int(1)),
        (IndexField::Declared(IndexNumber(1)), Term::tag_bytes(b"1").expect("short")),
    ];
    for (field, term) in pairs {
        let bytes = EntrySpace::Unique.key(&IndexEntry { field, term }, b"");
        assert!(decode_unique(&bytes).is_err() && decode_consistent(&bytes).is_err());
    }
    assert!(IndexField::take(b"\x01A_bin\0").is_err(), "names are in lower case");
}
