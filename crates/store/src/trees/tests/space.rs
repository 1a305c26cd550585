//! Space: it is freed without a request, and a reader keeps only what it sees.

use bytes::Bytes;
use lsm_tree::AbstractTree;
use std::ops::Bound;
use std::sync::Arc;

use super::super::{LsmTrees, Snapshot, Trees};
use super::{Scratch, apply, open, put, remove};

const ROWS: u64 = 12_000;

/// Incompressible, and different for every key.
fn value(n: u64) -> Vec<u8> {
    let mut state = n + 1;
    let mut word = || {
        state = (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (state >> 27);
        state.to_le_bytes()
    };
    (0..30).flat_map(|_| word()).collect()
}

fn key(bucket: &str, n: u64) -> String {
    format!("{bucket}:{n:08}")
}

fn fill(trees: &LsmTrees, bucket: &str) {
    for from in (0..ROWS).step_by(500) {
        apply(trees, (from..from + 500).map(|n| put(key(bucket, n), value(n))));
        if trees.pressure().rotate_is_due() {
            to_disk(trees);
        }
    }
    to_disk(trees);
}

fn to_disk(trees: &LsmTrees) {
    trees.rotate().unwrap();
    trees.flush().unwrap();
    while trees.compact().unwrap() {}
}

/// Bytes of the files that exist, whoever holds them.
fn bytes_on_disk(scratch: &Scratch) -> u64 {
    let tables = std::fs::read_dir(scratch.path().join("store/tables")).unwrap();
    tables.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn count(snapshot: &dyn Snapshot) -> u64 {
    let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
    rows.inspect(|row| assert!(row.is_ok(), "{row:?}")).count() as u64
}

#[test]
fn deletes_give_their_space_back_by_themselves() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    fill(&trees, "a");
    let full = bytes_on_disk(&scratch);
    for from in (0..ROWS).step_by(500) {
        apply(&trees, (from..from + 500).filter(|n| n % 100 > 0).map(|n| remove(key("a", n))));
    }
    to_disk(&trees);
    let left = bytes_on_disk(&scratch);
    assert!(left < full / 20, "{left} of {full} bytes are left");
    assert_eq!(trees.statistics().tombstones, 0);
    assert_eq!(trees.statistics().disk_bytes, left);
    assert_eq!(count(&*trees.snapshot()), ROWS / 100);
}

#[test]
fn what_never_was_on_disk_leaves_no_tombstone_there() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let flush = |trees: &LsmTrees| {
        trees.rotate().unwrap();
        trees.flush().unwrap();
    };
    apply(&trees, (0..2_000).map(|n| put(key("a", n), value(n))));
    apply(&trees, (0..2_000).filter(|n| n % 100 > 0).map(|n| remove(key("a", n))));
    flush(&trees);
    // One filter in a hundred is wrong, and here there is none yet.
    assert_eq!(trees.statistics().tombstones, 0);
    assert_eq!(trees.statistics().rows_estimated, 20);
    // Rows on disk have to be hidden, also after the next start.
    apply(&trees, (0..2_000).map(|n| remove(key("a", n))));
    flush(&trees);
    let tombstones = trees.statistics().tombstones;
    assert!((20..200).contains(&tombstones), "{tombstones} tombstones for 20 rows");
    assert_eq!(count(&*trees.snapshot()), 0);
    drop(trees);
    let trees = open(&scratch);
    assert_eq!(count(&*trees.snapshot()), 0);
    assert_eq!(trees.get(key("a", 100).as_bytes()).unwrap(), None);
}

#[test]
fn overwritten_rows_give_their_space_back_by_themselves() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    fill(&trees, "a");
    let once = bytes_on_disk(&scratch);
    (0..6).for_each(|_| fill(&trees, "a"));
    let now = bytes_on_disk(&scratch);
    assert!(now < once * 3, "{now} bytes for what took {once}");
}

#[test]
fn a_dropped_prefix_gives_its_space_back_and_nothing_else_is_missing() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    for bucket in ["a", "b", "c"] {
        fill(&trees, bucket);
    }
    let full = bytes_on_disk(&scratch);
    // Rows in memory go too, and so does what the row cache holds.
    apply(&trees, [put("b:in memory", "x"), put("c:in memory", "x")]);
    for n in 0..50 {
        assert!(trees.get(key("b", n).as_bytes()).unwrap().is_some());
    }
    let before = trees.snapshot();
    trees.drop_prefix(b"b:").unwrap();
    let single = trees.statistics().tombstones;
    assert!(single < ROWS / 4, "{single} rows were removed one by one");
    assert_eq!(trees.get(b"b:in memory").unwrap(), None);
    for n in 0..50 {
        assert_eq!(trees.get(key("b", n).as_bytes()).unwrap(), None);
    }
    assert_eq!(count(&*trees.snapshot()), 2 * ROWS + 1);
    assert_eq!(count(&*before), 3 * ROWS + 2, "an older reader still has all");
    drop(before);
    trees.drop_prefix(b"b:").unwrap();
    while trees.compact().unwrap() {}
    let left = bytes_on_disk(&scratch);
    assert!(left < full * 7 / 10, "{left} of {full} bytes are left");
    drop(trees);
    let trees = open(&scratch);
    assert_eq!(count(&*trees.snapshot()), 2 * ROWS + 1, "it is durable");
    assert_eq!(trees.get(key("c", 7).as_bytes()).unwrap().unwrap(), value(7));
}

#[test]
fn dropping_all_there_is_leaves_no_file() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    fill(&trees, "a");
    trees.drop_prefix(b"a").unwrap();
    assert_eq!(bytes_on_disk(&scratch), 0);
    assert_eq!(trees.statistics().rows_estimated, 0);
}

/// A dropped table file may hold the tombstone of a row in a file that stays: the row must not come
/// to light again.
#[test]
fn a_dropped_prefix_does_not_bring_deleted_rows_back() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    // The file below spans the prefix and more; the file above lies wholly under it.
    apply(&trees, [put("a", "stays"), put("b:1", "old"), put("b:2", "old"), put("c", "stays")]);
    to_disk(&trees);
    apply(&trees, [remove("b:1"), put("b:2", "new")]);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    trees.drop_prefix(b"b:").unwrap();
    assert_eq!(trees.get(b"b:1").unwrap(), None);
    assert_eq!(trees.get(b"b:2").unwrap(), None);
    assert_eq!(count(&*trees.snapshot()), 2);
}

#[test]
fn a_long_read_keeps_nothing_that_was_written_later() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    apply(&trees, [put("a", "1")]);
    let long_read = trees.snapshot();
    let mut later = Vec::new();
    for n in 0..8u64 {
        trees.rotate().unwrap();
        trees.flush().unwrap();
        while trees.compact().unwrap() {}
        apply(&trees, [put("a", n.to_le_bytes())]);
        later.push(Arc::downgrade(&trees.view().active));
    }
    to_disk(&trees);
    trees.kept.shrink_to(0);
    assert!(later.iter().all(|table| table.upgrade().is_none()), "flushed tables are freed");
    assert_eq!(long_read.get(b"a").unwrap().unwrap(), "1");
    drop(long_read);
    trees.compact().unwrap();
    let files = std::fs::read_dir(scratch.path().join("store/tables")).unwrap().count();
    assert_eq!(files, 1);
    assert_eq!(trees.get(b"a").unwrap().unwrap(), 7u64.to_le_bytes().as_slice());
}

#[test]
fn what_was_flushed_is_read_from_memory_while_there_is_room() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let flush = |n: u64| {
        let rows = (0..2_000).map(|row: u64| put(row.to_be_bytes(), (n + row).to_le_bytes()));
        apply(&trees, rows);
        trees.rotate().unwrap();
        trees.flush().unwrap();
    };
    let misses = || trees.statistics().cache_misses;
    let room = trees.settings.row_cache_bytes_max();
    for n in 0..12 {
        flush(n);
        assert_eq!(trees.get(&7u64.to_be_bytes()).unwrap().unwrap(), (n + 7).to_le_bytes()[..]);
        assert!((1..=room).contains(&trees.kept.bytes()));
    }
    assert_eq!(misses(), 0);
    let many = trees.kept.bytes();
    flush(12);
    assert_eq!(trees.kept.bytes(), many, "as many as it may");
    trees.kept.shrink_to(many - 1);
    assert!(trees.kept.bytes() < many);
    assert_eq!(trees.get(&7u64.to_be_bytes()).unwrap().unwrap(), 19u64.to_le_bytes()[..]);
    assert_eq!(misses(), 0);
    trees.kept.shrink_to(0);
    assert_eq!(trees.get(&7u64.to_be_bytes()).unwrap().unwrap(), 19u64.to_le_bytes()[..]);
    assert_eq!(misses(), 1);
    flush(13);
    let same = (0..100u64).map(|n| put(7u64.to_be_bytes(), n.to_le_bytes()));
    apply(&trees, same);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    assert_eq!(trees.kept.bytes(), 0, "a hundred rows of one key are not worth it");
    assert_eq!(trees.get(&7u64.to_be_bytes()).unwrap().unwrap(), 99u64.to_le_bytes()[..]);
}

/// A flush offers its rows to a cache that has few rows in another way than to one with many.
#[test]
fn a_flush_replaces_what_is_cached() {
    for rows in [10u64, 2_000] {
        let scratch = Scratch::new();
        let trees = open(&scratch);
        for n in 0..3u64 {
            apply(&trees, (0..rows).map(|row| put(row.to_be_bytes(), (n + row).to_le_bytes())));
            to_disk(&trees);
            trees.kept.shrink_to(0);
            for row in 0..rows {
                let value = trees.get(&row.to_be_bytes()).unwrap().unwrap();
                assert_eq!(value, (n + row).to_le_bytes()[..]);
            }
        }
        let statistics = trees.statistics();
        assert_eq!(statistics.cached_rows, rows);
        assert_eq!(statistics.cache_misses, rows, "only the first time");
    }
}

#[test]
fn many_flushes_without_a_merge_stay_countable() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    for n in 0..300u64 {
        apply(&trees, [put("a", n.to_le_bytes()), put("z", n.to_le_bytes())]);
        trees.rotate().unwrap();
        trees.flush().unwrap();
        assert!(trees.pressure().level0_runs < 200);
    }
    assert_eq!(trees.get(b"a").unwrap().unwrap(), 299u64.to_le_bytes().as_slice());
    drop(trees);
    let trees = open(&scratch);
    assert_eq!(trees.get(b"a").unwrap().unwrap(), 299u64.to_le_bytes().as_slice());
}

#[test]
fn what_a_failed_flush_left_is_swept_and_nothing_else() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    apply(&trees, [put("a", "old")]);
    to_disk(&trees);
    let reader = trees.snapshot();
    apply(&trees, [put("a", "new")]);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    while trees.compact().unwrap() {}
    trees.rewrite().unwrap();
    let folder = scratch.path().join("store/tables");
    let before = std::fs::read_dir(&folder).unwrap().count();
    std::fs::write(folder.join("4711"), "half a table").unwrap();
    trees.sweep().unwrap();
    assert!(!folder.join("4711").exists());
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), before);
    assert_eq!(reader.get(b"a").unwrap().unwrap(), "old");
    assert_eq!(trees.get(b"a").unwrap().unwrap(), "new");
}

/// An assertion of the crate, in builds with debug settings only, says that no level below another
/// is ever empty, and its code behind the assertion copes with one (`Cargo.toml` turns it off).
#[test]
fn a_bottom_that_was_dropped_whole_is_filled_again_from_above() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    let tables = || {
        let version = trees.tree.current_version();
        let count: Vec<_> = version.iter_levels().map(|level| level.table_count()).collect();
        count
    };
    (0..12).for_each(|bucket| fill(&trees, &format!("x{bucket}")));
    (0..3).for_each(|bucket| fill(&trees, &format!("a{bucket}")));
    trees.drop_prefix(b"x").unwrap();
    assert!(tables()[5] > 0 && tables()[6] == 0, "the bottom is to be empty: {:?}", tables());
    for bucket in ["a0", "a1"] {
        for from in (0..ROWS).step_by(500) {
            apply(&trees, (from..from + 500).map(|n| remove(key(bucket, n))));
        }
    }
    to_disk(&trees);
    assert!(tables()[6] > 0, "{:?}", tables());
    assert_eq!(count(&*trees.snapshot()), ROWS);
}

/// While it writes a table the crate keeps rows that fill a block as they lie in the block: no more
/// than twice the table's bytes.
#[test]
fn rows_that_compress_well_take_no_more_in_a_merge_than_about_their_table() {
    const ROWS: usize = 40;
    let scratch = Scratch::new();
    let trees = Arc::new(open(&scratch));
    let value = |number: usize| {
        let mut value = vec![number as u8; 1 << 20];
        value[..8].copy_from_slice(&number.to_le_bytes());
        value
    };
    let row = |number: usize| (Bytes::from(format!("k{number:02}")), Bytes::from(value(number)));
    for number in 0..ROWS / 2 {
        let (key, value) = row(number);
        apply(&*trees, [put(key, value)]);
        trees.rotate().unwrap();
        trees.flush().unwrap();
    }
    let whole: Arc<dyn Trees> = Arc::clone(&trees) as _;
    let mut install = whole.begin_install(b"k").unwrap();
    (0..ROWS).for_each(|number| install.put(vec![row(number)]).unwrap());
    assert!(install.switch().unwrap());
    drop(install);
    while trees.compact().unwrap() {}
    let tables = trees.tree.current_version();
    for table in tables.iter_tables() {
        let rows = table.scan().unwrap().map(|row| row.unwrap().value.len());
        let large: usize = rows.filter(|length| *length >= 4_096).sum();
        assert!(large as u64 <= 2 * table.metadata.file_size, "{large} bytes");
    }
    let same = |trees: &LsmTrees| {
        let snapshot = trees.snapshot();
        let all = snapshot.range(Bound::Unbounded, Bound::Unbounded, true).map(|row| row.unwrap());
        assert!(all.eq((0..ROWS).rev().map(row)));
        (0..ROWS).map(row).for_each(|(key, value)| {
            assert_eq!(trees.get(&key).unwrap(), Some(value.clone()));
            assert_eq!(snapshot.get(&key).unwrap(), Some(value));
        });
    };
    same(&trees);
    drop((tables, trees));
    same(&open(&scratch));
}
