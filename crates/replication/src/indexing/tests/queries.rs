//! Queries against a scan of the rows, page by page, and what a query of an index that can't
//! answer is told.

use super::*;
use crate::budget::Budget;
use crate::count_scan::begin_count;
use crate::index_query::IndexProgress;
use base::Reason;
use indexes::TermKind;
use proptest::prelude::*;

/// Query by terms of integers.
#[derive(Clone, Debug)]
pub(super) struct QuerySketch {
    low: Bound<i64>,
    high: Bound<i64>,
    direction: Direction,
    rows_max: usize,
    content: MatchContent,
}

pub(super) fn sketch() -> impl Strategy<Value = QuerySketch> {
    let bound = || {
        prop_oneof![
            Just(Bound::Unbounded),
            (0..4_i64).prop_map(Bound::Included),
            (0..4_i64).prop_map(Bound::Excluded),
        ]
    };
    let direction = prop::sample::select(vec![Direction::Ascending, Direction::Descending]);
    let contents = vec![MatchContent::Keys, MatchContent::Terms, MatchContent::Records];
    (bound(), bound(), direction, 1..5_usize, prop::sample::select(contents)).prop_map(
        |(low, high, direction, rows_max, content)| QuerySketch {
            low,
            high,
            direction,
            rows_max,
            content,
        },
    )
}

fn query(number: u32, terms: TermRange) -> TermQuery {
    TermQuery {
        field: IndexField::Declared(IndexNumber(number)),
        terms,
        filter: None,
        after: None,
        direction: Direction::Ascending,
        rows_max: None,
        bytes_max: None,
        content: MatchContent::Terms,
    }
}

fn all_ints() -> TermRange {
    TermRange::all(ValueType::Int.kind())
}

fn answer(group: &mut IndexedGroup, query: &TermQuery) -> Result<IndexAnswer> {
    group.write(|overlay| overlay.query_index(INDEXED, query))
}

fn page(group: &mut IndexedGroup, query: &TermQuery) -> TermPage {
    match answer(group, query) {
        Ok(IndexAnswer::Page(page)) => page,
        other => panic!("a page, not {other:?}"),
    }
}

/// Returns the matches that a scan of the rows finds, with everything.
fn scan(
    group: &mut IndexedGroup,
    definition: &IndexDefinition,
    terms: &TermRange,
) -> Vec<IndexMatch> {
    let mut definitions = DefinitionSet::default();
    definitions.insert(definition.clone()).expect("the only one");
    scan_field(group, &definitions, &definition.field(), terms)
}

fn scan_field(
    group: &mut IndexedGroup,
    definitions: &DefinitionSet,
    field: &IndexField,
    terms: &TermRange,
) -> Vec<IndexMatch> {
    let mut found = Vec::new();
    let scanned = group.write(|overlay| {
        let now = overlay.open.time;
        overlay.rows(INDEXED, &Range::default(), |key, row| {
            let tags = row.tags.as_ref().map_or(&[][..], |tags| &tags.0);
            let value = LivingValue { tags, bytes: &row.value };
            for entry in stored_entries(definitions, &[value]).entries {
                if entry.field == *field && terms.contains(&entry.term) {
                    let row = row.clone().into_row(now);
                    let (term, row) = (Some(entry.term), Some(row));
                    found.push(IndexMatch { key: key.clone(), term, row });
                }
            }
            Ok(true)
        })
    });
    scanned.expect("memory");
    found.sort_by(|one, other| (&one.term, &one.key).cmp(&(&other.term, &other.key)));
    found
}

/// Reads all pages of a query, and compares them with a scan.
pub(super) fn check(group: &mut IndexedGroup, number: u32, sketch: &QuerySketch) {
    let Some(record) = group.record(number) else { return };
    let terms = |bound: Bound<i64>| bound.map(Term::int);
    let (low, high) = (terms(sketch.low), terms(sketch.high));
    let terms = TermRange::between(ValueType::Int.kind(), low.as_ref(), high.as_ref());
    let terms = terms.expect("integers");
    let query = sketch.query(number, terms);
    if record.phase != IndexPhase::Ready {
        let answer = answer(group, &query).expect("memory");
        assert!(matches!(answer, IndexAnswer::NotReady(_)), "{answer:?}");
        return;
    }
    let expected = scan(group, &record.definition, &query.terms);
    check_pages(group, query, expected);
}

/// Reads all pages of a query of the tag `a_int`, and compares them with a scan.
pub(super) fn check_tag(group: &mut IndexedGroup, sketch: &QuerySketch) {
    let term = |number: i64| Term::tag_integer(number.to_string().as_bytes()).expect("digits");
    let (low, high) = (sketch.low.map(term), sketch.high.map(term));
    let terms = TermRange::between(TermKind::TagInteger, low.as_ref(), high.as_ref());
    let field = IndexField::tag(b"a_int").expect("a field");
    let query = TermQuery { field, ..sketch.query(0, terms.expect("integers")) };
    let expected = scan_field(group, &DefinitionSet::default(), &query.field, &query.terms);
    check_pages(group, query, expected);
}

impl QuerySketch {
    fn query(&self, number: u32, terms: TermRange) -> TermQuery {
        TermQuery {
            direction: self.direction,
            rows_max: Some(self.rows_max),
            content: self.content,
            ..query(number, terms)
        }
    }
}

fn check_pages(group: &mut IndexedGroup, mut query: TermQuery, mut expected: Vec<IndexMatch>) {
    let rows_max = query.rows_max.unwrap_or(usize::MAX);
    if query.direction == Direction::Descending {
        expected.reverse();
    }
    for found in &mut expected {
        found.term.take_if(|_| query.content == MatchContent::Keys);
        found.row.take_if(|_| query.content != MatchContent::Records);
    }
    let mut found = Vec::new();
    loop {
        let page = page(group, &query);
        assert!(page.rows.len() <= rows_max);
        found.extend(page.rows);
        query.after = page.next_after;
        if query.after.is_none() {
            break;
        }
    }
    assert_eq!(found, expected, "{query:?}");
}

fn keys(page: &TermPage) -> Vec<&str> {
    page.rows.iter().map(|row| std::str::from_utf8(&row.key).expect("text")).collect()
}

#[test]
fn query_before_ready_reports_progress_and_of_no_index_its_absence() {
    let mut group = IndexedGroup::new();
    let ints = query(1, all_ints());
    assert_eq!(answer(&mut group, &ints), Ok(IndexAnswer::Absent));
    for number in 0..600 {
        group.update(&set(&format!("{number:03}"), "{\"n\":1}")).expect("plain");
    }
    group.begin_index(definition(1, "$.n", ValueType::Int)).expect("it is the first");
    let progress = |rows_done, rows_total| {
        let phase = IndexPhase::Building;
        Ok(IndexAnswer::NotReady(IndexProgress { phase, rows_done, rows_total }))
    };
    assert_eq!(answer(&mut group, &ints), progress(0, None));
    assert!(!group.step(1));
    assert_eq!(answer(&mut group, &ints), progress(256, None));
    // A bucket that is counted knows its size, once the count is complete.
    group.write(|overlay| begin_count(overlay, INDEXED)).expect("memory");
    assert_eq!(answer(&mut group, &ints), progress(256, None));
    group.apply();
    let trees = &group.trees;
    let mut scan = crate::count_scan::CountScan::begin(GROUP, trees, INDEXED)
        .expect("memory")
        .expect("it has begun");
    assert!(scan.advance(usize::MAX).expect("memory"));
    group.write(|overlay| scan.complete(overlay)).expect("it goes");
    assert_eq!(answer(&mut group, &ints), progress(256, Some(600)));
    while !group.step(1) {}
    assert_eq!(page(&mut group, &ints).rows.len(), 600);
    group.end_index(1);
    let answer = answer(&mut group, &ints).expect("memory");
    let IndexAnswer::NotReady(progress) = answer else { panic!("{answer:?}") };
    assert_eq!(progress.phase, IndexPhase::Dropping);
}

#[test]
fn query_of_another_type_is_malformed() {
    let mut group = IndexedGroup::new();
    group.build_index(definition(1, "$.n", ValueType::Int));
    let strings = query(1, TermRange::all(ValueType::String.kind()));
    let refused = answer(&mut group, &strings).expect_err("integers are no strings");
    assert_eq!(refused.reason, Reason::Malformed);
}

#[test]
fn page_ends_at_its_bytes_and_holds_one_row_at_least() {
    let mut group = IndexedGroup::new();
    group.build_index(definition(1, "$.s", ValueType::String));
    for key in ["a", "b", "c"] {
        let value = format!("{{\"s\":\"{key}\",\"x\":\"{}\"}}", "x".repeat(1_000));
        group.update(&set(key, &value)).expect("it is indexed");
    }
    let strings = query(1, TermRange::all(ValueType::String.kind()));
    let content = MatchContent::Records;
    let mut records = TermQuery { bytes_max: Some(1_500), content, ..strings.clone() };
    let first = page(&mut group, &records);
    assert_eq!(keys(&first), ["a", "b"], "the row that reaches the bound is the last");
    records.after = first.next_after;
    let second = page(&mut group, &records);
    assert_eq!((keys(&second), &second.next_after), (vec!["c"], &None));
    let mut entries = TermQuery { bytes_max: Some(1), ..strings.clone() };
    let first = page(&mut group, &entries);
    assert_eq!(keys(&first), ["a"]);
    entries.after = first.next_after;
    assert_eq!(keys(&page(&mut group, &entries)), ["b"]);
    for content in [MatchContent::Terms, MatchContent::Records] {
        let mut one = TermQuery { bytes_max: Some(0), content, ..strings.clone() };
        for key in ["a", "b", "c"] {
            let next = page(&mut group, &one);
            assert_eq!(keys(&next), [key], "one row at least");
            one.after = next.next_after;
            assert_eq!(one.after.is_none(), key == "c");
        }
    }
    let prefix = TermRange::prefix(ValueType::String.kind(), b"b").expect("short");
    assert_eq!(keys(&page(&mut group, &query(1, prefix))), ["b"]);
}

#[test]
fn query_costs_a_row_for_each_entry_and_record_that_it_reads() {
    let mut group = IndexedGroup::new();
    for number in 0..200 {
        group.update(&set(&format!("{number:03}"), "{\"n\":1}")).expect("plain");
    }
    group.build_index(definition(1, "$.n", ValueType::Int));
    let mut cost = |content, rows_max| {
        let query = TermQuery { rows_max: Some(rows_max), content, ..query(1, all_ints()) };
        let counted = group.write(|overlay| {
            let outer_budget = std::mem::replace(&mut overlay.budget, Budget::unbounded());
            overlay.query_index(INDEXED, &query)?;
            Ok(std::mem::replace(&mut overlay.budget, outer_budget).rows())
        });
        counted.expect("memory")
    };
    let base = cost(MatchContent::Terms, 0);
    assert_eq!(cost(MatchContent::Terms, 100), base + 100);
    assert_eq!(cost(MatchContent::Keys, 100), base + 100);
    assert_eq!(cost(MatchContent::Records, 100), base + 200);
    let query = query(1, all_ints());
    let refused = group.write(|overlay| {
        overlay.budget = Budget::for_rows(100);
        let answer = overlay.query_index(INDEXED, &query);
        answer.and_then(|_| overlay.budget.check())
    });
    assert_eq!(refused.expect_err("200 entries").reason, Reason::TooLarge);
}

/// A page is read on the thread that received the request.
#[test]
fn short_page_passes_over_a_bounded_number_of_expired_entries() {
    let mut group = IndexedGroup::new();
    group.build_index(definition(1, "$.n", ValueType::Int));
    for number in 0..2_500 {
        let (key, value) = (Key::from(format!("{number:04}")), Value::from("{\"n\":1}"));
        let expiry = base::request::Expiry::After(10);
        group.update(&Update::Set { key, value, expiry }).expect("it is indexed");
    }
    group.update(&set("z", "{\"n\":1}")).expect("it is indexed");
    group.pass(10);
    let mut query = TermQuery { rows_max: Some(10), ..query(1, all_ints()) };
    for _ in 0..2 {
        let empty = page(&mut group, &query);
        assert_eq!(empty.rows, []);
        query.after = empty.next_after;
        assert!(query.after.is_some(), "it goes on");
    }
    let last = page(&mut group, &query);
    assert_eq!((keys(&last), last.next_after.clone()), (vec!["z"], None));
}
