//! One member's part in agreeing on one group's log: `step(event) -> effects`.
//!
//! The life of a sole voter: *waiting* for `Started`; *promising* a ballot above all it has seen
//! (prepare, with its own promise as the majority); *adopting* the log it accepted, under that
//! ballot; *leading*; *retiring* until nothing is in flight; *retired*. A voter whose log is
//! damaged is *silent* from start to end.

use super::ballot;
use super::configuration::Configuration;
use super::effect::{Asked, Effect, Refusal, Role};
use super::event::{Event, ReadToken, ValueHandle};
use super::lease::Lease;
use super::quorum::Tally;
use super::restored::{RestoreError, Restored};
use super::window::Window;
use base::{Ballot, LogIndex, Millis, NodeId};

/// Where a replica stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Waiting,
    Promising,
    Adopting,
    Leading,
    Retiring,
    Retired,
    Silent,
}

/// One replica of one group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    node: NodeId,
    configuration: Configuration,
    stage: Stage,
    log_intact: bool,
    /// The highest ballot promised, or being saved as a promise.
    promised: Ballot,
    /// The ballot the log counts as accepted under, or is being saved as adopted under.
    accepted_ballot: Ballot,
    /// The last index accepted, or being saved.
    last: LogIndex,
    decided: LogIndex,
    /// What of `decided` a record of its own says; value records say more, for free.
    recorded: LogIndex,
    /// Who promised what, in answer to our own prepare.
    promises: Tally<Ballot>,
    /// How far each voter saved the log under our ballot.
    saved: Tally<LogIndex>,
    lease: Lease,
    window: Window,
    now: Millis,
}

impl Replica {
    /// A replica that remembers its earlier lives and waits for [`Event::Started`].
    pub fn restore(restored: Restored) -> Result<Replica, RestoreError> {
        restored.check()?;
        let Restored { node, configuration, promised, accepted_ballot, .. } = restored;
        Ok(Replica {
            promises: Tally::new(configuration.voters()),
            saved: Tally::new(configuration.voters()),
            lease: Lease::new(restored.lease, configuration.voters()),
            node,
            configuration,
            stage: Stage::Waiting,
            log_intact: restored.log_intact,
            promised,
            accepted_ballot,
            last: restored.last,
            decided: restored.decided,
            recorded: restored.decided,
            window: Window::default(),
            now: Millis(0),
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
            Event::Propose { value } => self.propose(value, effects),
            Event::PromiseSaved { ballot } => self.promise_saved(ballot, effects),
            Event::Saved { ballot, upto } => self.saved(ballot, upto, effects),
            Event::Read { token, now } => self.read(token, now, effects),
            Event::HandOver { to } => self.hand_over(to, effects),
            Event::Retire => self.retire(effects),
        }
        self.check();
    }

    /// Prepare: promise a ballot above all seen, and ask the others to (of whom there are none).
    fn start(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        assert!(self.stage == Stage::Waiting, "a life starts once");
        self.pass(now);
        if !self.log_intact {
            // Protocol-aware recovery (Alagappan et al., FAST 2018): a voter that may have
            // forgotten what it promised or accepted takes no part, or it could help to decide a
            // second value at an index.
            self.stage = Stage::Silent;
            effects.push(Effect::Silent { reason: Refusal::DamagedLog });
            return;
        }
        if self.decided > LogIndex(0) {
            effects.push(Effect::Decided { upto: self.decided });
        }
        self.stage = Stage::Promising;
        self.promised = ballot::above(self.promised, self.node);
        effects.push(Effect::SavePromise { ballot: self.promised });
        effects.push(self.present());
    }

    /// A majority promised: adopt the log accepted under the highest ballot among them (Sequence
    /// Paxos; *Paxos Made Simple* P2c for every index at once). A sole voter's majority is itself,
    /// and the log is its own.
    fn promise_saved(&mut self, ballot: Ballot, effects: &mut Vec<Effect>) {
        assert!(ballot <= self.promised, "only what was asked for can be saved as promised");
        if self.stage != Stage::Promising || ballot < self.promised {
            return; // A promise of an earlier attempt, or of one that was given up.
        }
        self.promises.raise(self.node, ballot);
        if self.promises.agreed() == Some(ballot) {
            self.stage = Stage::Adopting;
            self.accepted_ballot = ballot;
            self.saved.clear();
            effects.push(Effect::Adopt { ballot, upto: self.last });
        }
    }

    /// A value is decided once a majority has saved it under the master's ballot; since each voter
    /// saves in the order of the log, one mark per voter says it all (Sequence Paxos).
    fn saved(&mut self, ballot: Ballot, upto: LogIndex, effects: &mut Vec<Effect>) {
        assert!(ballot <= self.accepted_ballot, "only what was asked for can be saved");
        if ballot < self.accepted_ballot {
            return; // It counts for a ballot that is over.
        }
        assert!(upto <= self.last, "only what was asked for can be saved");
        if !matches!(self.stage, Stage::Adopting | Stage::Leading | Stage::Retiring) {
            return;
        }
        self.saved.raise(self.node, upto);
        let Some(agreed) = self.saved.agreed() else { return };
        if agreed > self.decided {
            self.decided = agreed;
            effects.push(Effect::Decided { upto: agreed });
        }
        match self.stage {
            // `upto` can't be lower than the adopted log's end: nothing else was asked for under
            // this ballot.
            Stage::Adopting => {
                assert_eq!(agreed, self.last, "the adopted log is saved as a whole");
                self.stage = Stage::Leading;
                self.lease.grant(self.node, self.now);
                effects.push(self.present());
            }
            Stage::Retiring if self.decided == self.last => self.leave(effects),
            _ => self.window.land(self.undecided()),
        }
    }

    /// The master gives the value the next index and lets it fly beside those before it: an index
    /// may be decided only after all before it are, so no gap can open (Sequence Paxos).
    fn propose(&mut self, value: ValueHandle, effects: &mut Vec<Effect>) {
        let admitted = self.leads().and_then(|()| match self.stage {
            Stage::Retiring => Err(Refusal::Retiring),
            _ => self.window.admits(value),
        });
        if let Err(reason) = admitted {
            effects.push(Effect::Refused { asked: Asked::Propose, reason });
            return;
        }
        self.last = self.last.next();
        self.window.push(value);
        effects.push(Effect::Save {
            index: self.last,
            ballot: self.accepted_ballot,
            decided: self.decided,
            value,
        });
    }

    /// A read may be answered from what is decided now, as long as nobody else can have decided
    /// more: while the lease holds. The node checks that again once it has read, with a second
    /// `Read` if it took long.
    fn read(&mut self, token: ReadToken, now: Millis, effects: &mut Vec<Effect>) {
        self.pass(now);
        let allowed = self.leads().and_then(|()| match self.lease.holds(self.now) {
            true => Ok(()),
            false => Err(Refusal::LeaseOver),
        });
        effects.push(match allowed {
            Ok(()) => Effect::ReadAt { token, index: self.decided },
            Err(reason) => Effect::Refused { asked: Asked::Read(token), reason },
        });
    }

    /// Logs what is decided when no value is under way that would carry it.
    fn tick(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.pass(now);
        if self.stage == Stage::Leading && self.decided == self.last {
            self.record_decided(effects);
        }
    }

    /// A group of one voter has nobody to hand over to; to itself it need not.
    fn hand_over(&mut self, to: NodeId, effects: &mut Vec<Effect>) {
        let refusal = match self.leads() {
            Ok(()) if to == self.node => return,
            Ok(()) => Refusal::NoSuchVoter,
            Err(refusal) => refusal,
        };
        effects.push(Effect::Refused { asked: Asked::HandOver(to), reason: refusal });
    }

    /// The end of a life on purpose: a master first finishes what is in flight.
    fn retire(&mut self, effects: &mut Vec<Effect>) {
        match self.stage {
            Stage::Leading if self.decided < self.last => self.stage = Stage::Retiring,
            Stage::Retiring | Stage::Retired | Stage::Silent => {}
            Stage::Waiting | Stage::Promising | Stage::Adopting | Stage::Leading => {
                self.leave(effects);
            }
        }
    }

    /// Nothing of ours is in flight any more: give mastership, if we have it, and the lease back.
    fn leave(&mut self, effects: &mut Vec<Effect>) {
        self.record_decided(effects);
        self.window.land(0);
        self.lease.release();
        self.stage = Stage::Retired;
        effects.push(self.present());
    }

    fn record_decided(&mut self, effects: &mut Vec<Effect>) {
        if self.recorded < self.decided {
            self.recorded = self.decided;
            effects.push(Effect::SaveDecided { upto: self.decided });
        }
    }

    /// Time never runs backwards here, even if two of the node's threads hand their events in out
    /// of order. A master's own vote grants its own heartbeat at once.
    fn pass(&mut self, now: Millis) {
        self.now = self.now.max(now);
        if matches!(self.stage, Stage::Leading | Stage::Retiring) {
            self.lease.grant(self.node, self.now);
        }
    }

    fn leads(&self) -> Result<(), Refusal> {
        match self.stage {
            Stage::Leading | Stage::Retiring => Ok(()),
            Stage::Silent => Err(Refusal::DamagedLog),
            _ => Err(Refusal::NotMaster { master: None }),
        }
    }

    fn undecided(&self) -> usize {
        usize::try_from(self.last.0 - self.decided.0).expect("the window's limit is small")
    }

    fn present(&self) -> Effect {
        Effect::Role { role: self.role(), ballot: self.promised, master: self.master() }
    }

    /// The invariants, after every step, also in production.
    fn check(&self) {
        assert!(self.accepted_ballot <= self.promised, "accepted <= promised");
        assert!(self.recorded <= self.decided, "recorded <= decided");
        assert!(self.decided <= self.last, "decided <= last");
        if let Some(saved) = self.saved.of(self.node) {
            assert!(self.decided <= saved && saved <= self.last, "decided <= saved <= last");
        }
        if self.stage == Stage::Leading {
            assert_eq!(self.window.len(), self.undecided(), "what is undecided is in flight");
        }
    }

    /// The index the next proposed value will have, if it is not refused.
    pub fn next(&self) -> LogIndex {
        self.last.next()
    }

    /// The last decided index.
    pub fn decided(&self) -> LogIndex {
        self.decided
    }

    /// The last index accepted, or asked to be saved.
    pub fn last(&self) -> LogIndex {
        self.last
    }

    /// The highest ballot promised, or asked to be saved as a promise.
    pub fn promised(&self) -> Ballot {
        self.promised
    }

    /// The ballot the log counts as accepted under.
    pub fn accepted_ballot(&self) -> Ballot {
        self.accepted_ballot
    }

    /// This replica's part in the group.
    pub fn role(&self) -> Role {
        match self.stage {
            Stage::Waiting | Stage::Retired | Stage::Silent => Role::Follower,
            Stage::Promising | Stage::Adopting => Role::Candidate,
            Stage::Leading | Stage::Retiring => Role::Master,
        }
    }

    /// Who is master, if that is known.
    pub fn master(&self) -> Option<NodeId> {
        (self.role() == Role::Master).then_some(self.node)
    }

    /// The group's members.
    pub fn configuration(&self) -> &Configuration {
        &self.configuration
    }
}
