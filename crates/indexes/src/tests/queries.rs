//! Queries of one field: what they select, and which continuations belong to them.

use crate::{FieldQuery, IndexField, IndexNumber, Term, TermKind};
use base::index::{IndexContent, IndexQuery, TermSelection};
use base::range::Direction;
use base::{Bound, BucketName, Error, Reason};
use bytes::Bytes;

fn bucket() -> BucketName {
    BucketName::parse("plain/fruit").expect("a name")
}

fn field(number: u32) -> IndexField {
    IndexField::Declared(IndexNumber(number))
}

fn read(kind: TermKind, query: &IndexQuery) -> Result<FieldQuery, Error> {
    FieldQuery::new(&bucket(), field(1), kind, query)
}

fn of_terms(terms: TermSelection) -> IndexQuery {
    IndexQuery { terms, ..IndexQuery::default() }
}

fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

#[test]
fn selections_are_read_by_the_kind_of_the_terms() {
    let between = |low, high| of_terms(TermSelection::Between(low, high));
    let included = |of| Bound::Included(text(of));
    let excluded = |of| Bound::Excluded(text(of));
    for (query, inside, outside) in [
        (of_terms(TermSelection::Equal(text("7"))), &[7][..], &[6, 8, 70][..]),
        (between(included("-2"), excluded("10")), &[-2, 0, 9], &[-3, 10]),
        (between(excluded("-2"), included("10")), &[-1, 10], &[-2, 11]),
        (between(Bound::Open, excluded("3")), &[i64::MIN, 2], &[3]),
        (between(Bound::Open, Bound::Open), &[i64::MIN, i64::MAX], &[]),
    ] {
        let found = read(TermKind::Int, &query).expect("it is sound");
        for (numbers, is_inside) in [(inside, true), (outside, false)] {
            for number in numbers {
                let contains = found.terms.contains(&Term::int(*number));
                assert_eq!(contains, is_inside, "{number} of {query:?}");
            }
        }
    }
    let prefix = of_terms(TermSelection::Prefix(text("ab")));
    let found = read(TermKind::String, &prefix).expect("it is sound");
    assert!(
        found.terms.contains(&Term::string("abc")) && !found.terms.contains(&Term::string("b"))
    );
    for (query, reason) in [
        (&of_terms(TermSelection::Equal(text("x"))), Reason::NotANumber),
        (&between(Bound::Open, included("1.5")), Reason::NotANumber),
        (&prefix, Reason::NotSupported),
    ] {
        let error = read(TermKind::Int, query).expect_err("no integer");
        assert_eq!(error.reason, reason, "{query:?}");
    }
}

#[test]
fn continuation_belongs_to_the_same_question_alone() {
    let query = IndexQuery {
        index: text("by-count"),
        terms: TermSelection::Between(Bound::Included(text("1")), Bound::Open),
        ..IndexQuery::default()
    };
    let first = read(TermKind::Int, &query).expect("it is sound");
    let last = (Term::int(4), text("fig"));
    let continued = first.continuation(last.0.clone(), last.1.clone()).encode();
    let after =
        |query: &IndexQuery| IndexQuery { after: Some(continued.clone().into()), ..query.clone() };
    // What does not change the rows may change from page to page.
    let other_page = IndexQuery {
        rows_max: Some(9),
        want: IndexContent::Records,
        allows_partial: true,
        terms: TermSelection::Between(Bound::Included(text("01")), Bound::Open),
        ..query.clone()
    };
    for same in [&query, &other_page] {
        let next = read(TermKind::Int, &after(same)).expect("its own continuation");
        assert_eq!(next.after.as_ref(), Some(&last), "{same:?}");
    }
    let bound = TermSelection::Between(Bound::Included(text("2")), Bound::Open);
    for other in [
        IndexQuery { terms: bound, ..query.clone() },
        IndexQuery { direction: Direction::Descending, ..query.clone() },
        IndexQuery { regex: Some(String::new()), ..query.clone() },
        IndexQuery { regex: Some("a".into()), ..query.clone() },
    ] {
        let error = read(TermKind::Int, &after(&other)).expect_err("another question");
        assert_eq!(error.reason, Reason::Malformed, "{other:?}");
    }
    let query = after(&query);
    let again = FieldQuery::new(&bucket(), field(2), TermKind::Int, &query);
    assert!(again.is_err(), "an index that was created again has another number");
    let elsewhere = BucketName::parse("plain/fruits").expect("a name");
    assert!(FieldQuery::new(&elsewhere, field(1), TermKind::Int, &query).is_err());
}
