//! What a replica shows of itself.

use super::configuration::Configuration;
use super::effect::{Effect, Role};
use super::replica::{Replica, Stage};
use base::{Ballot, LogIndex, NodeId};

impl Replica {
    /// Says which part this replica has, if that is news.
    pub(super) fn announce(&mut self, effects: &mut Vec<Effect>) {
        let present = (self.role(), self.promised, self.master());
        if self.presented != Some(present) {
            self.presented = Some(present);
            let (role, ballot, master) = present;
            effects.push(Effect::Role { role, ballot, master });
        }
    }

    /// The index the next proposed value will have, if it is not refused.
    pub fn next(&self) -> LogIndex {
        self.last.next()
    }

    /// The last decided index.
    pub fn decided(&self) -> LogIndex {
        self.decided
    }

    /// The last index accepted, or asked to be saved.
    pub fn last(&self) -> LogIndex {
        self.last
    }

    /// The highest ballot promised, or asked to be saved as a promise.
    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// The ballot the log counts as accepted under.
    pub fn accepted_ballot(&self) -> Ballot {
        self.accepted_ballot
    }

    /// This replica's part in the group.
    pub fn role(&self) -> Role {
        match self.stage {
            Stage::Waiting | Stage::Following | Stage::Retired | Stage::Silent => Role::Follower,
            Stage::Promising | Stage::Fetching | Stage::Adopting => Role::Candidate,
            Stage::Leading | Stage::Retiring => Role::Master,
        }
    }

    /// Who is master, if that is known.
    pub fn master(&self) -> Option<NodeId> {
        if self.role() == Role::Master { Some(self.node) } else { self.leader }
    }

    /// The group's members.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }
}
