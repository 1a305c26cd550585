//! Building and removing of indexes in steps.

use super::*;
use base::Reason;
use base::request::Expiry;
use replica_state::replicated_index::DUPLICATES_MAX;

fn fill(group: &mut IndexedGroup, count: u32, value: impl Fn(u32) -> String) {
    for number in 0..count {
        group.update(&set(&format!("{number:04}"), &value(number))).expect("it is accepted");
    }
}

#[test]
fn build_goes_on_behind_the_rows_that_it_has_read_also_under_another_master() {
    let mut group = IndexedGroup::new();
    fill(&mut group, 600, |number| format!("{{\"n\":{number}}}"));
    group.begin_index(definition(1, "$.n", ValueType::Int)).expect("it is the first");
    group.apply();
    assert!(!group.step(1));
    group.apply();
    assert_eq!((group.record(1).expect("it was begun").rows, group.entries()), (256, 256));
    // A page that is lost with its epoch is read again.
    assert!(!group.step(1));
    group.end_epoch();
    assert_eq!((group.record(1).expect("it was begun").rows, group.entries()), (256, 256));
    // Behind the cursor and before it.
    group.update(&set("0000", "{\"n\":-1}")).expect("it is indexed");
    group.update(&set("0400", "{\"n\":-1}")).expect("it is indexed");
    group.check_accepted();
    assert!(!group.step(1) && group.step(1));
    let record = group.record(1).expect("it was begun");
    assert_eq!((record.phase, record.rows, group.entries()), (IndexPhase::Ready, 600, 600));
    assert!(group.step(1), "nothing is left to do");
    group.apply();
    group.check_accepted();
}

#[test]
fn page_ends_at_its_bytes() {
    let mut group = IndexedGroup::new();
    fill(&mut group, 5, |_| format!("{{\"x\":\"{}\"}}", "x".repeat(600_000)));
    group.begin_index(definition(1, "$.n", ValueType::Int)).expect("it is the first");
    let rows = |group: &mut IndexedGroup| group.record(1).expect("it was begun").rows;
    assert!(!group.step(1));
    assert_eq!(rows(&mut group), 2);
    assert!(!group.step(1) && group.step(1));
    let record = group.record(1).expect("it was begun");
    assert_eq!((record.rows, record.entries, record.skipped.absent), (5, 0, 5));
    // Small rows with many entries.
    let mut group = IndexedGroup::new();
    let list = (0..1_000).map(|number| number.to_string()).collect::<Vec<_>>().join(",");
    let key = |number| format!("{number}{}", "k".repeat(1_100));
    for number in 0..3 {
        group.update(&set(&key(number), &format!("[{list}]"))).expect("it is accepted");
    }
    group.begin_index(definition(1, "$[*]", ValueType::Int)).expect("it is the first");
    for done in 1..=3 {
        assert_eq!(group.step(1), done == 3);
        assert_eq!(group.entries(), done * 1_000);
    }
    group.check_accepted();
}

#[test]
fn unique_index_over_duplicates_fails_and_lists_them() {
    let mut group = IndexedGroup::new();
    fill(&mut group, 50, |number| format!("{{\"u\":{}}}", number / 2));
    assert_eq!(group.build_index(unique(1, "$.u")), IndexPhase::Failed);
    let record = group.record(1).expect("it has failed");
    assert_eq!((record.rows, record.duplicates.len()), (50, 25));
    let first = &record.duplicates[0];
    let expected = (Term::int(0), Key::from("0001"), Key::from("0000"));
    assert_eq!((first.term.clone(), first.key.clone(), first.holder.clone()), expected);
    // Nothing maintains it.
    group.update(&set("0000", "{\"u\":1}")).expect("nothing is in force");
    assert!(group.queue.indexes.is_empty());
    assert!(group.step(1), "it stays as it is");
    group.end_index(1);
    while !group.step(1) {}
    assert_eq!((group.record(1), group.entries()), (None, 0));
    fill(&mut group, 300, |_| "{\"u\":1}".into());
    assert_eq!(group.build_index(unique(2, "$.u")), IndexPhase::Failed);
    assert_eq!(group.record(2).expect("it has failed").duplicates.len(), DUPLICATES_MAX);
}

#[test]
fn expired_record_is_no_duplicate_and_goes_when_a_unique_index_is_built() {
    for (first, second) in [("a", "b"), ("b", "a")] {
        let mut group = IndexedGroup::new();
        let (key, value) = (Key::from(first), Value::from("{\"u\":1}"));
        group.update(&Update::Set { key, value, expiry: Expiry::After(10) }).expect("plain");
        group.update(&set(second, "{\"u\":1}")).expect("plain");
        group.pass(10);
        assert_eq!(group.build_index(unique(1, "$.u")), IndexPhase::Ready);
        assert_eq!(group.entries(), 1, "{first}");
        group.check_accepted();
        group.apply();
        group.sweep(9);
        group.check_accepted();
    }
}

#[test]
fn dropped_index_loses_its_entries_page_by_page_and_no_other_index_any() {
    let mut group = IndexedGroup::new();
    fill(&mut group, 600, |number| format!("{{\"n\":{number}}}"));
    group.build_index(definition(1, "$.n", ValueType::Int));
    group.build_index(IndexDefinition {
        name: IndexName::parse("other").expect("a name"),
        ..definition(2, "$.n", ValueType::Int)
    });
    group.end_index(1);
    group.update(&set("0000", "{\"n\":-1}")).expect("the other is in force");
    assert_eq!(group.entries(), 1_200, "the first is as it was");
    assert!(!group.step(1));
    assert_eq!(group.entries(), 1_200 - 256);
    group.end_index(1);
    group.apply();
    group.end_epoch();
    assert!(!group.step(1) && group.step(1));
    assert_eq!((group.entries(), group.record(1)), (600, None));
    group.end_index(1);
    assert!(group.step(1), "it is gone");
    group.check_accepted();
}

#[test]
fn index_is_begun_once_and_its_number_and_name_are_taken() {
    let mut group = IndexedGroup::new();
    let first = definition(1, "$.n", ValueType::Int);
    group.begin_index(first.clone()).expect("it is the first");
    group.begin_index(first.clone()).expect("it is the same");
    let other_path = definition(1, "$.m", ValueType::Int);
    let other_number = IndexDefinition { number: IndexNumber(2), ..first.clone() };
    for other in [other_path, other_number.clone()] {
        let refused = group.begin_index(other).expect_err("it is taken");
        assert_eq!(refused.reason, Reason::AlreadyExists);
    }
    group.end_index(1);
    assert!(group.begin_index(first).is_err(), "its entries are still there");
    group.begin_index(other_number).expect("the name is free");
    group.check_accepted();
    let bytes =
        IndexDefinition { value_type: ValueType::Bytes, ..definition(3, "$", ValueType::Int) };
    assert_eq!(group.begin_index(bytes).expect_err("in JSON").reason, Reason::Malformed);
    for number in 3..34 {
        group.begin_index(definition(number, "$.n", ValueType::Int)).expect("there is room");
    }
    let refused = group.begin_index(definition(34, "$.n", ValueType::Int));
    assert_eq!(refused.expect_err("32 are enough").reason, Reason::TooLarge);
}

#[test]
fn refused_write_leaves_no_index_in_force_and_ends_none() {
    let mut group = IndexedGroup::new();
    let refuse = |overlay: &mut Overlay| {
        overlay.begin_index(INDEXED, definition(1, "$.n", ValueType::Int))?;
        Err::<(), _>(base::Error::new(Reason::TooLarge, "it does not fit"))
    };
    group.write(refuse).expect_err("it is refused");
    group.check_accepted();
    group.update(&set("k", "{\"n\":1}")).expect("plain");
    assert_eq!(group.build_index(definition(1, "$.n", ValueType::Int)), IndexPhase::Ready);
    let refuse = |overlay: &mut Overlay| {
        overlay.end_index(INDEXED, IndexNumber(1))?;
        Err::<(), _>(base::Error::new(Reason::TooLarge, "it does not fit"))
    };
    group.write(refuse).expect_err("it is refused");
    group.update(&set("k", "{\"n\":2}")).expect("it is indexed");
    group.check_accepted();
}

/// Returns an array with the integers below a number.
fn list(count: u32) -> String {
    format!("[{}]", (0..count).map(|number| number.to_string()).collect::<Vec<_>>().join(","))
}

fn named(number: u32) -> IndexDefinition {
    let name = IndexName::parse(&format!("l{number}")).expect("a name");
    IndexDefinition { name, ..definition(number, "$[*]", ValueType::Int) }
}

/// The update that removes a row holds all its entries, and must fit into an entry of the log.
#[test]
fn index_with_which_an_older_row_has_too_many_entries_fails_and_names_the_row() {
    let mut group = IndexedGroup::new();
    let key = "k".repeat(1_000);
    let set_with_expiry = Update::Set {
        key: Key::from(key.clone()),
        value: list(600).into(),
        expiry: Expiry::After(10),
    };
    group.update(&set_with_expiry).expect("plain");
    group.update(&set("z", "[7]")).expect("plain");
    assert_eq!(group.build_index(named(1)), IndexPhase::Ready);
    for number in 2..9 {
        group.begin_index(named(number)).expect("it is the first");
    }
    // What no builder has put is not removed: 600 entries of a kilobyte, and not 4,800.
    group.pass(10);
    let removed = group.write(|overlay| {
        let (savepoint, begun) = (overlay.savepoint(), overlay.open.payload_bytes());
        expire_due(overlay, Bytes::new(), 9, 1_000)?;
        let bytes = overlay.open.payload_bytes() - begun;
        overlay.undo(savepoint);
        Ok(bytes)
    });
    let bytes = removed.expect("memory");
    assert!((600_000..1_200_000).contains(&bytes), "{bytes} bytes");
    assert!(group.step(2), "nothing is left to do");
    let record = group.record(2).expect("it has failed");
    assert_eq!((record.phase, record.rows), (IndexPhase::Failed, 0));
    assert_eq!(record.oversized, Some(Key::from(key)));
    group.check_accepted();
    group.sweep(9);
    for number in 3..9 {
        while !group.step(number) {}
        assert_eq!(group.record(number).map(|record| record.phase), Some(IndexPhase::Ready));
    }
    group.check_accepted();
}

#[test]
fn expired_holders_of_terms_go_in_several_pages_if_they_have_many_entries() {
    let mut group = IndexedGroup::new();
    group.build_index(definition(1, "$.l[*]", ValueType::Int));
    let tail = "k".repeat(12_000);
    for number in 0..5 {
        let value = format!("{{\"u\":[{number}],\"l\":{}}}", list(100));
        let (key, expiry) = (Key::from(format!("{number}{tail}")), Expiry::After(10));
        group.update(&Update::Set { key, value: value.into(), expiry }).expect("it is indexed");
    }
    group.update(&set("z", "{\"u\":[0,1,2,3,4]}")).expect("it is indexed");
    group.begin_index(unique(2, "$.u[*]")).expect("it is the first");
    group.pass(10);
    let mut steps = 0;
    loop {
        let step = group.write(|overlay| build::step(overlay, INDEXED, IndexNumber(2)));
        let step = step.expect("memory");
        assert!(step.bytes < 3 << 20, "{step:?}");
        group.check_accepted();
        steps += 1;
        if step.is_last {
            break;
        }
    }
    let record = group.record(2).expect("it is ready");
    assert_eq!((record.phase, record.rows, record.entries), (IndexPhase::Ready, 6, 10));
    assert_eq!((steps, group.entries()), (6, 5), "one holder in each but the last");
}
