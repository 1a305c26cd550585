//! Full disk within a flush, a merge, an installation or a drop: nothing has changed, no file is
//! left behind, and the call may be repeated.
//!
//! The disk of a test is this counter: each row of a table and each small file takes a unit.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use super::super::{LsmTrees, Trees};
use super::{Scratch, apply, open, put, remove};
use crate::StoreError;

thread_local! {
    /// Units left for writes of this thread. `None`: without a limit.
    static SPACE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Takes a unit. The product's code calls this where it writes.
pub(crate) fn take_space() -> io::Result<()> {
    SPACE.with(|space| match space.get() {
        None => Ok(()),
        Some(0) => Err(io::ErrorKind::StorageFull.into()),
        Some(left) => {
            space.set(Some(left - 1));
            Ok(())
        }
    })
}

/// Runs a call on a disk with this many units left.
fn with_space<T>(units: u64, call: impl FnOnce() -> T) -> T {
    SPACE.set(Some(units));
    let result = call();
    SPACE.set(None);
    result
}

const ROWS: u64 = 100;

/// Writes all rows, and a tombstone, to the active table.
fn write(trees: &LsmTrees, name: &str) {
    let rows = (0..ROWS).map(|row| put(format!("key {row:03}"), format!("{name} {row}")));
    apply(trees, rows.chain([remove("key 050")]));
}

fn check_rows(trees: &LsmTrees, name: &str) {
    for row in 0..ROWS {
        let expected = (row != 50).then(|| format!("{name} {row}"));
        let found = trees.get(format!("key {row:03}").as_bytes()).unwrap();
        assert_eq!(found.as_deref(), expected.as_deref().map(str::as_bytes));
    }
}

fn rows(trees: &LsmTrees) -> usize {
    use std::ops::Bound::Unbounded;
    trees.snapshot().range(Unbounded, Unbounded, false).map(Result::unwrap).count()
}

/// Checks that the folder has the files of the list in force, and no others.
fn check_files(scratch: &Scratch, trees: &LsmTrees) {
    let store = scratch.path().join("store");
    let tables = std::fs::read_dir(store.join("tables")).unwrap().count();
    assert_eq!(tables as u64, trees.statistics().tables);
    for file in std::fs::read_dir(&store).unwrap() {
        let name = file.unwrap().file_name().into_string().unwrap();
        let list = format!("v{}", trees.list().id);
        assert!(["tables", "current", "spans", &list].contains(&&*name), "{name} is left");
    }
}

#[test]
fn merge_on_a_full_disk_changes_nothing_and_is_repeated() {
    // All rows but the removed one, then the list, then the reference to it.
    for units in [0, 1, 50, ROWS - 2, ROWS - 1, ROWS] {
        let scratch = Scratch::new();
        let trees = open(&scratch);
        for n in 0..8 {
            write(&trees, &n.to_string());
            trees.rotate().unwrap();
            trees.flush().unwrap();
        }
        trees.resident_tables.shrink_to(0);
        let before = (trees.list().id, trees.pressure().runs);
        for _ in 0..3 {
            let merged = with_space(units, || trees.compact());
            assert!(matches!(merged, Err(StoreError::Full)), "{units}: {merged:?}");
            assert_eq!((trees.list().id, trees.pressure().runs), before, "{units}");
            check_files(&scratch, &trees);
        }
        check_rows(&trees, "7");
        assert!(trees.compact().unwrap());
        assert_eq!(trees.pressure().runs, 1);
        check_files(&scratch, &trees);
        drop(trees);
        check_rows(&open(&scratch), "7");
    }
}

#[test]
fn flush_on_a_full_disk_keeps_rows_in_memory_and_is_repeated() {
    for units in [0, 50, ROWS - 2, ROWS - 1, ROWS] {
        let scratch = Scratch::new();
        let trees = open(&scratch);
        write(&trees, "old");
        trees.rotate().unwrap();
        trees.flush().unwrap();
        write(&trees, "new");
        trees.rotate().unwrap();
        for _ in 0..3 {
            let flushed = with_space(units, || trees.flush());
            assert!(matches!(flushed, Err(StoreError::Full)), "{units}: {flushed:?}");
            check_files(&scratch, &trees);
            check_rows(&trees, "new");
        }
        assert_eq!(trees.pressure().sealed_tables, 1);
        trees.flush().unwrap();
        assert_eq!(trees.pressure().sealed_tables, 0);
        check_files(&scratch, &trees);
        drop(trees);
        check_rows(&open(&scratch), "new");
    }
}

#[test]
fn installation_and_drop_on_a_full_disk_are_repeated() {
    let scratch = Scratch::new();
    let trees = Arc::new(open(&scratch));
    write(&trees, "old");
    trees.rotate().unwrap();
    trees.flush().unwrap();
    let same: Arc<dyn Trees> = trees.clone();
    let mut install = same.begin_install(b"key").unwrap();
    install.put(vec![("key 7".into(), "new".into())]).unwrap();
    install.complete().unwrap();
    for units in [0, 1] {
        let switched = with_space(units, || install.switch());
        assert!(matches!(switched, Err(StoreError::Full)), "{switched:?}");
        check_rows(&trees, "old");
    }
    assert!(install.switch().unwrap());
    drop(install);
    assert_eq!(trees.get(b"key 7").unwrap().unwrap(), "new");
    assert_eq!(rows(&trees), 1);
    check_files(&scratch, &trees);
    for units in [0, 1] {
        let dropped = with_space(units, || trees.drop_prefix(b"key"));
        assert!(matches!(dropped, Err(StoreError::Full)), "{dropped:?}");
        assert_eq!(rows(&trees), 1);
    }
    trees.drop_prefix(b"key").unwrap();
    assert_eq!(rows(&trees), 0);
    check_files(&scratch, &trees);
}
