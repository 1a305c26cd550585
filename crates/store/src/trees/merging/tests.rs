//! Tests of merges that run beside each other, and beside writes and drops.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::trees::Trees;
use crate::trees::merge_policy::FAN_IN;
use crate::trees::tests::{Scratch, apply, open, put, remove};
use std::ops::Bound;

/// Writes rows that overlap those before as a run of their own.
fn write_run(trees: &LsmTrees, name: &str, rows: u32) {
    apply(trees, (0..rows).map(|row| put(format!("key {row:06}"), format!("{name} {row}"))));
    trees.rotate().unwrap();
    trees.flush().unwrap();
}

fn check_rows(trees: &LsmTrees, name: &str, rows: u32) {
    let snapshot = trees.snapshot();
    let found = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
    let found = found.map(|row| row.unwrap().1);
    assert!(found.eq((0..rows).map(|row| format!("{name} {row}"))), "not as {name} wrote them");
    let value = trees.get(b"key 000007").unwrap().unwrap();
    assert_eq!(value, format!("{name} 7"));
}

/// Begins a merge of the oldest runs.
fn begin_oldest(trees: &LsmTrees, count: usize) -> MergeInput<'_> {
    let oldest = |runs: &[RunFigures]| Some(runs.len() - count..runs.len());
    trees.begin_merge(|_, runs, _| oldest(runs)).unwrap().unwrap()
}

#[test]
fn small_merge_runs_while_a_large_one_is_under_way() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    write_run(&trees, "first", 9_000);
    write_run(&trees, "second", 9_000);
    let large = begin_oldest(&trees, 2);
    (0..FAN_IN).for_each(|n| write_run(&trees, &format!("small {n}"), 100));
    assert_eq!(trees.pressure().runs, FAN_IN + 2);
    assert!(!trees.compact().unwrap() || trees.pressure().runs == 3, "either thread may take it");
    trees.compact_small().unwrap();
    assert_eq!(trees.pressure().runs, 3, "the small ones are one run");
    assert!(!trees.compact().unwrap(), "what is being merged is no one else's");
    // Flushes go on as well, and do not join a run that is being merged.
    write_run(&trees, "third", 100);
    assert!(trees.merge(&large).unwrap());
    drop(large);
    assert_eq!(trees.pressure().runs, 3);
    apply(&trees, (100..9_000).map(|row| remove(format!("key {row:06}"))));
    check_rows(&trees, "third", 100);
    while trees.compact().unwrap() {}
    check_rows(&trees, "third", 100);
    drop(trees);
    check_rows_on_disk(&scratch);
}

fn check_rows_on_disk(scratch: &Scratch) {
    let trees = open(scratch);
    let value = |row: &[u8]| trees.get(row).unwrap().unwrap();
    assert_eq!(value(b"key 000099"), "third 99");
    assert_eq!(value(b"key 000100"), "second 100");
}

/// A merge that never ends delays no write: it adds debt, for which writers are slowed.
#[test]
fn endless_merge_slows_writers_and_never_stops_them() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    write_run(&trees, "first", 10);
    write_run(&trees, "second", 10);
    let endless = begin_oldest(&trees, 2);
    for n in 0..60 {
        write_run(&trees, &format!("{n}"), 10);
        while trees.compact_small().unwrap() {}
        assert!(!trees.pressure().must_wait(), "{:?}", trees.pressure());
        assert!(trees.pressure().unmerged_runs < 2 + 2 * FAN_IN, "{:?}", trees.pressure());
    }
    check_rows(&trees, "59", 10);
    drop(endless);
    while trees.compact().unwrap() {}
    check_rows(&trees, "59", 10);
}

#[test]
fn merge_of_tables_that_were_dropped_meanwhile_is_discarded() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    write_run(&trees, "first", 100);
    write_run(&trees, "second", 100);
    let input = begin_oldest(&trees, 2);
    trees.drop_prefix(b"key").unwrap();
    assert!(!trees.merge(&input).unwrap());
    drop(input);
    assert_eq!(trees.snapshot().range(Bound::Unbounded, Bound::Unbounded, false).count(), 0);
    let files = std::fs::read_dir(scratch.path().join("store/tables")).unwrap().count();
    assert_eq!(files, 0, "its files are gone, too");
    write_run(&trees, "third", 100);
    check_rows(&trees, "third", 100);
}

#[test]
fn cancelled_merge_changes_nothing() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    (0..FAN_IN).for_each(|n| write_run(&trees, &format!("{n}"), 100));
    let before = trees.list().id;
    trees.cancel_merges();
    assert!(!trees.compact().unwrap() && !trees.compact_small().unwrap());
    assert_eq!((trees.list().id, trees.pressure().runs), (before, FAN_IN));
    check_rows(&trees, "7", 100);
    write_run(&trees, "later", 100);
    drop(trees);
    let trees = open(&scratch);
    assert!(trees.compact().unwrap());
    assert_eq!(trees.pressure().runs, 1);
    check_rows(&trees, "later", 100);
}

#[test]
fn idle_store_is_merged_to_one_run() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    for n in 0..3 {
        write_run(&trees, &format!("{n}"), 3_000 >> n);
    }
    apply(&trees, (750..3_000).map(|row| remove(format!("key {row:06}"))));
    for _ in 0..IDLE_ROUNDS {
        assert!(!trees.compact().unwrap());
    }
    let runs = trees.pressure().runs;
    assert!(runs > 1 && trees.compact().unwrap(), "{runs}");
    assert_eq!(trees.pressure().runs, 1);
    assert!((0..=IDLE_ROUNDS).all(|_| !trees.compact().unwrap()), "once");
    check_rows(&trees, "2", 750);
}

/// Returns the number of table files.
fn files(scratch: &Scratch) -> usize {
    std::fs::read_dir(scratch.path().join("store/tables")).unwrap().count()
}

#[test]
fn running_merge_ends_when_it_is_cancelled_and_leaves_no_file() {
    const ROWS: u32 = 40_000;
    let scratch = Scratch::new();
    let trees = &open(&scratch);
    for n in 0..FAN_IN as u32 {
        let row = |row: u32| put(format!("key {row:06} {n}"), format!("{row}"));
        apply(trees, (0..ROWS).map(row));
        trees.rotate().unwrap();
        trees.flush().unwrap();
    }
    let before = (trees.list().id, files(&scratch));
    std::thread::scope(|scope| {
        let merge = scope.spawn(|| trees.compact().unwrap());
        while files(&scratch) == before.1 && !merge.is_finished() {
            std::thread::yield_now();
        }
        trees.cancel_merges();
        assert!(!merge.join().unwrap(), "it went on to its end");
    });
    assert_eq!((trees.list().id, files(&scratch)), before);
    assert_eq!(trees.pressure().runs, FAN_IN);
    assert!(trees.busy_tables.lock().unwrap().is_empty());
}

#[test]
fn snapshot_and_scan_read_on_while_their_tables_are_merged_away() {
    const ROWS: u32 = 3_000;
    let scratch = Scratch::new();
    let trees = open(&scratch);
    (0..3).for_each(|n| write_run(&trees, &n.to_string(), ROWS));
    trees.resident_tables.shrink_to(0);
    let snapshot = trees.snapshot();
    let mut scan = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
    let value = |row: Result<(bytes::Bytes, bytes::Bytes), StoreError>| row.unwrap().1;
    let first: Vec<_> = scan.by_ref().take(ROWS as usize / 2).map(value).collect();
    for n in 3..6 {
        assert!(trees.merge_everything().unwrap());
        write_run(&trees, &n.to_string(), ROWS);
    }
    assert!(trees.merge_everything().unwrap());
    trees.drop_prefix(b"key 002").unwrap();
    assert!(files(&scratch) >= 4, "the tables of the snapshot are there, and one of the list");
    let found = first.into_iter().chain(scan.map(value));
    assert!(found.eq((0..ROWS).map(|row| format!("2 {row}"))));
    assert_eq!(snapshot.get(b"key 002007").unwrap().unwrap(), "2 2007");
    drop(snapshot);
    while trees.compact().unwrap() {}
    assert_eq!(files(&scratch), trees.list().tables().count(), "they are gone with it");
    check_rows(&trees, "5", 2_000);
}

#[test]
fn tombstone_stays_until_no_older_run_may_hold_its_key() {
    let scratch = Scratch::new();
    let mut trees = open(&scratch);
    write_run(&trees, "oldest", 1_000);
    write_run(&trees, "middle", 10);
    apply(&trees, [remove("key 000007"), remove("key 000500"), put("key 000005", "newest")]);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    assert_eq!(trees.pressure().runs, 3);
    // The two newest: what hides a row of the oldest must stay.
    assert!(trees.merge_range(0..2).unwrap());
    let tombstones = trees.statistics().tombstones;
    assert_eq!(tombstones, 2);
    for _ in 0..2 {
        trees.resident_tables.shrink_to(0);
        for key in ["key 000007", "key 000500"] {
            assert_eq!(trees.get(key.as_bytes()).unwrap(), None);
        }
        assert_eq!(trees.get(b"key 000005").unwrap().unwrap(), "newest");
        let all = trees.snapshot().range(Bound::Unbounded, Bound::Unbounded, false).count();
        assert_eq!(all, 998);
        drop(trees);
        trees = open(&scratch);
    }
    assert!(trees.merge_everything().unwrap());
    assert_eq!((trees.statistics().tombstones, trees.statistics().rows_estimated), (0, 998));
    assert_eq!(trees.get(b"key 000007").unwrap(), None);
}

#[test]
fn merge_without_space_for_its_output_is_not_begun_and_pressure_shows_it() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    (0..FAN_IN).for_each(|n| write_run(&trees, &n.to_string(), 100));
    let bytes: u64 = trees.list().tables().map(|table| table.metadata.file_size).sum();
    trees.limit_merges(bytes - 1);
    assert!(!trees.compact().unwrap() && !trees.compact_small().unwrap());
    assert!(trees.pressure().lacks_merge_space);
    assert_eq!(trees.pressure().runs, FAN_IN);
    trees.limit_merges(bytes);
    assert!(trees.compact().unwrap());
    assert_eq!(trees.pressure().runs, 1);
    assert!(!trees.compact().unwrap());
    assert!(!trees.pressure().lacks_merge_space, "nothing is due any more");
    check_rows(&trees, "7", 100);
    // The output of a merge under way may take the same space.
    write_run(&trees, "large", 100);
    let large = begin_oldest(&trees, 2);
    let taken: u64 = large.runs.iter().map(|run| run.figures(true).bytes).sum();
    (0..FAN_IN).for_each(|n| write_run(&trees, &n.to_string(), 100));
    trees.limit_merges(taken + bytes - 1);
    assert!(!trees.compact_small().unwrap());
    drop(large);
    trees.limit_merges(u64::MAX);
    while trees.compact().unwrap() {}
    check_rows(&trees, "7", 100);
}
