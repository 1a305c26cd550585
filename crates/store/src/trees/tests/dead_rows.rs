//! Dead rows between live ones, which leave no stretch to jump over: range reads walk over a
//! bounded number of them before a flush or merge removes them, and no flush or merge happens
//! without need.

use std::ops::{Bound, Range};
use std::sync::atomic::Ordering;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{LsmTrees, Trees};
use super::growth::{ROWS, bounds, check_bounded, cost, key, push, to_disk};
use super::{Scratch, apply, open, put, remove};

/// Lists all rows, and checks their number.
fn list(trees: &LsmTrees, live_count: u32) {
    let snapshot = trees.snapshot();
    let (low, high) = bounds();
    assert_eq!(snapshot.range(low, high, false).count(), live_count as usize);
}

/// Writes rows under another prefix, which is not listed, as a table on disk.
fn write_others<T: AsRef<[u8]>>(
    trees: &LsmTrees,
    numbers: Range<u32>,
    mut value: impl FnMut() -> T,
) {
    apply(trees, numbers.map(|number| put(format!("others/{number:08}"), value())));
    to_disk(trees);
}

/// Lists rows, of which half are dead, until they have walked over twice as many dead rows as there
/// are rows on disk, while other tables are merged. Then no list walks over a dead row any longer.
fn check_lists_cause_merges(trees: &LsmTrees) {
    for round in 0..4 * trees.statistics().rows_estimated / u64::from(ROWS) {
        list(trees, ROWS / 2);
        for part in 0..4 {
            let first = 1_000_000 + (round * 4 + part) as u32 * 10;
            write_others(trees, first..first + 10, || "other");
        }
        while trees.compact().unwrap() {}
    }
    let (walked, returned, ()) = cost(trees, || list(trees, ROWS / 2));
    assert_eq!((walked, returned), (u64::from(ROWS / 2), u64::from(ROWS / 2)));
}

/// Scattered dead rows between live ones leave no stretch to jump over: they are removed when
/// walking over them has cost more than a rewrite of the live ones.
#[test]
fn range_cost_stays_bounded_among_scattered_dead_rows() {
    const KEYS: u64 = 20_000;
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut rng = StdRng::seed_from_u64(3);
    let mut number = move || rng.random_range(0..KEYS) as u32;
    let mut step = |trees: &LsmTrees| {
        for _ in 0..10 {
            let row = put(key(number()), "row");
            apply(trees, [row, put(key(number()), "row"), remove(key(number()))]);
        }
        let (_, high) = bounds();
        let from = Bound::Included(key(number()));
        assert!(trees.snapshot().range(from, high, false).take(1_000).all(|row| row.is_ok()));
        if trees.pressure().is_rotation_due() {
            to_disk(trees);
        }
        while trees.compact().unwrap() {}
    };
    (0..1_000).for_each(|_| step(&trees));
    check_bounded(&trees, "in the midst", || (0..1_000).for_each(|_| step(&trees)));
    assert!(trees.statistics().tables < 30);
}

/// Few tombstones in memory, in a table far from full, hide rows on disk. Without further writes,
/// lists walk over them: they are removed after a bounded number of lists, later if they are fewer.
#[test]
fn few_tombstones_in_memory_are_flushed_after_many_range_reads() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    // Each dead row lies between two live ones: there is no stretch to jump over.
    push(&trees, (0..800).filter(|number| number % 2 == 0));
    to_disk(&trees);
    while trees.compact().unwrap() {}
    apply(&trees, (0..800).filter(|number| number % 4 == 0).map(|number| remove(key(number))));
    apply(&trees, (0..800).filter(|number| number % 4 == 0).map(|number| put(key(number + 1), "")));
    let pressure = trees.pressure();
    assert!(pressure.active_bytes < pressure.active_bytes_max / 16);
    // Each list walks over 200 dead rows.
    let mut lists = 0;
    while !trees.pressure().is_rotation_due() {
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
        assert!(!trees.pressure().is_rotation_due() && !trees.compact().unwrap());
    }
}

/// Rows that were written and removed in memory, with no row on disk and no further writes: at most
/// four lists make the flush due that removes them.
#[test]
fn many_dead_rows_in_memory_make_a_flush_due_after_few_range_reads() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    (0..3).for_each(|_| push(&trees, (0..2 * ROWS).filter(|number| number % 2 == 0)));
    push(&trees, (0..2 * ROWS).filter(|number| number % 40 == 1));
    apply(&trees, (0..2 * ROWS).filter(|number| number % 2 == 0).map(|n| remove(key(n))));
    let list_all = || list(&trees, ROWS / 20);
    let due = |_: &u32| trees.view().has_many_dead_rows(trees.settings.table_bytes_max());
    let lists = (0..10).inspect(|_| list_all()).find(due);
    assert!(lists.is_some_and(|lists| lists < 4), "{lists:?}");
    to_disk(&trees);
    let (walked, returned, ()) = cost(&trees, list_all);
    assert_eq!(walked, returned);
}

/// Tombstones in an upper level on disk hide rows at the bottom, while other tables are merged all
/// the time: they are removed once lists have walked over more dead rows than there are rows.
#[test]
fn upper_level_tombstones_are_merged_away_after_range_reads() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut rng = StdRng::seed_from_u64(7);
    let mut value = || std::array::from_fn::<u8, 256, _>(|_| rng.random());
    push(&trees, 0..ROWS);
    for part in 0..100 {
        write_others(&trees, part * 1_000..(part + 1) * 1_000, &mut value);
    }
    while trees.compact().unwrap() {}
    assert!(trees.merge_everything().unwrap());
    for part in 0..4 {
        let rows = (0..ROWS).filter(|number| number % 8 == part * 2);
        apply(&trees, rows.map(|number| remove(key(number))));
        to_disk(&trees);
    }
    while trees.compact().unwrap() {}
    assert!(trees.statistics().tombstones > 0, "nothing else has them merged away");
    check_lists_cause_merges(&trees);
}

/// Tombstones above a run that is far larger than they: only what lists walk over pays for a merge.
#[test]
fn tombstones_above_a_wide_bottom_are_merged_away_after_range_reads() {
    const LARGE: u32 = 3_400;
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let mut rng = StdRng::seed_from_u64(11);
    for part in (0..LARGE).step_by(100) {
        let mut rows = (part..part + 100).map(|number| {
            let mut value = vec![0; 64 * 1024];
            rng.fill(&mut value[..]);
            put(key(number), value)
        });
        trees.apply(&mut rows).unwrap();
        to_disk(&trees);
    }
    assert!(trees.merge_everything().unwrap());
    let bottom = trees.statistics().tables;
    assert!(bottom > 50, "{bottom} tables");
    apply(&trees, (0..LARGE).filter(|number| number % 5 == 0).map(|number| remove(key(number))));
    to_disk(&trees);
    while trees.compact().unwrap() {}
    assert_eq!(trees.statistics().tombstones, u64::from(LARGE / 5));
    let dead = u64::from(LARGE / 5);
    for _ in 0..=2 * super::super::DEAD_ROWS_WALKED_MIN / dead {
        list(&trees, LARGE - dead as u32);
        while trees.compact().unwrap() {}
    }
    assert_eq!(trees.statistics().tombstones, 0);
}

/// Without writes the tables stay unchanged, although clients list rows: no flush or merge would
/// reduce them.
#[test]
fn read_only_load_causes_no_flush_or_merge() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..ROWS);
    to_disk(&trees);
    while trees.compact().unwrap() {}
    push(&trees, 0..5_000);
    let tables =
        |trees: &LsmTrees| -> Vec<u64> { trees.list().tables().map(|table| table.id()).collect() };
    let before = tables(&trees);
    for _ in 0..50 {
        list(&trees, ROWS);
        assert!(!trees.pressure().is_rotation_due());
        assert!(!trees.compact().unwrap());
    }
    assert_eq!(tables(&trees), before);
    // Rows walked over in older tables are counted for those tables.
    apply(&trees, (0..5_000).map(|number| remove(key(number))));
    let held = trees.snapshot();
    to_disk(&trees);
    for _ in 0..50 {
        let (low, high) = bounds();
        assert_eq!(held.range(low, high, false).count(), (ROWS - 5_000) as usize);
        assert!(!trees.pressure().is_rotation_due());
    }
}

/// A merge down to the oldest run removes all dead rows, also those that lists walk over meanwhile:
/// they cause no other merge.
#[test]
fn merge_of_everything_forgets_the_dead_rows_walked_over() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    push(&trees, 0..100);
    to_disk(&trees);
    while trees.compact().unwrap() {}
    push(&trees, 0..10);
    to_disk(&trees);
    assert_eq!(trees.pressure().runs, 2);
    trees.view().dead_walked_on_disk.store(1_000_000, Ordering::Relaxed);
    assert!(trees.compact().unwrap());
    assert_eq!(trees.pressure().runs, 1);
    assert_eq!(trees.view().dead_walked_on_disk.load(Ordering::Relaxed), 0);
    assert!(!trees.compact().unwrap());
}
