//! What other members say, and who is to hear it.

use super::effect::Effect;
use super::message::{Body, Message};
use super::replica::{Replica, ReplicaStage};
use super::rules::{Rule, broken};
use base::{Ballot, Millis, NodeId};

impl Replica {
    /// What a member said, given to whom it concerns.
    pub(super) fn receive(
        &mut self,
        from: NodeId,
        message: Message,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        if self.stage == ReplicaStage::Waiting || from == self.host.node || !message.is_sound() {
            return;
        }
        self.advance_clock(now);
        if message.configuration != self.membership.configuration.id() {
            return self.receive_across(from, message, effects);
        }
        if !self.membership.has(from) {
            match message.body {
                Body::Probe { .. } => self.send(from, Body::Ended, effects),
                // The last master of the configuration before, which does not belong to this one.
                Body::HandOver => self.inherit(from, message.ballot, effects),
                _ => {}
            }
            return;
        }
        self.ballots.hear(message.ballot);
        if let Body::Refused { promised } = message.body {
            self.ballots.hear(promised);
        }
        let ballot = message.ballot;
        // Answers to an attempt of ours that is over say nothing any more.
        let ours = ballot.node == self.host.node
            && (ballot == self.ballots.promised || broken(Rule::AnswersToThisAttempt));
        match message.body {
            Body::Probe { round } => self.probed_by(from, round, effects),
            Body::Probed { round, standing } => self.answered(from, round, standing, effects),
            Body::Prepare { released } => self.prepare_came(from, ballot, released, effects),
            Body::Fetch { after } => self.fetch_came(from, ballot, after, effects),
            Body::Adopt { from: agreed, upto } => {
                self.adopt_came(from, ballot, agreed, upto, effects);
            }
            Body::Accept { .. }
            | Body::Sent { .. }
            | Body::Decide { .. }
            | Body::Heartbeat { .. }
            | Body::Level { .. } => {
                if self.follows(from, ballot, effects) {
                    self.follow_master(ballot, message.body, effects);
                }
            }
            Body::HandOver => self.inherit(from, ballot, effects),
            Body::Straggling { .. } => self.caught_up(from, effects),
            Body::Ended => self.membership.dismiss(effects),
            Body::Outdated | Body::Learn { .. } => {}
            Body::Behind => self.behind(from, ballot, effects),
            _ if !ours => {}
            Body::Promise { log } => self.promise_came(from, log, None, effects),
            Body::TornPromise { log, tear } => self.promise_came(from, log, Some(tear), effects),
            Body::Refused { promised } => self.refused(from, promised, effects),
            Body::Fetched { after, upto } => self.fetched(from, after, upto, effects),
            Body::Accepted { upto } => self.accepted_by(from, upto, effects),
            Body::Staged { upto } => {
                self.lead.staged_by(from, upto, self.host.now);
                self.pump(from, effects);
            }
            Body::Gap { last } => self.gap(from, last, effects),
            Body::Granted { beat, sent, asked, full } => {
                self.granted(from, (beat, sent, asked, full), effects);
            }
        }
    }

    /// What the master of the promised ballot says.
    fn follow_master(&mut self, ballot: Ballot, body: Body, effects: &mut Vec<Effect>) {
        match body {
            Body::Accept { after, upto, decided } => {
                self.log.learn_decided(ballot, decided);
                self.accept(after, upto, effects);
            }
            // Answered as an `Accept` that brings nothing.
            Body::Sent { upto } => self.accept(upto, upto, effects),
            Body::Decide { upto } => {
                self.log.learn_decided(ballot, upto);
                self.settle(effects);
            }
            Body::Heartbeat { beat, sent, asks, decided, kept } => {
                self.log.learn_decided(ballot, decided);
                self.witness.hear_kept(kept);
                self.heartbeat(beat, sent, asks, effects);
                self.tell_tear(effects);
            }
            Body::Level { tear, upto } => self.level_came(tear, upto, effects),
            _ => {}
        }
    }
}
