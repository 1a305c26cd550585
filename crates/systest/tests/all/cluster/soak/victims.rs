//! Victims of a fault: choice of the nodes that it affects.

use super::faults::Fault::{self, *};
use super::faulty::{Faulty, SECOND_GROUP};
use rand::RngExt;
use rand::rngs::StdRng;
use systest::rigs::wait;

impl Faulty {
    /// Returns the nodes that can't serve while the fault lasts.
    pub(super) fn victims(&self, fault: Fault, dice: &mut StdRng) -> Vec<usize> {
        match fault {
            KillMaster | PauseMaster | IsolateMaster | FlappingCables | HungDiskOfMaster => {
                vec![self.master()]
            }
            KillFollower | OneWayCut | HungDiskOfFollower | MembersWhileDown => {
                self.followers(1, dice)
            }
            PauseFollowers | CutOffMinority => self.spared_followers(dice),
            KillMajority => {
                let mut some = self.followers(self.minority(), dice);
                some.push(self.master());
                some
            }
            KillAll | PowerCutOfAll => self.cluster.nodes().collect(),
            PowerCutOfOne | Restart => vec![dice.random_range(1..=self.cluster.size())],
            // The others join node 1 when they start.
            WipedMember => vec![dice.random_range(2..=self.cluster.size())],
            _ => Vec::new(),
        }
    }

    /// Waits for a master of the default bucket's group among the nodes that are up, and returns
    /// it.
    pub(super) fn master(&self) -> usize {
        let mut master = None;
        wait("a master of the data", || {
            let up = self.cluster.nodes().filter(|node| !self.down.contains(node));
            let said = up.filter_map(|node| self.cluster.said(node, self.home));
            let leads =
                said.filter(|one| one.role == "master").max_by_key(|one| one.ballot.clone());
            master = leads.map(|one| one.node);
            master.map(|_| ()).ok_or_else(|| self.cluster.words())
        });
        master.expect("it was waited for")
    }

    /// Returns this many random nodes other than the master.
    pub(super) fn followers(&self, count: usize, dice: &mut StdRng) -> Vec<usize> {
        let master = self.master();
        let mut others: Vec<_> = self.cluster.nodes().filter(|node| *node != master).collect();
        while others.len() > count {
            others.remove(dice.random_range(0..others.len()));
        }
        others
    }

    /// Draws as many followers as may be down while each group that is written to keeps its
    /// majority: one of the groups may have fewer members than the cluster has nodes.
    fn spared_followers(&self, dice: &mut StdRng) -> Vec<usize> {
        let groups: Vec<_> = [self.home, SECOND_GROUP].map(|group| self.voters(group)).into();
        let mut away = self.followers(self.cluster.size(), dice);
        let lacks_majority = |away: &[usize]| {
            let lost = |voters: &Vec<usize>| voters.iter().filter(|it| away.contains(it)).count();
            groups.iter().any(|voters| !voters.is_empty() && 2 * lost(voters) >= voters.len())
        };
        while away.len() > self.minority() || lacks_majority(&away) {
            away.remove(dice.random_range(0..away.len()));
        }
        away
    }

    /// Returns the voters of a group, as the most recent of its members that is up reports them.
    fn voters(&self, group: u64) -> Vec<usize> {
        let said = self.up().filter_map(|node| self.cluster.said(node, group));
        let newest = said.max_by_key(|one| (one.ballot.clone(), one.applied));
        let members = newest.map(|one| one.members).unwrap_or_default();
        let voters = members.iter().filter(|(_, part)| part == "voter");
        voters.filter_map(|(name, _)| name.strip_prefix('n')?.parse().ok()).collect()
    }

    /// Returns the most nodes that may be down while a majority is healthy.
    pub(super) fn minority(&self) -> usize {
        (self.cluster.size() - 1) / 2
    }
}
