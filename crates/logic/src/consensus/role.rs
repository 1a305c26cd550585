//! The role of a replica, with the state that belongs to it and to no other.
//!
//! ```text
//! Waiting -> Follower -> Candidate -> Master(Adopting -> Leading -> Retiring) -> Retired
//!               ^            |            |
//!               +------------+------------+
//! ```
//!
//! Promises: gathered promises exist only while a replica stands for election; leases, reads and
//! entries in flight only while it leads; a follower only knows its master.

use super::candidate::Candidate;
use super::effect::{Refusal, Role};
use super::master::{Master, MasterPhase};
use base::{Ballot, NodeId};

/// Role of a replica, with the state that exists only in that role.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "a box would cost each step of a master a pointer")]
pub(super) enum RoleState {
    /// Restored, and waiting for `Started`.
    Waiting,
    /// Follows a master, or seeks one.
    Follower {
        /// Master. `None`: unknown yet.
        master: Option<NodeId>,
    },
    /// Tries to lead: gathers promises, or fetches entries.
    Candidate(Candidate),
    /// Replicates its log to the followers.
    Master(Master),
    /// Gave up mastership for this incarnation: it follows, and seeks no master.
    Retired {
        /// Master. `None`: unknown yet.
        master: Option<NodeId>,
    },
}

impl RoleState {
    /// Returns the role shown outside. A master that still adopts the inherited log counts as a
    /// candidate.
    pub(super) fn role(&self) -> Role {
        match self {
            RoleState::Waiting | RoleState::Follower { .. } | RoleState::Retired { .. } => {
                Role::Follower
            }
            RoleState::Candidate(_) => Role::Candidate,
            RoleState::Master(master) if master.phase == MasterPhase::Adopting => Role::Candidate,
            RoleState::Master(_) => Role::Master,
        }
    }

    /// Returns true if it has not started yet.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(self, RoleState::Waiting)
    }

    /// Returns true if it follows, and may stand for election.
    pub(super) fn is_following(&self) -> bool {
        matches!(self, RoleState::Follower { .. })
    }

    /// Returns true if it leads, or tries to.
    pub(super) fn is_active(&self) -> bool {
        self.is_candidate() || self.is_replicating()
    }

    /// Returns true if it tries to lead: it gathers promises or fetches entries.
    pub(super) fn is_candidate(&self) -> bool {
        matches!(self, RoleState::Candidate(_))
    }

    /// Returns true if it replicates its log to the followers.
    pub(super) fn is_replicating(&self) -> bool {
        matches!(self, RoleState::Master(_))
    }

    /// Returns true if it is a candidate that gathers promises.
    pub(super) fn is_gathering(&self) -> bool {
        matches!(self, RoleState::Candidate(candidate) if candidate.source.is_none())
    }

    /// Returns true if it is a candidate that fetches entries from `node`.
    pub(super) fn is_fetching_from(&self, node: NodeId) -> bool {
        let RoleState::Candidate(candidate) = self else { return false };
        candidate.source.is_some_and(|source| source.node == node)
    }

    pub(super) fn candidate_mut(&mut self) -> Option<&mut Candidate> {
        match self {
            RoleState::Candidate(candidate) => Some(candidate),
            _ => None,
        }
    }

    /// Returns the state of a master, which may still adopt the inherited log.
    pub(super) fn master(&self) -> Option<&Master> {
        match self {
            RoleState::Master(master) => Some(master),
            _ => None,
        }
    }

    pub(super) fn master_mut(&mut self) -> Option<&mut Master> {
        match self {
            RoleState::Master(master) => Some(master),
            _ => None,
        }
    }

    /// Returns the state of a master that has decided the inherited log.
    pub(super) fn leading_master(&self) -> Result<&Master, Refusal> {
        let leading = self.master().filter(|master| master.phase != MasterPhase::Adopting);
        leading.ok_or(Refusal::NotMaster { master: self.followed_master() })
    }

    /// Returns the followed master. `None`: unknown yet, or this replica leads or tries to.
    pub(super) fn followed_master(&self) -> Option<NodeId> {
        match self {
            RoleState::Follower { master } | RoleState::Retired { master } => *master,
            RoleState::Waiting | RoleState::Candidate(_) | RoleState::Master(_) => None,
        }
    }

    /// Sets the followed master; returns the previous one. Has no effect on a replica that leads,
    /// or tries to.
    pub(super) fn follow(&mut self, new_master: Option<NodeId>) -> Option<NodeId> {
        match self {
            RoleState::Follower { master } | RoleState::Retired { master } => {
                std::mem::replace(master, new_master)
            }
            RoleState::Waiting | RoleState::Candidate(_) | RoleState::Master(_) => None,
        }
    }

    /// Returns the lease that was given back in favour of this attempt to lead.
    pub(super) fn released(&self) -> Ballot {
        match self {
            RoleState::Candidate(candidate) => candidate.released,
            RoleState::Master(master) => master.released,
            _ => Ballot::default(),
        }
    }

    /// Ends leading for this incarnation. A master first finishes the entries in flight.
    pub(super) fn retire(&mut self) {
        match self {
            RoleState::Master(master) => master.phase = MasterPhase::Retiring,
            state => *state = RoleState::Retired { master: None },
        }
    }

    /// Stops leading, or trying to; returns the state given up.
    pub(super) fn step_down(&mut self) -> RoleState {
        let is_retiring = match self {
            RoleState::Master(master) => master.phase == MasterPhase::Retiring,
            RoleState::Retired { .. } => true,
            _ => false,
        };
        let follower = match is_retiring {
            true => RoleState::Retired { master: None },
            false => RoleState::Follower { master: None },
        };
        std::mem::replace(self, follower)
    }
}
