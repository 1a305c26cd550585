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
use super::lease::{Lease, LeaseTerm};
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
    /// Time until which a voter without any answer counts as in contact: as long as the attempt to
    /// lead might have taken.
    grace_until: Millis,
}

/// Answer of a member to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HeartbeatReply {
    pub beat: u64,
    /// Time of the heartbeat by the master's clock.
    pub sent: Millis,
    /// True if a lease was requested, and so is granted.
    pub grants_lease: bool,
    /// True if it is a witness at the limit of the log that it may keep.
    pub is_full: bool,
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

    /// Records that heartbeat `beat` is sent; returns the lease that it requests. A master that may
    /// have lost its majority must not keep the voters from electing a new one.
    fn record_sent(&mut self, beat: u64, host: &Host) -> Option<LeaseTerm> {
        let has_contact = self.has_majority_contact(host);
        self.next_due = host.after(host.clock.heartbeat_interval_ms());
        self.answered.raise(host.node, beat);
        let is_new = self.contact.agreed().is_none() && host.now < self.grace_until;
        (has_contact || is_new).then_some(LeaseTerm::Half)
    }

    fn record_reply(&mut self, from: NodeId, reply: HeartbeatReply, now: Millis) {
        let HeartbeatReply { beat, sent, grants_lease, .. } = reply;
        if grants_lease {
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
    pub(super) fn has_majority_contact(&self, host: &Host) -> bool {
        is_recent(self.contact.agreed(), host)
    }

    /// Returns true if a voter answered lately, or has not had time to answer.
    pub(super) fn has_contact(&self, voter: NodeId, host: &Host) -> bool {
        let last_sent = self.contact.progress_of(voter);
        is_recent(last_sent, host) || (last_sent.is_none() && host.now < self.grace_until)
    }

    /// Returns true if a voter answered a heartbeat that was sent within a lease's length.
    pub(super) fn answered_within_lease(&self, voter: NodeId, host: &Host) -> bool {
        let sent = self.contact.progress_of(voter).unwrap_or_default();
        voter == host.node || host.now.0 - sent.0 <= host.clock.length.0
    }

    /// Returns true if no majority answered for a lease's length: another voter may lead already.
    pub(super) fn lost_majority(&self, host: &Host) -> bool {
        let last_sent = self.contact.agreed().unwrap_or(self.grace_until).max(self.grace_until);
        host.now.0 > last_sent.0.saturating_add(host.clock.length.0)
    }
}

fn is_recent(last_sent: Option<Millis>, host: &Host) -> bool {
    last_sent.is_some_and(|sent| host.now.0 - sent.0 <= host.clock.answer_timeout_ms())
}

/// Methods that span the master's heartbeats, their number, which rises through all reigns, and the
/// reads that wait for an answer.
impl Replica {
    /// Sends the next heartbeat.
    pub(super) fn send_heartbeat(&mut self, effects: &mut Vec<Effect>) {
        let Some(master) = self.role.master_mut() else { return };
        self.progress.beat += 1;
        let (beat, sent, decided) = (self.progress.beat, self.host.now, self.log.decided);
        let lease = master.heartbeats.record_sent(beat, &self.host);
        let saved_by_all = self.saved_by_all();
        self.send_all(Body::Heartbeat { beat, sent, lease, decided, saved_by_all }, effects);
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
        // No correct member answers a heartbeat that was not sent; a future `sent` would extend the
        // lease.
        if reply.beat > self.progress.beat || reply.sent > self.host.now {
            return;
        }
        if let Some(follower) = self.progress.follower_mut(from) {
            follower.full = reply.is_full;
        }
        master.heartbeats.record_reply(from, reply, self.host.now);
        self.answer_reads(effects);
        self.begin_read_round(effects);
    }
}
