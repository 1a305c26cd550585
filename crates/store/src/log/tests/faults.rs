//! Failing calls: errors of the log, data that it keeps, and calls that it never repeats.

use super::super::segment::LogNames;
use super::*;
use crate::disk::{DiskCall, crash_states};
use std::io::ErrorKind;

fn append(log: &mut Log, number: u64, bytes: usize) -> Result<Position, StoreError> {
    log.append(&record(number, bytes).as_record())
}

fn numbers(records: &[OwnedRecord]) -> Vec<u64> {
    records.iter().map(|record| record.index).collect()
}

/// Returns the numbers found in each state after a power cut.
fn after_power_cut(disk: &MemoryDisk) -> Vec<Vec<u64>> {
    let states = crash_states(disk, 64, &mut |n| n / 2);
    states.iter().map(|state| numbers(&read(state).expect("sound"))).collect()
}

#[test]
fn first_failed_sync_closes_the_log_and_is_never_retried() {
    for nth in 1..6 {
        let disk = memory();
        let (mut log, ..) = open(&disk, SMALL).expect("begins");
        disk.fail_nth(DiskCall::Sync, nth, ErrorKind::Other);
        let mut durable = Vec::new();
        let mut number = 0;
        let error = loop {
            number += 1;
            append(&mut log, number, 100).expect("appends");
            match log.commit(true) {
                Ok(_) => durable.push(number),
                Err(error) => break error,
            }
        };
        assert_eq!(number, nth);
        let text = error.to_string();
        assert!(text.starts_with("can't sync 0000000000000001.log: "), "{text}");
        let calls = disk.calls();
        assert!(matches!(log.commit(true), Err(StoreError::Closed)));
        assert!(matches!(log.commit(false), Err(StoreError::Closed)));
        assert!(matches!(append(&mut log, 99, 1), Err(StoreError::Closed)));
        assert!(matches!(log.collapse(log.end()), Err(StoreError::Closed)));
        assert!(matches!(log.mark_durable(), Err(StoreError::Closed)));
        assert!(matches!(log.close(), Err(StoreError::Closed)));
        assert_eq!(disk.calls(), calls, "the disk is left alone");
        for found in after_power_cut(&disk) {
            assert!(found.starts_with(&durable), "{found:?}");
        }
    }
}

#[test]
fn records_of_a_failed_sync_are_durable_once_the_log_is_reopened() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    append(&mut log, 1, 2000).expect("appends");
    log.commit(true).expect("commits");
    append(&mut log, 2, 2000).expect("appends");
    disk.fail_nth(DiskCall::Sync, 1, ErrorKind::Other);
    assert!(log.commit(true).is_err());
    drop(log);
    assert!(after_power_cut(&disk).contains(&vec![1]), "it is in memory only");
    let (_log, found, _) = open(&disk, SMALL).expect("opens");
    assert_eq!(numbers(&found), [1, 2]);
    for found in after_power_cut(&disk) {
        assert_eq!(found, [1, 2], "who has seen it can rely on it");
    }
}

#[test]
fn unsynced_records_of_a_killed_process_are_durable_once_reopened() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    append(&mut log, 1, 3000).expect("appends");
    log.commit(false).expect("writes");
    drop(log);
    let (_log, found, recovered) = open(&disk, SMALL).expect("opens");
    assert_eq!((numbers(&found), recovered.unclean_shutdown), (vec![1], true));
    assert!(after_power_cut(&disk).iter().all(|found| *found == [1]));
}

#[test]
fn failed_write_closes_the_log() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    append(&mut log, 1, 10).expect("appends");
    disk.fail_nth(DiskCall::Write, 1, ErrorKind::Other);
    let text = log.commit(false).expect_err("fails").to_string();
    assert!(text.starts_with("can't write 0000000000000001.log: "), "{text}");
    assert!(matches!(log.commit(true), Err(StoreError::Closed)));
}

#[test]
fn write_on_a_full_disk_keeps_the_records_for_a_retry() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    for number in 1..4 {
        append(&mut log, number, 100).expect("appends");
        disk.fail_nth(DiskCall::Write, 1, ErrorKind::StorageFull);
        disk.fail_nth(DiskCall::Write, 2, ErrorKind::StorageFull);
        let end = log.end();
        assert!(matches!(log.commit(true), Err(StoreError::Full)));
        assert!(matches!(log.commit(true), Err(StoreError::Full)));
        assert_eq!(log.end(), end, "tries leave nothing behind");
    }
    log.commit(true).expect("space is back");
    drop(log);
    assert!(after_power_cut(&disk).iter().all(|found| *found == [1, 2, 3]));
}

/// Appends until an append fails. Returns the number of that record, and the error.
fn append_until_error(log: &mut Log, mut number: u64) -> (u64, StoreError) {
    loop {
        match append(log, number, 500) {
            Ok(_) => number += 1,
            Err(error) => return (number, error),
        }
    }
}

#[test]
fn full_disk_rejects_only_the_record_that_needs_a_new_segment() {
    let refusals: [(DiskCall, u64, ErrorKind); 5] = [
        (DiskCall::Create, 1, ErrorKind::StorageFull),
        (DiskCall::Write, 1, ErrorKind::StorageFull),
        (DiskCall::Write, 2, ErrorKind::QuotaExceeded),
        (DiskCall::Write, 3, ErrorKind::StorageFull),
        (DiskCall::Sync, 1, ErrorKind::StorageFull),
    ];
    for (operation, nth, kind) in refusals {
        let disk = memory();
        let (mut log, ..) = open(&disk, SMALL).expect("begins");
        disk.fail_nth(operation, nth, kind);
        let (refused, error) = append_until_error(&mut log, 1);
        assert!(matches!(error, StoreError::Full), "{operation:?} {nth}: {error}");
        log.commit(true).expect("what was taken is committed");
        append(&mut log, refused, 500).expect("space is back");
        log.commit(true).expect("commits");
        assert_eq!(log.segments(), 2);
        drop(log);
        let expected: Vec<u64> = (1..=refused).collect();
        assert_eq!(numbers(&read(&disk).expect("sound")), expected, "{operation:?} {nth}");
        assert!(names(&disk).iter().all(|name| !name.ends_with(".new")), "{:?}", names(&disk));
    }
}

#[test]
fn full_disk_on_segment_rename_is_retryable_and_keeps_the_log_open() {
    for restarted in [false, true] {
        let disk = memory();
        let (mut log, ..) = open(&disk, SMALL).expect("begins");
        // The first rename creates the spare, the others name the segment.
        for nth in 2..4 + u64::from(restarted) {
            disk.fail_nth(DiskCall::Rename, nth, ErrorKind::StorageFull);
        }
        let (refused, error) = append_until_error(&mut log, 1);
        assert!(matches!(error, StoreError::Full), "{error}");
        let before: Vec<u64> = (1..refused).collect();
        for found in after_power_cut(&disk) {
            assert_eq!(found, before, "what was taken was sealed, and nothing else is there");
        }
        let (end, segments) = (log.end(), log.segments());
        assert!(
            log.free_bytes() >= SMALL.segment_bytes,
            "the next segment is ready but for its name"
        );
        log.commit(true).expect("all of it is durable");
        log.mark_durable().expect("and said to be");
        assert_eq!(log.collapse(Position(0)).expect("usable"), 0);
        assert!(matches!(append(&mut log, refused, 500), Err(StoreError::Full)), "not yet");
        assert_eq!((log.end(), log.durable(), log.segments()), (end, end, segments));
        if restarted {
            log.close().expect("all is durable; there was no room to say that it was closed");
            let (next, found, recovered) = open(&disk, SMALL).expect("space is back");
            assert_eq!((numbers(&found), recovered.unclean_shutdown), (before, true));
            log = next;
        }
        append(&mut log, refused, 500).expect("space is back");
        log.commit(true).expect("commits");
        assert_eq!(log.segments(), 2);
        log.close().expect("closes");
        let expected: Vec<u64> = (1..=refused).collect();
        for found in after_power_cut(&disk) {
            assert_eq!(found, expected);
        }
        assert!(verify(&disk, &mut |_| {}).expect("reads").is_sound());
    }
}

#[test]
fn full_disk_on_segment_rename_after_reopen_is_retryable() {
    let disk = memory();
    let segments = |disk: &MemoryDisk| LogNames::list(disk).expect("lists").segments.len();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    for number in 1..11 {
        append(&mut log, number, 1000).expect("appends");
    }
    log.close().expect("closes");
    assert_eq!(segments(&disk), 1);
    // Runs that only open and close, until an opening needs a new segment.
    let last = loop {
        let before = disk.copy(Honesty::Honest);
        open(&disk, SMALL).expect("opens").0.close().expect("closes");
        if segments(&disk) == 2 {
            break before;
        }
    };
    let (mut log, found, _) = open(&last, SMALL).expect("opens");
    last.fail_nth(DiskCall::Rename, 2, ErrorKind::StorageFull);
    last.fail_nth(DiskCall::Rename, 3, ErrorKind::StorageFull);
    for _ in 0..2 {
        assert!(matches!(append(&mut log, 11, 16), Err(StoreError::Full)));
        assert_eq!(segments(&last), 1);
    }
    append(&mut log, 11, 16).expect("space is back");
    log.commit(true).expect("commits");
    assert_eq!(segments(&last), 2);
    drop(log);
    let expected: Vec<u64> = numbers(&found).into_iter().chain([11]).collect();
    assert!(after_power_cut(&last).iter().all(|found| *found == expected));
    assert!(verify(&last, &mut |_| {}).expect("reads").is_sound());
}

#[test]
fn failed_segment_rename_or_directory_sync_closes_the_log() {
    let faults = [
        (DiskCall::Rename, 2, ErrorKind::Other),
        (DiskCall::SyncDirectory, 1, ErrorKind::StorageFull),
    ];
    for (operation, nth, kind) in faults {
        let disk = memory();
        let (mut log, ..) = open(&disk, SMALL).expect("begins");
        disk.fail_nth(operation, nth, kind);
        let (refused, error) = append_until_error(&mut log, 1);
        assert!(matches!(error, StoreError::Io { .. }), "{operation:?}: {error}");
        assert!(matches!(append(&mut log, refused, 500), Err(StoreError::Closed)));
        drop(log);
        let before: Vec<u64> = (1..refused).collect();
        assert!(after_power_cut(&disk).iter().all(|found| *found == before));
    }
}

#[test]
fn log_without_descriptors_still_uses_open_and_recycled_segments() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    let mut number = 1;
    while log.segments() < 3 {
        append(&mut log, number, 500).expect("appends");
        number += 1;
    }
    log.collapse(log.end()).expect("collapses");
    let (segments, room) = (log.segments(), log.free_bytes());
    assert!(segments == 1 && room > 2 * SMALL.segment_bytes, "two spares are ready");
    let no_descriptors = ErrorKind::Other;
    disk.fail_nth(DiskCall::Create, 1, no_descriptors);
    disk.fail_nth(DiskCall::Open, 1, no_descriptors);
    let (refused, error) = append_until_error(&mut log, number);
    assert_eq!(log.segments(), 3, "rolled twice with what was open");
    assert!(matches!(error, StoreError::Io { .. }), "{error}");
    append(&mut log, refused, 500).expect("a file could be made again");
    log.commit(true).expect("commits");
}

#[test]
fn failed_collapse_closes_the_log_and_leaves_no_gap() {
    for operation in [DiskCall::Rename, DiskCall::SyncDirectory] {
        let disk = memory();
        let (mut log, ..) = open(&disk, SMALL).expect("begins");
        let mut number = 0;
        while log.segments() < 3 {
            number += 1;
            append(&mut log, number, 500).expect("appends");
        }
        log.commit(true).expect("commits");
        disk.fail_nth(operation, 1, ErrorKind::Other);
        assert!(matches!(log.collapse(log.end()), Err(StoreError::Io { .. })));
        assert!(matches!(log.commit(true), Err(StoreError::Closed)));
        drop(log);
        for found in after_power_cut(&disk) {
            let expected: Vec<u64> = (found[0]..=number).collect();
            assert_eq!(found, expected, "no gap");
        }
    }
}

#[test]
fn power_off_at_any_call_while_opening_loses_no_record() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    for number in 1..80 {
        append(&mut log, number, 500).expect("appends");
    }
    log.commit(false).expect("writes");
    drop(log);
    let expected = read(&disk.copy(Honesty::Honest)).expect("sound");
    for calls in 0.. {
        let tried = disk.copy(Honesty::Honest);
        tried.power_off_after(calls);
        let result = read(&tried);
        let sound = read(&tried.copy(Honesty::Honest)).expect("sound");
        assert_eq!(sound, expected, "power off after {calls}");
        if let Ok(records) = result {
            assert_eq!(records, expected);
            assert!(calls > 10);
            return;
        }
    }
}

#[test]
fn recovery_reports_unclean_unless_the_log_was_closed() {
    let disk = memory();
    let (log, _, found) = open(&disk, SMALL).expect("begins");
    assert!(!found.unclean_shutdown, "a new log");
    log.close().expect("closes");
    let (mut log, _, found) = open(&disk, SMALL).expect("opens");
    assert!(!found.unclean_shutdown);
    append(&mut log, 1, 10).expect("appends");
    log.commit(true).expect("commits");
    drop(log);
    let (log, _, found) = open(&disk, SMALL).expect("opens");
    assert!(found.unclean_shutdown && found.torn_bytes == 0);
    log.close().expect("closes");
    let report = verify(&disk, &mut |_| {}).expect("reads");
    assert!(report.is_closed && report.is_sound(), "{report:?}");
}
