//! Quorum arithmetic, all of it: the majority of a configuration, and the highest index that a
//! majority has reached.

use super::rules::{Rule, broken};
use base::NodeId;

/// How many voters' answers are enough. Any who elect share a voter with any who saved a value, so
/// whoever leads knows what is decided (Howard, Malkhi and Spiegelman, *Flexible Paxos*, OPODIS
/// 2016).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Quorums {
    /// Promises that make a leader.
    pub elect: usize,
    /// Voters that have a value on disk, granted a lease, or answered for a read.
    pub save: usize,
}

impl Quorums {
    /// Majorities both, unless another number is to save a value: the fewer that are, the more
    /// elect.
    pub(super) fn of(voters: usize, save: Option<u8>) -> Quorums {
        let majority = majority(voters);
        let Some(save) = save.map(usize::from) else {
            return Quorums { elect: majority, save: majority };
        };
        let rest = if broken(Rule::QuorumsMeet) { 0 } else { (voters + 1).saturating_sub(save) };
        Quorums { elect: majority.max(rest), save }
    }

    /// So many must be connected, for one of them to lead and to decide.
    pub fn most(self) -> usize {
        self.elect.max(self.save)
    }
}

/// How many of `voters` make a majority: any two majorities share a voter.
pub(super) fn majority(voters: usize) -> usize {
    if broken(Rule::MoreThanHalf) || (broken(Rule::HalfIsTooFew) && voters.is_multiple_of(2)) {
        return voters / 2;
    }
    voters / 2 + 1
}

/// How far each voter has come, and so how far enough of them have. Saved values (indexes), lease
/// grants (times) and answers to heartbeats are all counted with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct VoterTally<T> {
    /// So many are enough.
    needed: usize,
    /// In the order of the node ids; `None` until a voter's first answer.
    reached: Vec<(NodeId, Option<T>)>,
}

impl<T: Copy + Ord> VoterTally<T> {
    /// Nobody has reached anything yet; `needed` are enough.
    pub(super) fn new(voters: impl Iterator<Item = NodeId>, needed: usize) -> VoterTally<T> {
        VoterTally { needed, reached: voters.map(|voter| (voter, None)).collect() }
    }

    /// Notes that `voter` has come to `to`; who is no voter does not count.
    pub(super) fn raise(&mut self, voter: NodeId, to: T) {
        if let Some((_, reached)) = self.reached.iter_mut().find(|(node, _)| *node == voter) {
            *reached = (*reached).max(Some(to));
        }
    }

    /// Notes that `voter` has come no further than `to`: it lost what it had.
    pub(super) fn lower(&mut self, voter: NodeId, to: T) {
        if let Some((_, reached)) = self.reached.iter_mut().find(|(node, _)| *node == voter) {
            *reached = (*reached).min(Some(to));
        }
    }

    /// The furthest that enough have come. Quadratic in the voters, of which there are a
    /// handful; allocates nothing, since it stands in the path of every value.
    pub(super) fn agreed(&self) -> Option<T> {
        let held_by_enough = |mark: &T| {
            let holders = self.reached.iter().filter(|(_, reached)| *reached >= Some(*mark));
            holders.count() >= self.needed
        };
        self.reached.iter().filter_map(|(_, reached)| *reached).filter(held_by_enough).max()
    }

    /// How far one voter has come.
    pub(super) fn of(&self, voter: NodeId) -> Option<T> {
        self.reached.iter().find(|(node, _)| *node == voter)?.1
    }
}
