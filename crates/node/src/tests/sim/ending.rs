//! How a history ends: everyone is level, holds the same rows, and every client was told the truth.

use super::mate::{Life, group_id};
use super::world::World;
use base::LogIndex;
use bytes::Bytes;
use logic::consensus::Member;
use std::collections::BTreeMap;
use std::hash::Hasher;
use store::Chunk;

/// Tries to read a value back from a disk of which a few calls may be about to fail.
const READS: u32 = 16;

impl World {
    /// A node that is in office in this group.
    pub(super) fn master(&self, group: usize) -> Option<usize> {
        let leads = |which: &usize| self.life(*which).is_some_and(|life| life.leads(group));
        (0..self.mates.len()).find(leads)
    }

    /// One of the groups.
    pub(super) fn any_group(&mut self) -> usize {
        self.chance.below(self.judges.len() as u64) as usize
    }

    pub(super) fn life(&self, which: usize) -> Option<&Life> {
        self.mates[which].life.as_ref()
    }

    /// Everything newly applied is shown to the judge.
    pub(super) fn look_at_applied(&mut self, which: usize) {
        let Some(life) = &self.mates[which].life else { return };
        for (group, judge) in self.judges.iter_mut().enumerate() {
            let (upto, seen) = (life.applied(group), &mut self.seen[which][group]);
            while *seen < upto {
                *seen = seen.next();
                let group_here = life.group(group);
                let mut held = group_here.state().entries.get(*seen).map(|(payload, _)| payload);
                let installed = *seen <= self.installed[which][group];
                // With nobody who may lag memory lets go of it at once.
                if held.is_none() && !installed {
                    held = (0..READS).find_map(|_| group_here.decided_value(*seen).ok());
                }
                match held {
                    Some(payload) => judge.applied(*seen, &payload),
                    None => assert!(installed, "applied unseen"),
                }
            }
        }
    }

    /// After all trouble: a master, every member level with it, and the same rows everywhere.
    pub(super) fn ends_well(mut self) -> (u64, BTreeMap<&'static str, u64>) {
        self.becomes_level();
        for group in 0..self.judges.len() {
            self.look_at_rows(group);
            let last = self.seen.iter().map(|seen| seen[group].0).max();
            *self.counts.entry("values").or_default() += last.unwrap_or(0);
        }
        runtime::world::set_time(None);
        if self.judges.len() > 1 {
            *self.counts.entry("several groups").or_default() += 1;
        }
        std::mem::take(&mut self.judges).into_iter().for_each(|judge| judge.judge());
        (self.trace.finish(), self.counts)
    }

    /// Until every member of every group has what its master has, and some more was written.
    pub(super) fn becomes_level(&mut self) {
        let groups = 0..self.judges.len();
        let wrote = |world: &World| world.counts.get("wrote").copied().unwrap_or(0);
        let (before, begin) = (wrote(self), self.now);
        let ends = |world: &World, group| world.is_level(group) && world.all_know_their_part(group);
        while !groups.clone().all(|group| ends(self, group)) || wrote(self) < before + 20 {
            assert!(self.now < begin + 60_000_000, "no progress: {:?}", self.counts);
            self.run(50_000);
        }
    }

    fn is_level(&self, group: usize) -> bool {
        let leads = self.master(group).and_then(|master| self.life(master));
        let Some(leads) = leads else { return false };
        let index = leads.applied(group);
        let level = |member: &Member| {
            let life = self.life(member.node.0 as usize - 1);
            life.is_some_and(|life| life.applied(group).0 + 50 >= index.0)
        };
        leads.group(group).configuration().members().iter().all(level)
    }

    /// Nodes that have applied the same have the same rows.
    fn look_at_rows(&self, group: usize) {
        let (id, mut states) = (group_id(group), BTreeMap::<LogIndex, Vec<(Bytes, Bytes)>>::new());
        for mate in self.mates.iter().filter(|mate| !mate.witness) {
            let Some(life) = &mate.life else { continue };
            let snapshot = store::Trees::snapshot(&*mate.trees);
            let all = Chunk::read(&*snapshot, &id.0.to_be_bytes(), None, usize::MAX);
            let rows = all.expect("memory").rows;
            let index = life.applied(group);
            let known = states.entry(index).or_insert_with(|| rows.clone());
            assert!(*known == rows, "nodes differ at index {index} of group {id}");
        }
    }
}
