//! Entries of single updates: refusals, bounds and cost.

use super::*;
use crate::budget::Budget;
use base::Reason;
use base::request::{ExpireWhen, Expiry, OnMissing, When};

fn strict(number: u32) -> IndexDefinition {
    IndexDefinition { is_strict: true, ..definition(number, "$.n", ValueType::Int) }
}

#[test]
fn strict_index_refuses_new_values_and_lets_older_ones_expire_and_go() {
    let mut group = IndexedGroup::new();
    group.update(&set("old", "{}")).expect("plain");
    assert_eq!(group.build_index(strict(1)), IndexPhase::Ready);
    let refused = group.update(&set("new", "{}")).expect_err("it has no term");
    assert_eq!(refused.reason, Reason::Malformed);
    let key = Key::from("old");
    let (expiry, when) = (Expiry::After(50), ExpireWhen::Always);
    group.update(&Update::Expire { key: key.clone(), expiry, when }).expect("the value stays");
    group.update(&set("old", "{\"n\":1}")).expect("it has a term");
    group.update(&Update::Expire { key: key.clone(), expiry, when }).expect("the value stays");
    group.check_accepted();
    group.pass(50);
    group.sweep(9);
    group.check_accepted();
    assert_eq!(group.entries(), 0);
    let missing = OnMissing::Skip;
    group.update(&Update::Delete { key, missing }).expect("it is gone");
}

/// Returns an array with these integers.
fn list(numbers: std::ops::Range<i32>) -> String {
    format!("[{}]", numbers.map(|number| number.to_string()).collect::<Vec<_>>().join(","))
}

#[test]
fn entries_count_among_the_bytes_that_an_update_may_write() {
    let mut group = IndexedGroup::new();
    group.build_index(definition(1, "$[*]", ValueType::Int));
    let key = "k".repeat(32_000);
    group.update(&set(&key, &list(0..1_024))).expect("33 MB of entries");
    let entries = group.entries();
    group.update(&set(&key, &list(1..1_025))).expect("one entry goes, and one comes");
    let refused = group.update(&set(&key, &list(5_000..6_024))).expect_err("66 MB of entries");
    assert_eq!((refused.reason, group.entries()), (Reason::TooLarge, entries));
    let refused = group.update(&set("k", &list(0..1_025))).expect_err("too many entries");
    assert_eq!((refused.reason, group.entries()), (Reason::TooLarge, entries));
}

#[test]
fn sweep_ends_at_its_bytes_and_goes_on_where_it_ended() {
    let mut group = IndexedGroup::new();
    group.build_index(definition(1, "$[*]", ValueType::Int));
    for number in 0..3 {
        let key = Key::from(format!("{number}{}", "k".repeat(30_000)));
        let (value, expiry) = (Value::from(list(0..200)), Expiry::After(10));
        group.update(&Update::Set { key, value, expiry }).expect("6 MiB of entries");
    }
    group.pass(10);
    for left in (0..3).rev() {
        assert_eq!((group.sweep(9), group.entries()), (1, left * 200));
    }
    assert_eq!(group.sweep(9), 0);
    group.check_accepted();
}

/// Returns the rows that the budget counts for an update of a bucket.
fn cost(group: &mut IndexedGroup, id: BucketId, update: &Update) -> usize {
    let counted = group.write(|overlay| {
        let outer_budget = std::mem::replace(&mut overlay.budget, Budget::unbounded());
        let written = match update {
            Update::Set { key, value, .. } => overlay.put(id, key, None, &[value]),
            other => evaluate(overlay, &bucket(id), other).map(drop),
        };
        let rows = std::mem::replace(&mut overlay.budget, outer_budget).rows();
        written.map(|()| rows)
    });
    counted.expect("it is accepted")
}

#[test]
fn plain_set_looks_up_its_row_only_in_a_bucket_with_indexes() {
    let mut group = IndexedGroup::new();
    let update = set("k", "{\"n\":1}");
    assert_eq!(cost(&mut group, INDEXED, &update), 0, "there is no index");
    group.build_index(definition(1, "$.n", ValueType::Int));
    group.build_index(unique(2, "$.u"));
    assert_eq!(cost(&mut group, PLAIN, &update), 0);
    // The row, and its value once for each index, before and after.
    assert_eq!(cost(&mut group, INDEXED, &set("k", "{\"n\":2}")), 5);
    assert_eq!(cost(&mut group, INDEXED, &set("k", "{\"n\":2}")), 1, "nothing changes");
    // Two look-ups of the term: for the old one and the new one.
    group.update(&set("k", "{\"u\":1}")).expect("it is the first");
    assert_eq!(cost(&mut group, INDEXED, &set("k", "{\"u\":2}")), 7);
}

#[test]
fn renamed_and_copied_records_take_their_entries_along() {
    let mut group = IndexedGroup::new();
    group.build_index(definition(1, "$.n", ValueType::Int));
    group.update(&set("a", "{\"n\":1}")).expect("it is indexed");
    group.update(&set("b", "{\"n\":2}")).expect("it is indexed");
    let (from, to, when) = (Key::from("a"), Key::from("b"), When::Absent);
    group.update(&Update::Rename { from: from.clone(), to: to.clone(), when }).expect("refused");
    assert_eq!(group.entries(), 2, "there is a `b`");
    let when = When::Always;
    group.update(&Update::Copy { from: from.clone(), to: Key::from("c"), when }).expect("it goes");
    assert_eq!(group.entries(), 3);
    group.check_accepted();
    group.update(&Update::Rename { from: from.clone(), to, when }).expect("it goes");
    assert_eq!(group.entries(), 2);
    group.check_accepted();
    group.update(&Update::DeletePrefix { prefix: Key::new() }).expect("a few rows");
    assert_eq!(group.entries(), 0);
    group.apply();
}
