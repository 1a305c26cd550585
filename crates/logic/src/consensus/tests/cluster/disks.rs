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
        let torn = self.torn(node);
        let slot = &mut self.nodes[node];
        slot.up = false;
        slot.life += 1;
        slot.identity.signs = self.signs.clone();
        let machine = std::mem::replace(
            &mut slot.machine,
            Machine::fresh(Identity { ..slot.identity.clone() }),
        );
        slot.machine = match torn {
            Some(gone) => machine.tear(gone, slot.identity.clone()),
            None => machine.crash(kept, slot.identity.clone()),
        };
        slot.machine.effects.clear();
    }

    pub fn want_sync(&mut self, node: usize) {
        let slot = &mut self.nodes[node];
        if slot.up && !slot.syncing && slot.machine.synced < slot.machine.records.len() {
            slot.syncing = true;
            let life = slot.life;
            let delay = self.chance.between(self.rates.sync.0, self.rates.sync.1);
            self.after(delay, SimEvent::Synced { node, life });
        }
    }

    pub fn synced(&mut self, node: usize, life: u64) {
        if self.nodes[node].life != life {
            return;
        }
        let unsynced = self.nodes[node].machine.records.len() - self.nodes[node].machine.synced;
        let count = self.chance.between(1, unsynced.max(1) as u64) as usize;
        self.nodes[node].syncing = false;
        for event in self.nodes[node].machine.sync(count) {
            self.step(node, event);
        }
        self.want_sync(node);
    }

    pub fn snapshot(&mut self, node: usize, life: u64, from: usize) {
        if self.nodes[node].life != life {
            return;
        }
        self.nodes[node].snapshot_under_way = false;
        if !self.nodes[from].up || self.cuts.is_cut(from, node) || self.is_witness(from) {
            return;
        }
        for event in self.nodes[node].machine.sync(usize::MAX) {
            self.step(node, event);
        }
        let source = &self.nodes[from].machine;
        let snapshot = source.values[..source.applied.0 as usize].to_vec();
        if self.nodes[node].machine.install(&snapshot) {
            let upto = LogIndex(snapshot.len() as u64);
            self.nodes[node].floor = self.nodes[node].floor.max(upto);
            if self.is_witness(node) {
                self.nodes[node].marked = upto;
            }
            let configuration = self.judge.configuration_at(upto);
            self.step(node, Event::Installed { upto, configuration });
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
            let kept = slot.machine.replica.kept();
            let upto = if self.is_witness(node) { flushed.min(kept) } else { flushed };
            let slot = &mut self.nodes[node];
            slot.floor = slot.floor.max(upto);
            self.step(node, Event::Collapsed { upto });
        }
    }

    /// Returns true if a node is a witness. A witness has no rows: it provides no snapshot, and
    /// keeps log entries that others may lack. False where members change at random: their parts
    /// change too, which a node never permits.
    fn is_witness(&self, node: usize) -> bool {
        let slot = &self.nodes[node];
        let part = slot.machine.replica.configuration().part(slot.identity.node);
        !self.changing && part == Some(Part::Witness)
    }

    /// Returns true if, without this node, no voter knows as decided everything that a witness
    /// skipped. A witness that returns after a long absence starts behind that part of the log, so
    /// a voter must hold it. A voter that holds it and does not know that it is decided needs
    /// another voter that knows; the witness can't tell. The loss of the last such disk needs an
    /// operator.
    fn is_last_that_knows(&self, node: usize) -> bool {
        let (witnesses, voters): (Vec<_>, Vec<_>) =
            (0..self.nodes.len()).partition(|at| self.is_witness(*at));
        let missed = witnesses.into_iter().map(|at| self.nodes[at].marked).max();
        let knows = |at: usize| {
            let machine = &self.nodes[at].machine;
            machine.on_disk.1.decided.max(LogIndex(machine.flushed.len() as u64))
        };
        let known = voters.into_iter().filter(|at| *at != node).map(knows).max();
        missed > known
    }

    /// Loses a node's disk; the node never comes back. At most once in a history: two lost disks
    /// would be a majority of three. Never beside a torn log, whose repair may need all other
    /// nodes.
    pub fn wipe(&mut self, node: usize) {
        let another = self.nodes.iter().any(|slot| slot.lost.is_some());
        if another || self.is_torn() || self.is_last_that_knows(node) {
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
    pub fn torn(&mut self, node: usize) -> Option<usize> {
        if self.nodes.iter().any(|slot| slot.lost.is_some()) || !self.chance.often(300) {
            return None;
        }
        let machine = &self.nodes[node].machine;
        let (base, present) = self.judge.configuration_at(LogIndex(u64::MAX));
        let ends = &machine.records[machine.stated..machine.synced];
        let last = ends.iter().all(|record| match record {
            Record::Accept(index, ..) => *index > base,
            _ => true,
        });
        let others = present.quorums().save > 1 && *machine.replica.configuration() == present;
        let loses = !self.is_torn() && others && last && self.chance.often(700);
        if loses {
            return Some(self.chance.below(ends.len() as u64 + 1) as usize);
        }
        let harmless = self
            .nodes
            .iter()
            .all(|slot| slot.machine.lost.is_empty() || slot.machine.replica.tear().is_none());
        harmless.then_some(0)
    }
}
