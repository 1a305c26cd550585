//! Laws of ranges: a range contains a term if the comparison of values says so.

use super::{any_term, cases, telling_bytes};
use crate::{Term, TermKind, TermRange};
use base::Reason;
use base::codec::Reader;
use proptest::prelude::*;
use std::ops::Bound;

fn bound(kind: u8, term: &Term) -> Bound<&Term> {
    match kind {
        0 => Bound::Included(term),
        1 => Bound::Excluded(term),
        _ => Bound::Unbounded,
    }
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn range_contains_what_its_bounds_admit(
        numbers in (-4_i64..4, -4_i64..4, -4_i64..4),
        kinds in (0_u8..3, 0_u8..3),
    ) {
        let (low, high, number) = numbers;
        let terms = [low, high, number].map(Term::int);
        let bounds = (bound(kinds.0, &terms[0]), bound(kinds.1, &terms[1]));
        let range = TermRange::between(TermKind::Int, bounds.0, bounds.1).expect("one kind");
        let is_above = [low <= number, low < number, true][usize::from(kinds.0)];
        let is_below = [number <= high, number < high, true][usize::from(kinds.1)];
        prop_assert_eq!(range.contains(&terms[2]), is_above && is_below);
        prop_assert!(!range.is_empty() || !range.contains(&terms[2]));
    }

    #[test]
    fn prefix_range_contains_strings_with_the_prefix(
        prefix in telling_bytes(),
        string in telling_bytes(),
        extension in telling_bytes(),
    ) {
        let extended = [&prefix[..], &extension].concat();
        for kind in [TermKind::TagBytes, TermKind::Bytes] {
            let range = TermRange::prefix(kind, &prefix).expect("short");
            for bytes in [&string, &extended] {
                let term = Term::parse(kind, bytes).expect("short");
                prop_assert_eq!(range.contains(&term), bytes.starts_with(&prefix));
            }
        }
    }

    #[test]
    fn range_round_trips_and_another_kind_is_refused(one in any_term(), other in any_term()) {
        let above = TermRange::between(one.kind(), Bound::Excluded(&one), Bound::Unbounded);
        for range in [TermRange::equality(&one), TermRange::all(one.kind()), above.expect("one")] {
            let mut bytes = Vec::new();
            range.put(&mut bytes);
            let mut from = Reader::new(&bytes);
            prop_assert_eq!(TermRange::take(&mut from), Ok(range));
            prop_assert!(from.is_empty());
            for end in 0..bytes.len() {
                prop_assert!(TermRange::take(&mut Reader::new(&bytes[..end])).is_err());
            }
            bytes[0] = other.kind().code();
            let is_read = TermRange::take(&mut Reader::new(&bytes)).is_ok();
            prop_assert_eq!(is_read, one.kind() == other.kind());
        }
    }

    #[test]
    fn equality_range_contains_one_term(one in any_term(), other in any_term()) {
        let range = TermRange::equality(&one);
        prop_assert!(range.contains(&one) && !range.is_empty());
        prop_assert_eq!(range.contains(&other), one == other);
        let all = TermRange::all(one.kind());
        prop_assert!(all.contains(&one));
        prop_assert_eq!(all.contains(&other), one.kind() == other.kind());
    }
}

#[test]
fn prefix_finds_strings_that_were_cut() {
    let term = Term::string(&"ab".repeat(1_000));
    let range = TermRange::prefix(TermKind::String, "ab".repeat(500).as_bytes());
    assert!(range.expect("1,000 bytes").contains(&term));
    let other = TermRange::prefix(TermKind::String, b"b").expect("short");
    assert!(!other.contains(&term));
}

#[test]
fn crossed_bounds_are_an_empty_range() {
    let (low, high) = (Term::int(2), Term::int(1));
    let bounds = (Bound::Included(&low), Bound::Included(&high));
    let range = TermRange::between(TermKind::Int, bounds.0, bounds.1).expect("one kind");
    assert!(range.is_empty());
}

#[test]
fn bounds_of_another_kind_and_prefixes_of_numbers_are_refused() {
    let term = Term::string("1");
    let error = TermRange::between(TermKind::Int, Bound::Included(&term), Bound::Unbounded);
    assert_eq!(error.expect_err("another kind").reason, Reason::Malformed);
    for kind in [TermKind::TagInteger, TermKind::Int, TermKind::Float, TermKind::Bool] {
        let error = TermRange::prefix(kind, b"1").expect_err("no strings");
        assert_eq!(error.reason, Reason::NotSupported);
    }
}
