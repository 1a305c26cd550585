//! Log of a witness: the entries that it keeps, and for how long.
//!
//! A witness votes and logs, and has no rows. What it helped to decide may be on one other disk
//! only; so it keeps every value until all voters that hold the data have it on disk, which the
//! master tells with its heartbeats. A voter that comes back while the master that decided is gone
//! then finds in the witness's log what it missed.
//!
//! What a witness may keep is bounded, by its node. One that is *full* says so with its grants;
//! where no majority goes on without it, the master takes nothing new from clients (the node asks
//! [`Replica::waits_for`]). Other members still may be agreed on: that is the way out.

use super::effect::Effect;
use super::master::MasterPhase;
use super::message::Body;
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{LogIndex, Millis, NodeId, Part};

/// The obligation of a witness to keep values, and its room for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct WitnessLog {
    /// See [`Replica::kept`].
    kept: LogIndex,
    /// It keeps as much as it may.
    pub full: bool,
}

impl WitnessLog {
    /// A master said that all voters that hold the data have everything up to here on disk.
    pub(super) fn hear_kept(&mut self, kept: LogIndex) {
        self.kept = self.kept.max(kept);
    }
}

/// Across what a witness keeps, the members' progress and the master's heartbeats.
impl Replica {
    /// All voters that hold the data have everything up to here on disk, as far as a master told.
    /// What of it is decided need not be kept for their sake.
    pub fn kept(&self) -> LogIndex {
        self.witness.kept
    }

    /// This witness keeps as much as it may, or no longer so: its master hears of it at once, for a
    /// lot may be written until the next heartbeat.
    pub(super) fn on_full(&mut self, full: bool, effects: &mut Vec<Effect>) {
        self.witness.full = full;
        if let Some(master) = self.role.followed() {
            let (beat, sent, asked) = (0, Millis(0), false);
            self.send(master, Body::Granted { beat, sent, asked, full }, effects);
        }
    }

    /// The master: how far all voters that hold the data have come; 0 where no witness wants to
    /// know.
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

    /// The last index of this master's log that a member has saved.
    pub(super) fn saved_by(&self, node: NodeId) -> Option<LogIndex> {
        if node == self.host.node {
            return self.log.synced;
        }
        self.progress.of(node)?.saved
    }

    /// The master: the witness that is full, if no majority goes on without such ones.
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
