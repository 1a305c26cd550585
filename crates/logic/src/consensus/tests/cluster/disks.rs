//! Disk of a simulated node: syncs, maintenance, snapshots, torn logs, and loss of the disk.

use super::world::{SimEvent, World};
use crate::consensus::Event;
use crate::consensus::tests::machine::{Identity, Machine, Record};
use base::{LogIndex, Part};

impl World {
    /// Crashes a node: a random part of its unsynced records survives.
    pub fn crash(&mut self, node: usize) {
        if !self.nodes[node].up {
            return;
        }
        let unsynced = self.nodes[node].machine.records.len() - self.nodes[node].machine.synced;
        let kept = self.chance.below(unsynced as u64 + 1) as usize;
        let torn = self.draw_tear(node);
        let slot = &mut self.nodes[node];
        slot.up = false;
        slot.incarnation += 1;
        slot.identity.signs = self.signs.clone();
        let machine = std::mem::replace(
            &mut slot.machine,
            Machine::fresh(Identity { ..slot.identity.clone() }),
        );
        slot.machine = match torn {
            Some(lost) => machine.tear(lost, slot.identity.clone()),
            None => machine.crash(kept, slot.identity.clone()),
        };
        slot.machine.effects.clear();
        // A process that is killed closes its connections; a machine without power does not.
        if self.chance.draw_bool(700) {
            for other in (0..self.nodes.len()).filter(|other| *other != node) {
                if !self.cuts.is_cut(node, other) {
                    self.report_link_end(other, node);
                }
            }
        }
    }

    pub fn schedule_sync(&mut self, node: usize) {
        let slot = &mut self.nodes[node];
        if slot.up && !slot.syncing && slot.machine.synced < slot.machine.records.len() {
            slot.syncing = true;
            let incarnation = slot.incarnation;
            let delay = self.chance.between(self.rates.sync.0, self.rates.sync.1);
            self.after(delay, SimEvent::Synced { node, incarnation });
        }
    }

    pub fn synced(&mut self, node: usize, incarnation: u64) {
        if self.nodes[node].incarnation != incarnation {
            return;
        }
        let unsynced = self.nodes[node].machine.records.len() - self.nodes[node].machine.synced;
        let count = self.chance.between(1, unsynced.max(1) as u64) as usize;
        self.nodes[node].syncing = false;
        for event in self.nodes[node].machine.sync(count) {
            self.step(node, event);
        }
        self.schedule_sync(node);
    }

    pub fn snapshot(&mut self, node: usize, incarnation: u64, from: usize) {
        if self.nodes[node].incarnation != incarnation {
            return;
        }
        self.nodes[node].snapshot_in_progress = false;
        if !self.nodes[from].up || self.cuts.is_cut(from, node) || self.is_witness(from) {
            return;
        }
        for event in self.nodes[node].machine.sync(usize::MAX) {
            self.step(node, event);
        }
        let source = &self.nodes[from].machine;
        let snapshot = source.values[..source.applied.0 as usize].to_vec();
        if self.nodes[node].machine.install(&snapshot) {
            let last = LogIndex(snapshot.len() as u64);
            self.nodes[node].floor = self.nodes[node].floor.max(last);
            if self.is_witness(node) {
                self.nodes[node].skipped_to = last;
            }
            let configuration = self.judge.configuration_at(last);
            self.step(node, Event::Installed { last, configuration });
        }
    }

    /// Runs maintenance: flushes, copies to the log's head what exists only in the log, and
    /// collapses.
    pub fn run_maintenance(&mut self, node: usize) {
        let machine = &mut self.nodes[node].machine;
        machine.flush();
        machine.copy();
        let synced = machine.sync(usize::MAX);
        for event in synced {
            self.step(node, event);
        }
        let slot = &mut self.nodes[node];
        if slot.machine.collapse() {
            let flushed = LogIndex(slot.machine.flushed.len() as u64);
            let kept = slot.machine.replica.reported_saved_by_all();
            let last = if self.is_witness(node) { flushed.min(kept) } else { flushed };
            let slot = &mut self.nodes[node];
            slot.floor = slot.floor.max(last);
            self.step(node, Event::LogTruncated { last });
        }
    }

    /// Returns true if a node is a witness. A witness has no rows: it provides no snapshot, and
    /// keeps log entries that others may lack. False where members change at random: their parts
    /// change too, which a node never permits.
    fn is_witness(&self, node: usize) -> bool {
        let slot = &self.nodes[node];
        let part = slot.machine.replica.configuration().part(slot.identity.node);
        !self.changes_members && part == Some(Part::Witness)
    }

    /// Returns true if this node's disk is the last one of a voter with a decided index that covers
    /// all entries that a witness skipped. A witness that returns after a long absence starts after
    /// that part of the log, so a voter must hold it. A voter that holds it with a lower decided
    /// index needs the index from another voter; the witness does not have it. The loss of the last
    /// such disk needs an operator.
    fn is_last_with_decided(&self, node: usize) -> bool {
        let (witnesses, voters): (Vec<_>, Vec<_>) =
            (0..self.nodes.len()).partition(|at| self.is_witness(*at));
        let missed = witnesses.into_iter().map(|at| self.nodes[at].skipped_to).max();
        let decided = |at: usize| {
            let machine = &self.nodes[at].machine;
            machine.on_disk.1.decided.max(LogIndex(machine.flushed.len() as u64))
        };
        let known = voters.into_iter().filter(|at| *at != node).map(decided).max();
        missed > known
    }

    /// Loses a node's disk; the node never comes back. At most once in a history: two lost disks
    /// would be a majority of three. Never while a log is torn, since its repair may need all other
    /// nodes.
    pub fn wipe(&mut self, node: usize) {
        let is_disk_lost = self.nodes.iter().any(|slot| slot.lost.is_some());
        if is_disk_lost || self.is_torn() || self.is_last_with_decided(node) {
            return;
        }
        self.crash(node);
        let slot = &mut self.nodes[node];
        slot.floor = LogIndex(0);
        let fresh = Machine::fresh(Identity { ..slot.identity.clone() });
        slot.lost = Some(std::mem::replace(&mut slot.machine, fresh));
    }

    /// Returns true if a log is torn and not repaired yet.
    fn is_torn(&self) -> bool {
        self.nodes.iter().any(|slot| slot.machine.replica.tear().is_some())
    }

    /// Draws whether a crash tears the node's log tail, and the number of synced records that are
    /// lost with it. `None`: no tear. The number is often 0, as after a loss of power; otherwise
    /// the loss affects only records that nothing states to be durable. Records are lost at one
    /// node at a time, and only where others must hold them.
    pub fn draw_tear(&mut self, node: usize) -> Option<usize> {
        if self.nodes.iter().any(|slot| slot.lost.is_some()) || !self.chance.draw_bool(300) {
            return None;
        }
        let machine = &self.nodes[node].machine;
        let (base, current) = self.judge.configuration_at(LogIndex(u64::MAX));
        let tail = &machine.records[machine.stated..machine.synced];
        let is_current = tail.iter().all(|record| match record {
            Record::Accept(index, ..) => *index > base,
            _ => true,
        });
        let has_copies = current.quorums().save > 1 && *machine.replica.configuration() == current;
        let loses_records =
            !self.is_torn() && has_copies && is_current && self.chance.draw_bool(700);
        if loses_records {
            return Some(self.chance.below(tail.len() as u64 + 1) as usize);
        }
        let is_harmless = self
            .nodes
            .iter()
            .all(|slot| slot.machine.lost.is_empty() || slot.machine.replica.tear().is_none());
        is_harmless.then_some(0)
    }
}
