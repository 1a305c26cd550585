//! Status of a replica, for its host and for operators.

use super::configuration::Configuration;
use super::effect::{Effect, Role};
use super::master::MasterPhase;
use super::progress::FollowerProgress;
use super::replica::Replica;
use super::role::RoleState;
use base::{Ballot, LogIndex, Millis, NodeId, Part};

/// How far a member has come, as the master knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which member.
    pub node: NodeId,
    /// What it does in the group.
    pub part: Part,
    /// It has this log up to here on disk; `None`: it has not said so under this master.
    pub saved: Option<LogIndex>,
}

impl Replica {
    /// Says which part this replica has, if that is news.
    pub(super) fn announce(&mut self, effects: &mut Vec<Effect>) {
        let present = (self.role(), self.ballots.promised, self.master());
        if self.presented != Some(present) {
            self.presented = Some(present);
            let (role, ballot, master) = present;
            effects.push(Effect::Role { role, ballot, master });
        }
    }

    /// The index the next proposed value will have, if it is not refused.
    pub fn next(&self) -> LogIndex {
        self.log.last.next()
    }

    /// The last decided index.
    pub fn decided(&self) -> LogIndex {
        self.log.decided
    }

    /// The highest index that a master was heard to call decided; this log may not reach so far.
    pub fn heard_decided(&self) -> LogIndex {
        self.log.heard.1
    }

    /// The last index whose value can't be sent any more.
    pub fn floor(&self) -> LogIndex {
        self.log.floor
    }

    /// The last index accepted, or asked to be saved.
    pub fn last(&self) -> LogIndex {
        self.log.last
    }

    /// Up to here a member has acknowledged what this replica, as master, sent it.
    pub fn acknowledged(&self, member: NodeId) -> LogIndex {
        self.progress.of(member).map_or(LogIndex(0), FollowerProgress::done)
    }

    /// The highest ballot promised, or asked to be saved as a promise.
    pub fn promised(&self) -> Ballot {
        self.ballots.promised
    }

    /// Under which ballot a log is being taken over, until it is whole: the one promised, or, where
    /// what was decided is learned after a stop-sign, one above it that is promised with that.
    pub fn staging(&self) -> Option<Ballot> {
        self.log.staging.as_ref().map(|staging| staging.ballot)
    }

    /// The ballot the log counts as accepted under.
    pub fn accepted_ballot(&self) -> Ballot {
        self.log.ballot
    }

    /// This replica's part in the group.
    pub fn role(&self) -> Role {
        self.role.role()
    }

    /// Who is master, if that is known.
    pub fn master(&self) -> Option<NodeId> {
        if self.role() == Role::Master { Some(self.host.node) } else { self.role.followed() }
    }

    /// The group's members.
    pub fn configuration(&self) -> &Configuration {
        &self.membership.configuration
    }

    /// The index of the stop-sign the present configuration began with; 0 for the first.
    pub fn base(&self) -> LogIndex {
        self.membership.base
    }

    /// Whether a stop-sign is accepted and not known to be decided.
    pub fn reconfigures(&self) -> bool {
        !self.log.signs.is_empty()
    }

    /// The last index that a master was heard to know as decided, in this life or by the log.
    pub fn heard(&self) -> LogIndex {
        self.log.heard.1.max(self.log.decided)
    }

    /// Until when this replica, as master, may answer reads from what is decided without asking
    /// anyone; `None`: not now. To be compared with the time *after* the read, too.
    pub fn lease_until(&self) -> Option<Millis> {
        let master = self.role.leading().ok()?;
        match master.heartbeats.lease.until() {
            _ if !self.log.signs.is_empty() => None,
            // Whoever is a majority by itself is master until it says otherwise.
            _ if self.membership.is_sole_voter(self.host.node) => Some(Millis(u64::MAX)),
            _ if !self.host.clock.reads => None,
            until => until,
        }
    }

    /// Until when time alone brings nothing about here: whoever tells it the time need not do so
    /// sooner, unless something else happens. `None`: it may be any moment.
    pub fn rests_until(&self) -> Option<Millis> {
        let settled = self.log.is_settled();
        let due = match &self.role {
            _ if !settled => None,
            // It heard of a master, and is bound to it.
            // One that was dismissed asks how its configuration ended, now and then.
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

    /// Whether it leaves mastership to another.
    pub fn yields(&self) -> bool {
        self.host.yields
    }

    /// True where this replica may lead and never can again: the last ballot of the present
    /// configuration was heard of, so none is left to stand for election with. The next
    /// configuration has ballots of its own.
    pub fn lacks_ballots(&self) -> bool {
        self.membership.configuration.leads(self.host.node) && self.next_ballot().is_none()
    }

    /// Whether its disk is said to answer nothing.
    pub fn hangs(&self) -> bool {
        self.host.hangs
    }

    /// How far each member has come; only a master knows of the others.
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
