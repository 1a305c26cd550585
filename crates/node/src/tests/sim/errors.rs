//! Disks whose calls fail, and processes that end and leave the system its memory.
//!
//! As with a real node: a log that finds the disk full waits and tries again, and after any other
//! error nothing more is acknowledged and the process ends. What it had written is where the
//! system left it then: still to be read, though a failed sync marked it clean and no later one
//! makes it durable unless it is written again; or back to what the disk has; or gone with the
//! power.

use super::node::SimNode;
use super::process::cut_short;
use super::world::{Event, World};
use base::Error;
use runtime::log_writer::{WriterStep, store_error};
use sim::Chance;
use std::io::ErrorKind;
use store::{DiskCall, StoreError};

/// How long a full disk is left alone, as the log writer does, microseconds.
const FULL_PAUSE_US: u64 = 50_000;
/// So many tries find the disk full at most.
const FULL_MAX: u64 = 20;
/// A process that ended is begun again after this at the soonest and the latest, microseconds.
const AGAIN_US: (u64, u64) = (20_000, 3_000_000);

/// What the disk's first or second such call will find.
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
    /// One of its disk's next calls will fail; of those that find no room, several.
    fn disk_will_fail(&mut self, chance: &mut Chance) {
        let (operation, kind) = ERRORS[chance.below(ERRORS.len() as u64) as usize];
        let waits = kind == ErrorKind::StorageFull && operation != DiskCall::Sync;
        let (first, many) =
            (chance.between(1, 3), if waits { chance.between(1, FULL_MAX) } else { 1 });
        (first..first + many).for_each(|nth| self.disk.fail_nth(operation, nth, kind));
    }

    /// The process ends, and the machine goes on: what it has written can be read, and is as
    /// durable as it was.
    pub(super) fn is_killed(&mut self, chance: &mut Chance) {
        let Some(mut process) = self.process.take() else { return };
        cut_short(&mut process.writer, chance, |chance| chance.often(300));
        self.ends();
    }

    /// The disk has done what it was busy with, or failed, and whoever is to know is told. `Full`:
    /// the rest waits.
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

    /// What the log writer does when the disk has answered.
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

    /// Counts what has failed of a node's disk; whether anything has.
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

    /// A node fails with its disk: whoever waits is told so, and the process ends.
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

    /// A node can't start, for its disk failed.
    pub(super) fn fails_to_start(&mut self, which: usize, error: &Error) {
        assert!(self.disk_failed(which), "{} does not start: {error}", which + 1);
        self.tell(|| format!("{} does not start: {error}", which + 1));
        self.nodes[which].ends();
        self.comes_back(which, "failed to start");
    }

    /// Somebody begins a node again whose disk failed; what the system has in its memory may be
    /// gone by then.
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
