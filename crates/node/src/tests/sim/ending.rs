//! End of a history: all replicas converge to the same rows, and the judge checks every answer.

use super::node::{GroupsProcess, group_id};
use super::rows::assert_same_rows;
use super::world::World;
use logic::consensus::Member;
use sim::Counts;

/// Number of attempts to read a value back from a disk, a few of whose calls may be set to fail.
const READS: u32 = 16;

impl World {
    /// Returns a node that is master of this group.
    pub(super) fn master(&self, group: usize) -> Option<usize> {
        let leads = |nth: &usize| self.process(*nth).is_some_and(|process| process.leads(group));
        (0..self.nodes.len()).find(leads)
    }

    /// Draws a group.
    pub(super) fn any_group(&mut self) -> usize {
        self.chance.below(self.judges.len() as u64) as usize
    }

    pub(super) fn process(&self, nth: usize) -> Option<&GroupsProcess> {
        self.nodes[nth].process.as_ref()
    }

    /// Reports newly applied entries of a node to the judge.
    pub(super) fn judge_applied(&mut self, nth: usize) {
        let Some(process) = &self.nodes[nth].process else { return };
        for (group, judge) in self.judges.iter_mut().enumerate() {
            let (end, seen) = (process.applied(group), &mut self.judged[nth][group]);
            while *seen < end {
                *seen = seen.next();
                let group_here = process.group(group);
                let mut held = group_here.state().entries.get(*seen).map(|(payload, _)| payload);
                let installed = *seen <= self.installed[nth][group];
                // If no follower may lag, memory drops an applied entry at once.
                if held.is_none() && !installed {
                    held = (0..READS).find_map(|_| group_here.decided_entry(*seen).ok());
                }
                match held {
                    Some(payload) => judge.applied(*seen, &payload),
                    None => assert!(installed, "applied unseen"),
                }
            }
        }
    }

    /// Waits until every group has a master and level members, then checks rows and answers.
    pub(super) fn finish_and_check(mut self) -> (u64, Counts) {
        self.wait_until_level();
        for group in 0..self.judges.len() {
            self.check_rows(group);
            let last = self.judged.iter().map(|seen| seen[group].0).max();
            self.journal.add("values", last.unwrap_or(0));
        }
        runtime::world::set_time(None);
        if self.judges.len() > 1 {
            self.journal.count("several groups");
        }
        self.check_costs();
        std::mem::take(&mut self.judges).into_iter().for_each(|judge| judge.judge());
        self.journal.outcome()
    }

    /// Runs until every member of every group has applied what its master has, and at least 20 more
    /// writes succeeded. Panics after a minute.
    pub(super) fn wait_until_level(&mut self) {
        let groups = 0..self.judges.len();
        let wrote = |world: &World| world.journal.count_of("wrote");
        let (before, begin) = (wrote(self), self.queue.now());
        let ends = |world: &World, group| world.is_level(group) && world.all_know_membership(group);
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

    fn check_rows(&self, group: usize) {
        let with_rows = self.nodes.iter().filter(|node| !node.witness);
        let replicas = with_rows.filter_map(|node| {
            let process = node.process.as_ref()?;
            Some((process.applied(group), &*node.trees))
        });
        assert_same_rows(group_id(group), replicas);
    }
}
