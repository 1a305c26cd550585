//! Sweep over failing calls: a history is run repeatedly, each time with another call of another
//! kind failing once.
//!
//! Checks: no acknowledged record is lost; `Full` is never followed by `Closed`, and a retry works
//! once there is space; after any other failure that is not retryable, the log accepts no record
//! and makes no call.

use super::*;
use crate::disk::{DiskCall, crash_states};
use std::io::ErrorKind;

const RECORDS: u64 = 90;
const OPERATIONS: [DiskCall; 6] = {
    use DiskCall::*;
    [Create, Write, Sync, Rename, Remove, SyncDirectory]
};

/// Outcome of a history with one failing call.
#[derive(Debug, Default)]
struct SweepOutcome {
    /// The last record that was acknowledged.
    acknowledged: u64,
    /// Number of calls that failed because the disk was full.
    full: u32,
    /// Number of calls that failed for another reason and were retryable.
    refused: u32,
    /// The failure that closed the log.
    closed: Option<StoreError>,
    /// The last record that was appended.
    appended: u64,
}

impl SweepOutcome {
    /// Performs one operation, with retries where they are allowed. Returns false if the log is
    /// closed.
    fn perform<T>(
        &mut self,
        log: &mut Log,
        mut act: impl FnMut(&mut Log) -> Result<T, StoreError>,
    ) -> bool {
        let mut before = None;
        loop {
            match (act(log), &before) {
                (Ok(_), _) => return true,
                (Err(StoreError::Closed), Some(StoreError::Full)) => panic!("closed after `Full`"),
                (Err(StoreError::Closed), _) => {
                    self.closed = before;
                    return false;
                }
                (Err(StoreError::Full), _) => {
                    self.full += 1;
                    assert!(self.full < 9, "one call failed, and once");
                    before = Some(StoreError::Full);
                }
                (Err(error), _) => {
                    self.refused += 1;
                    assert!(self.refused < 9, "one call failed, and once");
                    before = Some(error);
                }
            }
        }
    }

    /// Appends records of many sizes, commits most of them at once, and collapses segments.
    fn run(&mut self, log: &mut Log) {
        for number in 1..=RECORDS {
            let bytes = [40, 900, 3000, 7000][number as usize % 4];
            let record = record(number, bytes);
            if !self.perform(log, |log| log.append(&record.as_record())) {
                return;
            }
            self.appended = number;
            let sync = number % 3 > 0;
            if !self.perform(log, |log| log.commit(sync)) {
                return;
            }
            if sync {
                self.acknowledged = number;
            }
            let keep_from = Position(log.end().0.saturating_sub(40_000));
            if number % 20 == 0 && !self.perform(log, |log| log.collapse(keep_from)) {
                return;
            }
        }
    }
}

/// Checks that the records are consecutive and include the last acknowledged one.
fn check_found(found: &[OwnedRecord], outcome: &SweepOutcome) {
    let numbers: Vec<u64> = found.iter().map(|record| record.index).collect();
    let last = numbers.last().copied().unwrap_or(0);
    let first = numbers.first().copied().unwrap_or(1);
    assert!(numbers.iter().copied().eq(first..=last), "no gap: {numbers:?}");
    assert!(last >= outcome.acknowledged, "{last} of {outcome:?}");
    assert!(last <= outcome.appended, "{last} of {outcome:?}");
    for found in found {
        assert_eq!(*found, record(found.index, found.payload.len()));
    }
}

/// Runs the history with the `nth` such call failing. `None`: there are fewer calls.
fn sweep(operation: DiskCall, nth: u64, kind: ErrorKind) -> Option<SweepOutcome> {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    disk.fail_nth(operation, nth, kind);
    let mut outcome = SweepOutcome::default();
    outcome.run(&mut log);
    let calls = disk.calls();
    if outcome.closed.is_some() {
        assert!(matches!(log.append(&record(1, 1).as_record()), Err(StoreError::Closed)));
        assert!(matches!(log.commit(true), Err(StoreError::Closed)));
        assert_eq!(disk.calls(), calls, "closed for good: the disk is left alone");
    } else {
        assert_eq!(outcome.acknowledged, RECORDS - 1);
        if outcome.full + outcome.refused == 0 && !disk.has_failed() {
            return None;
        }
    }
    drop(log);
    let mut seed = nth as usize;
    let mut rng = |n: usize| {
        seed = seed.wrapping_mul(0x9E37_79B9).wrapping_add(nth as usize);
        (seed >> 7) % n
    };
    for state in crash_states(&disk, 3, &mut rng) {
        let (mut log, found, _) = open(&state, SMALL).expect("a torn tail at most");
        check_found(&found, &outcome);
        log.append(&record(1000, 5000).as_record()).expect("goes on");
        log.commit(true).expect("goes on");
    }
    Some(outcome)
}

/// Returns all outcomes of one kind of failure, by operation.
fn outcomes(kind: ErrorKind) -> Vec<(DiskCall, Vec<SweepOutcome>)> {
    let all = |operation| (1..).map_while(|nth| sweep(operation, nth, kind)).collect();
    OPERATIONS.into_iter().map(|operation| (operation, all(operation))).collect()
}

#[test]
fn full_disk_at_any_call_loses_no_acknowledged_record() {
    let mut tried = 0;
    for (operation, outcomes) in outcomes(ErrorKind::StorageFull) {
        let closed = outcomes.iter().filter(|outcome| outcome.closed.is_some()).count();
        println!("{operation:?}: {} positions, {closed} closed", outcomes.len());
        assert!(outcomes.len() > 3, "{operation:?}");
        tried += outcomes.len();
        let is_recoverable = matches!(operation, DiskCall::Create | DiskCall::Write);
        assert!(!is_recoverable || closed == 0, "{operation:?}: space comes back");
    }
    println!("{tried} positions of a full disk");
}

#[test]
fn failure_of_any_call_loses_no_acknowledged_record() {
    let mut tried = 0;
    for (operation, outcomes) in outcomes(ErrorKind::Other) {
        let closed = outcomes.iter().filter(|outcome| outcome.closed.is_some()).count();
        println!("{operation:?}: {} positions, {closed} closed", outcomes.len());
        assert!(
            outcomes.iter().all(|outcome| outcome.full == 0 && outcome.refused <= 1),
            "{operation:?}"
        );
        tried += outcomes.len();
    }
    println!("{tried} positions of a failing call");
}
