//! Indexes of a bucket whose rows come from another group.

use super::*;
use base::Reason;

/// Returns a group with a ready index of `$.n` and a unique one of `$.u`, and some rows.
fn source() -> IndexedGroup {
    let mut group = IndexedGroup::new();
    assert_eq!(group.build_index(definition(1, "$.n", ValueType::Int)), IndexPhase::Ready);
    assert_eq!(group.build_index(unique(2, "$.u")), IndexPhase::Ready);
    for number in 0..9 {
        let value = format!("{{\"n\":{},\"u\":{number}}}", number % 2);
        group.update(&set(&format!("k{number}"), &value)).expect("it is indexed");
    }
    group.apply();
    group
}

fn rows(group: &mut IndexedGroup) -> Vec<(Key, StoredRow)> {
    let mut rows = Vec::new();
    let scanned = group.write(|overlay| {
        overlay.rows(INDEXED, &Range::default(), |key, row| {
            rows.push((key, row));
            Ok(true)
        })
    });
    scanned.expect("memory");
    rows
}

fn copy(group: &mut IndexedGroup, rows: &[(Key, StoredRow)]) {
    for (key, row) in rows {
        let copied = group.write(|overlay| overlay.put_versioned(INDEXED, key, row));
        copied.expect("what another group has accepted is accepted");
        group.check_accepted();
    }
}

fn receive(group: &mut IndexedGroup, sent: &[ReplicatedIndex]) {
    group.write(|overlay| overlay.receive_indexes(INDEXED, sent)).expect("they are new");
}

fn complete(group: &mut IndexedGroup, sent: &[ReplicatedIndex]) -> Result<()> {
    group.write(|overlay| overlay.complete_indexes(INDEXED, sent))
}

fn phases(group: &mut IndexedGroup) -> Vec<(u32, IndexPhase)> {
    group.apply();
    let records = group.applied_indexes.of(INDEXED);
    records.iter().map(|record| (record.definition.number.0, record.phase)).collect()
}

#[test]
fn ready_indexes_are_ready_at_the_target_once_all_rows_have_come() {
    let mut source = source();
    let (mut target, sent) = (IndexedGroup::new(), source.applied_indexes.sent(INDEXED));
    receive(&mut target, &sent);
    assert_eq!(phases(&mut target), [(1, IndexPhase::Building), (2, IndexPhase::Building)]);
    let early = rows(&mut source);
    copy(&mut target, &early[..6]);
    // Two keys exchange their terms, and each copy meets the other one's former term.
    for (key, term) in [("k1", 100), ("k2", 1), ("k1", 2)] {
        source.update(&set(key, &format!("{{\"n\":5,\"u\":{term}}}"))).expect("it is free");
    }
    let late = rows(&mut source);
    copy(&mut target, &[&late[6..], &late[1..3]].concat());
    source.apply();
    let sent = source.applied_indexes.sent(INDEXED);
    complete(&mut target, &sent).expect("nothing was begun meanwhile");
    target.check_accepted();
    assert_eq!(phases(&mut target), [(1, IndexPhase::Ready), (2, IndexPhase::Ready)]);
    assert_eq!((target.entries(), target.applied_indexes.sent(INDEXED)), (18, sent));
    let refused = target.update(&set("new", "{\"u\":1}")).expect_err("`k2` has the term");
    assert_eq!(refused.reason, Reason::AlreadyExists);
}

#[test]
fn index_that_ends_fails_or_is_not_built_at_the_source_does_so_at_the_target() {
    let mut source = source();
    source.update(&set("k9", "{\"n\":0,\"u\":99}")).expect("it is indexed");
    let other = |number, path| {
        let name = IndexName::parse(&format!("o{number}")).expect("a name");
        IndexDefinition { name, ..definition(number, path, ValueType::Int) }
    };
    source.begin_index(other(3, "$.n")).expect("it is the first");
    source.begin_index(unique(4, "$.n")).expect("it is the first");
    source.apply();
    let mut target = IndexedGroup::new();
    receive(&mut target, &source.applied_indexes.sent(INDEXED));
    copy(&mut target, &rows(&mut source));
    source.end_index(1);
    while !source.step(4) {}
    source.apply();
    let sent = source.applied_indexes.sent(INDEXED);
    complete(&mut target, &sent).expect("nothing was begun meanwhile");
    target.check_accepted();
    let (dropping, ready) = (IndexPhase::Dropping, IndexPhase::Ready);
    let (building, failed) = (IndexPhase::Building, IndexPhase::Failed);
    assert_eq!(phases(&mut target), [(1, dropping), (2, ready), (3, building), (4, failed)]);
    // Whoever tends indexes ends what was begun.
    while !target.step(1) {}
    while !target.step(3) {}
    assert_eq!(phases(&mut target), [(2, ready), (3, ready), (4, failed)]);
    assert_eq!(
        target.record(4),
        source.record(4).map(|one| ReplicatedIndex { cursor: None, ..one })
    );
    target.check_accepted();
}

#[test]
fn index_that_was_begun_while_rows_came_makes_the_copy_start_again() {
    let mut source = source();
    let mut target = IndexedGroup::new();
    receive(&mut target, &source.applied_indexes.sent(INDEXED));
    source.begin_index(definition(3, "$.l[*]", ValueType::Int)).expect("it is the first");
    source.apply();
    let sent = source.applied_indexes.sent(INDEXED);
    let refused = complete(&mut target, &sent).expect_err("rows came without its entries");
    assert_eq!(refused.reason, Reason::Changed);
    target.check_accepted();
    assert_eq!(phases(&mut target), [(1, IndexPhase::Building), (2, IndexPhase::Building)]);
}
