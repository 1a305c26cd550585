//! Victims of a fault: choice of the nodes that it affects.

use super::faults::Fault::{self, *};
use super::faulty::{FaultInjector, SECOND_GROUP};
use rand::RngExt;
use rand::rngs::StdRng;
use systest::cluster::wait_until;

impl FaultInjector {
    /// Returns the nodes that can't serve while the fault lasts.
    pub(super) fn choose_victims(&self, fault: Fault, dice: &mut StdRng) -> Vec<usize> {
        match fault {
            KillMaster | PauseMaster | IsolateMaster | FlappingCables | HungDiskOfMaster => {
                vec![self.master()]
            }
            KillFollower | OneWayCut | HungDiskOfFollower | MembersWhileDown => {
                self.followers(1, dice)
            }
            PauseFollowers | CutOffMinority => self.followers_with_majority_left(dice),
            KillMajority => {
                let mut nodes = self.followers(self.minority(), dice);
                nodes.push(self.master());
                nodes
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
        wait_until("a master of the data", || {
            let up = self.cluster.nodes().filter(|node| !self.down.contains(node));
            let statuses = up.filter_map(|node| self.cluster.group_status(node, self.group));
            let master_status = statuses
                .filter(|status| status.role == "master")
                .max_by_key(|status| status.ballot.clone());
            master = master_status.map(|status| status.node);
            master.map(|_| ()).ok_or_else(|| self.cluster.describe())
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
    fn followers_with_majority_left(&self, dice: &mut StdRng) -> Vec<usize> {
        let groups: Vec<_> = [self.group, SECOND_GROUP].map(|group| self.voters(group)).into();
        let mut chosen = self.followers(self.cluster.size(), dice);
        let lacks_majority = |chosen: &[usize]| {
            let lost_voters =
                |voters: &Vec<usize>| voters.iter().filter(|voter| chosen.contains(voter)).count();
            groups
                .iter()
                .any(|voters| !voters.is_empty() && 2 * lost_voters(voters) >= voters.len())
        };
        while chosen.len() > self.minority() || lacks_majority(&chosen) {
            chosen.remove(dice.random_range(0..chosen.len()));
        }
        chosen
    }

    /// Returns the voters of a group, as the most recent of its members that is up reports them.
    fn voters(&self, group: u64) -> Vec<usize> {
        let statuses = self.up().filter_map(|node| self.cluster.group_status(node, group));
        let newest = statuses.max_by_key(|status| (status.ballot.clone(), status.applied));
        let members = newest.map(|status| status.members).unwrap_or_default();
        let voters = members.iter().filter(|(_, part)| part == "voter");
        voters.filter_map(|(name, _)| name.strip_prefix('n')?.parse().ok()).collect()
    }

    /// Returns the most nodes that may be down while a majority is healthy.
    pub(super) fn minority(&self) -> usize {
        (self.cluster.size() - 1) / 2
    }
}
