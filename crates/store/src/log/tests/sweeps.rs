//! One call fails, whichever it is: a history is run again and again, each time with another call
//! of another kind failing once.
//!
//! Promises held here: nothing acknowledged is lost; `Full` is never followed by `Closed`, and
//! trying again works once there is space; after any other failure that was not refused whole, the
//! log takes nothing more and the disk is left alone.

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
struct Outcome {
    /// The last record that was acknowledged.
    acknowledged: u64,
    /// Number of calls that failed because the disk was full.
    full: u32,
    /// Calls that were refused whole for another reason, and could be tried again.
    refused: u32,
    /// The failure that closed the log.
    closed: Option<StoreError>,
    /// Every record that was taken.
    taken: u64,
}

impl Outcome {
    /// Does one thing, again where that is allowed. False: the log is closed.
    fn act<T>(
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

    /// Records of many sizes, most of them committed at once, and segments that come and go.
    fn run(&mut self, log: &mut Log) {
        for number in 1..=RECORDS {
            let bytes = [40, 900, 3000, 7000][number as usize % 4];
            let record = record(number, bytes);
            if !self.act(log, |log| log.append(&record.as_record())) {
                return;
            }
            self.taken = number;
            let sync = number % 3 > 0;
            if !self.act(log, |log| log.commit(sync)) {
                return;
            }
            if sync {
                self.acknowledged = number;
            }
            let keep_from = Position(log.end().0.saturating_sub(40_000));
            if number % 20 == 0 && !self.act(log, |log| log.collapse(keep_from)) {
                return;
            }
        }
    }
}

/// Records must be a run that ends behind the last acknowledged one; gives its first.
fn judge(found: &[OwnedRecord], outcome: &Outcome) {
    let numbers: Vec<u64> = found.iter().map(|record| record.index).collect();
    let last = numbers.last().copied().unwrap_or(0);
    let first = numbers.first().copied().unwrap_or(1);
    assert!(numbers.iter().copied().eq(first..=last), "no gap: {numbers:?}");
    assert!(last >= outcome.acknowledged, "{last} of {outcome:?}");
    assert!(last <= outcome.taken, "{last} of {outcome:?}");
    for found in found {
        assert_eq!(*found, record(found.index, found.payload.len()));
    }
}

/// Runs the history with the `nth` such call failing. `None`: there are fewer calls.
fn sweep(operation: DiskCall, nth: u64, kind: ErrorKind) -> Option<Outcome> {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    disk.fail_nth(operation, nth, kind);
    let mut outcome = Outcome::default();
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
    let mut coin = nth as usize;
    let mut dice = |n: usize| {
        coin = coin.wrapping_mul(0x9E37_79B9).wrapping_add(nth as usize);
        (coin >> 7) % n
    };
    for state in crash_states(&disk, 3, &mut dice) {
        let (mut log, found, _) = open(&state, SMALL).expect("a torn tail at most");
        judge(&found, &outcome);
        log.append(&record(1000, 5000).as_record()).expect("goes on");
        log.commit(true).expect("goes on");
    }
    Some(outcome)
}

/// All outcomes of one kind of failure, by operation.
fn outcomes(kind: ErrorKind) -> Vec<(DiskCall, Vec<Outcome>)> {
    let all = |operation| (1..).map_while(|nth| sweep(operation, nth, kind)).collect();
    OPERATIONS.into_iter().map(|operation| (operation, all(operation))).collect()
}

#[test]
fn wherever_the_disk_is_full_nothing_is_lost_and_it_goes_on() {
    let mut tried = 0;
    for (operation, outcomes) in outcomes(ErrorKind::StorageFull) {
        let closed = outcomes.iter().filter(|it| it.closed.is_some()).count();
        println!("{operation:?}: {} positions, {closed} closed", outcomes.len());
        assert!(outcomes.len() > 3, "{operation:?}");
        tried += outcomes.len();
        let mends = matches!(operation, DiskCall::Create | DiskCall::Write);
        assert!(!mends || closed == 0, "{operation:?}: space comes back");
    }
    println!("{tried} positions of a full disk");
}

#[test]
fn wherever_a_call_fails_nothing_is_lost_and_no_sync_is_tried_again() {
    let mut tried = 0;
    for (operation, outcomes) in outcomes(ErrorKind::Other) {
        let closed = outcomes.iter().filter(|it| it.closed.is_some()).count();
        println!("{operation:?}: {} positions, {closed} closed", outcomes.len());
        assert!(outcomes.iter().all(|it| it.full == 0 && it.refused <= 1), "{operation:?}");
        tried += outcomes.len();
    }
    println!("{tried} positions of a failing call");
}
