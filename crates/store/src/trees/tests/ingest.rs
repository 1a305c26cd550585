//! Installations: readers see the old content of a prefix or the new one, and no mixture.

use super::super::{Chunk, Ingest, MemoryTrees, Snapshot, TreeRow, Trees};
use super::{Scratch, apply, open, open_narrow, put, remove};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

const PREFIX: &[u8] = &[7, 0xFF];
/// Number of rows at which the incoming rows fill more than one table of the smallest size.
const LARGE: usize = 3_000;

fn key(number: u32) -> Bytes {
    [PREFIX, &number.to_be_bytes()].concat().into()
}

fn value(number: u32, version: u8) -> Bytes {
    vec![version; 100 + (number as usize * 37) % 400].into()
}

/// Returns the rows under the prefix.
fn content(snapshot: &dyn Snapshot) -> Vec<TreeRow> {
    Chunk::read(snapshot, PREFIX, None, usize::MAX).unwrap().rows
}

fn neighbours() -> [(&'static [u8], &'static str); 3] {
    [(&[7, 0xFE, 0xFF], "before"), (&[8], "behind"), (&[7], "above")]
}

/// Writes old rows to disk, to a resident table, to the row cache and to memory; removes some.
/// Returns them.
fn old(trees: &dyn Trees) -> Vec<TreeRow> {
    for part in 0..4 {
        let rows = (0..400).filter(|number| number % 4 == part);
        apply(trees, rows.map(|number| put(key(number), value(number, 1))));
        apply(trees, neighbours().map(|(key, value)| put(key, value)));
        if part < 3 {
            trees.rotate().unwrap();
            trees.flush().unwrap();
        }
        (0..400).step_by(3).for_each(|number| drop(trees.get(&key(number)).unwrap()));
    }
    apply(trees, (0..400).step_by(10).map(|number| remove(key(number))));
    content(&*trees.snapshot())
}

/// Returns the new rows: some replace an old row, some are new, and some old rows are not among
/// them.
fn new(large: bool) -> Vec<TreeRow> {
    let numbers = (200..700).filter(|number| number % 5 != 0);
    let value = |number: u32| match large {
        true => Bytes::from(vec![number as u8; 5 * LARGE]),
        false => value(number, 2),
    };
    numbers.map(|number| (key(number), value(number))).collect()
}

fn begin(trees: &Arc<impl Trees + 'static>, rows: &[TreeRow]) -> Box<dyn Ingest> {
    let trees: Arc<dyn Trees> = Arc::clone(trees) as _;
    let mut install = trees.begin_install(PREFIX).unwrap();
    for chunk in rows.chunks(7) {
        install.put(chunk.to_vec()).unwrap();
    }
    install
}

/// Checks that point reads and range reads return these rows.
fn check_content(trees: &dyn Trees, rows: &[TreeRow], what: &str) {
    assert!(content(&*trees.snapshot()) == rows, "{what}: a range differs");
    for number in 0..700 {
        let expected = rows.binary_search_by(|(at, _)| at.cmp(&key(number)));
        let expected = expected.ok().map(|at| rows[at].1.clone());
        assert!(trees.get(&key(number)).unwrap() == expected, "{what}: row {number}");
    }
    for (key, value) in neighbours() {
        assert_eq!(trees.get(key).unwrap().as_deref(), Some(value.as_bytes()), "{what}");
    }
}

fn check_install<T: Trees + 'static>(trees: T, large: bool) {
    let trees = Arc::new(trees);
    let (old, new) = (old(&*trees), new(large));
    let before = trees.snapshot();
    let mut install = begin(&trees, &new);
    check_content(&*trees, &old, "rows came");
    install.complete().unwrap();
    check_content(&*trees, &old, "all came");
    apply(&*trees, [put("elsewhere", "x")]);
    assert!(install.switch().unwrap());
    check_content(&*trees, &new, "switched");
    drop(install);
    check_content(&*trees, &new, "after");
    assert!(content(&*before) == old, "who looked before sees what was");
    // Later writes work, and merging does not restore the old rows.
    apply(&*trees, [put(key(1), "later"), remove(key(201))]);
    trees.rotate().unwrap();
    trees.flush().unwrap();
    while trees.compact().unwrap() {}
    let mut later = new;
    later.retain(|(at, _)| *at != key(201));
    later.insert(0, (key(1), "later".into()));
    check_content(&*trees, &later, "later");
}

#[test]
fn prefix_install_replaces_the_old_content() {
    let scratch = Scratch::new();
    check_install(open(&scratch), false);
    check_install(open_narrow(&Scratch::new()), false);
    check_install(open_narrow(&Scratch::new()), true);
    check_install(MemoryTrees::new(1 << 20), false);
}

#[test]
fn prefix_install_fills_an_empty_prefix_and_empties_a_full_one() {
    fn empties<T: Trees + 'static>(trees: T) {
        let trees = Arc::new(trees);
        assert!(begin(&trees, &[]).switch().unwrap());
        apply(&*trees, neighbours().map(|(key, value)| put(key, value)));
        let rows = new(false);
        assert!(begin(&trees, &rows).switch().unwrap());
        check_content(&*trees, &rows, "from nothing");
        assert!(begin(&trees, &[]).switch().unwrap());
        check_content(&*trees, &[], "to nothing");
    }
    empties(open(&Scratch::new()));
    empties(MemoryTrees::new(1 << 20));
}

#[test]
fn concurrent_write_under_the_prefix_prevents_the_install_switch() {
    fn refused<T: Trees + 'static>(trees: T) {
        let trees = Arc::new(trees);
        let mut old = old(&*trees);
        let mut install = begin(&trees, &new(false));
        install.complete().unwrap();
        apply(&*trees, [put("elsewhere", "x"), put(key(3), "written meanwhile")]);
        assert!(!install.switch().unwrap());
        drop(install);
        let at = old.binary_search_by(|(at, _)| at.cmp(&key(3))).unwrap();
        old[at].1 = "written meanwhile".into();
        check_content(&*trees, &old, "refused");
        assert!(begin(&trees, &old).switch().unwrap(), "the next one begins anew");
        check_content(&*trees, &old, "the same again");
    }
    refused(open(&Scratch::new()));
    refused(MemoryTrees::new(1 << 20));
}

fn files(scratch: &Scratch) -> usize {
    std::fs::read_dir(scratch.path().join("store/tables")).unwrap().count()
}

#[test]
fn dropped_install_leaves_no_file_and_no_change() {
    let scratch = Scratch::new();
    let trees = Arc::new(open_narrow(&scratch));
    let old = old(&*trees);
    let before = files(&scratch);
    let install = begin(&trees, &new(true));
    assert!(files(&scratch) > before, "a table was written");
    drop(install);
    assert_eq!(files(&scratch), before);
    check_content(&*trees, &old, "given up");
}

#[test]
fn merge_keeps_files_of_an_unfinished_install() {
    let scratch = Scratch::new();
    let trees = Arc::new(open_narrow(&scratch));
    old(&*trees);
    let rows = new(true);
    let mut install = begin(&trees, &rows);
    trees.merge_everything().unwrap();
    assert!(install.switch().unwrap());
    assert!(trees.merge_everything().unwrap());
    check_content(&*trees, &rows, "swept");
}

#[test]
fn process_death_during_install_leaves_old_or_new_content() {
    for switched in [false, true] {
        let scratch = Scratch::new();
        let trees = Arc::new(open_narrow(&scratch));
        let (old, new) = (old(&*trees), new(true));
        trees.rotate().unwrap();
        trees.flush().unwrap();
        let mut install = begin(&trees, &new);
        install.complete().unwrap();
        let unfinished = files(&scratch);
        if switched {
            assert!(install.switch().unwrap());
        }
        // As after a kill of the process: nothing is cleaned up.
        std::mem::forget(install);
        let reopened = open_narrow(&scratch);
        check_content(&reopened, if switched { &new } else { &old }, "opened again");
        assert!(switched || files(&scratch) < unfinished, "what no list names is gone");
    }
    let trees = Arc::new(MemoryTrees::new(1 << 20));
    let (_, new) = (old(&*trees), new(false));
    let mut late_install = begin(&trees, &new);
    assert!(begin(&trees, &new).switch().unwrap());
    trees.crash().unwrap();
    check_content(&*trees, &new, "the switch is durable");
    assert!(!late_install.switch().unwrap(), "one that began before a crash ends with it");
}

#[test]
fn reader_of_installed_content_never_sees_the_old_again() {
    let scratch = Scratch::new();
    let trees = Arc::new(open_narrow(&scratch));
    let version = |number: u32, version: u8| (key(number), Bytes::from(vec![version; 60]));
    apply(&*trees, (0..50).map(|number| put(key(number), version(number, 0).1)));
    let done = Arc::new(AtomicBool::new(false));
    let readers = (0..3u32).map(|reader| {
        let (trees, done) = (Arc::clone(&trees), Arc::clone(&done));
        std::thread::spawn(move || {
            let (mut newest, mut number) = (0, reader);
            while !done.load(SeqCst) {
                number = (number * 7 + 1) % 50;
                let seen = trees.get(&key(number)).unwrap().unwrap()[0];
                assert!(seen >= newest, "{seen} after {newest}");
                newest = seen;
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for round in 1..30 {
        let rows: Vec<TreeRow> = (0..50).map(|number| version(number, round)).collect();
        assert!(begin(&trees, &rows).switch().unwrap());
    }
    done.store(true, SeqCst);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
}
