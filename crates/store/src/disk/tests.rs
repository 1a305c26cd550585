//! The disk's own promises: complete writes, no links, and a memory disk that loses what was not
//! synced.

use super::file::{open_error, read_full, sync_uninterrupted, write_full};
use super::*;
use rustix::io::Errno;
use std::os::unix::fs::{PermissionsExt, symlink};

#[test]
fn short_and_interrupted_writes_and_reads_are_completed() {
    let mut written = vec![0_u8; 10];
    let mut calls = 0;
    write_full(b"0123456789", 0, |rest, at| {
        calls += 1;
        if calls % 2 == 0 {
            return Err(Errno::INTR);
        }
        let count = rest.len().min(3);
        written[at as usize..at as usize + count].copy_from_slice(&rest[..count]);
        Ok(count)
    })
    .expect("completes");
    assert_eq!((written.as_slice(), calls), (&b"0123456789"[..], 7));

    let mut read = [0; 20];
    let mut calls = 0;
    let count = read_full(&mut read, 0, |rest, at| {
        calls += 1;
        if calls % 2 == 0 {
            return Err(Errno::INTR);
        }
        let available = &written[at as usize..];
        let count = available.len().min(rest.len()).min(4);
        rest[..count].copy_from_slice(&available[..count]);
        Ok(count)
    })
    .expect("completes");
    assert_eq!(&read[..count], b"0123456789");

    let stuck = write_full(b"x", 0, |_, _| Ok(0)).expect_err("no progress is an error");
    assert_eq!(stuck.kind(), io::ErrorKind::WriteZero);
    let broken = write_full(b"x", 0, |_, _| Err(Errno::IO)).expect_err("an error is an error");
    assert_eq!(broken.raw_os_error(), Some(Errno::IO.raw_os_error()));
}

#[test]
fn interrupted_sync_is_retried_and_failed_sync_never_is() {
    let mut answers = vec![Ok(()), Err(Errno::INTR), Err(Errno::INTR)];
    sync_uninterrupted(|| answers.pop().expect("asked three times")).expect("completes");
    assert!(answers.is_empty());
    let mut answers = vec![Ok(()), Err(Errno::IO), Err(Errno::INTR)];
    let failed = sync_uninterrupted(|| answers.pop().expect("asked twice"));
    assert_eq!(failed, Err(Errno::IO));
    assert_eq!(answers, [Ok(())], "a failed sync was tried again");
}

#[test]
fn descriptor_exhaustion_maps_to_would_block_and_other_errors_stay() {
    for error in [Errno::MFILE, Errno::NFILE] {
        let told = open_error(error);
        assert_eq!(told.kind(), io::ErrorKind::WouldBlock);
        assert!(told.to_string().contains("files"), "and in words: {told}");
    }
    assert_eq!(open_error(Errno::NOENT).kind(), io::ErrorKind::NotFound);
    assert_eq!(open_error(Errno::IO).raw_os_error(), Some(Errno::IO.raw_os_error()));
}

#[test]
fn disk_files_are_private_and_never_opened_through_symlinks() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = FileDisk::open(directory.path()).expect("opens");
    let file = disk.create("a", 8192).expect("creates");
    assert_eq!(file.size().expect("sized"), 8192);
    file.write_at(b"hello", 4094).expect("writes");
    file.sync_data().expect("syncs");
    let mut bytes = [1; 8];
    assert_eq!(file.read_at(&mut bytes, 4094).expect("reads"), 8);
    assert_eq!(&bytes, b"hello\0\0\0");
    assert_eq!(file.read_at(&mut bytes, 8190).expect("reads"), 2, "the file ends");
    let mode = std::fs::metadata(directory.path().join("a")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(disk.create("a", 1).err().map(|e| e.kind()), Some(io::ErrorKind::AlreadyExists));

    symlink(directory.path().join("a"), directory.path().join("link")).expect("links");
    assert!(disk.open("link", Access::Read).is_err(), "links are not followed");
    assert!(disk.create("link", 1).is_err(), "nor written through");
    std::fs::create_dir(directory.path().join("folder")).expect("makes");
    assert!(disk.open("folder", Access::Read).is_err(), "a directory is no file");

    disk.rename("a", "b").expect("renames");
    disk.sync_directory().expect("syncs");
    assert_eq!(disk.list().expect("lists"), ["b", "folder", "link"]);
    disk.remove("b").expect("removes");
    assert!(disk.free_space().expect("asks") > 0);
    file.write_at(b"still open", 0).expect("a held file outlives its name");
}

#[test]
fn sync_measurement_yields_percentiles_and_leaves_no_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let figures = measure_sync(directory.path(), 5).expect("measures");
    assert!(figures.p50_us <= figures.p99_us);
    assert_eq!(std::fs::read_dir(directory.path()).expect("lists").count(), 0);
}

/// Returns all contents of a file over all crash states. `None`: the file is absent.
fn outcomes(disk: &MemoryDisk, name: &str) -> Vec<Option<Vec<u8>>> {
    let states = crash_states(disk, 1000, &mut |_| unreachable!("few enough to try all"));
    let mut all: Vec<_> = states.iter().map(|state| state.bytes(name)).collect();
    all.sort();
    all.dedup();
    all
}

#[test]
fn power_cut_loses_only_unsynced_sectors_and_names() {
    let disk = MemoryDisk::new(Honesty::Honest);
    let file = disk.create("a", 1024).expect("creates");
    assert_eq!(outcomes(&disk, "a").len(), 3, "gone, empty, or whole");
    file.sync_data().expect("syncs");
    assert_eq!(outcomes(&disk, "a").len(), 2, "its name is not durable yet");
    disk.sync_directory().expect("syncs");
    assert_eq!(outcomes(&disk, "a"), [Some(vec![0; 1024])]);

    file.write_at(&[1; 1024], 0).expect("writes");
    file.write_at(&[2; 512], 0).expect("writes");
    assert_eq!(outcomes(&disk, "a").len(), 3 * 2, "three contents of one sector, two of the other");
    file.sync_data().expect("syncs");
    let synced = [[2; 512], [1; 512]].concat();
    assert_eq!(outcomes(&disk, "a"), [Some(synced.clone())]);

    disk.rename("a", "b").expect("renames");
    assert_eq!(outcomes(&disk, "a"), [None, Some(synced.clone())]);
    disk.sync_directory().expect("syncs");
    assert_eq!(outcomes(&disk, "a"), [None]);
    assert_eq!(outcomes(&disk, "b"), [Some(synced)]);
}

#[test]
fn bytes_of_a_failed_sync_stay_volatile_until_rewritten_and_synced() {
    let disk = MemoryDisk::new(Honesty::Honest);
    disk.create_durable("a", vec![0; 512]);
    let file = disk.open("a", Access::Write).expect("opens");
    file.write_at(&[1; 512], 0).expect("writes");
    disk.fail_nth(DiskCall::Sync, 1, io::ErrorKind::Other);
    assert!(file.sync_data().is_err());
    file.sync_data().expect("says all is well");
    assert_eq!(outcomes(&disk, "a").len(), 2, "and yet it may be lost");
    file.write_at(&[1; 512], 0).expect("writes");
    file.sync_data().expect("syncs");
    assert_eq!(outcomes(&disk, "a").len(), 1);
}

#[test]
fn bytes_of_a_failed_sync_are_readable_until_evicted() {
    let disk = MemoryDisk::new(Honesty::Honest);
    disk.create_durable("a", vec![0; 1024]);
    let file = disk.open("a", Access::Write).expect("opens");
    file.write_at(&[1; 512], 0).expect("writes");
    disk.fail_nth(DiskCall::Sync, 1, io::ErrorKind::Other);
    assert!(file.sync_data().is_err());
    assert_eq!(disk.take_failures(), [(DiskCall::Sync, io::ErrorKind::Other)]);
    file.write_at(&[2; 512], 512).expect("writes");
    assert_eq!(disk.bytes("a"), Some([[1; 512], [2; 512]].concat()));
    disk.evict(&mut |_| 0);
    let left = [[0; 512], [2; 512]].concat();
    assert_eq!(disk.bytes("a"), Some(left), "what no sync has failed on stays");
    assert_eq!(outcomes(&disk, "a").len(), 2);
}

#[test]
fn failed_write_leaves_part_of_its_bytes() {
    let disk = MemoryDisk::new(Honesty::Honest);
    disk.create_durable("a", vec![0; 2048]);
    let file = disk.open("a", Access::Write).expect("opens");
    disk.fail_nth(DiskCall::Write, 1, io::ErrorKind::StorageFull);
    disk.fail_nth(DiskCall::Write, 2, io::ErrorKind::Other);
    assert!(file.write_at(&[1; 1024], 0).is_err());
    assert_eq!(disk.bytes("a"), Some([vec![1; 512], vec![0; 1536]].concat()));
    disk.clear_faults();
    file.write_at(&[1; 1024], 0).expect("writes");
}

#[test]
fn lying_disk_can_lose_bytes_it_reported_as_synced() {
    let disk = MemoryDisk::new(Honesty::Lying);
    disk.create_durable("a", vec![0; 512]);
    let file = disk.open("a", Access::Write).expect("opens");
    file.write_at(&[1; 512], 0).expect("writes");
    file.sync_data().expect("lies");
    assert_eq!(outcomes(&disk, "a").len(), 2);
}
