//! Reads of several keys in one call: equal to single reads, in order of time, and independent of
//! each other's errors.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::{LsmTrees, MemoryTrees, Trees};
use super::damage::files;
use super::growth::to_disk;
use super::threads::StopOnDrop;
use super::{Scratch, apply, open, open_at, open_narrow, put, remove};
use crate::StoreError;

/// Reads keys in one call.
pub(super) fn read_each(trees: &dyn Trees, keys: &[impl AsRef<[u8]>]) -> Vec<Option<Bytes>> {
    let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
    let mut values = Vec::new();
    trees.get_each(&keys, &mut |value| {
        values.push(value.unwrap().cloned());
        true
    });
    values
}

fn key(n: usize) -> String {
    format!("key {n:04}")
}

/// Rows in the active table, in a sealed one, in flushed ones and on disk; some replaced, some
/// removed.
fn fill(trees: &LsmTrees) {
    apply(trees, (0..200).map(|n| put(key(n), format!("first {n}"))));
    to_disk(trees);
    apply(trees, (0..200).step_by(3).map(|n| put(key(n), format!("second {n}"))));
    trees.rotate().unwrap();
    trees.flush().unwrap();
    apply(trees, (0..200).step_by(5).map(|n| remove(key(n))));
    trees.rotate().unwrap();
    apply(trees, (0..200).step_by(7).map(|n| put(key(n), format!("third {n}"))));
}

#[test]
fn get_each_equals_single_gets_wherever_the_rows_are() {
    for open in [open, open_narrow] {
        let scratch = Scratch::new();
        let trees = open(&scratch);
        fill(&trees);
        for (count, step) in [(0, 1), (1, 1), (15, 7), (16, 3), (17, 11), (64, 13), (300, 1)] {
            // Keys repeat, and some were never written.
            let keys: Vec<_> = (0..count).map(|n| key(n * step % 260)).collect();
            let single: Vec<_> =
                keys.iter().map(|key| trees.get(key.as_bytes()).unwrap()).collect();
            assert_eq!(read_each(&trees, &keys), single, "{count} keys");
        }
    }
}

#[test]
fn get_in_memory_finds_rows_unless_they_are_on_disk_alone() {
    for open in [open, open_narrow] {
        let scratch = Scratch::new();
        let trees = open(&scratch);
        fill(&trees);
        let mut unknown = 0;
        for n in 0..260 {
            let value = trees.get_in_memory(key(n).as_bytes());
            unknown += usize::from(value.is_none());
            assert!(value.is_none_or(|value| value == trees.get(key(n).as_bytes()).unwrap()));
        }
        assert!(unknown > 0, "what was never written is in no table");
        // The last batch is in the active table.
        for n in (0..200).step_by(7) {
            let third = Bytes::from(format!("third {n}"));
            assert_eq!(trees.get_in_memory(key(n).as_bytes()), Some(Some(third)));
        }
    }
    let trees = MemoryTrees::new(1 << 20);
    apply(&trees, [put("k", "v")]);
    assert_eq!(trees.get_in_memory(b"k"), Some(Some(Bytes::from_static(b"v"))));
}

#[test]
fn visitor_ends_get_each_after_any_key() {
    let scratch = Scratch::new();
    let (on_disk, in_memory) = (open_narrow(&scratch), MemoryTrees::new(1 << 20));
    fill(&on_disk);
    let trees: [&dyn Trees; 2] = [&on_disk, &in_memory];
    let keys: Vec<_> = (0..40).map(|n| key(n * 5)).collect();
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    for trees in trees {
        for last in 0..keys.len() {
            let mut visited = 0;
            trees.get_each(&keys, &mut |value| {
                value.unwrap();
                visited += 1;
                visited <= last
            });
            assert_eq!(visited, last + 1);
        }
    }
}

#[test]
fn unreadable_row_fails_alone_in_get_each() {
    const ROWS: usize = 8;
    let scratch = Scratch::new();
    let trees = open_narrow(&scratch);
    // Values that fill a block each.
    let values: Vec<Bytes> = (0..ROWS)
        .map(|n| StdRng::seed_from_u64(n as u64).random_iter().take(9_000).collect())
        .collect();
    apply(&trees, values.iter().enumerate().map(|(n, value)| put(key(n), value)));
    to_disk(&trees);
    drop(trees);
    let table = files(&scratch.path().join("store"))
        .into_iter()
        .max_by_key(|file| std::fs::metadata(file).unwrap().len())
        .unwrap();
    let sound = std::fs::read(&table).unwrap();
    let keys: Vec<_> = (0..ROWS).map(key).collect();
    let keys: Vec<&[u8]> = keys.iter().map(String::as_bytes).collect();
    let mut failed_alone = 0;
    for at in (0..sound.len()).step_by(4_999) {
        let mut flipped = sound.clone();
        flipped[at] ^= 1;
        std::fs::write(&table, flipped).unwrap();
        let trees = match open_at(&scratch.path().join("store")) {
            Ok(trees) => trees,
            Err(StoreError::Corrupt { .. }) => continue,
            Err(other) => panic!("byte {at}: {other}"),
        };
        let mut found = Vec::new();
        trees.get_each(&keys, &mut |value| {
            found.push(value.map(|value| value.cloned()).ok());
            true
        });
        assert_eq!(found.len(), ROWS, "each key is answered");
        failed_alone += usize::from(found.iter().filter(|value| value.is_none()).count() == 1);
        for (found, value) in found.iter().zip(&values) {
            assert!(found.as_ref().is_none_or(|found| found.as_ref() == Some(value)), "byte {at}");
        }
    }
    assert!(failed_alone > 1, "most of the file is blocks with one row");
}

/// Each batch raises the numbers of all keys. A call must not find a lower number behind a higher
/// one, nor one below what was written before the call.
#[test]
fn get_each_never_goes_back_in_time() {
    const KEYS: usize = 40;
    for open in [open, open_narrow] {
        let scratch = Scratch::new();
        let trees = &open(&scratch);
        let (written, done) = (&AtomicU64::new(0), &AtomicBool::new(false));
        let read = move |salt: usize| {
            let mut step = salt;
            while !done.load(Ordering::Acquire) {
                step += 1;
                let keys: Vec<_> = (0..KEYS).map(|n| key((n * 7 + step) % KEYS)).collect();
                let before = written.load(Ordering::Acquire);
                let numbers = read_each(trees, &keys).into_iter().map(|value| {
                    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
                });
                numbers.fold(before, |last, number| {
                    assert!(number >= last, "{number} behind {last}");
                    number
                });
            }
        };
        thread::scope(|scope| {
            (0..2).for_each(|salt| drop(scope.spawn(move || read(salt))));
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    trees.rotate().unwrap();
                    trees.flush().unwrap();
                    trees.compact().unwrap();
                }
            });
            let _stop = StopOnDrop(done);
            for n in 1..=6_000_u64 {
                let value = [&n.to_le_bytes()[..], &[b'f'; 100]].concat();
                apply(trees, (0..KEYS).map(|at| put(key(at), &value)));
                written.store(n, Ordering::Release);
            }
        });
    }
}
