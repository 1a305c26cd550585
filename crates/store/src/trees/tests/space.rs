//! Space: it is freed automatically, and a reader keeps only the tables that it reads.

use bytes::Bytes;
use std::ops::Bound;
use std::sync::Arc;

use super::super::table_writer::{TableLayout, TableWriter};
use super::super::{LsmTrees, Snapshot, Trees};
use super::{Scratch, apply, open, put, remove};

const ROWS: u64 = 12_000;

/// Incompressible, and different for every key.
fn value(n: u64) -> Vec<u8> {
    let mut state = n + 1;
    let mut next_bytes = || {
        state = (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (state >> 27);
        state.to_le_bytes()
    };
    (0..30).flat_map(|_| next_bytes()).collect()
}

fn key(bucket: &str, n: u64) -> String {
    format!("{bucket}:{n:08}")
}

fn fill(trees: &LsmTrees, bucket: &str) {
    for from in (0..ROWS).step_by(500) {
        apply(trees, (from..from + 500).map(|n| put(key(bucket, n), value(n))));
        if trees.pressure().is_rotation_due() {
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

/// Returns the bytes of all existing files.
fn bytes_on_disk(scratch: &Scratch) -> u64 {
    let tables = std::fs::read_dir(scratch.path().join("store/tables")).unwrap();
    tables.map(|file| file.unwrap().metadata().unwrap().len()).sum()
}

fn count(snapshot: &dyn Snapshot) -> u64 {
    let rows = snapshot.range(Bound::Unbounded, Bound::Unbounded, false);
    rows.inspect(|row| assert!(row.is_ok(), "{row:?}")).count() as u64
}

#[test]
fn deleted_rows_free_their_disk_space_automatically() {
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
fn rows_never_flushed_leave_no_tombstones_on_disk() {
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
fn overwritten_rows_free_their_disk_space_automatically() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    fill(&trees, "a");
    let once = bytes_on_disk(&scratch);
    (0..6).for_each(|_| fill(&trees, "a"));
    let now = bytes_on_disk(&scratch);
    assert!(now < once * 3, "{now} bytes for what took {once}");
}

#[test]
fn dropped_prefix_frees_its_space_and_keeps_other_rows() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    for bucket in ["a", "b", "c"] {
        fill(&trees, bucket);
    }
    let full = bytes_on_disk(&scratch);
    // Rows in memory and in the row cache are removed too.
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
fn drop_of_the_only_prefix_leaves_no_table_file() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    fill(&trees, "a");
    trees.drop_prefix(b"a").unwrap();
    assert_eq!(bytes_on_disk(&scratch), 0);
    assert_eq!(trees.statistics().rows_estimated, 0);
}

/// A dropped table file may hold the tombstone of a row in a file that stays: the row must not
/// reappear.
#[test]
fn dropped_prefix_does_not_resurrect_deleted_rows() {
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
fn long_lived_snapshot_pins_no_later_memtable() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    apply(&trees, [put("a", "1")]);
    let snapshot = trees.snapshot();
    let mut later = Vec::new();
    for n in 0..8u64 {
        trees.rotate().unwrap();
        trees.flush().unwrap();
        while trees.compact().unwrap() {}
        apply(&trees, [put("a", n.to_le_bytes())]);
        later.push(Arc::downgrade(&trees.view().active));
    }
    to_disk(&trees);
    trees.resident_tables.shrink_to(0);
    assert!(later.iter().all(|table| table.upgrade().is_none()), "flushed tables are freed");
    assert_eq!(snapshot.get(b"a").unwrap().unwrap(), "1");
    drop(snapshot);
    trees.compact().unwrap();
    let files = std::fs::read_dir(scratch.path().join("store/tables")).unwrap().count();
    assert_eq!(files, 1);
    assert_eq!(trees.get(b"a").unwrap().unwrap(), 7u64.to_le_bytes().as_slice());
}

#[test]
fn flushed_rows_are_read_from_memory_while_the_limit_allows() {
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
        assert!((1..=room).contains(&trees.resident_tables.bytes()));
    }
    assert_eq!(misses(), 0);
    let resident_bytes = trees.resident_tables.bytes();
    flush(12);
    assert_eq!(trees.resident_tables.bytes(), resident_bytes, "as many as it may");
    trees.resident_tables.shrink_to(resident_bytes - 1);
    assert!(trees.resident_tables.bytes() < resident_bytes);
    assert_eq!(trees.get(&7u64.to_be_bytes()).unwrap().unwrap(), 19u64.to_le_bytes()[..]);
    assert_eq!(misses(), 0);
    trees.resident_tables.shrink_to(0);
    assert_eq!(trees.get(&7u64.to_be_bytes()).unwrap().unwrap(), 19u64.to_le_bytes()[..]);
    assert_eq!(misses(), 1);
    flush(13);
    let updates = (0..100u64).map(|n| put(7u64.to_be_bytes(), n.to_le_bytes()));
    apply(&trees, updates);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    assert_eq!(trees.resident_tables.bytes(), 0, "a hundred rows of one key are not worth it");
    assert_eq!(trees.get(&7u64.to_be_bytes()).unwrap().unwrap(), 99u64.to_le_bytes()[..]);
}

/// A flush replaces the rows of a cache with few rows in another way than of one with many.
#[test]
fn flush_replaces_rows_in_the_row_cache() {
    for rows in [10u64, 2_000] {
        let scratch = Scratch::new();
        let trees = open(&scratch);
        for n in 0..3u64 {
            apply(&trees, (0..rows).map(|row| put(row.to_be_bytes(), (n + row).to_le_bytes())));
            to_disk(&trees);
            trees.resident_tables.shrink_to(0);
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
fn runs_stay_below_their_limit_over_many_flushes_without_merges() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    for n in 0..300u64 {
        apply(&trees, [put("a", n.to_le_bytes()), put("z", n.to_le_bytes())]);
        trees.rotate().unwrap();
        trees.flush().unwrap();
        assert!(trees.pressure().runs <= trees.settings.runs_limit());
    }
    assert_eq!(trees.get(b"a").unwrap().unwrap(), 299u64.to_le_bytes().as_slice());
    drop(trees);
    let trees = open(&scratch);
    assert_eq!(trees.get(b"a").unwrap().unwrap(), 299u64.to_le_bytes().as_slice());
}

#[test]
fn tables_that_no_list_names_are_removed() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    apply(&trees, [put("a", "old")]);
    to_disk(&trees);
    let folder = scratch.path().join("store/tables");
    let files = || std::fs::read_dir(&folder).unwrap().count();
    let write = || {
        let mut writer = TableWriter::new(&trees, TableLayout::Merged);
        let row = lsm_tree::InternalValue::new_tombstone("b", 7);
        writer.write(row).unwrap();
        writer
    };
    let unfinished = write();
    assert_eq!(files(), 2);
    drop(unfinished);
    assert_eq!(files(), 1, "a failed flush or merge leaves nothing");
    let mut finished = write().finish().unwrap();
    assert_eq!((files(), finished.tables().len()), (2, 1));
    finished.keep();
    drop(finished);
    assert_eq!(files(), 2);
    std::fs::write(folder.join("4711"), "half a table").unwrap();
    std::fs::write(folder.join("../v4711"), "half a list").unwrap();
    drop(trees);
    let trees = open(&scratch);
    assert_eq!(files(), 1, "the next start removes what a crash left");
    assert!(!folder.join("../v4711").exists());
    assert_eq!(trees.get(b"a").unwrap().unwrap(), "old");
    apply(&trees, [put("a", "new")]);
    to_disk(&trees);
    assert_eq!(trees.get(b"a").unwrap().unwrap(), "new");
}

#[test]
fn rows_in_the_order_of_keys_form_one_run_and_are_never_merged() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    for bucket in ["a", "b", "c"] {
        fill(&trees, bucket);
    }
    let tables: Vec<_> = trees.list().tables().map(|table| table.id()).collect();
    assert_eq!(trees.pressure().runs, 1);
    assert!(tables.len() > 8 && tables.is_sorted(), "{tables:?}");
    assert_eq!(count(&*trees.snapshot()), 3 * ROWS);
    // A row that lies among the others begins another run.
    apply(&trees, [put("b", "in the midst"), put("d", "behind")]);
    to_disk(&trees);
    assert_eq!(trees.pressure().runs, 2);
    assert_eq!(trees.get(key("b", 7).as_bytes()).unwrap().unwrap(), value(7));
}

/// While it writes a table, the library keeps rows that fill a block in the form of the block: at
/// most twice the table's bytes.
#[test]
fn compressible_rows_in_a_table_are_at_most_twice_its_file_size() {
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
    let shared_trees: Arc<dyn Trees> = Arc::clone(&trees) as _;
    let mut install = shared_trees.begin_install(b"k").unwrap();
    (0..ROWS).for_each(|number| install.put(vec![row(number)]).unwrap());
    assert!(install.switch().unwrap());
    drop(install);
    while trees.compact().unwrap() {}
    let list = trees.list();
    for table in list.tables() {
        let rows = table.scan().unwrap().map(|row| row.unwrap().value.len());
        let large: usize = rows.filter(|length| *length >= 4_096).sum();
        assert!(large as u64 <= 2 * table.metadata.file_size, "{large} bytes");
    }
    let check_rows = |trees: &LsmTrees| {
        let snapshot = trees.snapshot();
        let all = snapshot.range(Bound::Unbounded, Bound::Unbounded, true).map(|row| row.unwrap());
        assert!(all.eq((0..ROWS).rev().map(row)));
        (0..ROWS).map(row).for_each(|(key, value)| {
            assert_eq!(trees.get(&key).unwrap(), Some(value.clone()));
            assert_eq!(snapshot.get(&key).unwrap(), Some(value));
        });
    };
    check_rows(&trees);
    drop((list, trees));
    check_rows(&open(&scratch));
}
