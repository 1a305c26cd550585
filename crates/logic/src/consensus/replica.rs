//! One member's part in agreeing on one group's log: `step(event) -> effects`.
//!
//! A life: *waiting* for `Started`; *following*, and seeking a master where none is heard of;
//! *promising* a ballot above all seen (prepare); *fetching* what it lacks of the log to be
//! adopted; *adopting* it under that ballot, until a majority has; *leading*; *retiring* until
//! nothing is in flight; *retired*.
//! What a leader does is in `leader.rs`, what a follower does in `follower.rs`.

use super::ballot::Ballots;
use super::effect::{Effect, Refusal, Role};
use super::election::Election;
use super::event::Event;
use super::host::Host;
use super::lead::Lead;
use super::lease::LeaseBound;
use super::log::AcceptedLog;
use super::membership::Membership;
use super::message::{Body, Message};
use super::restored::{RestoreError, Restored};
use super::rules::{Rule, broken};
use super::tear::Awaited;
use super::witness::WitnessLog;
use base::{Ballot, LogIndex, Millis, NodeId};

/// Where a replica stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ReplicaStage {
    Waiting,
    Following,
    Promising,
    Fetching,
    Adopting,
    Leading,
    Retiring,
    Retired,
}

impl ReplicaStage {
    /// Tries to lead, and needs others to do so.
    pub(super) fn attempts(self) -> bool {
        matches!(self, ReplicaStage::Promising | ReplicaStage::Fetching)
    }

    /// Has a log that it makes others accept.
    pub(super) fn replicates(self) -> bool {
        matches!(self, ReplicaStage::Adopting | ReplicaStage::Leading | ReplicaStage::Retiring)
    }
}

/// One replica of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    pub(super) host: Host,
    pub(super) membership: Membership,
    pub(super) stage: ReplicaStage,
    /// Whose logs an attempt to lead waits for.
    pub(super) awaited: Option<Awaited>,
    pub(super) ballots: Ballots,
    pub(super) log: AcceptedLog,
    pub(super) witness: WitnessLog,
    /// The lease this replica granted.
    pub(super) bound: LeaseBound,
    /// A lease that was given back in our favour.
    pub(super) released: Ballot,
    pub(super) leader: Option<NodeId>,
    pub(super) election: Election,
    pub(super) lead: Lead,
    /// What the last `Role` said.
    pub(super) presented: Option<(Role, Ballot, Option<NodeId>)>,
}

impl Replica {
    /// A replica that remembers its earlier lives and waits for [`Event::Started`].
    pub fn restore(restored: Restored) -> Result<Replica, RestoreError> {
        restored.check()?;
        let (node, clock) = (restored.node, restored.lease);
        let configuration = restored.configuration.clone();
        Ok(Replica {
            lead: Lead::new(node, &configuration, clock),
            host: Host::new(node, clock),
            membership: Membership::new(configuration, restored.base),
            stage: ReplicaStage::Waiting,
            awaited: None,
            ballots: Ballots::restore(restored.promised),
            witness: WitnessLog::default(),
            bound: LeaseBound::default(),
            released: Ballot::default(),
            leader: None,
            election: Election::default(),
            presented: None,
            log: AcceptedLog::restore(restored),
        })
    }

    /// Takes one event and appends what is to be done, in order, to `effects`.
    ///
    /// # Panics
    /// When an event claims what cannot be (something saved that was never asked to be saved): that
    /// is a fault of the node's, and going on would lose data.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Started { now } => self.start(now, effects),
            Event::Tick { now } => self.tick(now, effects),
            Event::Received { from, message, signs, now } => {
                self.log.incoming = signs;
                self.receive(from, message, now, effects);
                self.log.incoming = Vec::new();
            }
            Event::Unsent { to, after } => self.unsent(to, after),
            Event::Room { to } if self.stage.replicates() => self.pump(to, effects),
            Event::Room { .. } => {}
            Event::Full { full } => self.become_full(full, effects),
            Event::Yield { yields } => self.host.yields = yields,
            Event::Disk { hangs } => self.host.hangs = hangs,
            Event::Collapsed { upto } => self.log.collapse(upto),
            Event::Installed { upto, configuration } => {
                self.installed(upto, configuration, effects);
            }
            Event::Reconfigure { configuration, value } => {
                self.reconfigure(configuration, value, effects);
            }
            Event::Propose { value } => self.propose(value, effects),
            Event::PromiseSaved { ballot } => self.on_promise_saved(ballot, effects),
            Event::Saved { ballot, upto } => self.saved(ballot, upto, effects),
            Event::Read { token, now } => self.read(token, now, effects),
            Event::HandOver { to, now } => self.hand_over(to, now, effects),
            Event::Retire => self.retire(effects),
        }
        self.check();
    }

    fn start(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        assert!(self.stage == ReplicaStage::Waiting, "a life starts once");
        self.advance_clock(now);
        if self.log.decided > LogIndex(0) {
            effects.push(Effect::Decided { upto: self.log.decided });
        }
        self.stage = ReplicaStage::Following;
        let granted = self.ballots.promised != Ballot::default()
            && self.ballots.promised.node != self.host.node;
        if granted && !broken(Rule::RestartRemembersGrant) {
            // A lease is granted only to the ballot promised last; whether this one was is
            // forgotten, so it counts as granted just now.
            self.bound = self.host.grant(self.ballots.promised);
        }
        self.seek(effects);
    }

    fn tick(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        match self.stage {
            ReplicaStage::Waiting | ReplicaStage::Retired => {}
            ReplicaStage::Following if self.membership.dismissed => self.ask_how_it_ended(effects),
            ReplicaStage::Following => self.seek(effects),
            _ => self.lead_on(effects),
        }
        // When no value is under way that would carry it.
        if self.log.decided == self.log.last && self.stage != ReplicaStage::Waiting {
            self.log.record_decided(effects);
        }
    }

    fn on_promise_saved(&mut self, ballot: Ballot, effects: &mut Vec<Effect>) {
        if !self.ballots.save(ballot) {
            return;
        }
        if ballot.node != self.host.node {
            self.tell_promise(self.log.accepted(), effects);
        } else if self.stage == ReplicaStage::Promising {
            self.prepare(effects);
        }
    }

    fn saved(&mut self, ballot: Ballot, upto: LogIndex, effects: &mut Vec<Effect>) {
        let Some(upto) = self.log.save(ballot, upto) else { return };
        self.log.mend(self.ballots.promised, effects);
        if ballot != self.ballots.promised || ballot == Ballot::default() {
            // What it may count for now, its promise has told; but it may be all that was learnt
            // of a configuration that is over, and then nothing else comes.
            return self.settle_late(effects);
        }
        self.ballots.saved = ballot; // The adoption's record implies it.
        if ballot.node != self.host.node {
            self.send(ballot.node, Body::Accepted { upto }, effects);
            self.settle(effects);
        } else if self.stage.replicates() {
            self.lead.saved.raise(self.host.node, upto);
            self.decide(effects);
            self.try_to_hand_over(effects);
        } else {
            self.settle(effects);
        }
    }

    /// Gives up leading, or trying to, without a word to others.
    pub(super) fn follow(&mut self, effects: &mut Vec<Effect>) {
        self.stage = match self.stage {
            ReplicaStage::Retiring | ReplicaStage::Retired => ReplicaStage::Retired,
            _ => ReplicaStage::Following,
        };
        self.log.unstage();
        self.leader = None;
        self.lead.lease.release();
        self.lead.window.land(0);
        self.lead.heir = None;
        self.refuse_reads(effects);
        self.election.rest();
        self.announce(effects);
    }

    /// Moves the time on. A master's own vote grants its own heartbeat at once.
    pub(super) fn advance_clock(&mut self, now: Millis) {
        self.host.advance(now);
        if self.stage.replicates() {
            self.lead.lease.grant(self.host.node, self.host.now);
            self.lead.contact.raise(self.host.node, self.host.now);
        }
    }

    pub(super) fn leads(&self) -> Result<(), Refusal> {
        match self.stage {
            ReplicaStage::Leading | ReplicaStage::Retiring => Ok(()),
            _ => Err(Refusal::NotMaster { master: self.leader }),
        }
    }

    /// Sends under the promised ballot.
    pub(super) fn send(&self, to: NodeId, body: Body, effects: &mut Vec<Effect>) {
        self.send_under(self.ballots.promised, to, body, effects);
    }

    pub(super) fn send_under(
        &self,
        ballot: Ballot,
        to: NodeId,
        body: Body,
        effects: &mut Vec<Effect>,
    ) {
        let message = Message { configuration: self.membership.configuration.id(), ballot, body };
        effects.push(Effect::Send { to, message });
    }

    pub(super) fn send_all(&self, body: Body, effects: &mut Vec<Effect>) {
        for member in self.membership.configuration.members() {
            if member.node != self.host.node {
                self.send(member.node, body, effects);
            }
        }
    }

    /// The invariants, after every step, also in production.
    fn check(&self) {
        assert!(self.log.ballot <= self.ballots.promised, "accepted <= promised");
        self.ballots.check(self.membership.configuration.id());
        self.log.check();
        if self.stage == ReplicaStage::Leading {
            assert_eq!(
                self.lead.window.len(),
                self.log.undecided(),
                "what is undecided is in flight"
            );
        }
        if self.stage.replicates() {
            assert_eq!(
                self.log.ballot, self.ballots.promised,
                "one leads by the ballot it promised"
            );
        }
    }
}
