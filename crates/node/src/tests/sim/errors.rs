//! Failing disk calls, and processes that end while the machine keeps its page cache.
//!
//! As in a real node, a log that finds the disk full waits and retries; after any other error
//! nothing more is acknowledged, and the process ends. Its unsynced writes are then in one of three
//! states. They can still be read, but a failed sync has marked them clean, so that no later sync
//! makes them durable unless they are written again. Or they are replaced by what the disk holds.
//! Or they are lost with the power.

use super::node::SimNode;
use super::process::cut_short;
use super::world::{Event, World};
use base::Error;
use runtime::log_writer::{WriterStep, store_error};
use sim::Chance;
use std::io::ErrorKind;
use store::{DiskCall, StoreError};

/// Pause of the log writer after it found the disk full, in microseconds.
const FULL_PAUSE_US: u64 = 50_000;
/// Most calls in a row that find the disk full.
const FULL_MAX: u64 = 20;
/// Minimum and maximum time until an ended process restarts, in microseconds.
const AGAIN_US: (u64, u64) = (20_000, 3_000_000);

/// Errors of a disk call: one of its next three calls fails.
const ERRORS: [(DiskCall, ErrorKind); 14] = [
    (DiskCall::Sync, ErrorKind::Other),
    (DiskCall::Sync, ErrorKind::Other),
    (DiskCall::Sync, ErrorKind::StorageFull),
    (DiskCall::Write, ErrorKind::Other),
    (DiskCall::Write, ErrorKind::Other),
    (DiskCall::Write, ErrorKind::StorageFull),
    (DiskCall::Create, ErrorKind::StorageFull),
    (DiskCall::Rename, ErrorKind::StorageFull),
    (DiskCall::Create, ErrorKind::Other),
    (DiskCall::Rename, ErrorKind::Other),
    (DiskCall::Remove, ErrorKind::Other),
    (DiskCall::SyncDirectory, ErrorKind::Other),
    (DiskCall::Open, ErrorKind::Other),
    (DiskCall::Read, ErrorKind::Other),
];

impl SimNode {
    /// Lets one of the disk's next calls fail; several of them if the disk is full.
    fn disk_will_fail(&mut self, chance: &mut Chance) {
        let (operation, kind) = ERRORS[chance.below(ERRORS.len() as u64) as usize];
        let waits = kind == ErrorKind::StorageFull && operation != DiskCall::Sync;
        let (first, many) =
            (chance.between(1, 3), if waits { chance.between(1, FULL_MAX) } else { 1 });
        (first..first + many).for_each(|nth| self.disk.fail_nth(operation, nth, kind));
    }

    /// Kills the process while its machine goes on: written data can be read, and is as durable as
    /// it was.
    pub(super) fn is_killed(&mut self, chance: &mut Chance) {
        let Some(mut process) = self.process.take() else { return };
        cut_short(&mut process.writer, chance, |chance| chance.often(300));
        self.ends();
    }

    /// Finishes the disk's current work and reports completions. Error `Full`: the rest waits.
    pub(super) fn written(&mut self) -> Result<(), StoreError> {
        let Some(process) = &mut self.process else { return Ok(()) };
        loop {
            match process.write()? {
                WriterStep::Full => return Err(StoreError::Full),
                WriterStep::Went if !process.writer.rests() => {}
                _ => return Ok(()),
            }
        }
    }
}

impl World {
    pub(super) fn disk_will_fail(&mut self, which: usize) -> &'static str {
        self.nodes[which].disk_will_fail(&mut self.chance);
        "faulty disk"
    }

    /// Handles the result of a write as the log writer does: retries when full, fails otherwise.
    pub(super) fn keeps(&mut self, which: usize, written: Result<(), StoreError>) {
        match written {
            Ok(()) => self.wake(which, 0),
            Err(StoreError::Full) => {
                assert!(self.disk_failed(which), "a full disk that is not");
                let process = self.nodes[which].process.as_ref().expect("it writes").number;
                self.at(FULL_PAUSE_US, Event::Written { node: which, process });
            }
            Err(error) => self.fails(which, &store_error(error)),
        }
    }

    /// Counts the injected failures that a node's disk reported. Returns true if there was one.
    pub(super) fn disk_failed(&mut self, which: usize) -> bool {
        let failures = self.nodes[which].disk.take_failures();
        for (operation, kind) in &failures {
            let name = match operation {
                DiskCall::Sync => "sync failed",
                _ if *kind == ErrorKind::StorageFull => "disk full",
                DiskCall::Write => "write failed",
                DiskCall::Open | DiskCall::Read => "read failed",
                _ => "names failed",
            };
            self.journal.count(name);
        }
        !failures.is_empty()
    }

    /// Fails a node after a disk error: its waiting callers get the error, and its process ends.
    pub(super) fn fails(&mut self, which: usize, error: &Error) {
        assert!(self.disk_failed(which), "{} fails, but its disk has not: {error}", which + 1);
        self.tell(|| format!("{} fails: {error}", which + 1));
        self.nodes[which].clock.enter(self.queue.now());
        if let Some(process) = &self.nodes[which].process {
            process.replicas.iter().for_each(|replica| replica.group.fail(error.clone()));
        }
        self.look_at_clients(which);
        self.nodes[which].ends();
        self.comes_back(which, "disk error");
    }

    /// Records that a node can't start because of a disk error.
    pub(super) fn fails_to_start(&mut self, which: usize, error: &Error) {
        assert!(self.disk_failed(which), "{} does not start: {error}", which + 1);
        self.tell(|| format!("{} does not start: {error}", which + 1));
        self.nodes[which].ends();
        self.comes_back(which, "failed to start");
    }

    /// Restarts a node after a disk error; its page cache may be lost by then.
    pub(super) fn comes_back(&mut self, which: usize, failed: &'static str) {
        self.journal.count(failed);
        let kept = match self.chance.below(3) {
            0 => {
                let chance = &mut self.chance;
                self.nodes[which].disk.evict(&mut |choices| chance.below(choices as u64) as usize);
                "then evicted"
            }
            1 => {
                self.nodes[which].power_fails(&mut self.chance);
                "then without power"
            }
            _ => "then the same machine",
        };
        self.journal.count(kept);
        let time = self.chance.between(AGAIN_US.0, AGAIN_US.1);
        self.at(time, Event::Starts(which));
    }
}
