//! The role of a replica, with the state that belongs to it and to no other.
//!
//! ```text
//! Waiting -> Follower -> Candidate -> Master(Adopting -> Leading -> Retiring) -> Retired
//!               ^            |            |
//!               +------------+------------+
//! ```
//!
//! Promises: promises that were gathered exist only while a replica stands, and leases, reads and
//! values in flight only while it leads; whoever follows knows no more than whom.

use super::candidate::Candidate;
use super::effect::{Refusal, Role};
use super::master::{Master, MasterPhase};
use base::{Ballot, NodeId};

/// Role of a replica, with the state that exists only while it has it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "a box would cost each step of a master a pointer")]
pub(super) enum RoleState {
    /// It was restored, and waits for `Started`.
    Waiting,
    /// It follows a master, or seeks one.
    Follower {
        /// The master, once it was heard.
        master: Option<NodeId>,
    },
    /// It tries to lead, and needs others' promises, or their values, to do so.
    Candidate(Candidate),
    /// It has a log that it makes others accept.
    Master(Master),
    /// It gave mastership up for this life: it follows, and seeks no master.
    Retired {
        /// The master, once it was heard.
        master: Option<NodeId>,
    },
}

impl RoleState {
    /// The role that is told outside. A master that still adopts what it inherited is none yet.
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

    /// True if it has not started yet.
    pub(super) fn waits(&self) -> bool {
        matches!(self, RoleState::Waiting)
    }

    /// True if it follows, and may stand for election.
    pub(super) fn follows(&self) -> bool {
        matches!(self, RoleState::Follower { .. })
    }

    /// True if it leads, or tries to.
    pub(super) fn is_active(&self) -> bool {
        self.attempts() || self.replicates()
    }

    /// True if it tries to lead, and needs others to do so.
    pub(super) fn attempts(&self) -> bool {
        matches!(self, RoleState::Candidate(_))
    }

    /// True if it has a log that it makes others accept.
    pub(super) fn replicates(&self) -> bool {
        matches!(self, RoleState::Master(_))
    }

    /// True if it is a candidate that gathers promises.
    pub(super) fn gathers(&self) -> bool {
        matches!(self, RoleState::Candidate(candidate) if candidate.source.is_none())
    }

    /// True if it is a candidate that fetches values from `node`.
    pub(super) fn fetches_from(&self, node: NodeId) -> bool {
        let RoleState::Candidate(candidate) = self else { return false };
        candidate.source.is_some_and(|source| source.node == node)
    }

    pub(super) fn candidate_mut(&mut self) -> Option<&mut Candidate> {
        match self {
            RoleState::Candidate(candidate) => Some(candidate),
            _ => None,
        }
    }

    /// The state of a master, which may still adopt what it inherited.
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

    /// The state of a master that has decided all that it inherited.
    pub(super) fn leading(&self) -> Result<&Master, Refusal> {
        let leading = self.master().filter(|master| master.phase != MasterPhase::Adopting);
        leading.ok_or(Refusal::NotMaster { master: self.followed() })
    }

    /// The master that is followed, if one was heard.
    pub(super) fn followed(&self) -> Option<NodeId> {
        match self {
            RoleState::Follower { master } | RoleState::Retired { master } => *master,
            RoleState::Waiting | RoleState::Candidate(_) | RoleState::Master(_) => None,
        }
    }

    /// Sets the master that is followed; gives the one before. Whoever leads, or tries to, follows
    /// nobody.
    pub(super) fn follow(&mut self, other: Option<NodeId>) -> Option<NodeId> {
        match self {
            RoleState::Follower { master } | RoleState::Retired { master } => {
                std::mem::replace(master, other)
            }
            RoleState::Waiting | RoleState::Candidate(_) | RoleState::Master(_) => None,
        }
    }

    /// The lease that was given back in favour of this attempt to lead.
    pub(super) fn released(&self) -> Ballot {
        match self {
            RoleState::Candidate(candidate) => candidate.released,
            RoleState::Master(master) => master.released,
            _ => Ballot::default(),
        }
    }

    /// Leads no more after this. A master first finishes what is in flight, and then steps down.
    pub(super) fn retire(&mut self) {
        match self {
            RoleState::Master(master) => master.phase = MasterPhase::Retiring,
            other => *other = RoleState::Retired { master: None },
        }
    }

    /// Gives up leading, or trying to; gives what was given up.
    pub(super) fn step_down(&mut self) -> RoleState {
        let retires = match self {
            RoleState::Master(master) => master.phase == MasterPhase::Retiring,
            RoleState::Retired { .. } => true,
            _ => false,
        };
        let follower = match retires {
            true => RoleState::Retired { master: None },
            false => RoleState::Follower { master: None },
        };
        std::mem::replace(self, follower)
    }
}
