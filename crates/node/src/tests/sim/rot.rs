//! Damage in a log: the node repairs it with entries from other members, or an operator restores
//! the disk.
//!
//! Damage to the newest part of a log looks like a torn tail. The node starts without the lost
//! records, acknowledged or not, and nobody restores the disk: only one node at a time is damaged
//! so, and the others have the records.

use super::node::{GroupsProcess, SimNode};
use super::world::{Event, World};
use base::{GroupId, LogIndex, Result};
use replica_host::recovery::{RepairedEntries, rewrite_log, survey};
use replication::records::LogHead;
use sim::Chance;
use std::sync::Arc;
use store::{Disk, Honesty, Log};
use vnode_rows::batch::log_head_record;

/// Pause before a node looks again for entries that no member returned, in microseconds.
const PAUSE_US: u64 = 300_000;
/// Number of attempts before the disk is restored.
const LOOKS_MAX: u32 = 60;
/// Smallest log that may be damaged, in bytes.
const BYTES_MIN: usize = 4 << 10;

/// Length of the log's end that is damaged to look like a torn tail, in bytes.
const END_BYTES: usize = 256;

/// Interval at which the log repeats the groups' statements, in microseconds.
const STATES_US: u64 = 1_000_000;

/// Damaged byte of a log.
pub(super) struct Rot {
    file: String,
    offset: u64,
    attempts: u32,
}

impl GroupsProcess {
    /// Repeats the statements of every group, as the housekeeper does, and those of the directory
    /// and the vnodes, which write nothing here.
    pub(super) fn states_again(&mut self, now: u64) {
        if now < self.head_due_us {
            return;
        }
        self.head_due_us = now + STATES_US;
        for replica in &self.replicas {
            replica.group.state().output.head_request.is_requested = true;
        }
        let jobs = LogHead::default()
            .records(GroupId::DIRECTORY, false)
            .into_iter()
            .chain([log_head_record(0, false)]);
        self.log_writer.write(jobs);
    }
}

impl GroupsProcess {
    /// Returns true if no tear of its log waits for repair.
    pub(super) fn is_whole(&self) -> bool {
        self.replicas.iter().all(|replica| replica.group.state().replica.tear().is_none())
    }
}

impl SimNode {
    /// Damages a byte of the log of a node that is down. `alone`: the logs of all others are whole.
    /// Returns the name of the damage. `None`: there is none.
    pub(super) fn rots(&mut self, chance: &mut Chance, sole: bool) -> Option<&'static str> {
        let names = self.disk.list().expect("memory");
        let mut logs: Vec<_> = names.into_iter().filter(|name| name.ends_with(".log")).collect();
        logs.sort();
        if logs.is_empty() || self.rot.is_some() || self.process.is_some() {
            return None;
        }
        let at_end = sole && chance.draw_bool(500);
        let last = logs.len() - 1;
        let file = logs.swap_remove(match at_end {
            true => last,
            false => chance.below(logs.len() as u64) as usize,
        });
        let bytes = self.disk.bytes(&file).expect("it is there");
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if used < BYTES_MIN {
            return None;
        }
        let first = if at_end { used.saturating_sub(END_BYTES) } else { 0 };
        let (offset, end) = (chance.between(first as u64, used as u64 - 1), self.end_of_log());
        self.disk.damage(&file, offset, |byte| byte ^ 1);
        self.rot = Some(Rot { file, offset, attempts: 0 });
        if self.end_of_log() == end {
            return Some("damage");
        }
        // Some damage shortens a log and does not look like a torn tail.
        if !sole || !self.is_readable() {
            self.is_healed();
            return None;
        }
        self.rot = None;
        Some("damaged end")
    }

    /// Returns the end of its log. `None`: the log can't be opened.
    fn end_of_log(&self) -> Option<u64> {
        let disk = Arc::new(self.disk.copy(Honesty::Honest));
        let (log, records) = Log::open_past_damage(disk, self.log_settings()).ok()?;
        drop(records);
        Some(log.end().0)
    }

    /// Returns true if its log can be read without skipping damage.
    fn is_readable(&self) -> bool {
        let disk = Arc::new(self.disk.copy(Honesty::Honest));
        let opened = Log::open(disk, self.log_settings());
        opened.is_ok_and(|(_log, records)| records.finish().is_ok())
    }

    /// Restores the damaged byte.
    fn is_healed(&mut self) {
        if let Some(Rot { file, offset, .. }) = self.rot.take()
            && self.disk.bytes(&file).is_some()
        {
            self.disk.damage(&file, offset, |byte| byte ^ 1);
        }
    }

    /// Returns the entries that the log lost and that are needed. `None`: the log can't be read.
    fn lost(&self) -> Option<Vec<(GroupId, LogIndex)>> {
        let (log, records) = self.open_past_damage().ok()?;
        let (lost, _) = survey(&log, records, &*self.trees, &self.context()).ok()?;
        let each = |lost: &replica_host::recovery::LostEntries| {
            let (group, first, last) = (lost.group, lost.first.0, lost.last.0);
            (first..=last).map(move |index| (group, LogIndex(index)))
        };
        Some(lost.iter().flat_map(each).collect())
    }

    fn mended_with(&mut self, found: &RepairedEntries) -> Result<()> {
        let (mut log, records) = self.open_past_damage()?;
        rewrite_log(&mut log, records, &*self.trees, &self.context(), found)?;
        self.rot = None;
        Ok(())
    }
}

impl World {
    /// Repairs a damaged log before its node starts. Returns true if the node can start now.
    pub(super) fn mends(&mut self, nth: usize) -> bool {
        if self.nodes[nth].rot.is_none() {
            return true;
        }
        let Some(lost) = self.nodes[nth].lost() else {
            if self.disk_failed(nth) {
                self.restart_later(nth, "failed to mend");
                return false;
            }
            self.nodes[nth].is_healed();
            self.journal.count("damage refused");
            return true;
        };
        let mut found = RepairedEntries::default();
        for (group, index) in lost {
            let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != nth);
            let mut is_alive = others.filter_map(|(_, node)| node.process.as_ref());
            let given = is_alive.find_map(|process| {
                let replica = process.replicas.iter().find(|replica| replica.group.id == group)?;
                replica.group.decided_entry(index).ok()
            });
            let Some(value) = given else {
                self.looks_again(nth);
                return false;
            };
            found.entry(group).or_default().insert(index, value);
        }
        let name = if found.is_empty() { "damage in vain" } else { "mended" };
        if let Err(error) = self.nodes[nth].mended_with(&found) {
            assert!(self.disk_failed(nth), "what is lost was found: {error}");
            self.restart_later(nth, "failed to mend");
            return false;
        }
        self.journal.count(name);
        true
    }

    /// Asks a member for a decided entry, as a node that repairs its log does.
    pub(super) fn asks_for_one(&mut self) {
        let (nth, group) = (self.chance.below(self.nodes.len() as u64), self.any_group());
        let (node, ahead) = (&self.nodes[nth as usize], self.chance.below(4));
        let Some(process) =
            node.process.as_ref().filter(|_| self.queue.now() >= node.clock.paused_until)
        else {
            return;
        };
        node.clock.enter(self.queue.now());
        let index = LogIndex(process.applied(group).0 + ahead);
        if let Ok(value) = process.group(group).decided_entry(index) {
            self.judges[group].record_returned(index, value);
            self.journal.count("given");
        }
    }

    fn looks_again(&mut self, nth: usize) {
        let rot = self.nodes[nth].rot.as_mut().expect("it waits");
        rot.attempts += 1;
        if rot.attempts == LOOKS_MAX {
            self.nodes[nth].is_healed();
            self.journal.count("damage nobody could mend");
        }
        self.at(PAUSE_US, Event::Starts(nth));
    }
}
