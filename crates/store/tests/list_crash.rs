//! Crash between the tables of a flush, merge, drop or installation and the list that names them.
//!
//! A process runs the trees and dies at a failpoint within a change of the list. What was not
//! synced then is cut, emptied or removed, as a power loss may leave it, and the trees are opened.
//! They hold the rows of one batch, at least the last durable one, and no file that no list names.

use bytes::Bytes;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use store::failpoint::{EXIT_CODE, arm};
use store::{LsmTrees, RowChange, TreeSettings, Trees, check_trees};
use xxhash_rust::xxh3::xxh3_128;

/// Failpoints within a change of the list.
const POINTS: [&str; 6] = [
    "merge.written",
    "list.written",
    "list.synced",
    "current.written",
    "current.named",
    "compact.after",
];
/// Number of the occurrences of each point at which a process dies: flushes, merges, drops and
/// installations are among them.
const OCCURRENCES: u64 = 6;
const BATCHES_PER_RUN: u64 = 14;
const ROWS: u64 = 30;
const INSTALLED: u64 = 9;

fn open(path: &Path) -> Arc<LsmTrees> {
    Arc::new(LsmTrees::open(TreeSettings::new(path)).expect("it opens"))
}

fn row(at: u64) -> Bytes {
    Bytes::from(format!("row {at:02}"))
}

/// Changes of a batch: each row gets the batch's number, or is removed.
fn change(batch: u64, at: u64) -> RowChange {
    match (batch + at).is_multiple_of(7) {
        true => RowChange::Remove(row(at)),
        false => RowChange::Put(row(at), Bytes::from(batch.to_string())),
    }
}

/// Returns the number of the batch whose rows are there. 0: there are none.
fn batch_of(trees: &LsmTrees) -> u64 {
    let number =
        |value: Bytes| std::str::from_utf8(&value).expect("text").parse::<u64>().expect("a number");
    let found = (0..ROWS).find_map(|at| trees.get(&row(at)).expect("it reads"));
    let batch = found.map_or(0, number);
    for at in 0..ROWS {
        let expected = match change(batch, at) {
            RowChange::Put(_, value) if batch > 0 => Some(value),
            _ => None,
        };
        assert_eq!(trees.get(&row(at)).expect("it reads"), expected, "row {at} of batch {batch}");
    }
    let snapshot = trees.snapshot();
    let from = |start: &'static str| Bound::Included(Bytes::from(start));
    let rows = snapshot.range(from("row "), Bound::Excluded("row~".into()), false).count();
    let is_put = |at: &u64| batch > 0 && matches!(change(batch, *at), RowChange::Put(..));
    assert_eq!(rows, (0..ROWS).filter(is_put).count());
    // An installation replaces all of its rows or none.
    let came = snapshot.range(from("came "), Bound::Excluded("came~".into()), false);
    let came: Vec<Bytes> = came.map(|row| row.expect("read").1).collect();
    assert!(came.is_empty() || came.len() as u64 == INSTALLED, "{came:?}");
    assert!(came.windows(2).all(|pair| pair[0] == pair[1]), "old and new rows: {came:?}");
    batch
}

fn run(trees: &Arc<LsmTrees>, batches: u64) {
    let first = batch_of(trees) + 1;
    for batch in first..first + batches {
        trees.apply(&mut (0..ROWS).map(|at| change(batch, at))).expect("applied");
        let gone = |at: u64| RowChange::Put(Bytes::from(format!("gone {at}")), row(at));
        trees.apply(&mut (0..5).map(gone)).expect("applied");
        trees.rotate().and_then(|_| trees.flush()).expect("flushed");
        println!("durable {batch}");
        while trees.compact().expect("merged") || trees.compact_small().expect("merged") {}
        trees.drop_prefix(b"gone ").expect("dropped");
        let same: Arc<dyn Trees> = trees.clone();
        let mut install = same.begin_install(b"came ").expect("begun");
        let came = |at| (Bytes::from(format!("came {at}")), Bytes::from(batch.to_string()));
        install.put((0..INSTALLED).map(came).collect()).expect("written");
        assert!(install.switch().expect("switched"));
    }
}

/// One run in a child process, which the test below starts.
#[test]
#[ignore = "a part of the test below, in a process of its own"]
fn child_process_changes_lists_with_optional_failpoint() {
    let path = std::env::var_os("LISTS_IN").expect("set by the test below");
    if let Ok(spec) = std::env::var("LISTS_END_AT") {
        arm(&spec).expect("a failpoint");
    }
    run(&open(Path::new(&path)), BATCHES_PER_RUN);
}

/// Returns the last durable batch, and whether the process died at the failpoint.
fn run_child(path: &Path, failpoint: Option<String>) -> (u64, bool) {
    let mut command = Command::new(std::env::current_exe().expect("known"));
    command.args(["--exact", "child_process_changes_lists_with_optional_failpoint"]);
    command.args(["--ignored", "--nocapture", "--test-threads=1"]).env("LISTS_IN", path);
    command.envs(failpoint.map(|failpoint| ("LISTS_END_AT", failpoint)));
    let output = command.output().expect("it starts");
    let died = output.status.code() == Some(EXIT_CODE);
    assert!(died || output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let last = text.lines().filter_map(|line| line.rsplit_once("durable ")).next_back();
    (last.map_or(0, |(_, batch)| batch.parse().expect("a number")), died)
}

/// Returns the files of a folder whose names are numbers behind a prefix, the highest last.
fn numbered(folder: &Path, prefix: &str) -> Vec<(u64, PathBuf)> {
    let files = fs::read_dir(folder).expect("it lists").map(|file| file.expect("it lists").path());
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix(prefix)?.parse().ok();
    let mut found: Vec<_> = files.filter_map(|path| Some((number(&path)?, path))).collect();
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    for folder in ["", "tables"] {
        fs::create_dir_all(to.join(folder)).expect("made");
        for file in fs::read_dir(from.join(folder)).expect("it lists") {
            let path = file.expect("it lists").path();
            if path.is_file() {
                let target = to.join(folder).join(path.file_name().expect("a name"));
                fs::copy(&path, target).expect("copied");
            }
        }
    }
}

/// Undoes the last rename to `current`: the directory was not synced.
fn undo_rename(store: &Path) {
    fs::rename(store.join("current"), store.join("current.unfinished")).expect("renamed");
    let lists = numbered(store, "v");
    let [.., (old, path), _] = &lists[..] else { return };
    let list = fs::read(path).expect("it reads");
    let mut current = old.to_le_bytes().to_vec();
    current.extend_from_slice(&xxh3_128(&list).to_le_bytes());
    current.push(0);
    fs::write(store.join("current"), current).expect("written");
}

/// Leaves of an unsynced file what a power loss may leave: all, half, nothing, not even its name.
fn damage(file: &Path, kind: usize) {
    let bytes = fs::read(file).expect("it is there");
    match kind {
        0 => {}
        1 => fs::write(file, &bytes[..bytes.len() / 2]).expect("written"),
        2 => fs::write(file, b"").expect("written"),
        _ => fs::remove_file(file).expect("removed"),
    }
}

/// Makes a state that a power loss at this point may leave. Returns false if there is no further.
fn lose_power(store: &Path, point: &str, kind: usize) -> bool {
    let newest = |folder: &Path, prefix| {
        numbered(folder, prefix).pop().map(|(_, path)| path).expect("one was written")
    };
    match point {
        "merge.written" if kind < 4 => damage(&newest(&store.join("tables"), ""), kind),
        "list.written" if kind < 4 => damage(&newest(store, "v"), kind),
        "current.written" if kind < 4 => damage(&store.join("current.unfinished"), kind),
        "current.named" if kind == 1 => undo_rename(store),
        _ => return kind == 0,
    }
    true
}

fn check_state(store: &Path, durable: u64, place: &str) {
    let trees = open(store);
    let batch = batch_of(&trees);
    assert!((durable..=durable + 1).contains(&batch), "{place}: {batch} after {durable}");
    let tables = numbered(&store.join("tables"), "").len() as u64;
    assert_eq!(tables, trees.statistics().tables, "{place}: a table that no list names");
    assert_eq!(numbered(store, "v").len(), 1, "{place}: a list that is not in force");
    assert!(!store.join("current.unfinished").exists(), "{place}");
    run(&trees, 2);
    drop(trees);
    assert_eq!(check_trees(store, &mut |_, _| {}).expect("it reads").damage, [], "{place}");
    assert_eq!(batch_of(&open(store)), batch + 2, "{place}");
}

#[test]
fn power_loss_within_a_change_of_the_list_leaves_the_old_rows_or_the_new() {
    let scratch = tempfile::tempdir().expect("a folder");
    let first = scratch.path().join("first");
    let (durable, _) = run_child(&first, None);
    assert_eq!(durable, BATCHES_PER_RUN);
    let (store, state) = (scratch.path().join("store"), scratch.path().join("state"));
    for point in POINTS {
        let mut deaths = 0;
        for nth in 1..=OCCURRENCES {
            copy(&first, &store);
            let (last, died) = run_child(&store, Some(format!("{point}=abort@{nth}")));
            deaths += u32::from(died);
            for kind in 0.. {
                copy(&store, &state);
                if !lose_power(&state, if died { point } else { "" }, kind) {
                    break;
                }
                check_state(&state, last.max(durable), &format!("{point}, {nth}, {kind}"));
            }
        }
        assert!(deaths > 1, "{point} is reached {deaths} times");
    }
    // The first list of an empty folder.
    for point in ["list.written", "list.synced", "current.written", "current.named"] {
        let _ = fs::remove_dir_all(&store);
        assert!(run_child(&store, Some(format!("{point}=abort"))).1, "{point}");
        for kind in 0.. {
            copy(&store, &state);
            if !lose_power(&state, point, kind) {
                break;
            }
            check_state(&state, 0, &format!("first list, {point}, {kind}"));
        }
    }
}
