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
use super::event::ValueHandle;
use super::log::Staging;
use super::master::MasterPhase;
use super::message::{Body, Message};
use super::progress::MESSAGE_VALUES_MAX;
use super::replica::Replica;
use base::{Ballot, LogIndex, NodeId};

/// Most entries of history sent to a new member; with more it fetches a snapshot instead.
const TOLD_VALUES_MAX: u64 = 4_096;
/// Lengths of a lease after which a dismissed member asks again how its configuration ended.
const DISMISSED_LENGTHS: u64 = 10;

/// Methods that span log, configuration and role: a decided stop-sign changes all of them.
impl Replica {
    /// Proposes a stop-sign, as the master, that ends this configuration.
    pub(super) fn reconfigure(
        &mut self,
        configuration: Configuration,
        value: ValueHandle,
        effects: &mut Vec<Effect>,
    ) {
        let admitted =
            self.admits(value).and_then(|()| match self.membership.is_next(&configuration) {
                true => Ok(()),
                false => Err(Refusal::NotNext),
            });
        if let Err(reason) = admitted {
            return effects.push(Effect::Refused { asked: RefusedCall::Propose, reason });
        }
        let index = self.log.last.next();
        self.propose(value, effects);
        // After `propose`, which admits nothing after a stop-sign.
        self.log.signs.push((index, configuration));
    }

    /// Enters the configuration of each stop-sign that is decided.
    pub(super) fn pass_signs(&mut self, effects: &mut Vec<Effect>) {
        while self.log.signs.first().is_some_and(|(index, _)| *index <= self.log.decided) {
            let (base, configuration) = self.log.signs.remove(0);
            // No master proposes another; a stop-sign of another kind changes nothing.
            if self.membership.is_next(&configuration) {
                self.move_to(configuration, base, effects);
            }
        }
    }

    /// Enters another configuration, which is now in force. The previous one's master leads it,
    /// too, if it may: voters that granted it a lease let it pass. Otherwise another member is
    /// asked to lead.
    pub(super) fn move_to(
        &mut self,
        configuration: Configuration,
        base: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        // Read before `step_down` and `progress.enter` drop the role and the followers' progress.
        let ballot = self.ballots.promised;
        let heir = self.progress.level_heir(&configuration, self.log.last);
        let led = self.role.replicates();
        let retires = self.role.master().is_some_and(|it| it.phase == MasterPhase::Retiring);
        let goes_on = configuration.leads(self.host.node) && !retires;
        if self.role.is_active() {
            self.step_down(effects);
        }
        self.progress.enter(self.host.node, &configuration);
        self.election.rest();
        self.membership.enter(configuration, base);
        // Entries that a tear removed were accepted before, and all that was decided before is
        // here.
        self.log.close_tear(self.ballots.promised, effects);
        // Logged before any promise in the new configuration: a replica that has made one must
        // know, after a restart too, that the old one is over.
        self.log.record_decided(effects);
        effects
            .push(Effect::Configured { configuration: self.membership.configuration.id(), base });
        match heir {
            // The new master may have asked for a promise that could not be given before.
            _ if !led => {
                self.send_all(Body::Straggling { decided: self.log.decided }, effects);
            }
            _ if goes_on => self.stand(Ballot::default(), effects),
            Some(heir) => self.leave_to(heir, ballot, effects),
            // Nobody is known to have everything: the next voters hold rounds.
            None => {}
        }
    }

    /// Handles a message of another configuration than ours.
    pub(super) fn receive_across(
        &mut self,
        from: NodeId,
        message: Message,
        effects: &mut Vec<Effect>,
    ) {
        let ahead = message.configuration > self.membership.configuration.id();
        let member = self.membership.has(from);
        match message.body {
            Body::Learn { after, upto, end } if ahead => {
                self.on_learn(from, after, upto, end, effects);
            }
            // A removed member would fetch all rows only to get rid of entries that may never have
            // been decided: as long as they are undecided here, the log must keep them.
            Body::Behind
                if ahead && self.membership.dismissed && self.log.last == self.log.decided => {}
            Body::Behind if ahead => self.fetch_snapshot(from, effects),
            Body::Ended if ahead => {
                self.membership.dismiss(effects);
                if self.membership.has(self.host.node) {
                    self.straggle(from, effects);
                }
            }
            _ if ahead => {
                // All other messages are sent to members only: our dismissal was from an earlier
                // configuration.
                if std::mem::take(&mut self.membership.dismissed) {
                    self.membership.straggles_from = self.host.now;
                }
                self.straggle(from, effects);
            }
            Body::Probe { .. } | Body::Prepare { .. } if !member => {
                self.send(from, Body::Ended, effects);
            }
            Body::Probe { .. } | Body::Prepare { .. } => self.send(from, Body::Outdated, effects),
            Body::Straggling { decided } => self.teach(from, decided, effects),
            _ => {}
        }
    }

    /// Asks how our configuration ended, as a node that is no member of the next. Without the
    /// answer every incarnation would begin as a voter again, and the log would keep entries that
    /// were accepted and never known to be decided.
    pub(super) fn ask_how_it_ended(&mut self, effects: &mut Vec<Effect>) {
        if self.membership.has(self.host.node) && self.host.now >= self.membership.straggles_from {
            self.membership.straggles_from = self.host.after_leases(DISMISSED_LENGTHS);
            self.send_all(Body::Straggling { decided: self.learned() }, effects);
        }
    }

    /// Asks the sender how our configuration ended: it is over, and this replica lacks its end.
    fn straggle(&mut self, from: NodeId, effects: &mut Vec<Effect>) {
        if self.host.now >= self.membership.straggles_from {
            self.membership.straggles_from = self.host.after(self.host.clock.round());
            self.send(from, Body::Straggling { decided: self.learned() }, effects);
        }
    }

    /// Returns the decided entries received so far of a configuration that is over. `None`: none
    /// are.
    fn learning(&self) -> Option<&Staging> {
        let active = self.role.is_active();
        let staging = self.log.staging.as_ref();
        staging.filter(|staging| !active && staging.ballot > self.ballots.promised)
    }

    /// Returns the index up to which its decided entries are here.
    fn learned(&self) -> LogIndex {
        self.learning().map_or(self.log.decided, |staging| staging.have)
    }

    /// Sends decided entries from before our configuration to a member that lacks them.
    fn teach(&mut self, to: NodeId, decided: LogIndex, effects: &mut Vec<Effect>) {
        if decided >= self.membership.base {
            return;
        }
        // A member without anything gets the rows, which do not compete with entries; a long log,
        // sent part by part, would delay writers.
        let fresh = decided == LogIndex(0) && self.membership.base.0 > TOLD_VALUES_MAX;
        if decided < self.log.floor || fresh {
            return self.send(to, Body::Behind, effects);
        }
        let upto = LogIndex(self.membership.base.0.min(decided.0 + MESSAGE_VALUES_MAX));
        self.send(to, Body::Learn { after: decided, upto, end: self.membership.base }, effects);
    }

    /// Handles decided entries of an ended configuration, which are adopted once all of them are
    /// here. The ballot is one of our own: no other log of that configuration can be longer than
    /// the complete decided one, nor differ from it.
    fn on_learn(
        &mut self,
        from: NodeId,
        after: LogIndex,
        upto: LogIndex,
        end: LogIndex,
        effects: &mut Vec<Effect>,
    ) {
        // All of it has arrived, and is on its way to the disk.
        let (ballot, heard) = self.log.heard;
        let adopted = self.log.ballot >= ballot && heard >= end && self.log.last >= end;
        let had = self.learned();
        if adopted || after > had || end <= self.log.decided {
            return;
        }
        if self.learning().is_none() {
            let ballot = ballot::above(
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
        // The group may have gone on; a member that sends less sends the same.
        if let Some(staging) = &mut self.log.staging {
            staging.upto = staging.upto.max(end);
        }
        self.log.stage(after, upto, effects);
        let decided = self.log.decided;
        let Some(staging) = &mut self.log.staging else { return };
        // The old master may have reported some of it meanwhile.
        staging.from = staging.from.max(decided);
        staging.signs.retain(|(index, _)| *index > decided);
        let (ballot, have, end) = (staging.ballot, staging.have, staging.upto);
        if have < end {
            // Only new entries cause the next request: if each duplicate did so too, a part
            // requested twice would be sent twice from then on.
            if have > had {
                self.membership.straggles_from = self.host.after_leases(1);
                self.send(from, Body::Straggling { decided: have }, effects);
            }
            return;
        }
        // No record of its own: the record of the adoption implies the promise.
        self.ballots.promised = ballot;
        self.role.follow(None);
        self.log.learn_decided(ballot, end);
        self.log.adopt(effects);
        // After `Adopt` in the log: replayed before it, this index would decide entries that the
        // adoption voids.
        effects.push(Effect::SaveDecided { upto: end });
    }
}
