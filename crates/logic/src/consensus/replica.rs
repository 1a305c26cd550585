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
use super::lease::{LeaseGrant, LeaseTerm};
use super::log::AcceptedLog;
use super::master::MasterPhase;
use super::membership::Membership;
use super::message::{Body, Message};
use super::progress::ProgressTracker;
use super::restored::{RestoreError, RestoredState};
use super::role::RoleState;
use super::rules::{Rule, broken};
use super::witness::WitnessLog;
use base::{Ballot, LogIndex, Millis, NodeId};

/// Replica of a group. Each part keeps its own invariants; those that span two are checked here
/// after every step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Host: its id, its time, and the conditions that keep it from leading.
    pub(super) host: Host,
    /// Members of the group, and whether this replica is one.
    pub(super) membership: Membership,
    /// Ballots that it promised, and that it saw other members promise.
    pub(super) ballots: Ballots,
    /// Accepted entries by position, and the decided index.
    pub(super) log: AcceptedLog,
    /// End of the log that a witness must keep.
    pub(super) witness: WitnessLog,
    /// Lease that it granted.
    pub(super) grant: LeaseGrant,
    /// Rounds in which it seeks a master.
    pub(super) election: Election,
    /// Entries that it sent to the other members as a master, and their acknowledgements.
    pub(super) progress: ProgressTracker,
    /// Role in the group, with the state that exists only in that role.
    pub(super) role: RoleState,
    /// Content of the last `Role` effect.
    pub(super) announced: Option<(Role, Ballot, Option<NodeId>)>,
}

impl Replica {
    /// Restores a replica from the state of its earlier incarnations; it waits for
    /// [`Event::Started`].
    pub fn restore(restored: RestoredState) -> Result<Replica, RestoreError> {
        restored.check()?;
        let (node, clock) = (restored.node, restored.lease);
        let configuration = restored.configuration.clone();
        Ok(Replica {
            progress: ProgressTracker::new(node, &configuration),
            host: Host::new(node, clock),
            membership: Membership::new(configuration, restored.base),
            ballots: Ballots::restore(restored.promised),
            witness: WitnessLog::default(),
            grant: LeaseGrant::default(),
            election: Election::default(),
            role: RoleState::Waiting,
            announced: None,
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
                self.log.incoming_signs = signs;
                self.receive(from, message, now, effects);
                self.log.incoming_signs = Vec::new();
            }
            Event::LinkEnded { node, now } => self.on_link_ended(node, now, effects),
            Event::Unsent { to, after } => self.progress.mark_unsent(to, after),
            Event::LaneSpace { to } if self.role.is_replicating() => self.send_next(to, effects),
            Event::LaneSpace { .. } => {}
            Event::WitnessFull { is_full } => self.on_full(is_full, effects),
            Event::Yield { prefers_other } => self.host.is_yielding = prefers_other,
            Event::Disk { disk_hangs } => self.host.disk_hangs = disk_hangs,
            Event::LogTruncated { last } => self.log.collapse(last),
            Event::Installed { last, configuration } => {
                self.on_installed(last, configuration, effects);
            }
            Event::SnapshotOutdated => self.report_log(effects),
            Event::Reconfigure { configuration, size } => {
                self.reconfigure(configuration, size, effects);
            }
            Event::Propose { size } => self.propose(size, effects),
            Event::PromiseSaved { ballot } => self.on_promise_saved(ballot, effects),
            Event::Saved { ballot, last } => self.on_saved(ballot, last, effects),
            Event::Read { token, now } => self.read(token, now, effects),
            Event::HandOver { to, now } => self.hand_over(to, now, effects),
            Event::Retire => self.retire(effects),
        }
        self.check();
    }

    fn start(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        assert!(self.role.is_waiting(), "a life starts once");
        self.advance_clock(now);
        if self.log.decided > LogIndex(0) {
            effects.push(Effect::Decided { last: self.log.decided });
        }
        self.role = RoleState::Follower { master: None };
        let may_have_granted = self.ballots.promised != Ballot::default()
            && self.ballots.promised.node != self.host.node;
        if may_have_granted && !broken(Rule::RestartRemembersGrant) {
            // A lease is granted only to the last promised ballot. A grant is not on disk, so that
            // ballot counts as granted just now, for the longest term.
            self.grant = self.host.grant(self.ballots.promised, LeaseTerm::Whole);
        }
        self.run_election(effects);
    }

    fn tick(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.advance_clock(now);
        match self.role {
            RoleState::Waiting | RoleState::Retired { .. } => {}
            RoleState::Follower { .. } if self.membership.removed => {
                self.request_configuration_end(effects);
            }
            RoleState::Follower { .. } => self.run_election(effects),
            RoleState::Candidate(_) | RoleState::Master(_) => self.tick_active(effects),
        }
        // Needed only while no entry in flight would carry the decided index.
        if self.log.decided == self.log.last && !self.role.is_waiting() {
            self.log.record_decided(effects);
        }
    }

    fn on_promise_saved(&mut self, ballot: Ballot, effects: &mut Vec<Effect>) {
        if !self.ballots.record_saved(ballot) {
            return;
        }
        if ballot.node != self.host.node {
            // The complete log: its records precede the promise's, and nothing was accepted since,
            // for no master's message applies until the promise to it is saved.
            self.send_promise(self.log.accepted(), effects);
        } else if self.role.is_gathering() {
            self.prepare(effects);
        }
    }

    fn on_saved(&mut self, ballot: Ballot, last: LogIndex, effects: &mut Vec<Effect>) {
        let Some(last) = self.log.record_saved(ballot, last) else { return };
        self.log.mend(self.ballots.promised, effects);
        if ballot != self.ballots.promised || ballot == Ballot::default() {
            // The promise has reported everything that counts under its ballot. But these may be
            // the decided entries of an ended configuration, and then no other event follows.
            return self.try_decide_late(effects);
        }
        self.ballots.saved = ballot; // The adoption's record implies it.
        if ballot.node != self.host.node {
            self.send(ballot.node, Body::Accepted { last }, effects);
            self.try_decide(effects);
        } else if let Some(master) = self.role.master_mut() {
            master.saved.raise(self.host.node, last);
            self.decide(effects);
            self.try_to_hand_over(effects);
        } else {
            self.try_decide(effects);
        }
    }

    /// Stops leading, or trying to, without a message to other members.
    pub(super) fn step_down(&mut self, effects: &mut Vec<Effect>) {
        self.log.unstage();
        if let RoleState::Master(master) = self.role.step_down() {
            master.reads.refuse(effects);
        }
        self.election.end_rounds();
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
            let (in_flight, undecided) = (master.window.len(), self.log.undecided());
            assert_eq!(in_flight, undecided, "what is undecided is in flight");
        }
    }
}
