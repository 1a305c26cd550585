//! Yesterday's bytes are read today: kept examples of every format on disk, listed in
//! `crates/proof/golden/README.md`.
//!
//! An example is written once, by the first version that has the format, and never again:
//! `CREDENZA_KEEP=golden cargo test -p proof formats` writes those that are missing.

use bytes::Bytes;
use proof::rigs::{Scratch, must, text};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use store::{Ahead, Change, DataDir, FileDisk, Kind, Log, LogSettings, LsmTrees, Owner, Record};
use store::{TreeSettings, Trees};

fn golden(name: &str) -> PathBuf {
    proof::tidy::root().join("crates/proof/golden").join(name)
}

/// A copy of a kept example to read; made first, when that is asked for and it is missing.
fn copy_of(scratch: &Scratch, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
    let kept = golden(name);
    if !kept.exists() && std::env::var("CREDENZA_KEEP").is_ok_and(|word| word == "golden") {
        let made = scratch.join("made");
        std::fs::create_dir_all(&made).expect("ours to make");
        make(&made);
        pack(&made, &kept);
    }
    assert!(kept.exists(), "{} is missing: a kept example is kept for ever", kept.display());
    let copy = scratch.join("copy");
    std::fs::create_dir_all(&copy).expect("ours to make");
    must(&["tar", "-xzf", text(&kept), "-C", text(&copy)]);
    copy
}

fn pack(folder: &Path, archive: &Path) {
    std::fs::create_dir_all(golden("")).expect("ours to make");
    must(&["tar", "-czf", text(archive), "-C", text(folder), "."]);
}

const LOG: u64 = 0x10c;

fn log_settings() -> LogSettings {
    LogSettings { segment_bytes: 8 * 1024, id: LOG, ahead: Ahead::Inline }
}

/// The records of the kept log: every kind, small and larger than a segment.
fn records() -> Vec<(Kind, u32, u64, Vec<u8>)> {
    let kinds = [
        Kind::Accept,
        Kind::Truncate,
        Kind::Promise,
        Kind::Decided,
        Kind::Vnode,
        Kind::Reset,
        Kind::Checkpoint,
    ];
    let length = |n: u64| [0, 1, 100, 3_000, 40_000][n as usize % 5];
    let payload = |n: u64| (0..length(n)).map(|at| (at * 7 + n) as u8).collect();
    (0..21).map(|n| (kinds[n as usize % 7], n as u32 % 3, n + 1, payload(n))).collect()
}

#[test]
fn the_log_of_version_1_is_read_record_by_record() {
    let scratch = Scratch::new("golden-log");
    let make = |folder: &Path| {
        let disk = Arc::new(FileDisk::open(folder).expect("a folder"));
        let (mut log, _) = Log::open(disk, log_settings()).expect("an empty folder");
        for (kind, group, index, payload) in &records() {
            let owner = Owner { group: *group, generation: 1 };
            let (configuration, ballot, decided) = (4, (5, 6), index - 1);
            let (kind, index) = (*kind, *index);
            let record = Record { kind, owner, configuration, ballot, index, decided, payload };
            log.append(&record).expect("there is space");
            log.commit(index % 2 == 0).expect("there is space");
        }
        log.close().expect("there is space");
    };
    let folder = copy_of(&scratch, "log-1.tar.gz", make);
    let disk = Arc::new(FileDisk::open(&folder).expect("a folder"));
    let (_log, replay) = Log::open(disk, log_settings()).expect("the log of version 1");
    let found: Vec<_> = replay.map(|record| record.expect("whole").1).collect();
    assert_eq!(found.len(), records().len());
    for (found, (kind, group, index, payload)) in found.iter().zip(records()) {
        let owner = Owner { group, generation: 1 };
        assert_eq!((found.kind, found.owner, found.index), (kind, owner, index));
        assert_eq!((found.configuration, found.ballot, found.decided), (4, (5, 6), index - 1));
        assert_eq!(found.payload, payload);
    }
}

#[test]
fn the_identity_of_version_1_is_read() {
    let scratch = Scratch::new("golden-identity");
    let make = |folder: &Path| {
        DataDir::open(folder).map(drop).expect("an empty folder");
        std::fs::remove_file(folder.join("LOCK")).expect("it is there");
    };
    let folder = copy_of(&scratch, "identity-1.tar.gz", make);
    let opened = DataDir::open(&folder).expect("an identity of version 1");
    assert!(!opened.fresh, "the kept identity was passed over");
    let kept = std::fs::read_to_string(folder.join("IDENTITY")).expect("text");
    for id in [opened.cluster, opened.node] {
        assert!(kept.contains(&format!("{id:016x}")), "{kept}");
    }
}

fn rows() -> impl Iterator<Item = (Bytes, Bytes)> {
    let row = |n: u32| (format!("key{n:05}").into(), Bytes::from(vec![n as u8; n as usize % 300]));
    (0..2_000).map(row)
}

#[test]
fn the_trees_of_version_1_are_read_row_by_row() {
    let scratch = Scratch::new("golden-trees");
    let settings = |folder: &Path| TreeSettings::new(folder);
    let make = |folder: &Path| {
        let trees = LsmTrees::open(settings(folder)).expect("an empty folder");
        trees.apply(&mut rows().map(|(key, value)| Change::Put(key, value))).expect("open");
        let odd = rows().skip(1).step_by(2).map(|(key, _)| Change::Remove(key));
        trees.rotate().and_then(|_| trees.flush()).expect("there is space");
        trees.apply(&mut { odd }).expect("open");
        trees.rotate().and_then(|_| trees.flush()).expect("there is space");
    };
    let folder = copy_of(&scratch, "trees-1.tar.gz", make);
    let trees = LsmTrees::open(settings(&folder)).expect("the trees of version 1");
    for (n, (key, value)) in rows().enumerate() {
        let wanted = n.is_multiple_of(2).then_some(value);
        assert_eq!(trees.get(&key).expect("readable"), wanted, "row {n}");
    }
}
