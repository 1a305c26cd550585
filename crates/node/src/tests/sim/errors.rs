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
const RESTART_US: (u64, u64) = (20_000, 3_000_000);

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
    fn inject_disk_error(&mut self, chance: &mut Chance) {
        let (operation, kind) = ERRORS[chance.below(ERRORS.len() as u64) as usize];
        let waits = kind == ErrorKind::StorageFull && operation != DiskCall::Sync;
        let (first, count) =
            (chance.between(1, 3), if waits { chance.between(1, FULL_MAX) } else { 1 });
        (first..first + count).for_each(|nth| self.disk.fail_nth(operation, nth, kind));
    }

    /// Kills the process while its machine goes on: written data can be read, and is as durable as
    /// it was.
    pub(super) fn kill_process(&mut self, chance: &mut Chance) {
        let Some(mut process) = self.process.take() else { return };
        cut_short(&mut process.writer, chance, |chance| chance.draw_bool(300));
        self.ends();
    }

    /// Finishes the disk's current work and reports completions. Error `Full`: the rest waits.
    pub(super) fn finish_writes(&mut self) -> Result<(), StoreError> {
        let Some(process) = &mut self.process else { return Ok(()) };
        loop {
            match process.write()? {
                WriterStep::Full => return Err(StoreError::Full),
                WriterStep::Progress if !process.writer.is_between_rounds() => {}
                _ => return Ok(()),
            }
        }
    }
}

impl World {
    pub(super) fn inject_disk_error(&mut self, nth: usize) -> &'static str {
        self.nodes[nth].inject_disk_error(&mut self.chance);
        "faulty disk"
    }

    /// Handles the result of a write as the log writer does: retries when full, fails otherwise.
    pub(super) fn on_write_result(&mut self, nth: usize, written: Result<(), StoreError>) {
        match written {
            Ok(()) => self.wake(nth, 0),
            Err(StoreError::Full) => {
                assert!(self.disk_failed(nth), "a full disk that is not");
                let process = self.nodes[nth].process.as_ref().expect("it writes").number;
                self.at(FULL_PAUSE_US, Event::Written { node: nth, process });
            }
            Err(error) => self.fail_node(nth, &store_error(error)),
        }
    }

    /// Counts the injected failures that a node's disk reported. Returns true if there was one.
    pub(super) fn disk_failed(&mut self, nth: usize) -> bool {
        let failures = self.nodes[nth].disk.take_failures();
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
    pub(super) fn fail_node(&mut self, nth: usize, error: &Error) {
        assert!(self.disk_failed(nth), "{} fails, but its disk has not: {error}", nth + 1);
        self.tell(|| format!("{} fails: {error}", nth + 1));
        self.nodes[nth].clock.enter(self.queue.now());
        if let Some(process) = &self.nodes[nth].process {
            process.replicas.iter().for_each(|replica| replica.group.fail(error.clone()));
        }
        self.poll_clients(nth);
        self.nodes[nth].ends();
        self.close_links(nth);
        self.restart_later(nth, "disk error");
    }

    /// Records that a node can't start because of a disk error.
    pub(super) fn fail_start(&mut self, nth: usize, error: &Error) {
        assert!(self.disk_failed(nth), "{} does not start: {error}", nth + 1);
        self.tell(|| format!("{} does not start: {error}", nth + 1));
        self.nodes[nth].ends();
        self.restart_later(nth, "failed to start");
    }

    /// Restarts a node after a disk error; its page cache may be lost by then.
    pub(super) fn restart_later(&mut self, nth: usize, failed: &'static str) {
        self.journal.count(failed);
        let retained = match self.chance.below(3) {
            0 => {
                let chance = &mut self.chance;
                self.nodes[nth].disk.evict(&mut |choices| chance.below(choices as u64) as usize);
                "then evicted"
            }
            1 => {
                self.nodes[nth].lose_unsynced(&mut self.chance);
                "then without power"
            }
            _ => "then the same machine",
        };
        self.journal.count(retained);
        let time = self.chance.between(RESTART_US.0, RESTART_US.1);
        self.at(time, Event::Starts(nth));
    }
}
