//! Filters of tables: a point read asks the filter of each run before it reads a block, also right
//! after a load, while many runs wait for their merge.
//!
//! The block cache holds every block that was read, so its growth counts them. Keys and filters are
//! fixed, so each test has one result.

use base::mutants::MutantList as _;
use bytes::Bytes;

use super::super::merge_policy::FAN_IN;
use super::super::{LsmTrees, Trees};
use super::growth::to_disk;
use super::point_reads::read_each;
use super::{Scratch, apply, open_large, put};
use crate::mutants::StoreMutant;

/// Number of runs that a load leaves behind: more than are merged at a time.
const RUNS: u64 = 2 * FAN_IN as u64;
const ROWS_PER_RUN: u64 = 500;
/// Three rows fill a block.
const VALUE: [u8; 1_500] = [7; 1_500];
/// Minimum size of a block of rows.
const BLOCK_BYTES: u64 = 4_096;
const ABSENT_KEYS: u64 = 1_000;
const PRESENT_KEYS: u64 = 100;

type PointRead = fn(&LsmTrees, &[u8]) -> Option<Bytes>;

/// Every kind of point read.
const READS: [(&str, PointRead); 4] = [
    ("get", |trees, key| trees.get(key).unwrap()),
    ("get_each", |trees, key| read_each(trees, &[key]).remove(0)),
    ("get_for_update", |trees, key| trees.get_for_update(key).unwrap()),
    ("snapshot", |trees, key| trees.snapshot().get(key).unwrap()),
];

fn key(number: u64) -> String {
    format!("key {number:06}")
}

/// Writes runs whose keys lie between each other's, so that a key may be in any of them, and merges
/// none.
fn load(scratch: &Scratch) -> LsmTrees {
    let trees = open_large(scratch);
    for run in 0..RUNS {
        let numbers = (0..ROWS_PER_RUN).map(|row| row * RUNS + run);
        apply(&trees, numbers.map(|number| put(key(number), VALUE)));
        to_disk(&trees);
    }
    // Flushed tables that are still in memory would answer for the newest rows.
    trees.resident_tables.shrink_to(0);
    assert_eq!(trees.pressure().unmerged_runs as u64, RUNS);
    trees
}

/// Returns the number of blocks that some reads brought into the block cache.
fn blocks_read(trees: &LsmTrees, reads: impl FnOnce()) -> u64 {
    let before = trees.statistics().block_cache_bytes;
    reads();
    (trees.statistics().block_cache_bytes - before).div_ceil(BLOCK_BYTES)
}

/// Reads keys that no run has, each between two keys of every run. `suffix`: keys of their own for
/// each call, for what was read once is cached.
fn read_absent(trees: &LsmTrees, suffix: &str, read: PointRead) {
    for number in 0..ABSENT_KEYS {
        let key = format!("{} {suffix}", key(number * (RUNS * ROWS_PER_RUN) / ABSENT_KEYS));
        assert_eq!(read(trees, key.as_bytes()), None, "{key}");
    }
}

/// Returns true if filters were asked: of all pairs of an absent key and a run, fewer than one in
/// 25 were read. A filter errs for one key in a hundred.
fn is_filtered(reads: u64, runs: u64) -> bool {
    reads < ABSENT_KEYS * runs / 25
}

#[test]
fn absent_key_is_answered_by_filters_before_any_block_is_read() {
    let scratch = Scratch::new();
    let trees = load(&scratch);
    for runs in [RUNS, 1] {
        for (name, read) in READS {
            let blocks =
                blocks_read(&trees, || read_absent(&trees, &format!("{name} {runs}"), read));
            assert!(is_filtered(blocks, runs), "{name}, {runs} runs: {blocks} blocks were read");
        }
        if runs > 1 {
            assert!(trees.merge_everything().unwrap());
        }
    }
}

/// The positive control: reads that ask no filter read a block of each run.
#[test]
fn block_count_detects_reads_that_ask_no_filter() {
    let scratch = Scratch::new();
    drop(load(&scratch));
    for (name, read) in READS {
        // Opened anew, it has no block in its cache.
        let trees = open_large(&scratch);
        let reads = || blocks_read(&trees, || read_absent(&trees, name, read));
        let blocks = StoreMutant::IgnoreFilters.while_active(reads);
        assert!(!is_filtered(blocks, RUNS), "{name}: {blocks} blocks were read");
    }
}

#[test]
fn present_key_is_read_from_its_own_run_alone() {
    let scratch = Scratch::new();
    drop(load(&scratch));
    for (name, read) in READS {
        let trees = open_large(&scratch);
        // The oldest run, behind all others, and each key in another block.
        let numbers = (0..PRESENT_KEYS).map(|row| row * (ROWS_PER_RUN / PRESENT_KEYS) * RUNS);
        let blocks = blocks_read(&trees, || {
            numbers.for_each(|number| {
                let found = read(&trees, key(number).as_bytes());
                assert_eq!(found.as_deref(), Some(&VALUE[..]), "{name}, {number}");
            });
        });
        // It counts them: one of each key, each a little above the minimum size.
        assert!(blocks >= PRESENT_KEYS, "{name}: {blocks} blocks were read");
        assert!(blocks <= 2 * PRESENT_KEYS, "{name}: {blocks} blocks were read");
    }
}

/// A key that the filters exclude takes no place in the row cache, either.
#[test]
fn absent_keys_do_not_fill_the_row_cache() {
    let scratch = Scratch::new();
    drop(load(&scratch));
    let cached_by = |suffix: &str| {
        let trees = open_large(&scratch);
        read_absent(&trees, suffix, |trees, key| trees.get(key).unwrap());
        trees.statistics().cached_rows
    };
    let cached = cached_by("get");
    assert!(is_filtered(cached, RUNS), "{cached} keys are cached");
    let cached = StoreMutant::IgnoreFilters.while_active(|| cached_by("get without filters"));
    assert_eq!(cached, ABSENT_KEYS, "the control");
}
