//! Replication of the master's log: which part of it each follower is sent next.

use super::effect::Effect;
use super::lead::{FLIGHT_VALUES_MAX, MESSAGE_VALUES_MAX, Phase};
use super::message::{Accepted, Body};
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{LogIndex, NodeId};

impl Replica {
    /// Tells a member that promised where its log agrees with ours, and sends what follows.
    pub(super) fn send_log(&mut self, to: NodeId, log: Accepted, effects: &mut Vec<Effect>) {
        let (ours, base, adopted) = (self.log.ballot, self.lead.base, self.lead.adopted);
        let (now, floor, last) = (self.host.now, self.log.floor, self.log.last);
        let again = self.host.after(self.host.clock.beat());
        let Some(follower) = self.lead.follower(to) else { return };
        if follower.heeded.0 == log && now < follower.heeded.1 {
            return;
        }
        follower.heeded = (log, again);
        follower.moved = now;
        follower.phase = Phase::Streaming;
        if log.ballot == ours && log.last <= last {
            // It had adopted already, and was restarted since.
            follower.from = log.last;
            follower.sent = log.last;
            follower.saved = follower.saved.max(Some(log.last));
            self.lead.saved.raise(to, log.last);
            self.decide(effects);
            return self.pump(to, effects);
        }
        let same = log.ballot == base || broken(Rule::AgreedIsDecided);
        let agreed = if same { log.last } else { log.decided };
        // A snapshot may have brought it further than what was adopted.
        let from = agreed.min(adopted).max(log.decided);
        if from > last {
            return; // No member of this group says that.
        }
        (follower.from, follower.sent, follower.staged) = (from, from, from);
        follower.saved = None;
        if from < floor {
            follower.phase = Phase::Behind;
            return self.send(to, Body::Behind, effects);
        }
        self.send(to, Body::Adopt { from, upto: adopted.max(from) }, effects);
        self.pump(to, effects);
    }

    /// Sends a member what it lacks, as much as may be on its way.
    pub(super) fn pump(&mut self, to: NodeId, effects: &mut Vec<Effect>) {
        let (last, decided, floor) = (self.log.last, self.log.decided, self.log.floor);
        loop {
            let Some(follower) = self.lead.follower(to) else { return };
            if follower.phase != Phase::Streaming || follower.sent >= last {
                return;
            }
            if follower.sent.0 >= follower.done().0 + FLIGHT_VALUES_MAX {
                return;
            }
            if follower.sent < floor {
                follower.phase = Phase::Behind;
                return self.send(to, Body::Behind, effects);
            }
            let after = follower.sent;
            let upto = LogIndex(last.0.min(after.0 + MESSAGE_VALUES_MAX));
            follower.sent = upto;
            self.send(to, Body::Accept { after, upto, decided }, effects);
        }
    }

    pub(super) fn pump_all(&mut self, effects: &mut Vec<Effect>) {
        for place in 0..self.lead.followers.len() {
            self.pump(self.lead.followers[place].node, effects);
        }
    }
}
