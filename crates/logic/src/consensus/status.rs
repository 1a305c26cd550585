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
        let current = (self.role(), self.ballots.promised, self.master());
        if self.announced != Some(current) {
            self.announced = Some(current);
            let (role, ballot, master) = current;
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

    /// Returns an index at or behind every entry that the followed master, or one before it, had
    /// decided when it last sent a message, and the master's ballot; under another ballot the index
    /// says nothing. `None`: no master is followed, it was silent for as long as voters wait, or
    /// this log does not hold yet what it inherited.
    pub fn followed_log_end(&self, now: Millis) -> Option<(Ballot, LogIndex)> {
        let (ballot, reported) = self.log.reported;
        let has_reported = self.role.followed_master() == Some(self.grant.ballot.node)
            && [ballot, self.grant.ballot, self.log.ballot] == [self.ballots.promised; 3];
        // A replica whose disk hangs, or that was removed, goes on following a master that it does
        // not hear.
        let is_heard = now < self.grant.patience_until;
        // A master that just took over knows less as decided than its predecessor, which may have
        // decided everything that was inherited.
        (has_reported && is_heard).then(|| (ballot, reported.max(self.log.last)))
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
        self.progress.follower(member).map_or(LogIndex(0), FollowerProgress::acknowledged)
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
        if self.role() == Role::Master { Some(self.host.node) } else { self.role.followed_master() }
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
    pub fn is_reconfiguring(&self) -> bool {
        !self.log.signs.is_empty()
    }

    /// Returns the last index that a master knew as decided, by its messages in this incarnation or
    /// by the log.
    pub fn known_decided(&self) -> LogIndex {
        self.log.reported.1.max(self.log.decided)
    }

    /// Returns the time until which this replica, as master, may answer reads from what is decided
    /// without asking anyone. `None`: not now. Compare it with the time *after* the read, too.
    pub fn lease_until(&self) -> Option<Millis> {
        let master = self.role.leading_master().ok()?;
        match master.heartbeats.lease.until() {
            _ if !self.log.signs.is_empty() => None,
            // A sole voter is a majority by itself: it is master until it gives that up.
            _ if self.membership.is_sole_voter(self.host.node) => Some(Millis(u64::MAX)),
            _ if !self.host.clock.allows_reads => None,
            until => until,
        }
    }

    /// Returns the time until which passing time alone changes nothing here: the host need not send
    /// a tick sooner, unless something else happens. `None`: ticks are needed as usual.
    pub fn idle_until(&self) -> Option<Millis> {
        let is_idle = self.log.is_idle();
        let due = match &self.role {
            _ if !is_idle => None,
            RoleState::Follower { .. } if self.membership.removed => self.straggling_due(),
            RoleState::Follower { .. } if !self.host.disk_hangs => self.election_due(),
            RoleState::Master(master) if master.phase == MasterPhase::Leading => {
                let mut followers = self.progress.followers.iter();
                let is_steady = master.successor.is_none()
                    && !self.host.disk_hangs
                    && master.heartbeats.has_majority_contact(&self.host)
                    && followers.all(|follower| follower.is_caught_up(self.log.last));
                is_steady.then_some(master.heartbeats.next_due)
            }
            _ => None,
        };
        due.filter(|due| *due > self.host.now)
    }

    /// Returns true if it leaves mastership to another.
    pub fn is_yielding(&self) -> bool {
        self.host.is_yielding
    }

    /// Returns true if this replica may lead and never can again: the last ballot of the current
    /// configuration was seen, so none is left to stand for election with. The next configuration
    /// has ballots of its own.
    pub fn lacks_ballots(&self) -> bool {
        self.membership.configuration.may_lead(self.host.node) && self.next_ballot().is_none()
    }

    /// Returns true if its disk is reported to hang.
    pub fn disk_hangs(&self) -> bool {
        self.host.disk_hangs
    }

    /// Returns the progress of each member; only a master knows that of the others.
    pub fn progress(&self) -> Vec<Progress> {
        let known = |node: NodeId| node == self.host.node || self.role.is_replicating();
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
