//! Dead rows between living ones, which leave no stretch to jump over: how long range reads walk
//! over them before a flush or a merge is made for their sake, and that none is made without need.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lsm_tree::AbstractTree;
use lsm_tree::compaction::{MoveDown, PullDown};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{LsmTrees, Trees};
use super::growth::{ROWS, bounds, cost, is_bounded, key, push, to_disk};
use super::{Scratch, apply, open, put, remove};

/// Lists all rows, and checks their number.
fn list(trees: &LsmTrees, living: u32) {
    let snapshot = trees.snapshot();
    let (low, high) = bounds();
    assert_eq!(snapshot.range(low, high, false).count(), living as usize);
}

/// Writes rows of others, in addition to those that are listed, as a table on disk.
fn others<T: AsRef<[u8]>>(trees: &LsmTrees, numbers: Range<u32>, mut value: impl FnMut() -> T) {
    apply(trees, numbers.map(|number| put(format!("others/{number:08}"), value())));
    to_disk(trees);
}

/// Half the rows are dead, and lists walk over twice as many in vain as there are rows on disk,
/// while tables of others are merged: then no list walks over one any more.
fn lists_pay_for_merges(trees: &LsmTrees) {
    for round in 0..4 * trees.statistics().rows_estimated / u64::from(ROWS) {
        list(trees, ROWS / 2);
        for part in 0..4 {
            let first = 1_000_000 + (round * 4 + part) as u32 * 10;
            others(trees, first..first + 10, || "other");
        }
        while trees.compact().unwrap() {}
    }
    let (walked, returned, ()) = cost(trees, || list(trees, ROWS / 2));
    assert_eq!((walked, returned), (u64::from(ROWS / 2), u64::from(ROWS / 2)));
}

/// Rows that are dead here and there, between others that live, leave no stretch to jump over: they
/// go when walking over them has cost more than writing the others anew does.
#[test]
fn rows_that_died_between_others_do_not_stay_in_the_way() {
    const KEYS: u64 = 20_000;
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut chance = StdRng::seed_from_u64(3);
    let mut number = move || chance.random_range(0..KEYS) as u32;
    let mut step = |trees: &LsmTrees| {
        for _ in 0..10 {
            let row = put(key(number()), "row");
            apply(trees, [row, put(key(number()), "row"), remove(key(number()))]);
        }
        let (_, high) = bounds();
        let from = Bound::Included(key(number()));
        assert!(trees.snapshot().range(from, high, false).take(1_000).all(|row| row.is_ok()));
        if trees.pressure().rotate_is_due() {
            to_disk(trees);
        }
        while trees.compact().unwrap() {}
    };
    (0..1_000).for_each(|_| step(&trees));
    is_bounded(&trees, "in the midst", || (0..1_000).for_each(|_| step(&trees)));
    assert!(trees.statistics().tables < 30);
}

/// Few tombstones in memory, in a table far from full, hide rows on disk. Nobody writes any more,
/// and lists walk over them: they go after a bounded number of lists, the fewer they are the later.
#[test]
fn few_dead_rows_do_not_stay_in_the_way_of_readers_when_nobody_writes() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    // Each dead row lies between two that live: there is no stretch to jump over.
    push(&trees, (0..800).filter(|number| number % 2 == 0));
    to_disk(&trees);
    while trees.compact().unwrap() {}
    apply(&trees, (0..800).filter(|number| number % 4 == 0).map(|number| remove(key(number))));
    apply(&trees, (0..800).filter(|number| number % 4 == 0).map(|number| put(key(number + 1), "")));
    let pressure = trees.pressure();
    assert!(pressure.active_bytes < pressure.active_bytes_max / 16);
    // 200 rows are walked over in vain each time.
    let mut lists = 0;
    while !trees.pressure().rotate_is_due() {
        list(&trees, 400);
        lists += 1;
        assert!(lists < 1_000, "{:?}", trees.pressure());
    }
    assert!(lists * 200 >= 25_000, "only {lists} lists");
    to_disk(&trees);
    while trees.compact().unwrap() {}
    let (walked, returned, ()) = cost(&trees, || list(&trees, 400));
    assert_eq!((walked, returned), (400, 400));
    for _ in 0..lists {
        list(&trees, 400);
        assert!(!trees.pressure().rotate_is_due() && !trees.compact().unwrap());
    }
}

/// Rows that lived and died in memory, with nothing on disk and nobody who writes: four lists pay
/// for the flush that leaves nothing of them.
#[test]
fn many_dead_rows_in_memory_are_walked_over_a_few_times_only() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    (0..3).for_each(|_| push(&trees, (0..2 * ROWS).filter(|number| number % 2 == 0)));
    push(&trees, (0..2 * ROWS).filter(|number| number % 40 == 1));
    apply(&trees, (0..2 * ROWS).filter(|number| number % 2 == 0).map(|n| remove(key(n))));
    let everywhere = || list(&trees, ROWS / 20);
    let due = |_: &u32| trees.view().has_dead_rows_in_the_way(trees.settings.table_bytes_max());
    let lists = (0..10).inspect(|_| everywhere()).find(due);
    assert!(lists.is_some_and(|lists| lists < 4), "{lists:?}");
    to_disk(&trees);
    let (walked, returned, ()) = cost(&trees, everywhere);
    assert_eq!(walked, returned);
}

/// Tombstones in an upper level on disk hide rows at the bottom, while tables of others are merged
/// all the time: they go once lists have walked over more rows in vain than there are.
#[test]
fn dead_rows_on_disk_do_not_stay_in_the_way_while_others_are_merged() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut chance = StdRng::seed_from_u64(7);
    let mut value = || std::array::from_fn::<u8, 256, _>(|_| chance.random());
    push(&trees, 0..ROWS);
    for part in 0..100 {
        others(&trees, part * 1_000..(part + 1) * 1_000, &mut value);
    }
    while trees.compact().unwrap() {}
    trees.rewrite().unwrap();
    for part in 0..4 {
        let rows = (0..ROWS).filter(|number| number % 8 == part * 2);
        apply(&trees, rows.map(|number| remove(key(number))));
        to_disk(&trees);
    }
    while trees.compact().unwrap() {}
    assert!(trees.statistics().tombstones > 0, "nothing else has them merged away");
    lists_pay_for_merges(&trees);
}

/// Tombstones that were moved to the bottom without a merge, as tables are that overlap none there:
/// no drain reaches them, and lists walk over them, while tables of others are merged all the time.
#[test]
fn dead_rows_at_the_bottom_do_not_stay_in_the_way_while_others_are_merged() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let move_down = |from, to| {
        trees.tree.compact(Arc::new(MoveDown(from, to)), u64::MAX).unwrap();
        trees.refresh().unwrap();
    };
    others(&trees, 0..3 * ROWS, || "other");
    trees.rewrite().unwrap();
    push(&trees, 0..ROWS);
    to_disk(&trees);
    move_down(0, 5);
    apply(&trees, (0..ROWS).filter(|number| number % 2 == 0).map(|number| remove(key(number))));
    to_disk(&trees);
    trees.tree.compact(Arc::new(PullDown(0, 5)), u64::MAX).unwrap();
    move_down(5, 6);
    assert_eq!(trees.statistics().tombstones, u64::from(ROWS / 2));
    assert!(!trees.compact().unwrap(), "something else has them merged away");
    lists_pay_for_merges(&trees);
}

/// A table of tombstones above more of the bottom than the crate merges at once: no drain finds a
/// way down for it.
#[test]
fn dead_rows_above_a_wide_bottom_do_not_stay_in_the_way() {
    const LARGE: u32 = 3_400;
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut chance = StdRng::seed_from_u64(11);
    for part in (0..LARGE).step_by(100) {
        let mut rows = (part..part + 100).map(|number| {
            let mut value = vec![0; 64 * 1024];
            chance.fill(&mut value[..]);
            put(key(number), value)
        });
        trees.apply(&mut rows).unwrap();
        to_disk(&trees);
    }
    trees.rewrite().unwrap();
    let bottom = trees.statistics().tables;
    assert!(bottom > 50, "{bottom} tables");
    apply(&trees, (0..LARGE).filter(|number| number % 5 == 0).map(|number| remove(key(number))));
    to_disk(&trees);
    while trees.compact().unwrap() {}
    assert_eq!(trees.statistics().tombstones, u64::from(LARGE / 5));
    let dead = u64::from(LARGE / 5);
    for _ in 0..=2 * super::super::ROWS_IN_VAIN_MIN / dead {
        list(&trees, LARGE - dead as u32);
        while trees.compact().unwrap() {}
    }
    assert_eq!(trees.statistics().tombstones, 0);
}

/// Without writes the tables stay as they are, though clients keep listing rows that no flush and
/// no merge makes fewer.
#[test]
fn who_only_reads_brings_about_no_merges_and_no_flushes() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS);
    to_disk(&trees);
    while trees.compact().unwrap() {}
    push(&trees, 0..5_000);
    let tables = |trees: &LsmTrees| -> Vec<u64> {
        trees.tree.current_version().iter_tables().map(|table| table.id()).collect()
    };
    let before = tables(&trees);
    for _ in 0..50 {
        list(&trees, ROWS);
        assert!(!trees.pressure().rotate_is_due());
        assert!(!trees.compact().unwrap());
    }
    assert_eq!(tables(&trees), before);
    // What a reader walks over in tables of before is held against those tables.
    apply(&trees, (0..5_000).map(|number| remove(key(number))));
    let held = trees.snapshot();
    to_disk(&trees);
    for _ in 0..50 {
        let (low, high) = bounds();
        assert_eq!(held.range(low, high, false).count(), (ROWS - 5_000) as usize);
        assert!(!trees.pressure().rotate_is_due());
    }
}

/// Rows that lists walk over while levels are drained begin no other drain: this one is for them.
#[test]
fn a_drain_is_not_begun_anew_for_what_was_walked_over_meanwhile() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..10);
    to_disk(&trees);
    trees.rows_to_drain.store(1, Ordering::Relaxed);
    trees.view().in_vain_on_disk.store(1_000_000, Ordering::Relaxed);
    while trees.compact().unwrap() {}
    assert_eq!(trees.rows_to_drain.load(Ordering::Relaxed), 0);
    assert_eq!(trees.view().in_vain_on_disk.load(Ordering::Relaxed), 0);
}
