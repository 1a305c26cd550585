//! Reads, and the heartbeats that allow them.

use super::effect::{Effect, Refusal, RefusedCall};
use super::event::ReadToken;
use super::lead::{READS_WAITING_MAX, WaitingRead};
use super::message::Body;
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{Millis, NodeId};

impl Replica {
    /// A read may be answered from what is decided now, as long as nobody else can have decided
    /// more: while the lease holds (the node checks that again once it has read, with a second
    /// `Read` if it took long), or once a majority answers a heartbeat sent after the read came
    /// (Ongaro's thesis, 6.4).
    pub(super) fn read(&mut self, token: ReadToken, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        let index = self.log.decided;
        let waiting = self.lead.reads.len();
        let early = self.stage.replicates() && broken(Rule::InheritedFirst);
        let leads = if early { Ok(()) } else { self.leads() };
        let refused = match leads {
            Err(reason) => reason,
            Ok(()) if self.lease_answers() => {
                return effects.push(Effect::ReadAt { token, index });
            }
            Ok(()) if waiting >= READS_WAITING_MAX => Refusal::Full,
            Ok(()) => {
                let beat = self.lead.beat + u64::from(!broken(Rule::ReadAsksAnew));
                let idle = self.lead.reads.is_empty();
                self.lead.reads.push_back(WaitingRead { token, beat, index });
                // Those that come while one round is under way share the next.
                if idle {
                    self.beat(effects);
                }
                return;
            }
        };
        effects.push(Effect::Refused { asked: RefusedCall::Read(token), reason: refused });
    }

    /// Whether the lease answers a read: not behind a stop-sign, for whoever leads behind that need
    /// not wait for a lease before it.
    fn lease_answers(&self) -> bool {
        let relied_upon = self.host.clock.reads || self.membership.is_sole_voter(self.host.node);
        let holds =
            relied_upon && self.lead.lease.holds(self.host.now) && self.log.signs.is_empty();
        holds || broken(Rule::ReadAsksAMajority)
    }

    /// Sends the next heartbeat.
    pub(super) fn beat(&mut self, effects: &mut Vec<Effect>) {
        // A master that may have lost its majority must not keep others from finding a new one.
        let fresh = self.hears_majority();
        let (now, lead) = (self.host.now, &mut self.lead);
        lead.beat += 1;
        lead.next_beat = Millis(now.0.saturating_add(self.host.clock.beat()));
        let asks = fresh || (lead.contact.agreed().is_none() && now < lead.ends);
        let (beat, decided) = (lead.beat, self.log.decided);
        lead.beats.raise(self.host.node, beat);
        let kept = self.kept_by_all();
        self.send_all(Body::Heartbeat { beat, sent: now, asks, decided, kept }, effects);
        self.answer_reads(effects);
    }

    /// Whether this replica leads and hears a majority: then there is no need for another master.
    pub(super) fn in_office(&self) -> bool {
        self.stage.replicates() && (self.hears_majority() || self.lead.lease.holds(self.host.now))
    }

    pub(super) fn hears_majority(&self) -> bool {
        self.is_recent(self.lead.contact.agreed())
    }

    /// Tells whether this master hears a voter. One that has not answered a heartbeat yet counts as
    /// heard for as long as the attempt to lead might have taken.
    pub(super) fn hears(&self, voter: NodeId) -> bool {
        let heard = self.lead.contact.of(voter);
        self.is_recent(heard) || (heard.is_none() && self.host.now < self.lead.ends)
    }

    fn is_recent(&self, heard: Option<Millis>) -> bool {
        heard.is_some_and(|sent| self.host.now.0 - sent.0 <= self.host.clock.patience())
    }

    /// A member heard a heartbeat.
    pub(super) fn granted(
        &mut self,
        from: NodeId,
        (beat, sent, asked, full): (u64, Millis, bool, bool),
        effects: &mut Vec<Effect>,
    ) {
        if !self.stage.replicates() || beat > self.lead.beat || sent > self.host.now {
            return;
        }
        if let Some(follower) = self.lead.follower(from) {
            follower.full = full;
        }
        if asked {
            let since = if broken(Rule::GrantFromSent) { self.host.now } else { sent };
            self.lead.lease.grant(from, since);
        }
        self.lead.contact.raise(from, sent);
        self.lead.beats.raise(from, beat);
        self.answer_reads(effects);
        let next = self.lead.reads.front().map(|waiting| waiting.beat);
        if next.is_some_and(|beat| beat > self.lead.beat) {
            self.beat(effects);
        }
    }

    fn answer_reads(&mut self, effects: &mut Vec<Effect>) {
        let agreed = self.lead.beats.agreed().unwrap_or(0);
        while let Some(WaitingRead { token, beat, index }) = self.lead.reads.front().copied() {
            if beat > agreed {
                return;
            }
            self.lead.reads.pop_front();
            effects.push(Effect::ReadAt { token, index });
        }
    }

    pub(super) fn refuse_reads(&mut self, effects: &mut Vec<Effect>) {
        for WaitingRead { token, .. } in std::mem::take(&mut self.lead.reads) {
            let reason = Refusal::NotMaster { master: None };
            effects.push(Effect::Refused { asked: RefusedCall::Read(token), reason });
        }
    }
}
