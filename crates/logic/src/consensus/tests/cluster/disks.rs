//! What a node's disk does: syncs in its own time, keeps house, takes snapshots, loses all it held.

use super::world::{Item, World};
use crate::consensus::Event;
use crate::consensus::tests::machine::{Identity, Machine};
use base::{LogIndex, Part};

impl World {
    pub fn want_sync(&mut self, node: usize) {
        let slot = &mut self.slots[node];
        if slot.up && !slot.syncing && slot.machine.synced < slot.machine.records.len() {
            slot.syncing = true;
            let life = slot.life;
            let delay = self.chance.between(self.weather.sync.0, self.weather.sync.1);
            self.after(delay, Item::Synced { node, life });
        }
    }

    pub fn synced(&mut self, node: usize, life: u64) {
        if self.slots[node].life != life {
            return;
        }
        let unsynced = self.slots[node].machine.records.len() - self.slots[node].machine.synced;
        let count = self.chance.between(1, unsynced.max(1) as u64) as usize;
        self.slots[node].syncing = false;
        for event in self.slots[node].machine.sync(count) {
            self.step(node, event);
        }
        self.want_sync(node);
    }

    pub fn snapshot(&mut self, node: usize, life: u64, from: usize) {
        if self.slots[node].life != life {
            return;
        }
        self.slots[node].snapshot_under_way = false;
        if !self.slots[from].up || self.cut[from][node] || self.is_witness(from) {
            return;
        }
        for event in self.slots[node].machine.sync(usize::MAX) {
            self.step(node, event);
        }
        let source = &self.slots[from].machine;
        let snapshot = source.values[..source.applied.0 as usize].to_vec();
        if self.slots[node].machine.install(&snapshot) {
            let upto = LogIndex(snapshot.len() as u64);
            self.slots[node].floor = self.slots[node].floor.max(upto);
            if self.is_witness(node) {
                self.slots[node].marked = upto;
            }
            let configuration = self.judge.configuration_at(upto);
            self.step(node, Event::Installed { upto, configuration });
        }
    }

    /// Flushes, copies to the head what lives only in the log, and collapses.
    pub fn keep_house(&mut self, node: usize) {
        let machine = &mut self.slots[node].machine;
        machine.flush();
        machine.copy();
        let synced = machine.sync(usize::MAX);
        for event in synced {
            self.step(node, event);
        }
        let slot = &mut self.slots[node];
        if slot.machine.collapse() {
            let flushed = LogIndex(slot.machine.flushed.len() as u64);
            let kept = slot.machine.replica.kept();
            let upto = if self.is_witness(node) { flushed.min(kept) } else { flushed };
            let slot = &mut self.slots[node];
            slot.floor = slot.floor.max(upto);
            self.step(node, Event::Collapsed { upto });
        }
    }

    /// A witness has no rows: it gives no snapshot, and keeps what others may lack. Where members
    /// change at random their parts do, too, which a node never lets them.
    fn is_witness(&self, node: usize) -> bool {
        let slot = &self.slots[node];
        let part = slot.machine.replica.configuration().part(slot.identity.node);
        !self.changing && part == Some(Part::Witness)
    }

    /// What a witness began behind when it had been away for long, a voter must have and know to be
    /// decided. One that has it and does not know yet needs another that knows; the witness can't
    /// tell. Whoever loses the last disk that can waits for an operator.
    fn is_last_that_knows(&self, node: usize) -> bool {
        let (witnesses, voters): (Vec<_>, Vec<_>) =
            (0..self.slots.len()).partition(|at| self.is_witness(*at));
        let missed = witnesses.into_iter().map(|at| self.slots[at].marked).max();
        let knows = |at: usize| {
            let machine = &self.slots[at].machine;
            machine.on_disk.1.decided.max(LogIndex(machine.flushed.len() as u64))
        };
        let known = voters.into_iter().filter(|at| *at != node).map(knows).max();
        missed > known
    }

    /// All that a node ever wrote is gone, and it comes back under its old name. At most one in a
    /// history: two would be a majority of three.
    pub fn wipe(&mut self, node: usize) {
        let another = self.slots.iter().any(|slot| !slot.identity.log_intact);
        if another || self.is_last_that_knows(node) {
            return;
        }
        self.crash(node);
        let slot = &mut self.slots[node];
        slot.identity.log_intact = false;
        slot.floor = LogIndex(0);
        let fresh = Machine::fresh(Identity { ..slot.identity.clone() });
        slot.lost = Some(std::mem::replace(&mut slot.machine, fresh));
        self.start(node);
    }
}
