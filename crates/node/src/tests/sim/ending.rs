//! How a history ends: everyone is level, holds the same rows, and every client was told the truth.

use super::node::{GroupsProcess, group_id};
use super::rows::assert_same_rows;
use super::world::World;
use logic::consensus::Member;
use sim::Counts;

/// Tries to read a value back from a disk of which a few calls may be about to fail.
const READS: u32 = 16;

impl World {
    /// A node that is in office in this group.
    pub(super) fn master(&self, group: usize) -> Option<usize> {
        let leads =
            |which: &usize| self.process(*which).is_some_and(|process| process.leads(group));
        (0..self.nodes.len()).find(leads)
    }

    /// One of the groups.
    pub(super) fn any_group(&mut self) -> usize {
        self.chance.below(self.judges.len() as u64) as usize
    }

    pub(super) fn process(&self, which: usize) -> Option<&GroupsProcess> {
        self.nodes[which].process.as_ref()
    }

    /// Everything newly applied is shown to the judge.
    pub(super) fn look_at_applied(&mut self, which: usize) {
        let Some(process) = &self.nodes[which].process else { return };
        for (group, judge) in self.judges.iter_mut().enumerate() {
            let (upto, seen) = (process.applied(group), &mut self.seen[which][group]);
            while *seen < upto {
                *seen = seen.next();
                let group_here = process.group(group);
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
    pub(super) fn ends_well(mut self) -> (u64, Counts) {
        self.becomes_level();
        for group in 0..self.judges.len() {
            self.look_at_rows(group);
            let last = self.seen.iter().map(|seen| seen[group].0).max();
            self.journal.add("values", last.unwrap_or(0));
        }
        runtime::world::set_time(None);
        if self.judges.len() > 1 {
            self.journal.count("several groups");
        }
        self.judge_costs();
        std::mem::take(&mut self.judges).into_iter().for_each(|judge| judge.judge());
        self.journal.outcome()
    }

    /// Until every member of every group has what its master has, and some more was written.
    pub(super) fn becomes_level(&mut self) {
        let groups = 0..self.judges.len();
        let wrote = |world: &World| world.journal.counted("wrote");
        let (before, begin) = (wrote(self), self.queue.now());
        let ends = |world: &World, group| world.is_level(group) && world.all_know_their_part(group);
        while !groups.clone().all(|group| ends(self, group)) || wrote(self) < before + 20 {
            assert!(
                self.queue.now() < begin + 60_000_000,
                "no progress: {:?}",
                self.journal.outcome().1
            );
            self.run(50_000);
        }
    }

    fn is_level(&self, group: usize) -> bool {
        let leads = self.master(group).and_then(|master| self.process(master));
        let Some(leads) = leads else { return false };
        let index = leads.applied(group);
        let level = |member: &Member| {
            let process = self.process(member.node.0 as usize - 1);
            process.is_some_and(|process| process.applied(group).0 + 50 >= index.0)
        };
        leads.group(group).configuration().members().iter().all(level)
    }

    fn look_at_rows(&self, group: usize) {
        let with_rows = self.nodes.iter().filter(|node| !node.witness);
        let replicas = with_rows.filter_map(|node| {
            let process = node.process.as_ref()?;
            Some((process.applied(group), &*node.trees))
        });
        assert_same_rows(group_id(group), replicas);
    }
}
