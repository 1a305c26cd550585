//! Heartbeats: a master's evidence that it still is one.
//!
//! One heartbeat goes to all members. Each voter's answer counts in three ways: the voter was heard
//! (contact), it granted a lease, and it answered a certain heartbeat (for read indexes).
//!
//! Promises: an answer counts from the time its heartbeat was sent, never from its arrival.
//! Never: outlives the reign; a new master has heard nobody yet.

use super::configuration::Configuration;
use super::effect::Effect;
use super::host::Host;
use super::lease::Lease;
use super::message::Body;
use super::quorum::VoterTally;
use super::replica::Replica;
use super::rules::{Rule, broken};
use base::{Millis, NodeId};

/// Answers of the voters to a master's heartbeats.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Heartbeats {
    pub lease: Lease,
    /// Send times of the heartbeats that each voter answered last, granted or not.
    contact: VoterTally<Millis>,
    /// Number of the heartbeat that each voter answered last.
    answered: VoterTally<u64>,
    /// Time at which the next heartbeat is due.
    pub next_due: Millis,
    /// Time until which a voter that has answered none yet counts as heard: for as long as the
    /// attempt to lead might have taken.
    grace_until: Millis,
}

/// Answer of a member to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeartbeatReply {
    pub beat: u64,
    /// Time of the heartbeat by the master's clock.
    pub sent: Millis,
    /// True if a lease was asked for, and so is granted.
    pub asked: bool,
    /// True if it is a witness at the limit of the log that it may keep.
    pub full: bool,
}

impl Heartbeats {
    /// Returns the state before any answer.
    pub(super) fn new(configuration: &Configuration, host: &Host) -> Heartbeats {
        let (voters, needed) = (|| configuration.voters(), configuration.quorums().save);
        Heartbeats {
            lease: Lease::new(host.clock, voters(), needed),
            contact: VoterTally::new(voters(), needed),
            answered: VoterTally::new(voters(), needed),
            next_due: host.now,
            grace_until: host.after_leases(1),
        }
    }

    /// Grants the master's own heartbeat at once, by its own vote.
    pub(super) fn grant_own(&mut self, host: &Host) {
        self.lease.grant(host.node, host.now);
        self.contact.raise(host.node, host.now);
    }

    /// Records that heartbeat `beat` is sent; returns whether it asks for a lease. A master that
    /// may have lost its majority must not keep others from electing a new one.
    fn send(&mut self, beat: u64, host: &Host) -> bool {
        let fresh = self.hears_majority(host);
        self.next_due = host.after(host.clock.beat());
        self.answered.raise(host.node, beat);
        fresh || (self.contact.agreed().is_none() && host.now < self.grace_until)
    }

    fn note(&mut self, from: NodeId, reply: HeartbeatReply, now: Millis) {
        let HeartbeatReply { beat, sent, asked, .. } = reply;
        if asked {
            self.lease.grant(from, if broken(Rule::GrantFromSent) { now } else { sent });
        }
        self.contact.raise(from, sent);
        self.answered.raise(from, beat);
    }

    /// Returns the number of the last heartbeat that enough voters answered.
    pub(super) fn agreed(&self) -> u64 {
        self.answered.agreed().unwrap_or(0)
    }

    /// Returns true if a majority answered lately.
    pub(super) fn hears_majority(&self, host: &Host) -> bool {
        is_recent(self.contact.agreed(), host)
    }

    /// Returns true if a voter answered lately, or has not had the time to.
    pub(super) fn hears(&self, voter: NodeId, host: &Host) -> bool {
        let heard = self.contact.of(voter);
        is_recent(heard, host) || (heard.is_none() && host.now < self.grace_until)
    }

    /// Returns true if a voter answered a heartbeat that was sent within a lease's length.
    pub(super) fn heard_within_lease(&self, voter: NodeId, host: &Host) -> bool {
        let sent = self.contact.of(voter).unwrap_or_default();
        voter == host.node || host.now.0 - sent.0 <= host.clock.length.0
    }

    /// Returns true if no majority was heard for a lease's length: others may lead already.
    pub(super) fn lost_majority(&self, host: &Host) -> bool {
        let heard = self.contact.agreed().unwrap_or(self.grace_until).max(self.grace_until);
        host.now.0 > heard.0.saturating_add(host.clock.length.0)
    }
}

fn is_recent(heard: Option<Millis>, host: &Host) -> bool {
    heard.is_some_and(|sent| host.now.0 - sent.0 <= host.clock.patience())
}

/// Methods that span the master's heartbeats, their count, which goes on through all reigns, and
/// the reads that wait for an answer.
impl Replica {
    /// Sends the next heartbeat.
    pub(super) fn beat(&mut self, effects: &mut Vec<Effect>) {
        let Some(master) = self.role.master_mut() else { return };
        self.progress.beat += 1;
        let (beat, sent, decided) = (self.progress.beat, self.host.now, self.log.decided);
        let asks = master.heartbeats.send(beat, &self.host);
        let kept = self.kept_by_all();
        self.send_all(Body::Heartbeat { beat, sent, asks, decided, kept }, effects);
        self.answer_reads(effects);
    }

    /// Handles a member's answer to a heartbeat.
    pub(super) fn on_granted(
        &mut self,
        from: NodeId,
        reply: HeartbeatReply,
        effects: &mut Vec<Effect>,
    ) {
        let Some(master) = self.role.master_mut() else { return };
        // No correct member answers a beat that was not sent; a future `sent` would extend the
        // lease.
        if reply.beat > self.progress.beat || reply.sent > self.host.now {
            return;
        }
        if let Some(follower) = self.progress.of_mut(from) {
            follower.full = reply.full;
        }
        master.heartbeats.note(from, reply, self.host.now);
        self.answer_reads(effects);
        self.ask_for_reads(effects);
    }
}
