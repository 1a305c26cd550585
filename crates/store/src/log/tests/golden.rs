//! Golden bytes of earlier format versions, which are still read and still written identically.
//! `UPDATE_GOLDENFILES=1` creates the files; an existing one never changes.

use super::*;
use crate::DataDir;
use std::path::{Path, PathBuf};

fn golden_log() -> PathBuf {
    golden("log-v1")
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../systest/golden").join(name)
}

const GOLDEN: LogSettings = LogSettings {
    segment_bytes: SEGMENT_BYTES_MIN,
    log_id: 0x00C0_FFEE,
    spare_worker: SpareWorker::Inline,
};

fn golden_records() -> Vec<OwnedRecord> {
    use RecordKind::*;
    let kinds = [Accept, Truncate, Promise, Decided, Vnode, Reset, Checkpoint];
    let small = (1..).zip(kinds).map(|(number, kind)| OwnedRecord { kind, ..record(number, 40) });
    small.chain([record(8, 1700), record(9, 40_000), record(10, 0), record(11, 3000)]).collect()
}

/// Writes every kind and shape of frame: two runs, a record in pieces, footers, a clean close.
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

/// Returns a disk with the golden segments, after a comparison with the bytes written now.
fn read_golden(written: &MemoryDisk, folder: &Path, segments: usize) -> MemoryDisk {
    let files: Vec<String> =
        names(written).into_iter().filter(|name| name.ends_with(".log")).collect();
    assert_eq!(files.len(), segments);
    if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
        std::fs::create_dir_all(folder).expect("makes");
        for name in &files {
            let bytes = written.bytes(name).expect("there");
            std::fs::write(folder.join(name), bytes).expect("writes");
        }
    }
    let disk = memory();
    for name in &files {
        let bytes = std::fs::read(folder.join(name)).expect("kept in the repository");
        assert!(written.bytes(name).as_ref() == Some(&bytes), "{name} is written otherwise today");
        disk.create_durable(name, bytes);
    }
    assert!(verify(&disk, &mut |_| {}).expect("reads").is_sound());
    disk
}

#[test]
fn log_of_format_1_matches_golden_bytes() {
    let disk = read_golden(&write_golden(), &golden_log(), 3);
    let (_, found, recovered) = open(&disk, GOLDEN).expect("opens");
    assert_eq!(found, golden_records());
    assert_eq!(recovered, RecoverySummary { torn_bytes: 0, records: 11, unclean_shutdown: false });
}

/// Records of a segment of version 1, and of one of version 2 that a staged value began.
fn staged_records() -> [OwnedRecord; 4] {
    let kinds = [RecordKind::Accept, RecordKind::Stage, RecordKind::Stage, RecordKind::Truncate];
    let mut number = 0;
    kinds.map(|kind| {
        number += 1;
        OwnedRecord { kind, ..record(number, 40 * number as usize) }
    })
}

fn write_staged() -> MemoryDisk {
    let disk = memory();
    let (mut log, ..) = open(&disk, GOLDEN).expect("begins");
    for record in &staged_records() {
        log.append(&record.as_record()).expect("appends");
    }
    log.close().expect("closes");
    disk
}

#[test]
fn log_of_format_2_matches_golden_bytes() {
    let disk = read_golden(&write_staged(), &golden("log-v2"), 2);
    let (_, found, recovered) = open(&disk, GOLDEN).expect("opens");
    assert_eq!(found, staged_records());
    assert_eq!(recovered, RecoverySummary { torn_bytes: 0, records: 4, unclean_shutdown: false });
}

/// Every version refuses a segment of a later version before it reads a record: frames of unknown
/// kinds would look like a torn tail.
#[test]
fn segment_of_a_newer_version_is_rejected_and_left_unchanged() {
    let version_of = |disk: &MemoryDisk, name: &str| disk.bytes(name).expect("there")[8];
    let first = "0000000000000001.log";
    let second = "0000000000000002.log";
    let disk = write_staged();
    assert_eq!((version_of(&disk, first), version_of(&disk, second)), (1, 2));
    let mut page = disk.bytes(second).expect("there");
    page[8] = 3;
    let sum = base::codec::checksum(&page[..4088], 0);
    page[4088..4096].copy_from_slice(&sum.to_le_bytes());
    let later = memory();
    later.create_durable(first, disk.bytes(first).expect("there"));
    later.create_durable(second, page.clone());
    let refused = open(&later, GOLDEN).err().expect("it is of a later version");
    let expected = "the data is in format 3, this program knows format 2";
    assert_eq!(refused.to_string(), expected);
    assert_eq!(later.bytes(second), Some(page));
}

#[test]
fn segments_are_version_1_until_a_record_is_staged() {
    let version_of = |disk: &MemoryDisk, name: &String| disk.bytes(name).expect("there")[8];
    let versions = |disk: &MemoryDisk| -> Vec<u8> {
        let logs = names(disk).into_iter().filter(|name| name.ends_with(".log"));
        logs.map(|name| version_of(disk, &name)).collect()
    };
    assert_eq!(versions(&write_golden()), [1, 1, 1]);
    let disk = write_staged();
    let (mut log, ..) = open(&disk, GOLDEN).expect("opens");
    for number in 5..9 {
        log.append(&record(number, 3000).as_record()).expect("appends");
    }
    log.commit(true).expect("commits");
    let versions = versions(&disk);
    assert!(versions.len() > 3 && versions[0] == 1, "{versions:?}");
    assert!(versions[1..].iter().all(|version| *version == 2), "{versions:?}");
}

#[test]
fn golden_identity_files_are_read_and_left_as_they_are() {
    let identity = |format| {
        let text = format!("credenza {format}\ncluster 0f3c5a7711d2e9b4\nnode 93b1c2d3e4f50617\n");
        let sum = base::codec::checksum(text.as_bytes(), 0);
        format!("{text}checksum {sum:016x}\n")
    };
    for (name, format) in [("IDENTITY", 1), ("IDENTITY-2", 2)] {
        let file = golden_log().join(name);
        if std::env::var_os("UPDATE_GOLDENFILES").is_some() {
            std::fs::create_dir_all(golden_log()).expect("makes");
            std::fs::write(&file, identity(format)).expect("writes");
        }
        let written = std::fs::read_to_string(&file).expect("kept in the repository");
        assert_eq!(written, identity(format));
        let directory = tempfile::tempdir().expect("a directory");
        let copy = directory.path().join("IDENTITY");
        std::fs::copy(&file, &copy).expect("copies");
        let data = DataDir::open(directory.path()).expect("opens");
        assert!(!data.is_fresh);
        assert_eq!((data.cluster, data.node), (0x0f3c_5a77_11d2_e9b4, 0x93b1_c2d3_e4f5_0617));
        assert_eq!(std::fs::read_to_string(&copy).expect("reads"), identity(format));
    }
}
