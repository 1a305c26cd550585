//! Bytes that were written by the first version of the format are read today, and written the
//! same today. `UPDATE_GOLDENFILES=1` makes the examples; a kept one never changes.

use super::*;
use crate::DataDir;
use std::path::{Path, PathBuf};

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../proof/golden/log-v1")
}

const GOLDEN: LogSettings =
    LogSettings { segment_bytes: SEGMENT_BYTES_MIN, id: 0x00C0_FFEE, ahead: Ahead::Inline };

fn golden_records() -> Vec<OwnedRecord> {
    use Kind::*;
    let kinds = [Accept, Truncate, Promise, Decided, Vnode, Reset, Checkpoint];
    let small = (1..).zip(kinds).map(|(number, kind)| OwnedRecord { kind, ..record(number, 40) });
    small.chain([record(8, 1700), record(9, 40_000), record(10, 0), record(11, 3000)]).collect()
}

/// Every kind of frame and every shape: two lives, a record in pieces, footers, an orderly end.
fn write_golden() -> MemoryDisk {
    let disk = memory();
    let records = golden_records();
    let (mut log, ..) = open(&disk, GOLDEN).expect("begins");
    for record in &records[..7] {
        log.append(&record.as_record()).expect("appends");
    }
    log.commit(true).expect("commits");
    drop(log);
    let (mut log, ..) = open(&disk, GOLDEN).expect("opens");
    for record in &records[7..] {
        log.append(&record.as_record()).expect("appends");
        log.commit(true).expect("commits");
    }
    log.close().expect("closes");
    disk
}

#[test]
fn the_log_of_format_1_is_read_and_written_as_it_always_was() {
    let written = write_golden();
    let files: Vec<String> =
        names(&written).into_iter().filter(|name| name.ends_with(".log")).collect();
    assert_eq!(files.len(), 3);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::create_dir_all(kept()).expect("makes");
        for name in &files {
            let bytes = written.bytes(name).expect("there");
            std::fs::write(kept().join(name), bytes).expect("writes");
        }
    }
    let disk = memory();
    for name in &files {
        let bytes = std::fs::read(kept().join(name)).expect("kept in the repository");
        assert!(written.bytes(name).as_ref() == Some(&bytes), "{name} is written otherwise today");
        disk.plant(name, bytes);
    }
    assert!(verify(&disk, &mut |_| {}).expect("reads").is_sound());
    let (_, found, recovered) = open(&disk, GOLDEN).expect("opens");
    assert_eq!(found, golden_records());
    assert_eq!(recovered, Recovered { torn_bytes: 0, records: 11, unclean: false });
}

#[test]
fn the_identity_of_format_1_is_read_as_it_always_was() {
    let text = "credenza 1\ncluster 0f3c5a7711d2e9b4\nnode 93b1c2d3e4f50617\n";
    let sum = base::codec::checksum(text.as_bytes(), 0);
    let written = format!("{text}checksum {sum:016x}\n");
    let file = kept().join("IDENTITY");
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::create_dir_all(kept()).expect("makes");
        std::fs::write(&file, &written).expect("writes");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("kept in the repository"), written);
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::copy(&file, directory.path().join("IDENTITY")).expect("copies");
    let data = DataDir::open(directory.path()).expect("opens");
    assert!(!data.fresh);
    assert_eq!((data.cluster, data.node), (0x0f3c_5a77_11d2_e9b4, 0x93b1_c2d3_e4f5_0617));
}
