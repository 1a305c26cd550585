//! Concurrent readers, writer, flush and compaction: a reader never sees half a batch, nor an older
//! batch after a newer one.

use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;

use super::super::{LsmTrees, MemoryTrees, RowChange, Trees};
use super::{Scratch, apply, open, open_narrow, put, remove};

const KEYS: u64 = 40;
const BATCHES: u64 = 4_000;

fn key(n: u64) -> [u8; 4] {
    (n as u32 * 7_919).to_be_bytes()
}

fn number(value: Option<Bytes>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
}

/// Stops the threads of a scope when dropped, also if the scope's own work panics: a scope waits
/// for all of them.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Batch `n` writes `n` under every key, or removes every key when `n` is a multiple of ten.
fn write_all(trees: &dyn Trees, written: &AtomicU64) {
    for n in 1..=BATCHES {
        let filler = vec![b'f'; 200];
        let value = [&n.to_le_bytes()[..], &filler].concat();
        let change = |at| if n % 10 == 0 { remove(key(at)) } else { put(key(at), &value) };
        apply(trees, (0..KEYS).map(change));
        written.store(n, Ordering::Release);
        if n % 50 == 0 {
            trees.rotate().unwrap();
        }
    }
}

/// Checks that later reads never return older batches, and that earlier writes are visible.
fn read_points(trees: &dyn Trees, written: &AtomicU64, done: &AtomicBool, salt: u64) {
    let mut last = 0;
    let mut step = salt;
    while !done.load(Ordering::Acquire) {
        step += 1;
        let before = written.load(Ordering::Acquire);
        let found = number(trees.get(&key(step * 13 % KEYS)).unwrap());
        let after = written.load(Ordering::Acquire) + 1;
        if found == 0 {
            assert!((before..=after).any(|n| n % 10 == 0), "absent between {before} and {after}");
            continue;
        }
        assert!(found >= before, "read {found} after {before} was written");
        assert!(found >= last, "read {found} after {last} was read");
        last = found;
    }
}

/// Checks that a snapshot has one batch's value under every key, also after later writes.
fn read_snapshots(trees: &dyn Trees, written: &AtomicU64, done: &AtomicBool) {
    let mut reverse = false;
    while !done.load(Ordering::Acquire) {
        reverse = !reverse;
        let before = written.load(Ordering::Acquire);
        let snapshot = trees.snapshot();
        let after = written.load(Ordering::Acquire) + 1;
        let first = number(snapshot.get(&key(3)).unwrap());
        for _ in 0..3 {
            let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, reverse);
            let numbers: Vec<u64> = rows.map(|row| number(Some(row.unwrap().1))).collect();
            assert!(numbers.iter().all(|n| *n == first), "{first} and {numbers:?}");
            assert_eq!(numbers.len() as u64, if first == 0 { 0 } else { KEYS });
            thread::yield_now();
        }
        assert!(
            first == 0 || (before..=after).contains(&first),
            "{first} not in {before}..{after}"
        );
    }
}

fn all_at_once(trees: &dyn Trees) {
    let (written, done) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| read_points(trees, &written, &done, 0));
        scope.spawn(|| read_points(trees, &written, &done, 5));
        scope.spawn(|| read_snapshots(trees, &written, &done));
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                trees.flush().unwrap();
                trees.compact().unwrap();
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                trees.compact_small().unwrap();
                thread::yield_now();
            }
        });
        let _stop = StopOnDrop(&done);
        write_all(trees, &written);
    });
}

#[test]
fn batch_is_visible_atomically_in_lsm_trees() {
    let scratch = Scratch::new();
    all_at_once(&open(&scratch));
}

#[test]
fn batch_is_visible_atomically_in_lsm_trees_with_little_memory() {
    let scratch = Scratch::new();
    all_at_once(&open_narrow(&scratch));
}

#[test]
fn batch_is_visible_atomically_in_memory_trees() {
    all_at_once(&MemoryTrees::new(1 << 20));
}

/// Few keys, of which each batch changes one, and readers with point reads: the next read would
/// return a stale row in the cache. Every third value is too large for the cache, so that many rows
/// are added to it.
#[test]
fn row_cache_never_serves_a_stale_row() {
    const FEW: u64 = 4;
    let scratch = Scratch::new();
    let trees = &open_narrow(&scratch);
    let written = &[const { AtomicU64::new(0) }; FEW as usize];
    let done = &AtomicBool::new(false);
    let large = Bytes::from(vec![0; 100_000]);
    let read = move |salt: u64| {
        let mut step = salt;
        while !done.load(Ordering::Acquire) {
            step += 1;
            let index = step % FEW;
            let before = written[index as usize].load(Ordering::Acquire);
            let found = number(trees.get(&key(index)).unwrap());
            let after = written[index as usize].load(Ordering::Acquire) + FEW;
            if found == 0 {
                let large = |n: u64| n == 0 || (n.is_multiple_of(3) && n % FEW == index);
                assert!((before..=after).any(large), "large between {before} and {after}");
            } else {
                assert!(found >= before, "read {found} after {before} was written");
            }
        }
    };
    thread::scope(|scope| {
        (0..3).for_each(|salt| drop(scope.spawn(move || read(salt))));
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                trees.rotate().unwrap();
                trees.flush().unwrap();
                trees.compact().unwrap();
            }
        });
        let _stop = StopOnDrop(done);
        for n in 1..=200_000u64 {
            let value = if n % 3 == 0 { large.clone() } else { n.to_le_bytes().to_vec().into() };
            apply(trees, [RowChange::Put(key(n % FEW).to_vec().into(), value)]);
            written[(n % FEW) as usize].store(n, Ordering::Release);
        }
    });
}

/// The threads of a node: two mergers beside flushes, drops and reads.
#[test]
fn merges_flushes_and_drops_at_once_lose_and_resurrect_nothing() {
    const ROUNDS: u64 = 150;
    let scratch = Scratch::new();
    let trees = &open(&scratch);
    let done = &AtomicBool::new(false);
    let read = |at: u64| number(trees.get(&key(at)).unwrap());
    thread::scope(|scope| {
        for only_small in [false, true] {
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    let merged = if only_small { trees.compact_small() } else { trees.compact() };
                    merged.unwrap();
                }
            });
        }
        scope.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Acquire) {
                let found = read(0);
                assert!(found >= last, "{found} after {last}");
                last = found;
            }
        });
        let _stop = StopOnDrop(done);
        for round in 1..=ROUNDS {
            apply(trees, (0..60).map(|at| put(key(at), round.to_le_bytes())));
            apply(trees, (0..40).map(|at| put(format!("gone {at}"), round.to_le_bytes())));
            apply(trees, (40..60).map(|at| remove(key(at))));
            trees.rotate().unwrap();
            trees.flush().unwrap();
            if round % 10 == 0 {
                trees.drop_prefix(b"gone").unwrap();
                assert_eq!(trees.get(b"gone 7").unwrap(), None);
            }
            assert_eq!((read(7), read(50)), (round, 0));
        }
    });
    let check = |trees: &LsmTrees| {
        let snapshot = trees.snapshot();
        let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
        let numbers: Vec<u64> = rows.map(|row| number(Some(row.unwrap().1))).collect();
        assert_eq!(numbers, [ROUNDS; 40]);
    };
    check(trees);
    while trees.compact().unwrap() {}
    check(trees);
    let files = std::fs::read_dir(scratch.path().join("store/tables")).unwrap().count();
    assert_eq!(files as u64, trees.statistics().tables, "no other file is left");
}
