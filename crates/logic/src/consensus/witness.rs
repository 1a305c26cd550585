//! Log of a witness: the entries that it keeps, and for how long.
//!
//! A witness votes and logs, and has no rows. An entry that it helped to decide may be on one other
//! disk only. So it keeps every entry until all voters with rows have it on disk, which the master
//! reports with its heartbeats. A voter that returns while the master that decided is gone then
//! finds the entries that it missed in the witness's log.
//!
//! The host bounds the log that a witness may keep. A witness at the limit is *full* and reports it
//! with its grants. If no majority is possible without it, the master accepts nothing new from
//! clients (the node asks [`Replica::blocking_witness`]). A change of members is still possible:
//! that is the way out.

use super::effect::Effect;
use super::master::MasterPhase;
use super::message::Body;
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{LogIndex, Millis, NodeId, Part};

/// Obligation of a witness to keep entries, and the limit of its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WitnessLog {
    /// Index up to which all voters with rows have everything; see
    /// [`Replica::reported_saved_by_all`].
    saved_by_all: LogIndex,
    /// True if its log has reached the limit.
    pub full: bool,
}

impl WitnessLog {
    /// Records a master's report that all voters with rows have everything up to here on disk.
    pub(super) fn record_saved_by_all(&mut self, saved_by_all: LogIndex) {
        self.saved_by_all = self.saved_by_all.max(saved_by_all);
    }
}

/// Methods that span the witness's log, the members' progress and the master's heartbeats.
impl Replica {
    /// Returns the index up to which all voters with rows have everything on disk, as far as a
    /// master reported. The witness need not keep decided entries up to it.
    pub fn reported_saved_by_all(&self) -> LogIndex {
        self.witness.saved_by_all
    }

    /// Handles a change of the witness's limit, and reports it to the master at once: a lot may be
    /// written until the next heartbeat.
    pub(super) fn on_full(&mut self, is_full: bool, effects: &mut Vec<Effect>) {
        self.witness.full = is_full;
        if let Some(master) = self.role.followed_master() {
            let (beat, sent, lease) = (0, Millis(0), None);
            self.send(master, Body::Granted { beat, sent, lease, is_full }, effects);
        }
    }

    /// Returns, at the master, the index that all voters with rows have on disk; 0 if the group has
    /// no witness.
    pub(super) fn saved_by_all(&self) -> LogIndex {
        let members = self.membership.configuration.members();
        if !self.role.is_replicating() || !members.iter().any(|member| member.part == Part::Witness)
        {
            return LogIndex(0);
        }
        if broken(Rule::KeptByAll) {
            return self.log.decided;
        }
        let voters = members.iter().filter(|member| member.part.can_lead());
        let saved = voters.map(|member| self.saved_by(member.node).unwrap_or_default());
        saved.min().unwrap_or_default()
    }

    /// Returns the last index of this master's log that a member has saved.
    pub(super) fn saved_by(&self, node: NodeId) -> Option<LogIndex> {
        if node == self.host.node {
            return self.log.synced;
        }
        self.progress.follower(node)?.saved
    }

    /// Returns, at the master, a witness that is full, if no majority is possible without full
    /// ones.
    pub fn blocking_witness(&self) -> Option<NodeId> {
        let master = self.role.master().filter(|master| master.phase == MasterPhase::Leading)?;
        let full = self.progress.followers.iter().find(|follower| follower.full)?.node;
        let answers = |node| master.heartbeats.answered_within_lease(node, &self.host);
        let is_full = |node| self.progress.follower(node).is_some_and(|follower| follower.full);
        let configuration = &self.membership.configuration;
        let responsive = configuration.voters().filter(|node| answers(*node) && !is_full(*node));
        (responsive.count() < configuration.quorums().save).then_some(full)
    }
}
