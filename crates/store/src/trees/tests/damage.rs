//! Damage: no change of any byte of any file makes a read return a wrong row.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::super::manifest::Manifest;
use super::super::{LsmTrees, TreeRow, Trees};
use super::growth::to_disk;
use super::{Scratch, apply, open, open_at, put, remove};
use crate::{StoreError, check_trees};

/// Creates a small store with a table on each of two levels, an older row below a newer one, and a
/// tombstone.
fn make_store(scratch: &Scratch) -> Vec<TreeRow> {
    let trees = open(scratch);
    apply(&trees, (0..120).map(|n| put(format!("key {n:03}"), format!("value {n}").repeat(9))));
    trees.rotate().unwrap();
    trees.flush().unwrap();
    while trees.compact().unwrap() {}
    apply(&trees, [put("key 007", "newer"), put("key 119x", "last"), remove("key 050")]);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    read_all(&trees).unwrap()
}

fn read_all(trees: &LsmTrees) -> Result<Vec<TreeRow>, StoreError> {
    let snapshot = trees.snapshot();
    snapshot.range(Bound::Unbounded, Bound::Unbounded, false).collect()
}

/// Returns the files of a folder and its subfolders.
pub(super) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, &target).unwrap();
    }
}

/// Opens the store and reads all rows, by range and by key. Returns true if an error was reported.
/// Every row returned must be correct, and none may be missing without an error.
fn detects_damage(path: &Path, expected: &[TreeRow], place: &str) -> bool {
    let trees = match open_at(path) {
        Ok(trees) => trees,
        Err(StoreError::Corrupt { .. } | StoreError::Version { .. }) => return true,
        Err(other) => panic!("{place}: {other}"),
    };
    let mut detected = match read_all(&trees) {
        Ok(rows) => {
            assert_eq!(rows, expected, "{place}");
            false
        }
        Err(StoreError::Corrupt { .. }) => true,
        Err(other) => panic!("{place}: {other}"),
    };
    for (key, value) in expected.iter().step_by(7).chain(expected.last()) {
        match trees.get(key) {
            Ok(found) => assert_eq!(found.as_ref(), Some(value), "{place}"),
            Err(StoreError::Corrupt { file, .. }) => {
                assert!(Path::new(&file).starts_with(path), "{place}: {file}");
                detected = true;
            }
            Err(other) => panic!("{place}: {other}"),
        }
    }
    assert!(trees.get(b"key 050").is_ok_and(|found| found.is_none()) || detected, "{place}");
    detected
}

/// The file of dead spans, a hint without rows: if it is damaged, no span is loaded.
const SPAN_FILE: &str = "spans";

#[test]
fn bit_flips_are_found_by_check_trees_and_never_served() {
    let scratch = Scratch::new();
    let expected = make_store(&scratch);
    let (sound, broken) = (scratch.path().join("store"), scratch.path().join("broken"));
    let report = check_trees(&sound, &mut |_, _| {}).unwrap();
    assert_eq!(report.damage, []);
    assert_eq!((report.tables, report.rows, report.tombstones), (2, 122, 1));
    let mut unseen = 0;
    for file in files(&sound) {
        let bytes = std::fs::read(&file).unwrap();
        let name = file.strip_prefix(&sound).unwrap();
        for at in (0..bytes.len()).step_by(5) {
            let place = format!("{} byte {at}", name.display());
            copy(&sound, &broken);
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            std::fs::write(broken.join(name), flipped).unwrap();
            let found = check_trees(&broken, &mut |_, _| {}).unwrap().damage;
            if name == Path::new(SPAN_FILE) {
                assert_eq!(found, [], "{place}");
                assert!(!detects_damage(&broken, &expected, &place), "{place}");
                continue;
            }
            assert!(!found.is_empty(), "the check did not see {place}");
            assert!(found.iter().all(|place| place.offset <= at as u64), "{place}: {found:?}");
            unseen += u32::from(!detects_damage(&broken, &expected, &place));
        }
    }
    // A flip in bytes that no read needs is detected only by the check.
    assert!(unseen < 20, "{unseen} flips were not noticed by readers");
}

#[test]
fn missing_or_truncated_file_is_detected_and_store_left_unchanged() {
    let scratch = Scratch::new();
    let expected = make_store(&scratch);
    let (sound, broken) = (scratch.path().join("store"), scratch.path().join("broken"));
    for file in files(&sound) {
        let name = file.strip_prefix(&sound).unwrap();
        let bytes = std::fs::read(&file).unwrap();
        for keep in [None, Some(0), Some(bytes.len() / 2), Some(bytes.len() - 1)] {
            let place = format!("{} cut to {keep:?}", name.display());
            copy(&sound, &broken);
            match keep {
                None => std::fs::remove_file(broken.join(name)).unwrap(),
                Some(keep) => std::fs::write(broken.join(name), &bytes[..keep]).unwrap(),
            }
            let before = files(&broken);
            if name == Path::new(SPAN_FILE) {
                assert!(!detects_damage(&broken, &expected, &place), "{place}");
                continue;
            }
            assert!(!check_trees(&broken, &mut |_, _| {}).unwrap().damage.is_empty(), "{place}");
            assert!(detects_damage(&broken, &expected, &place), "{place}");
            assert_eq!(files(&broken), before, "{place}: a refused store is left as it was");
        }
    }
}

/// The library reserves memory for as many files of values as a list claims.
#[test]
fn list_that_claims_files_of_values_is_refused_before_the_library_reads_it() {
    let scratch = Scratch::new();
    make_store(&scratch);
    let store = scratch.path().join("store");
    let current = store.join("current");
    let mut head = std::fs::read(&current).unwrap();
    let id = u64::from_le_bytes(head[..8].try_into().unwrap());
    let list = store.join(format!("v{id}"));
    let mut bytes = std::fs::read(&list).unwrap();
    let sections = super::super::archive::sections(&list).unwrap();
    let section = sections.iter().find(|section| section.name == b"blob_files").unwrap();
    let at = section.offset as usize;
    assert_eq!(bytes[at..at + 4], [0; 4]);
    bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    head[8..24].copy_from_slice(&xxhash_rust::xxh3::xxh3_128(&bytes).to_le_bytes());
    std::fs::write(&list, &bytes).unwrap();
    std::fs::write(&current, &head).unwrap();
    let Err(StoreError::Corrupt { file, description, .. }) = open_at(&store) else {
        panic!("it is opened")
    };
    assert_eq!(
        (Path::new(&file), &description[..]),
        (list.as_path(), "the list of tables is malformed")
    );
    assert_eq!(check_trees(&store, &mut |_, _| {}).unwrap().damage.len(), 1);
}

#[test]
fn damaged_block_error_names_file_and_offset() {
    let scratch = Scratch::new();
    let expected = make_store(&scratch);
    let store = scratch.path().join("store");
    let table = files(&store.join("tables")).remove(0);
    let mut bytes = std::fs::read(&table).unwrap();
    bytes[40] ^= 1; // in the first block, behind its header
    std::fs::write(&table, bytes).unwrap();
    let trees = open_at(&store).unwrap();
    let Err(StoreError::Corrupt { file, offset, description }) = trees.get(&expected[0].0) else {
        panic!("a damaged row was served")
    };
    assert_eq!((Path::new(&file), offset), (table.as_path(), 0));
    assert!(description.contains("checksum"), "{description}");
    assert!(trees.apply(&mut std::iter::empty()).is_ok(), "a damaged read closes nothing");
    assert_eq!(trees.get(b"key 119x").unwrap(), Some(Bytes::from("last")));
}

/// A background scan for dead spans that fails to read a table records none: it sees only the rows
/// removed in memory, and the table's live rows lie between them.
#[test]
fn dead_span_scan_that_fails_to_read_a_table_hides_no_rows() {
    let scratch = Scratch::new();
    let key = |n: u32| format!("key {n:04}");
    let trees = open(&scratch);
    apply(&trees, (0..1_000).map(|n| put(key(n), format!("value {n}").repeat(9))));
    to_disk(&trees);
    drop(trees);
    let table = files(&scratch.path().join("store/tables")).remove(0);
    let sound = std::fs::read(&table).unwrap();
    let mut bytes = sound.clone();
    bytes[sound.len() / 8] ^= 1; // in a block of rows behind the first
    std::fs::write(&table, bytes).unwrap();
    let trees = open(&scratch);
    apply(&trees, (0..300).map(|n| remove(key(n))));
    apply(&trees, [put("last", "")]);
    assert!(matches!(read_all(&trees), Err(StoreError::Corrupt { .. })));
    trees.scan_dead_spans(&trees.view().active);
    std::fs::write(&table, sound).unwrap();
    let expected: Vec<_> = (300..1_000).map(key).chain(["last".into()]).collect();
    let keys = |trees: &LsmTrees| -> Vec<_> {
        read_all(trees).unwrap().into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(&trees), expected);
    to_disk(&trees);
    drop(trees);
    assert_eq!(keys(&open(&scratch)), expected, "in the next run, too");
}

#[test]
fn failed_flush_closes_the_trees_for_writes() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    apply(&trees, [put("a", "1")]);
    trees.rotate().unwrap();
    std::fs::remove_dir_all(scratch.path().join("store/tables")).unwrap();
    assert!(matches!(trees.flush(), Err(StoreError::Io { .. })));
    assert!(matches!(trees.apply(&mut [put("b", "2")].into_iter()), Err(StoreError::Closed)));
    assert!(matches!(trees.flush(), Err(StoreError::Closed)));
    assert_eq!(trees.get(b"a").unwrap().unwrap(), "1", "what is there can still be read");
}

/// A list with valid checksums that can't be one of these trees.
#[test]
fn list_with_tables_out_of_order_or_twice_is_refused() {
    let scratch = Scratch::new();
    let trees = open(&scratch);
    for bucket in ["a", "b"] {
        apply(&trees, (0..10).map(|n| put(format!("{bucket} {n}"), "value")));
        to_disk(&trees);
    }
    let list = trees.list();
    let tables: Vec<_> =
        list.tables().map(|table| (table.id(), table.checksum().into_u128())).collect();
    assert_eq!((list.runs.len(), tables.len()), (1, 2), "one run of two tables");
    let id = list.id;
    drop((list, trees));
    let store = scratch.path().join("store");
    let [one, other] = tables[..] else { panic!("two") };
    for (runs, is_sound) in [
        (vec![vec![one, other]], true),
        (vec![vec![other, one]], false),
        (vec![vec![one, one]], false),
        (vec![vec![one], vec![other, one]], false),
        (vec![vec![one], vec![one, other]], false),
    ] {
        Manifest::write(&store, id + 1, &runs).unwrap();
        match open_at(&store) {
            Ok(trees) => assert!(is_sound && read_all(&trees).unwrap().len() == 20, "{runs:?}"),
            Err(error) => {
                let is_damage = matches!(error, StoreError::Corrupt { .. });
                assert!(!is_sound && is_damage, "{runs:?}: {error}");
            }
        }
        assert_eq!(files(&store.join("tables")).len(), 2, "no table is removed");
    }
}
