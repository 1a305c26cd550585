//! Status of a replica, for its host and for operators.

use super::configuration::Configuration;
use super::effect::{Effect, Role};
use super::master::MasterPhase;
use super::progress::FollowerProgress;
use super::replica::Replica;
use super::role::RoleState;
use base::{Ballot, LogIndex, Millis, NodeId, Part};

/// Progress of a member, as the master knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Id of the member.
    pub node: NodeId,
    /// Role of the member in the group.
    pub part: Part,
    /// Index up to which it has this log on disk. `None`: it has not reported under this master.
    pub saved: Option<LogIndex>,
}

impl Replica {
    /// Reports this replica's role, if it changed.
    pub(super) fn announce(&mut self, effects: &mut Vec<Effect>) {
        let present = (self.role(), self.ballots.promised, self.master());
        if self.presented != Some(present) {
            self.presented = Some(present);
            let (role, ballot, master) = present;
            effects.push(Effect::Role { role, ballot, master });
        }
    }

    /// Returns the index that the next proposed entry will have, if it is not refused.
    pub fn next(&self) -> LogIndex {
        self.log.last.next()
    }

    /// Returns the last decided index.
    pub fn decided(&self) -> LogIndex {
        self.log.decided
    }

    /// Returns the highest index that a master called decided; this log may not reach that far.
    pub fn heard_decided(&self) -> LogIndex {
        self.log.heard.1
    }

    /// Returns the last index whose entry can't be sent any more.
    pub fn floor(&self) -> LogIndex {
        self.log.floor
    }

    /// Returns the last index accepted, or requested to be saved.
    pub fn last(&self) -> LogIndex {
        self.log.last
    }

    /// Returns the index up to which a member has acknowledged what this replica sent it as master.
    pub fn acknowledged(&self, member: NodeId) -> LogIndex {
        self.progress.of(member).map_or(LogIndex(0), FollowerProgress::done)
    }

    /// Returns the highest ballot promised, or requested to be saved as a promise.
    pub fn promised(&self) -> Ballot {
        self.ballots.promised
    }

    /// Returns the ballot under which a log is being adopted, until it is complete: the promised
    /// one, or, where decided entries are learned after a stop-sign, one above it that is promised
    /// with them.
    pub fn staging(&self) -> Option<Ballot> {
        self.log.staging.as_ref().map(|staging| staging.ballot)
    }

    /// Returns the ballot under which the log counts as accepted.
    pub fn accepted_ballot(&self) -> Ballot {
        self.log.ballot
    }

    /// Returns this replica's role in the group.
    pub fn role(&self) -> Role {
        self.role.role()
    }

    /// Returns the master. `None`: unknown.
    pub fn master(&self) -> Option<NodeId> {
        if self.role() == Role::Master { Some(self.host.node) } else { self.role.followed() }
    }

    /// Returns the members of the group.
    pub fn configuration(&self) -> &Configuration {
        &self.membership.configuration
    }

    /// Returns the index of the stop-sign with which the current configuration began; 0 for the
    /// first.
    pub fn base(&self) -> LogIndex {
        self.membership.base
    }

    /// Returns true if a stop-sign is accepted and not known to be decided.
    pub fn reconfigures(&self) -> bool {
        !self.log.signs.is_empty()
    }

    /// Returns the last index that a master knew as decided, by its messages in this incarnation or
    /// by the log.
    pub fn heard(&self) -> LogIndex {
        self.log.heard.1.max(self.log.decided)
    }

    /// Returns the time until which this replica, as master, may answer reads from what is decided
    /// without asking anyone. `None`: not now. Compare it with the time *after* the read, too.
    pub fn lease_until(&self) -> Option<Millis> {
        let master = self.role.leading().ok()?;
        match master.heartbeats.lease.until() {
            _ if !self.log.signs.is_empty() => None,
            // A sole voter is a majority by itself: it is master until it gives that up.
            _ if self.membership.is_sole_voter(self.host.node) => Some(Millis(u64::MAX)),
            _ if !self.host.clock.reads => None,
            until => until,
        }
    }

    /// Returns the time until which passing time alone changes nothing here: the host need not send
    /// a tick sooner, unless something else happens. `None`: ticks are needed as usual.
    pub fn rests_until(&self) -> Option<Millis> {
        let settled = self.log.is_settled();
        let due = match &self.role {
            _ if !settled => None,
            // It heard of a master, and is bound to it. A dismissed replica asks now and then how
            // its configuration ended.
            RoleState::Follower { master: Some(_) } if !self.membership.dismissed => {
                (self.bound.ballot.node != self.host.node).then_some(self.bound.until)
            }
            RoleState::Master(master) if master.phase == MasterPhase::Leading => {
                let mut followers = self.progress.followers.iter();
                let calm = master.heir.is_none()
                    && !self.host.hangs
                    && master.heartbeats.hears_majority(&self.host)
                    && followers.all(|follower| follower.is_level(self.log.last));
                calm.then_some(master.heartbeats.next_due)
            }
            _ => None,
        };
        due.filter(|due| *due > self.host.now)
    }

    /// Returns true if it leaves mastership to another.
    pub fn yields(&self) -> bool {
        self.host.yields
    }

    /// Returns true if this replica may lead and never can again: the last ballot of the current
    /// configuration was seen, so none is left to stand for election with. The next configuration
    /// has ballots of its own.
    pub fn lacks_ballots(&self) -> bool {
        self.membership.configuration.leads(self.host.node) && self.next_ballot().is_none()
    }

    /// Returns true if its disk is reported to hang.
    pub fn hangs(&self) -> bool {
        self.host.hangs
    }

    /// Returns the progress of each member; only a master knows that of the others.
    pub fn progress(&self) -> Vec<Progress> {
        let known = |node: NodeId| node == self.host.node || self.role.replicates();
        let saved = |node| if known(node) { self.saved_by(node) } else { None };
        let members = self.membership.configuration.members().iter();
        let progress = |member: &super::configuration::Member| Progress {
            node: member.node,
            part: member.part,
            saved: saved(member.node),
        };
        members.map(progress).collect()
    }
}
