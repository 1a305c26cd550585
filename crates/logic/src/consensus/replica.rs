//! One member's part in agreeing on one group's log: `step(event) -> effects`.
//!
//! A life: *waiting* for `Started`; *following*, and seeking a master where none is heard of;
//! *promising* a ballot above all seen (prepare); *fetching* what it lacks of the log to be
//! adopted; *adopting* it under that ballot, until a majority has; *leading*; *retiring* until
//! nothing is in flight; *retired*.
//! What a leader does is in `leader.rs`, what a follower does in `follower.rs`.

use super::ballot::Ballots;
use super::configuration::Configuration;
use super::effect::{Effect, Refusal, Role};
use super::election::Election;
use super::event::Event;
use super::host::Host;
use super::lead::Lead;
use super::lease::LeaseBound;
use super::message::{Accepted, Body, Message};
use super::restored::{RestoreError, Restored};
use super::rules::{Rule, broken};
use super::tear::{Awaited, Tear};
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

/// A log that is being adopted: kept up to `from`, staged up to `have`, complete at `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Staging {
    pub ballot: Ballot,
    pub from: LogIndex,
    pub have: LogIndex,
    pub upto: LogIndex,
}

/// One replica of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    pub(super) host: Host,
    pub(super) configuration: Configuration,
    pub(super) stage: ReplicaStage,
    /// The log may lack values that were accepted under `torn_under`.
    pub(super) tear: Option<Tear>,
    pub(super) torn_under: Ballot,
    /// With everything up to here, under this ballot, it lacks none of them.
    pub(super) level: Option<(Ballot, LogIndex)>,
    /// Whose logs an attempt to lead waits for.
    pub(super) awaited: Option<Awaited>,
    pub(super) ballots: Ballots,
    /// The ballot the log counts as accepted under, or is being saved as adopted under.
    pub(super) accepted_ballot: Ballot,
    /// The last index accepted, or being saved.
    pub(super) last: LogIndex,
    /// What of it is on disk under `accepted_ballot`; `None` while the adoption is not.
    pub(super) synced: Option<LogIndex>,
    pub(super) decided: LogIndex,
    /// The group goes on without this replica.
    pub(super) dismissed: bool,
    /// What a master said is decided, and the ballot under which the log must be accepted for that
    /// to be about this log.
    pub(super) heard: (Ballot, LogIndex),
    /// What of `decided` a record of its own says; value records say more, for free.
    pub(super) recorded: LogIndex,
    /// Values up to here can't be sent any more.
    pub(super) floor: LogIndex,
    /// See [`Replica::kept`].
    pub(super) kept: LogIndex,
    /// A witness that keeps as much as it may.
    pub(super) full: bool,
    pub(super) staging: Option<Staging>,
    /// The index of the stop-sign the present configuration began with.
    pub(super) base: LogIndex,
    /// Stop-signs accepted and not known to be decided, in order.
    pub(super) signs: Vec<(LogIndex, Configuration)>,
    /// Those among the staged values.
    pub(super) staged_signs: Vec<(LogIndex, Configuration)>,
    /// Those that came with the message that is being handled.
    pub(super) incoming: Vec<(LogIndex, Configuration)>,
    /// Until when it is not said again that this replica is behind its configuration's end.
    pub(super) straggled: Millis,
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
        let tear = restored.open_tear();
        let Restored { node, configuration, promised, accepted_ballot, lease: clock, .. } =
            restored;
        Ok(Replica {
            lead: Lead::new(node, &configuration, clock),
            host: Host::new(node, clock),
            configuration,
            stage: ReplicaStage::Waiting,
            tear,
            torn_under: accepted_ballot,
            level: None,
            awaited: None,
            ballots: Ballots::restore(promised),
            accepted_ballot,
            last: restored.last,
            synced: Some(restored.last),
            decided: restored.decided,
            dismissed: false,
            heard: (accepted_ballot, restored.decided),
            recorded: restored.decided,
            floor: LogIndex(0),
            kept: LogIndex(0),
            full: false,
            staging: None,
            base: restored.base,
            signs: restored.signs,
            staged_signs: Vec::new(),
            incoming: Vec::new(),
            straggled: Millis(0),
            bound: LeaseBound::default(),
            released: Ballot::default(),
            leader: None,
            election: Election::default(),
            presented: None,
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
                self.incoming = signs;
                self.receive(from, message, now, effects);
                self.incoming = Vec::new();
            }
            Event::Unsent { to, after } => self.unsent(to, after),
            Event::Room { to } if self.stage.replicates() => self.pump(to, effects),
            Event::Room { .. } => {}
            Event::Full { full } => self.become_full(full, effects),
            Event::Yield { yields } => self.host.yields = yields,
            Event::Disk { hangs } => self.host.hangs = hangs,
            Event::Collapsed { upto } => self.floor = self.floor.max(upto.min(self.decided)),
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
        if self.decided > LogIndex(0) {
            effects.push(Effect::Decided { upto: self.decided });
        }
        self.stage = ReplicaStage::Following;
        let granted = self.ballots.promised != Ballot::default() && self.ballots.promised.node != self.host.node;
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
            ReplicaStage::Following if self.dismissed => self.ask_how_it_ended(effects),
            ReplicaStage::Following => self.seek(effects),
            _ => self.lead_on(effects),
        }
        // When no value is under way that would carry it.
        if self.decided == self.last && self.stage != ReplicaStage::Waiting {
            self.record_decided(effects);
        }
    }

    fn on_promise_saved(&mut self, ballot: Ballot, effects: &mut Vec<Effect>) {
        if !self.ballots.save(ballot) {
            return;
        }
        if ballot.node != self.host.node {
            self.tell_promise(self.accepted(), effects);
        } else if self.stage == ReplicaStage::Promising {
            self.prepare(effects);
        }
    }

    fn saved(&mut self, ballot: Ballot, upto: LogIndex, effects: &mut Vec<Effect>) {
        assert!(ballot <= self.accepted_ballot, "only what was asked for can be saved");
        if ballot < self.accepted_ballot {
            return; // It counts for a ballot that is over.
        }
        assert!(upto <= self.last, "only what was asked for can be saved");
        // A snapshot may have brought more meanwhile.
        let upto = upto.max(self.decided);
        self.synced = self.synced.max(Some(upto));
        self.make_good(effects);
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

    /// From here on the log counts as accepted under the staged ballot.
    pub(super) fn adopt(&mut self, effects: &mut Vec<Effect>) {
        let Staging { ballot, from, have, upto } =
            self.staging.take().expect("a log is staged before it is adopted");
        assert!(have == upto && from <= upto && self.decided <= from, "adopted as a whole");
        self.accepted_ballot = ballot;
        self.last = upto;
        self.synced = None;
        self.signs.retain(|(index, _)| *index <= from);
        self.signs.append(&mut self.staged_signs);
        effects.push(Effect::Adopt { ballot, from, upto });
    }

    /// What was staged will not be adopted.
    pub(super) fn unstage(&mut self) {
        self.staging = None;
        self.staged_signs.clear();
    }

    /// Gives up leading, or trying to, without a word to others.
    pub(super) fn follow(&mut self, effects: &mut Vec<Effect>) {
        self.stage = match self.stage {
            ReplicaStage::Retiring | ReplicaStage::Retired => ReplicaStage::Retired,
            _ => ReplicaStage::Following,
        };
        self.unstage();
        self.leader = None;
        self.lead.lease.release();
        self.lead.window.land(0);
        self.lead.heir = None;
        self.refuse_reads(effects);
        self.election.rest();
        self.announce(effects);
    }

    pub(super) fn record_decided(&mut self, effects: &mut Vec<Effect>) {
        if self.recorded < self.decided {
            self.recorded = self.decided;
            effects.push(Effect::SaveDecided { upto: self.decided });
        }
    }

    /// What a snapshot holds needs no record of its own.
    pub(super) fn recorded_by_snapshot(&mut self) {
        self.recorded = self.decided;
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

    pub(super) fn undecided(&self) -> usize {
        usize::try_from(self.last.0 - self.decided.0).expect("the window's limit is small")
    }

    pub(super) fn accepted(&self) -> Accepted {
        Accepted { ballot: self.accepted_ballot, last: self.last, decided: self.decided }
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
        let message = Message { configuration: self.configuration.id(), ballot, body };
        effects.push(Effect::Send { to, message });
    }

    pub(super) fn send_all(&self, body: Body, effects: &mut Vec<Effect>) {
        for member in self.configuration.members() {
            if member.node != self.host.node {
                self.send(member.node, body, effects);
            }
        }
    }

    /// The invariants, after every step, also in production.
    fn check(&self) {
        assert!(self.accepted_ballot <= self.ballots.promised, "accepted <= promised");
        self.ballots.check(self.configuration.id());
        assert!(self.recorded <= self.decided, "recorded <= decided");
        assert!(self.decided <= self.last, "decided <= last");
        if let Some(synced) = self.synced {
            assert!(self.decided <= synced && synced <= self.last, "decided <= synced <= last");
        }
        if self.stage == ReplicaStage::Leading {
            assert_eq!(self.lead.window.len(), self.undecided(), "what is undecided is in flight");
        }
        if self.stage.replicates() {
            assert_eq!(self.accepted_ballot, self.ballots.promised, "one leads by the ballot it promised");
        }
    }
}
