//! What a majority has reached: the one piece of quorum arithmetic in the house.

use super::rules::{Rule, broken};
use base::NodeId;

/// How many of `voters` make a majority: any two majorities share a voter.
pub(super) fn majority(voters: usize) -> usize {
    if broken(Rule::MoreThanHalf) || (broken(Rule::HalfIsTooFew) && voters.is_multiple_of(2)) {
        return voters / 2;
    }
    voters / 2 + 1
}

/// How far each voter has come, and so how far a majority has. Promises (ballots), saved values
/// (indexes) and lease grants (times) are all counted with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tally<T> {
    /// In the order of the node ids; `None` until a voter's first answer.
    reached: Vec<(NodeId, Option<T>)>,
}

impl<T: Copy + Ord> Tally<T> {
    /// Nobody has reached anything yet.
    pub(super) fn new(voters: impl Iterator<Item = NodeId>) -> Tally<T> {
        Tally { reached: voters.map(|voter| (voter, None)).collect() }
    }

    /// Notes that `voter` has come to `to`. Nobody ever falls back, and who is no voter does not
    /// count.
    pub(super) fn raise(&mut self, voter: NodeId, to: T) {
        if let Some((_, reached)) = self.reached.iter_mut().find(|(node, _)| *node == voter) {
            *reached = (*reached).max(Some(to));
        }
    }

    /// The furthest that a majority has come. Quadratic in the voters, of which there are a
    /// handful; allocates nothing, since it stands in the path of every value.
    pub(super) fn agreed(&self) -> Option<T> {
        let needed = majority(self.reached.len());
        let held_by_majority = |mark: &T| {
            let holders = self.reached.iter().filter(|(_, reached)| *reached >= Some(*mark));
            holders.count() >= needed
        };
        self.reached.iter().filter_map(|(_, reached)| *reached).filter(held_by_majority).max()
    }

    /// How far one voter has come.
    pub(super) fn of(&self, voter: NodeId) -> Option<T> {
        self.reached.iter().find(|(node, _)| *node == voter)?.1
    }

    /// Forgets all answers: they were given under an older ballot.
    pub(super) fn clear(&mut self) {
        self.reached.iter_mut().for_each(|(_, reached)| *reached = None);
    }
}
