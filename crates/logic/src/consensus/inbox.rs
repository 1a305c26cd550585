//! Dispatch of messages: drops those that no longer apply, and calls the handler of the rest.

use super::effect::Effect;
use super::heartbeat::HeartbeatReply;
use super::message::{Body, Message};
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{Ballot, Millis, NodeId};

impl Replica {
    /// Passes a member's message to its handler.
    pub(super) fn receive(
        &mut self,
        from: NodeId,
        message: Message,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        if self.role.is_waiting() || from == self.host.node || !message.is_sound() {
            return;
        }
        self.advance_clock(now);
        self.election.note_heard(from);
        if message.configuration != self.membership.configuration.id() {
            return self.receive_from_other_configuration(from, message, effects);
        }
        if !self.membership.has(from) {
            match message.body {
                Body::Probe { .. } => self.send(from, Body::Ended, effects),
                // The last master of the previous configuration, which is not a member of this one.
                Body::HandOver => self.on_hand_over(from, message.ballot, effects),
                _ => {}
            }
            return;
        }
        self.ballots.observe(message.ballot);
        if let Body::Refused { promised } = message.body {
            self.ballots.observe(promised);
        }
        let ballot = message.ballot;
        // Answers to an earlier attempt of this replica no longer count.
        let is_own_attempt = ballot.node == self.host.node
            && (ballot == self.ballots.promised || broken(Rule::AnswersToCurrentAttempt));
        match message.body {
            Body::Probe { round } => self.on_probe(from, round, effects),
            Body::Probed { round, reply } => self.on_probed(from, round, reply, effects),
            Body::Prepare { released } => self.on_prepare(from, ballot, released, effects),
            Body::Fetch { after } => self.on_fetch(from, ballot, after, effects),
            Body::Adopt { from: agreed, last } => {
                self.on_adopt(from, ballot, agreed, last, effects);
            }
            Body::Accept { .. }
            | Body::Sent { .. }
            | Body::Decide { .. }
            | Body::Heartbeat { .. }
            | Body::LogEnd { .. } => {
                if self.accepts_master(from, ballot, effects) {
                    self.on_master_message(ballot, message.body, effects);
                }
            }
            Body::HandOver => self.on_hand_over(from, ballot, effects),
            Body::Straggling { .. } => self.on_straggling(from, effects),
            Body::Ended => self.membership.record_removal(effects),
            Body::Outdated | Body::Learn { .. } => {}
            Body::Behind => self.on_behind(from, ballot, effects),
            _ if !is_own_attempt => {}
            Body::Promise { log } => self.on_promise(from, log, None, effects),
            Body::TornPromise { log, tear } => self.on_promise(from, log, Some(tear), effects),
            Body::Refused { promised } => self.on_refused(from, promised, effects),
            Body::Fetched { after, last } => self.on_fetched(from, after, last, effects),
            Body::Accepted { last } => self.on_accepted(from, last, effects),
            Body::Staged { last } => self.on_staged(from, last, effects),
            Body::Gap { last } => self.on_gap(from, last, effects),
            Body::Granted { beat, sent, lease, is_full } => {
                let reply = HeartbeatReply { beat, sent, grants_lease: lease.is_some(), is_full };
                self.on_granted(from, reply, effects);
            }
        }
    }

    /// Handles a message of the master of the promised ballot.
    fn on_master_message(&mut self, ballot: Ballot, body: Body, effects: &mut Vec<Effect>) {
        match body {
            Body::Accept { after, last, decided } => {
                self.log.record_reported_decided(ballot, decided);
                self.on_accept(after, last, effects);
            }
            // Answered like an `Accept` without entries.
            Body::Sent { last } => self.on_accept(last, last, effects),
            Body::Decide { last } => {
                self.log.record_reported_decided(ballot, last);
                self.try_decide(effects);
            }
            Body::Heartbeat { beat, sent, lease, decided, saved_by_all } => {
                self.log.record_reported_decided(ballot, decided);
                self.witness.record_saved_by_all(saved_by_all);
                self.on_heartbeat(beat, sent, lease, effects);
                self.report_tear(effects);
            }
            Body::LogEnd { tear, last } => self.on_log_end(tear, last, effects),
            _ => {}
        }
    }
}
