//! Log of a witness: the entries that it keeps, and for how long.
//!
//! A witness votes and logs, and has no rows. An entry that it helped to decide may be on one other
//! disk only. So it keeps every entry until all voters with rows have it on disk, which the master
//! reports with its heartbeats. A voter that returns while the master that decided is gone then
//! finds the entries that it missed in the witness's log.
//!
//! The host bounds the log that a witness may keep. A witness at the limit is *full* and reports it
//! with its grants. If no majority is possible without it, the master accepts nothing new from
//! clients (the node asks [`Replica::waits_for`]). A change of members is still possible: that is
//! the way out.

use super::effect::Effect;
use super::master::MasterPhase;
use super::message::Body;
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{LogIndex, Millis, NodeId, Part};

/// Obligation of a witness to keep entries, and the limit of its log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WitnessLog {
    /// Index up to which all voters with rows have everything; see [`Replica::kept`].
    kept: LogIndex,
    /// True if its log is at the limit.
    pub full: bool,
}

impl WitnessLog {
    /// Records a master's report that all voters with rows have everything up to here on disk.
    pub(super) fn hear_kept(&mut self, kept: LogIndex) {
        self.kept = self.kept.max(kept);
    }
}

/// Methods that span the witness's log, the members' progress and the master's heartbeats.
impl Replica {
    /// Returns the index up to which all voters with rows have everything on disk, as far as a
    /// master reported. The witness need not keep decided entries up to it.
    pub fn kept(&self) -> LogIndex {
        self.witness.kept
    }

    /// Handles a change of the witness's limit, and reports it to the master at once: a lot may be
    /// written until the next heartbeat.
    pub(super) fn on_full(&mut self, full: bool, effects: &mut Vec<Effect>) {
        self.witness.full = full;
        if let Some(master) = self.role.followed() {
            let (beat, sent, asked) = (0, Millis(0), false);
            self.send(master, Body::Granted { beat, sent, asked, full }, effects);
        }
    }

    /// Returns, at the master, the index that all voters with rows have on disk; 0 if the group has
    /// no witness.
    pub(super) fn kept_by_all(&self) -> LogIndex {
        let members = self.membership.configuration.members();
        if !self.role.replicates() || !members.iter().any(|member| member.part == Part::Witness) {
            return LogIndex(0);
        }
        if broken(Rule::KeptByAll) {
            return self.log.decided;
        }
        let voters = members.iter().filter(|member| member.part.leads());
        let saved = voters.map(|member| self.saved_by(member.node).unwrap_or_default());
        saved.min().unwrap_or_default()
    }

    /// Returns the last index of this master's log that a member has saved.
    pub(super) fn saved_by(&self, node: NodeId) -> Option<LogIndex> {
        if node == self.host.node {
            return self.log.synced;
        }
        self.progress.of(node)?.saved
    }

    /// Returns, at the master, a witness that is full, if no majority is possible without full
    /// ones.
    pub fn waits_for(&self) -> Option<NodeId> {
        let master = self.role.master().filter(|master| master.phase == MasterPhase::Leading)?;
        let full = self.progress.followers.iter().find(|follower| follower.full)?.node;
        let heard = |node| master.heartbeats.heard_within_lease(node, &self.host);
        let is_full = |node| self.progress.of(node).is_some_and(|follower| follower.full);
        let configuration = &self.membership.configuration;
        let able = configuration.voters().filter(|node| heard(*node) && !is_full(*node));
        (able.count() < configuration.quorums().save).then_some(full)
    }
}
