//! Stop-signs: a configuration ends with one, and the next begins after it.
//!
//! A stop-sign is an entry like any other, and nothing is accepted after it in its configuration
//! (Lamport, Malkhi, Zhou, *Reconfiguring a State Machine*, 2010; Omni-Paxos, section 6). Once it
//! is decided, the next configuration's voters elect a master among them, under ballots above all
//! of the old one. A replica takes part in a configuration only when it holds everything decided
//! before it. One that lacks some is sent the rest, and adopts it as a whole, so that whatever it
//! had accepted counts until then. A member that was away while it was removed is sent the rest
//! like any other: so it knows, in later incarnations too, that it is no longer a member.
//!
//! Reads under a lease end where a stop-sign is *accepted*: the next configuration's voters may not
//! be those that granted it.

use super::ballot;
use super::configuration::Configuration;
use super::effect::{Effect, Refusal, RefusedCall};
use super::event::EntrySize;
use super::log::Staging;
use super::master::MasterPhase;
use super::message::{Body, Message};
use super::progress::MESSAGE_VALUES_MAX;
use super::replica::Replica;
use base::{Ballot, LogIndex, Millis, NodeId};

/// Most entries of history sent to a new member; with more it fetches a snapshot instead.
const HISTORY_VALUES_MAX: u64 = 4_096;
/// Lengths of a lease after which a removed member repeats its request for the end of its
/// configuration.
const REMOVED_RETRY_LEASES: u64 = 10;

/// Methods that span log, configuration and role: a decided stop-sign changes all of them.
impl Replica {
    /// Proposes a stop-sign, as the master, that ends this configuration.
    pub(super) fn reconfigure(
        &mut self,
        configuration: Configuration,
        value: EntrySize,
        effects: &mut Vec<Effect>,
    ) {
        let admitted =
            self.admits(value).and_then(|()| match self.membership.is_next(&configuration) {
                true => Ok(()),
                false => Err(Refusal::NotSuccessor),
            });
        if let Err(reason) = admitted {
            return effects.push(Effect::Refused { call: RefusedCall::Propose, reason });
        }
        let index = self.log.last.next();
        self.propose(value, effects);
        // After `propose`, which admits nothing after a stop-sign.
        self.log.signs.push((index, configuration));
    }

    /// Enters the configuration of each stop-sign that is decided.
    pub(super) fn enter_decided_configurations(&mut self, effects: &mut Vec<Effect>) {
        while self.log.signs.first().is_some_and(|(index, _)| *index <= self.log.decided) {
            let (base, configuration) = self.log.signs.remove(0);
            // No master proposes another; a stop-sign of another kind changes nothing.
            if self.membership.is_next(&configuration) {
                self.enter_configuration(configuration, base, effects);
            }
        }
    }

    /// Enters another configuration, which is now in force. The previous one's master leads it,
    /// too, if it may: the lease does not bind its holder. Otherwise mastership is handed over.
    pub(super) fn enter_configuration(
        &mut self,
        configuration: Configuration,
        base: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        // Read before `step_down` and `progress.enter` drop the role and the followers' progress.
        let ballot = self.ballots.promised;
        let successor = self.progress.caught_up_successor(&configuration, self.log.last);
        let was_master = self.role.is_replicating();
        let is_retiring = self.role.master().is_some_and(|it| it.phase == MasterPhase::Retiring);
        let stays_master = configuration.may_lead(self.host.node) && !is_retiring;
        if self.role.is_active() {
            self.step_down(effects);
        }
        self.progress.enter(self.host.node, &configuration);
        self.election.end_rounds();
        self.membership.enter(configuration, base);
        // Entries that a tear removed were accepted before the stop-sign, and every entry decided
        // before it is here.
        self.log.close_tear(self.ballots.promised, effects);
        // Logged before any promise in the new configuration: after such a promise, a restart must
        // not return to the old one.
        self.log.record_decided(effects);
        effects
            .push(Effect::Configured { configuration: self.membership.configuration.id(), base });
        match successor {
            // The new master may have requested a promise that was not possible before.
            _ if !was_master => {
                self.send_all(Body::Straggling { decided: self.log.decided }, effects);
            }
            _ if stays_master => self.stand_for_election(Ballot::default(), effects),
            Some(successor) => self.release_lease_to(successor, ballot, effects),
            // No follower is known to have the complete log: the next voters hold rounds.
            None => {}
        }
    }

    /// Handles a message of another configuration than ours.
    pub(super) fn receive_from_other_configuration(
        &mut self,
        from: NodeId,
        message: Message,
        effects: &mut Vec<Effect>,
    ) {
        let is_later = message.configuration > self.membership.configuration.id();
        let is_member = self.membership.has(from);
        match message.body {
            Body::Learn { after, last, end } if is_later => {
                self.on_learn(from, after, last, end, effects);
            }
            // A removed member would fetch all rows only to drop entries that may never have been
            // decided: as long as they are undecided here, the log must keep them.
            Body::Behind
                if is_later && self.membership.removed && self.log.last == self.log.decided => {}
            Body::Behind if is_later => self.fetch_snapshot(from, effects),
            Body::Ended if is_later => {
                self.membership.record_removal(effects);
                if self.membership.has(self.host.node) {
                    self.send_straggling(from, effects);
                }
            }
            _ if is_later => {
                // All other messages are sent to members only: the removal was from an earlier
                // configuration.
                if std::mem::take(&mut self.membership.removed) {
                    self.membership.straggling_due = self.host.now;
                }
                self.send_straggling(from, effects);
            }
            Body::Probe { .. } | Body::Prepare { .. } if !is_member => {
                self.send(from, Body::Ended, effects);
            }
            Body::Probe { .. } | Body::Prepare { .. } => self.send(from, Body::Outdated, effects),
            Body::Straggling { decided } => self.send_history(from, decided, effects),
            _ => {}
        }
    }

    /// Requests the end of our configuration, as a node that is no member of the next. Without the
    /// answer every incarnation would begin as a voter again, and the log would keep entries that
    /// were accepted and never known to be decided.
    pub(super) fn request_configuration_end(&mut self, effects: &mut Vec<Effect>) {
        if self.membership.has(self.host.node) && self.host.now >= self.membership.straggling_due {
            self.membership.straggling_due = self.host.after_leases(REMOVED_RETRY_LEASES);
            self.send_all(Body::Straggling { decided: self.history_index() }, effects);
        }
    }

    /// Returns the time at which a removed replica next requests the end of its configuration, or
    /// looks again whether it has to.
    pub(super) fn straggling_due(&self) -> Option<Millis> {
        match self.membership.has(self.host.node) {
            true => Some(self.membership.straggling_due),
            false => Some(self.host.after_leases(REMOVED_RETRY_LEASES)),
        }
    }

    /// Requests the rest of our configuration from the sender: it is over, and its end is not here.
    fn send_straggling(&mut self, from: NodeId, effects: &mut Vec<Effect>) {
        if self.host.now >= self.membership.straggling_due {
            self.membership.straggling_due = self.host.after(self.host.clock.round_ms());
            self.send(from, Body::Straggling { decided: self.history_index() }, effects);
        }
    }

    /// Returns the decided entries received so far of a configuration that is over. `None`: none
    /// are.
    fn staged_history(&self) -> Option<&Staging> {
        let is_active = self.role.is_active();
        let staging = self.log.staging.as_ref();
        staging.filter(|staging| !is_active && staging.ballot > self.ballots.promised)
    }

    /// Returns the index up to which the decided entries of our configuration are here.
    fn history_index(&self) -> LogIndex {
        self.staged_history().map_or(self.log.decided, |staging| staging.received)
    }

    /// Sends decided entries from before our configuration to a member that lacks them.
    fn send_history(&mut self, to: NodeId, decided: LogIndex, effects: &mut Vec<Effect>) {
        if decided >= self.membership.base {
            return;
        }
        // An empty member gets the rows, which do not compete with entries; a long log, sent part
        // by part, would delay writers.
        let needs_rows = decided == LogIndex(0) && self.membership.base.0 > HISTORY_VALUES_MAX;
        if decided < self.log.floor || needs_rows {
            return self.send(to, Body::Behind, effects);
        }
        let last = LogIndex(self.membership.base.0.min(decided.0 + MESSAGE_VALUES_MAX));
        self.send(to, Body::Learn { after: decided, last, end: self.membership.base }, effects);
    }

    /// Handles decided entries of an ended configuration, which are adopted once all of them are
    /// here. The ballot is one of our own: no other log of that configuration can be longer than
    /// the complete decided one, nor differ from it.
    fn on_learn(
        &mut self,
        from: NodeId,
        after: LogIndex,
        last: LogIndex,
        end: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        // All of it has arrived, and is on its way to the disk.
        let (ballot, reported) = self.log.reported;
        let is_adopted = self.log.ballot >= ballot && reported >= end && self.log.last >= end;
        let received_before = self.history_index();
        if is_adopted || after > received_before || end <= self.log.decided {
            return;
        }
        if self.staged_history().is_none() {
            let ballot = ballot::next_above(
                self.ballots.promised,
                self.host.node,
                self.membership.configuration.id(),
            );
            let Some(ballot) = ballot else { return };
            if self.role.is_active() {
                self.step_down(effects);
            }
            self.log.staging = Some(Staging::new(ballot, self.log.decided, end));
        }
        // The group may have decided more; a member that sends fewer entries sends the same ones.
        if let Some(staging) = &mut self.log.staging {
            staging.last = staging.last.max(end);
        }
        self.log.stage(after, last, effects);
        let decided = self.log.decided;
        let Some(staging) = &mut self.log.staging else { return };
        // The old master may have reported some entries as decided meanwhile.
        staging.from = staging.from.max(decided);
        staging.signs.retain(|(index, _)| *index > decided);
        let (ballot, received, end) = (staging.ballot, staging.received, staging.last);
        if received < end {
            // Only new entries cause the next request: if each duplicate did so too, a part
            // requested twice would be sent twice from then on.
            if received > received_before {
                self.membership.straggling_due = self.host.after_leases(1);
                self.send(from, Body::Straggling { decided: received }, effects);
            }
            return;
        }
        // No record of its own: the record of the adoption implies the promise.
        self.ballots.promised = ballot;
        self.role.follow(None);
        self.log.record_reported_decided(ballot, end);
        self.log.adopt(effects);
        // After `Adopt` in the log: replayed before it, this index would decide entries that the
        // adoption voids.
        effects.push(Effect::SaveDecided { last: end });
    }
}
