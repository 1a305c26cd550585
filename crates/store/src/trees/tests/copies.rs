//! Checkpoints, a store that an earlier version wrote, and one that an earlier version opens.

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use lsm_tree::compaction::Leveled;
use lsm_tree::config::{CompressionPolicy, PinningPolicy};
use lsm_tree::{
    AbstractTree, AnyTree, CompressionType, Config, Guard, SeqNo, SequenceNumberCounter,
};

use super::super::packed::unpack;
use super::super::{LsmTrees, TreeRow, Trees};
use super::threads::StopOnDrop;
use super::{Scratch, apply, open, open_at, put, remove};
use crate::{StoreError, check_trees};

fn read_all(trees: &LsmTrees) -> Vec<TreeRow> {
    let rows = trees.snapshot();
    rows.range(Bound::Unbounded, Bound::Unbounded, false).map(Result::unwrap).collect()
}

#[test]
fn checkpoint_is_consistent_and_independent_of_the_original() {
    let scratch = Scratch::new();
    let trees = &open(&scratch);
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Every batch writes the same number under all keys.
            for n in 0.. {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                apply(trees, (0..50).map(|at| put(format!("key {at}"), format!("{n:08}"))));
                trees.rotate().unwrap();
                trees.flush().unwrap();
                trees.compact().unwrap();
            }
        });
        let _stop = StopOnDrop(stop);
        for n in 0..10 {
            let target = scratch.path().join(format!("checkpoints/{n}"));
            while trees.statistics().tables == 0 {
                std::thread::yield_now();
            }
            trees.checkpoint(&target).unwrap();
            assert_eq!(check_trees(&target, &mut |_, _| {}).unwrap().damage, []);
            let copy = open_at(&target).unwrap();
            let rows = read_all(&copy);
            assert_eq!(rows.len(), 50);
            assert!(rows.iter().all(|row| row.1 == rows[0].1), "one batch, whole");
            apply(&copy, [put("key 1", "of the copy")]);
            copy.rotate().unwrap();
            copy.flush().unwrap();
        }
    });
    assert!(trees.get(b"key 1").unwrap().unwrap() != "of the copy");
}

#[test]
fn checkpoint_into_an_existing_directory_is_rejected() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let target = scratch.path().join("taken");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("file"), "mine").unwrap();
    assert!(matches!(trees.checkpoint(&target), Err(StoreError::Io { .. })));
    assert_eq!(std::fs::read_dir(&target).unwrap().count(), 1);
}

#[test]
fn incomplete_checkpoint_is_rejected_on_open() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    apply(&trees, [put("a", "1")]);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    let target = scratch.path().join("half");
    trees.checkpoint(&target).unwrap();
    std::fs::remove_file(target.join("current")).unwrap(); // it is written last
    assert!(matches!(open_at(&target), Err(StoreError::Corrupt { .. })));
}

/// The first version wrote the store under `golden/store-v1`. A new one is written only when the
/// format changes, under another name: `UPDATE_GOLDENFILES=1 cargo test -p store golden`.
#[test]
fn golden_store_of_version_1_is_read() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden/store-v1");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        write_golden(&golden);
    }
    let scratch = Scratch::new();
    let copy = scratch.path().join("store");
    for name in ["", "tables"] {
        std::fs::create_dir_all(copy.join(name)).unwrap();
        for file in std::fs::read_dir(golden.join(name)).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                std::fs::copy(&path, copy.join(name).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
    let report = check_trees(&copy, &mut |_, _| {}).unwrap();
    assert_eq!(report.damage, []);
    assert_eq!((report.tables, report.rows, report.tombstones), (2, 301, 1));
    let trees = open_at(&copy).unwrap();
    let expected: Vec<TreeRow> = golden_rows().collect();
    assert_eq!(read_all(&trees), expected);
    assert_eq!(trees.statistics().sequence, 2);
    assert_eq!(apply(&trees, [put("next", "")]), 3);
    // Its runs, which were levels, are merged with new ones.
    trees.rotate().unwrap();
    trees.flush().unwrap();
    assert!(trees.merge_everything().unwrap());
    drop(trees);
    let trees = open_at(&copy).unwrap();
    assert_eq!(trees.pressure().runs, 1);
    let next = [("next".into(), "".into())];
    assert_eq!(read_all(&trees), expected.into_iter().chain(next).collect::<Vec<_>>());
}

/// Opens a store as versions before merges by tiers did: the LSM library reads the list of tables.
fn open_by_library(path: &Path) -> lsm_tree::Tree {
    let counter = SequenceNumberCounter::default;
    let config = Config::new(path, counter(), counter())
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_block_pinning_policy(PinningPolicy::all(true));
    match config.open().unwrap() {
        AnyTree::Standard(tree) => tree,
        AnyTree::Blob(_) => panic!("these trees have no files of values"),
    }
}

fn read_by_library(tree: &lsm_tree::Tree) -> Vec<TreeRow> {
    let rows = tree.iter(SeqNo::MAX, None).map(|row| row.into_inner().unwrap());
    rows.map(|(key, value)| (key.into(), unpack(value.into()).unwrap())).collect()
}

/// Upgrade and the way back: each program opens what the other one left, with the same rows.
#[test]
fn earlier_version_opens_the_store_and_its_merges_by_levels_are_opened_again() {
    let scratch = Scratch::new();
    let path = scratch.path().join("store");
    let mut trees = open(&scratch);
    for round in 0..3 {
        // Rows of many tables, a large value, superseded rows and tombstones, in several runs.
        for part in 0..9u32 {
            let value =
                |n: u32| format!("{round} {part} {n} ").repeat(if n == 7 { 2_000 } else { 60 });
            apply(&trees, (part * 60..3_000).map(|n| put(format!("key {n:04}"), value(n))));
            apply(&trees, (0..200).map(|n| remove(format!("key {:04}", n * 13 % 3_000))));
            trees.rotate().unwrap();
            trees.flush().unwrap();
            if part == 2 {
                trees.merge_everything().unwrap();
            }
        }
        let expected = read_all(&trees);
        assert!(expected.len() > 2_500 && trees.pressure().runs > 4);
        drop(trees);
        let earlier = open_by_library(&path);
        assert!(read_by_library(&earlier) == expected, "round {round}: it reads other rows");
        match round {
            0 => {}
            1 => earlier.compact(Arc::new(Leveled::default()), SeqNo::MAX).unwrap(),
            _ => earlier.major_compact(64 << 20, SeqNo::MAX).unwrap(),
        }
        drop(earlier);
        assert_eq!(check_trees(&path, &mut |_, _| {}).unwrap().damage, []);
        trees = open(&scratch);
        assert!(read_all(&trees) == expected, "round {round}: after merges by levels");
        while trees.compact().unwrap() {}
        assert!(read_all(&trees) == expected, "round {round}: after merges by tiers");
    }
}

fn golden_rows() -> impl Iterator<Item = TreeRow> {
    let value = |n: u32| if n == 7 { "newer".to_string() } else { format!("value {n} ").repeat(5) };
    let rows = (0..300u32).filter(|n| *n != 50);
    rows.map(move |n| (format!("key {n:03}").into(), value(n).into()))
}

fn write_golden(golden: &Path) {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let first = (0..300).map(|n| put(format!("key {n:03}"), format!("value {n} ").repeat(5)));
    apply(&trees, first);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    while trees.compact().unwrap() {}
    apply(&trees, [put("key 007", "newer"), remove("key 050")]);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    let _ = std::fs::remove_dir_all(golden);
    let fresh = scratch.path().join("golden");
    trees.checkpoint(&fresh).unwrap();
    std::fs::create_dir_all(golden.join("tables")).unwrap();
    for name in ["", "tables"] {
        for file in std::fs::read_dir(fresh.join(name)).unwrap() {
            let path = file.unwrap().path();
            if path.is_file() {
                std::fs::copy(&path, golden.join(name).join(path.file_name().unwrap())).unwrap();
            }
        }
    }
}
