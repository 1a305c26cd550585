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
        if self.role.waits() || from == self.host.node || !message.is_sound() {
            return;
        }
        self.advance_clock(now);
        if message.configuration != self.membership.configuration.id() {
            return self.receive_across(from, message, effects);
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
        self.ballots.hear(message.ballot);
        if let Body::Refused { promised } = message.body {
            self.ballots.hear(promised);
        }
        let ballot = message.ballot;
        // Answers to an attempt of ours that is over mean nothing any more.
        let ours = ballot.node == self.host.node
            && (ballot == self.ballots.promised || broken(Rule::AnswersToThisAttempt));
        match message.body {
            Body::Probe { round } => self.on_probe(from, round, effects),
            Body::Probed { round, standing } => self.on_probed(from, round, standing, effects),
            Body::Prepare { released } => self.on_prepare(from, ballot, released, effects),
            Body::Fetch { after } => self.on_fetch(from, ballot, after, effects),
            Body::Adopt { from: agreed, upto } => {
                self.on_adopt(from, ballot, agreed, upto, effects);
            }
            Body::Accept { .. }
            | Body::Sent { .. }
            | Body::Decide { .. }
            | Body::Heartbeat { .. }
            | Body::Level { .. } => {
                if self.accepts_master(from, ballot, effects) {
                    self.on_master(ballot, message.body, effects);
                }
            }
            Body::HandOver => self.on_hand_over(from, ballot, effects),
            Body::Straggling { .. } => self.on_straggling(from, effects),
            Body::Ended => self.membership.dismiss(effects),
            Body::Outdated | Body::Learn { .. } => {}
            Body::Behind => self.on_behind(from, ballot, effects),
            _ if !ours => {}
            Body::Promise { log } => self.on_promise(from, log, None, effects),
            Body::TornPromise { log, tear } => self.on_promise(from, log, Some(tear), effects),
            Body::Refused { promised } => self.on_refused(from, promised, effects),
            Body::Fetched { after, upto } => self.on_fetched(from, after, upto, effects),
            Body::Accepted { upto } => self.on_accepted(from, upto, effects),
            Body::Staged { upto } => self.on_staged(from, upto, effects),
            Body::Gap { last } => self.on_gap(from, last, effects),
            Body::Granted { beat, sent, asked, full } => {
                self.on_granted(from, HeartbeatReply { beat, sent, asked, full }, effects);
            }
        }
    }

    /// Handles a message of the master of the promised ballot.
    fn on_master(&mut self, ballot: Ballot, body: Body, effects: &mut Vec<Effect>) {
        match body {
            Body::Accept { after, upto, decided } => {
                self.log.learn_decided(ballot, decided);
                self.on_accept(after, upto, effects);
            }
            // Answered like an `Accept` without entries.
            Body::Sent { upto } => self.on_accept(upto, upto, effects),
            Body::Decide { upto } => {
                self.log.learn_decided(ballot, upto);
                self.try_decide(effects);
            }
            Body::Heartbeat { beat, sent, asks, decided, kept } => {
                self.log.learn_decided(ballot, decided);
                self.witness.hear_kept(kept);
                self.on_heartbeat(beat, sent, asks, effects);
                self.tell_tear(effects);
            }
            Body::Level { tear, upto } => self.on_level(tear, upto, effects),
            _ => {}
        }
    }
}
