//! Replica: one member's state machine in the consensus on a group's log: `step(event) -> effects`.
//!
//! A [`Replica`] is made of parts, each with one responsibility and a file of its own that can be
//! read without the others: `host.rs` (node and time), `membership.rs`, `ballot.rs` (promises),
//! `log.rs` (accepted and decided entries), `witness.rs`, `lease.rs`, `election.rs`, `progress.rs`
//! (followers) and `role.rs`, which holds the state that exists only while the replica stands for
//! election (`candidate.rs`) or leads (`master.rs`, with `heartbeat.rs`, `reads.rs` and
//! `window.rs`).
//!
//! A method belongs to the part whose fields alone it uses, and to `Replica` if it spans several or
//! sends: a message carries the configuration and the promised ballot.

use super::ballot::Ballots;
use super::effect::{Effect, Role};
use super::election::Election;
use super::event::Event;
use super::host::Host;
use super::lease::LeaseBound;
use super::log::AcceptedLog;
use super::master::MasterPhase;
use super::membership::Membership;
use super::message::{Body, Message};
use super::progress::ProgressTracker;
use super::restored::{RestoreError, Restored};
use super::role::RoleState;
use super::rules::{Rule, broken};
use super::witness::WitnessLog;
use base::{Ballot, LogIndex, Millis, NodeId};

/// Replica of a group. Each part keeps its own invariants; those that span two are checked here
/// after every step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Host: its id, its time, and what keeps it from leading.
    pub(super) host: Host,
    /// Members of the group, and whether this replica is one.
    pub(super) membership: Membership,
    /// Ballots that it promised, and saw others promise.
    pub(super) ballots: Ballots,
    /// Entries that it accepted, by position, and how many of them are decided.
    pub(super) log: AcceptedLog,
    /// End of the log that a witness must keep.
    pub(super) witness: WitnessLog,
    /// Lease that it granted.
    pub(super) bound: LeaseBound,
    /// Rounds in which it seeks a master.
    pub(super) election: Election,
    /// Entries that it sent to the others as a master, and their acknowledgements.
    pub(super) progress: ProgressTracker,
    /// Role in the group, with the state that exists only in that role.
    pub(super) role: RoleState,
    /// Content of the last `Role` effect.
    pub(super) presented: Option<(Role, Ballot, Option<NodeId>)>,
}

impl Replica {
    /// Restores a replica from the state of its earlier incarnations; it waits for
    /// [`Event::Started`].
    pub fn restore(restored: Restored) -> Result<Replica, RestoreError> {
        restored.check()?;
        let (node, clock) = (restored.node, restored.lease);
        let configuration = restored.configuration.clone();
        Ok(Replica {
            progress: ProgressTracker::new(node, &configuration),
            host: Host::new(node, clock),
            membership: Membership::new(configuration, restored.base),
            ballots: Ballots::restore(restored.promised),
            witness: WitnessLog::default(),
            bound: LeaseBound::default(),
            election: Election::default(),
            role: RoleState::Waiting,
            presented: None,
            log: AcceptedLog::restore(restored),
        })
    }

    /// Handles one event and appends its effects, in order.
    ///
    /// # Panics
    /// If an event claims what cannot be (that something was saved that was never requested to be).
    /// That is a fault of the node, and going on would lose data.
    pub fn step(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Started { now } => self.start(now, effects),
            Event::Tick { now } => self.tick(now, effects),
            Event::Received { from, message, signs, now } => {
                self.log.incoming = signs;
                self.receive(from, message, now, effects);
                self.log.incoming = Vec::new();
            }
            Event::Unsent { to, after } => self.progress.unsend(to, after),
            Event::Room { to } if self.role.replicates() => self.send_next(to, effects),
            Event::Room { .. } => {}
            Event::Full { full } => self.on_full(full, effects),
            Event::Yield { yields } => self.host.yields = yields,
            Event::Disk { hangs } => self.host.hangs = hangs,
            Event::Collapsed { upto } => self.log.collapse(upto),
            Event::Installed { upto, configuration } => {
                self.on_installed(upto, configuration, effects);
            }
            Event::Reconfigure { configuration, value } => {
                self.reconfigure(configuration, value, effects);
            }
            Event::Propose { value } => self.propose(value, effects),
            Event::PromiseSaved { ballot } => self.on_promise_saved(ballot, effects),
            Event::Saved { ballot, upto } => self.on_saved(ballot, upto, effects),
            Event::Read { token, now } => self.read(token, now, effects),
            Event::HandOver { to, now } => self.hand_over(to, now, effects),
            Event::Retire => self.retire(effects),
        }
        self.check();
    }

    fn start(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        assert!(self.role.waits(), "a life starts once");
        self.advance_clock(now);
        if self.log.decided > LogIndex(0) {
            effects.push(Effect::Decided { upto: self.log.decided });
        }
        self.role = RoleState::Follower { master: None };
        let granted = self.ballots.promised != Ballot::default()
            && self.ballots.promised.node != self.host.node;
        if granted && !broken(Rule::RestartRemembersGrant) {
            // A lease is granted only to the last promised ballot. Whether this one had a grant is
            // forgotten, so it counts as granted just now.
            self.bound = self.host.grant(self.ballots.promised);
        }
        self.run_election(effects);
    }

    fn tick(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        match self.role {
            RoleState::Waiting | RoleState::Retired { .. } => {}
            RoleState::Follower { .. } if self.membership.dismissed => {
                self.ask_how_it_ended(effects);
            }
            RoleState::Follower { .. } => self.run_election(effects),
            RoleState::Candidate(_) | RoleState::Master(_) => self.lead_on(effects),
        }
        // Needed only while no entry is in flight that would carry it.
        if self.log.decided == self.log.last && !self.role.waits() {
            self.log.record_decided(effects);
        }
    }

    fn on_promise_saved(&mut self, ballot: Ballot, effects: &mut Vec<Effect>) {
        if !self.ballots.save(ballot) {
            return;
        }
        if ballot.node != self.host.node {
            // All of the log: its records stand before the promise's, and nothing was accepted
            // since, for no master is obeyed until its promise is saved.
            self.tell_promise(self.log.accepted(), effects);
        } else if self.role.gathers() {
            self.prepare(effects);
        }
    }

    fn on_saved(&mut self, ballot: Ballot, upto: LogIndex, effects: &mut Vec<Effect>) {
        let Some(upto) = self.log.save(ballot, upto) else { return };
        self.log.mend(self.ballots.promised, effects);
        if ballot != self.ballots.promised || ballot == Ballot::default() {
            // Its promise has reported what it may count for now. But it may be all that was
            // learned of a configuration that is over, and then nothing else comes.
            return self.try_decide_late(effects);
        }
        self.ballots.saved = ballot; // The adoption's record implies it.
        if ballot.node != self.host.node {
            self.send(ballot.node, Body::Accepted { upto }, effects);
            self.try_decide(effects);
        } else if let Some(master) = self.role.master_mut() {
            master.saved.raise(self.host.node, upto);
            self.decide(effects);
            self.try_to_hand_over(effects);
        } else {
            self.try_decide(effects);
        }
    }

    /// Stops leading, or trying to, without a message to others.
    pub(super) fn step_down(&mut self, effects: &mut Vec<Effect>) {
        self.log.unstage();
        if let RoleState::Master(master) = self.role.step_down() {
            master.reads.refuse(effects);
        }
        self.election.rest();
        self.announce(effects);
    }

    /// Advances the time. A master's own vote grants its own heartbeat at once.
    pub(super) fn advance_clock(&mut self, now: Millis) {
        self.host.advance(now);
        if let Some(master) = self.role.master_mut() {
            master.heartbeats.grant_own(&self.host);
        }
    }

    /// Sends a message under the promised ballot.
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

    /// Checks the invariants, after every step, also in production.
    fn check(&self) {
        assert!(self.log.ballot <= self.ballots.promised, "accepted <= promised");
        self.ballots.check(self.membership.configuration.id());
        self.log.check();
        let RoleState::Master(master) = &self.role else { return };
        assert_eq!(self.log.ballot, self.ballots.promised, "one leads by the ballot it promised");
        if master.phase == MasterPhase::Leading {
            let (flying, undecided) = (master.window.len(), self.log.undecided());
            assert_eq!(flying, undecided, "what is undecided is in flight");
        }
    }
}
