//! Quorum arithmetic: the majority of a configuration, and the highest index that a majority has
//! reached.

use super::rules::{Rule, broken};
use base::NodeId;

/// Quorum sizes of a configuration. Any electing quorum shares a voter with any saving quorum, so a
/// new leader knows what is decided (Howard, Malkhi and Spiegelman, *Flexible Paxos*, OPODIS 2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorums {
    /// Number of promises that make a leader.
    pub elect: usize,
    /// Number of voters that must save an entry, grant a lease, or answer for a read.
    pub save: usize,
}

impl Quorums {
    /// Returns two majorities, unless another number of voters is to save an entry: the fewer save,
    /// the more elect.
    pub(super) fn of(voters: usize, save: Option<u8>) -> Quorums {
        let majority = majority(voters);
        let Some(save) = save.map(usize::from) else {
            return Quorums { elect: majority, save: majority };
        };
        let elect = if broken(Rule::QuorumsMeet) { 0 } else { (voters + 1).saturating_sub(save) };
        Quorums { elect: majority.max(elect), save }
    }

    /// Returns the number of voters that must be connected for one of them to lead and to decide.
    pub fn required_connected(self) -> usize {
        self.elect.max(self.save)
    }
}

/// Returns the number of `voters` that makes a majority: any two majorities share a voter.
pub(super) fn majority(voters: usize) -> usize {
    if broken(Rule::MoreThanHalf) || (broken(Rule::HalfIsNoMajority) && voters.is_multiple_of(2)) {
        return voters / 2;
    }
    voters / 2 + 1
}

/// Progress of each voter, and so the progress that enough of them have reached. Counts saved
/// entries (indexes), lease grants (times) and answers to heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct VoterTally<T> {
    /// Number of voters that are enough.
    needed: usize,
    /// Progress by voter, in the order of node ids; `None` until a voter's first answer.
    reached: Vec<(NodeId, Option<T>)>,
}

impl<T: Copy + Ord> VoterTally<T> {
    /// Returns a tally without progress; `needed` voters are enough.
    pub(super) fn new(voters: impl Iterator<Item = NodeId>, needed: usize) -> VoterTally<T> {
        VoterTally { needed, reached: voters.map(|voter| (voter, None)).collect() }
    }

    /// Raises the progress of `voter` to `to`; ignores nodes that are not voters.
    pub(super) fn raise(&mut self, voter: NodeId, to: T) {
        if let Some((_, reached)) = self.reached.iter_mut().find(|(node, _)| *node == voter) {
            *reached = (*reached).max(Some(to));
        }
    }

    /// Lowers the progress of `voter` to `to`: it lost entries.
    pub(super) fn lower(&mut self, voter: NodeId, to: T) {
        if let Some((_, reached)) = self.reached.iter_mut().find(|(node, _)| *node == voter) {
            *reached = (*reached).min(Some(to));
        }
    }

    /// Returns the progress that enough voters have reached. Quadratic in the voters, of which
    /// there are a handful; allocates nothing, since it is on the path of every entry.
    pub(super) fn agreed(&self) -> Option<T> {
        let is_reached_by_enough = |mark: &T| {
            let reaching = self.reached.iter().filter(|(_, reached)| *reached >= Some(*mark));
            reaching.count() >= self.needed
        };
        self.reached.iter().filter_map(|(_, reached)| *reached).filter(is_reached_by_enough).max()
    }

    /// Returns the progress of one voter. `None`: it has not answered.
    pub(super) fn progress_of(&self, voter: NodeId) -> Option<T> {
        self.reached.iter().find(|(node, _)| *node == voter)?.1
    }
}
