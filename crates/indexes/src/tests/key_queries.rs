//! Tests of queries of keys: what they select, where they begin and end, and their continuations.

use super::{cases, telling_bytes};
use crate::KeyQuery;
use base::index::{IndexContent, IndexQuery, TermSelection};
use base::range::{Bound, Direction};
use base::{BucketName, Entry, IndexPage, IndexRow, Key, Page, Reason};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn of(index: &'static str, terms: TermSelection) -> IndexQuery {
    IndexQuery { index: index.into(), terms, ..IndexQuery::default() }
}

fn parse(query: &IndexQuery) -> KeyQuery {
    KeyQuery::new(&BucketName::default(), query).expect("a query")
}

fn any_bound() -> impl Strategy<Value = Bound> {
    let key = || telling_bytes().prop_map(Key::from);
    let (included, excluded) = (key().prop_map(Bound::Included), key().prop_map(Bound::Excluded));
    prop_oneof![Just(Bound::Open), included, excluded]
}

#[test]
fn pages_of_a_range_are_those_of_the_query_and_go_on_behind_their_last_key() {
    let between = TermSelection::Between(Bound::Excluded("a".into()), Bound::Included("c".into()));
    let asked = IndexQuery { want: IndexContent::Terms, ..of("$key", between) };
    let query = parse(&asked);
    let range = query.range();
    assert_eq!((range.low, range.high), (Bound::Excluded("a".into()), Bound::Included("c".into())));
    let entry = |key: &'static str| Entry { key: key.into(), row: None };
    let page = |more| query.page(Page { entries: vec![entry("b")], more }).expect("short");
    assert_eq!(page(false).after, None);
    let first = page(true);
    assert_eq!(first.rows, [IndexRow { key: "b".into(), term: Some("b".into()), record: None }]);
    let next = parse(&IndexQuery { after: first.after, ..asked }).range();
    assert_eq!((next.low, next.high), (Bound::Excluded("b".into()), Bound::Included("c".into())));
    assert_eq!(query.page(Page::default()), Ok(IndexPage::default()));
    assert_eq!(parse(&of("$bucket", TermSelection::default())).range().low, Bound::Open);
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn read_from_start_to_end_finds_exactly_the_selected_keys(
        keys in prop::collection::btree_set(telling_bytes().prop_map(Key::from), 0..30),
        low in any_bound(),
        high in any_bound(),
    ) {
        let query = parse(&of("$key", TermSelection::Between(low.clone(), high.clone())));
        let is_between = |key: &&Key| {
            (match &low {
                Bound::Open => true,
                Bound::Included(low) => *key >= low,
                Bound::Excluded(low) => *key > low,
            }) && match &high {
                Bound::Open => true,
                Bound::Included(high) => *key <= high,
                Bound::Excluded(high) => *key < high,
            }
        };
        let expected: BTreeSet<&Key> = keys.iter().filter(is_between).collect();
        let start = query.start();
        let read = keys.iter().filter(|key| start.as_ref().is_none_or(|start| *key > start));
        let found: BTreeSet<&Key> = read.filter(|key| query.selects(key)).collect();
        prop_assert_eq!(&found, &expected);
        for key in keys.iter().filter(|key| query.ends_at(key)) {
            prop_assert!(found.iter().all(|found| *found <= key));
        }
    }
}

#[test]
fn equality_prefix_and_bucket_select_what_they_say() {
    let keys = ["a", "ab", "ab\0", "b"].map(Key::from);
    let selected = |query: &KeyQuery| {
        let found = keys.iter().filter(|key| query.selects(key));
        found.map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>()
    };
    let equal = parse(&of("$key", TermSelection::Equal("ab".into())));
    assert_eq!(selected(&equal), ["ab"]);
    assert!(equal.is_of_one_key() && equal.ends_at(&"ab".into()));
    let prefix = parse(&of("$key", TermSelection::Prefix("ab".into())));
    assert_eq!(selected(&prefix), ["ab", "ab\0"]);
    assert!(!prefix.is_of_one_key() && !prefix.ends_at(&"ab\0".into()));
    let all = parse(&of("$bucket", TermSelection::Equal("ab".into())));
    assert_eq!(selected(&all).len(), 4, "its terms count for nothing");
    assert!(KeyQuery::is_about(b"$key") && KeyQuery::is_about(b"$bucket"));
    assert!(!KeyQuery::is_about(b"key_bin") && !KeyQuery::is_about(b"$keys"));
}

#[test]
fn only_rows_of_key_have_terms_and_only_if_these_are_wanted() {
    let row = |index, want| {
        parse(&IndexQuery { want, ..of(index, TermSelection::default()) }).row("k".into())
    };
    assert_eq!(row("$key", IndexContent::Terms).term, Some("k".into()));
    assert_eq!(row("$key", IndexContent::Keys).term, None);
    assert_eq!(row("$bucket", IndexContent::Terms).term, None);
}

#[test]
fn continuation_begins_behind_its_key_and_belongs_to_its_query() {
    let query = of("$key", TermSelection::Prefix("a".into()));
    let text = parse(&query).continuation("ab".into()).expect("a place").encode();
    let next = parse(&IndexQuery { after: Some(text.clone().into()), ..query });
    assert_eq!(next.start(), Some("ab".into()));
    for other in [
        of("$key", TermSelection::Prefix("b".into())),
        of("$key", TermSelection::default()),
        of("$bucket", TermSelection::Prefix("a".into())),
    ] {
        let other = IndexQuery { after: Some(text.clone().into()), ..other };
        let refused = KeyQuery::new(&BucketName::default(), &other).expect_err("another query");
        assert_eq!(refused.reason, Reason::Malformed);
    }
}

#[test]
fn records_reverse_order_and_expressions_are_refused() {
    let query = of("$key", TermSelection::default());
    for refused in [
        IndexQuery { want: IndexContent::Records, ..query.clone() },
        IndexQuery { direction: Direction::Descending, ..query.clone() },
        IndexQuery { regex: Some("a".into()), ..query },
    ] {
        let error = KeyQuery::new(&BucketName::default(), &refused).expect_err("not offered");
        assert_eq!(error.reason, Reason::NotSupported);
    }
}
