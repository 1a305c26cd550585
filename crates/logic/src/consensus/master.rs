//! Master: replicates its log under its ballot, and decides.
//!
//! Promises: what earlier masters may have decided is decided again under this ballot before anyone
//! may read or write; an entry is decided once a majority, this master included, has saved it.

use super::candidate::Candidate;
use super::configuration::{Configuration, Member};
use super::effect::{Effect, Refusal, RefusedCall};
use super::event::EntrySize;
use super::heartbeat::Heartbeats;
use super::host::Host;
use super::message::Body;
use super::quorum::{Quorums, VoterTally};
use super::reads::ReadQueue;
use super::replica::Replica;
use super::role::RoleState;
use super::rules::{Rule, broken};
use super::window::Window;
use base::{Ballot, LogIndex, Millis, NodeId};

/// State of one reign; it ends with it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Master {
    pub phase: MasterPhase,
    /// Lease that was given back in favour of the attempt that led here.
    pub released: Ballot,
    /// Ballot under which the adopted log counted as accepted before.
    pub source_ballot: Ballot,
    /// Last index of the adopted log.
    pub adopted: LogIndex,
    /// Last index that each voter saved under this ballot.
    pub saved: VoterTally<LogIndex>,
    pub heartbeats: Heartbeats,
    pub window: Window,
    pub reads: ReadQueue,
    pub successor: Option<Successor>,
}

/// Phase of a reign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MasterPhase {
    /// Followers adopt its log; it does not serve clients yet.
    Adopting,
    /// Leads: accepts proposals.
    Leading,
    /// Retires: accepts no new entry, and finishes those in flight.
    Retiring,
}

/// Voter that is to lead next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Successor {
    pub node: NodeId,
    /// Deadline of the hand-over.
    pub until: Millis,
}

impl Master {
    /// Builds the state of a master that has adopted the log of `candidate`, up to `adopted`.
    pub(super) fn new(
        candidate: &Candidate,
        adopted: LogIndex,
        configuration: &Configuration,
        host: &Host,
    ) -> Master {
        let counts = |member: &&Member| member.part.can_vote() || broken(Rule::LearnersDontCount);
        let counted = configuration.members().iter().filter(counts).map(|member| member.node);
        let needed = Quorums::of(counted.clone().count(), configuration.quorum()).save;
        Master {
            phase: MasterPhase::Adopting,
            released: candidate.released,
            source_ballot: candidate.source.map_or(Ballot::default(), |source| source.ballot),
            adopted,
            saved: VoterTally::new(counted, needed),
            heartbeats: Heartbeats::new(configuration, host),
            window: Window::default(),
            reads: ReadQueue::default(),
            successor: None,
        }
    }
}

/// Methods that span the master's state, the log, the members' progress and the stop-signs.
impl Replica {
    /// Decides the entries that a majority has saved under the master's ballot. Each voter saves in
    /// the order of the log, so one index per voter is enough (Sequence Paxos).
    pub(super) fn decide(&mut self, effects: &mut Vec<Effect>) {
        let Some(saved) = self.role.master().and_then(|master| master.saved.agreed()) else {
            return;
        };
        // The own disk always counts, even if enough other voters have saved: `tear.rs` relies on a
        // complete log of a ballot's master to hold every entry acknowledged under it.
        let agreed = saved.min(self.log.synced.unwrap_or(self.log.decided));
        // With more in flight the next `Accept` carries the index.
        if self.log.decide(agreed, effects) && agreed == self.log.last {
            self.send_all(Body::Decide { last: agreed }, effects);
        }
        let Some(master) = self.role.master_mut() else { return };
        match master.phase {
            // Entries that earlier masters may have decided are decided again, under our ballot,
            // before any read or write; the own disk must have them, too.
            MasterPhase::Adopting if saved.min(self.log.decided) >= master.adopted => {
                master.phase = MasterPhase::Leading;
                master.heartbeats.grant_own(&self.host);
                self.announce(effects);
            }
            MasterPhase::Retiring if self.log.decided == self.log.last => {
                self.finish_retirement(effects);
            }
            _ => master.window.remove_decided(self.log.undecided()),
        }
        self.enter_decided_configurations(effects);
    }

    /// Assigns the next index to the entry and sends it beside those in flight: an index is decided
    /// only after all before it, so no gap can open (Sequence Paxos).
    pub(super) fn propose(&mut self, value: EntrySize, effects: &mut Vec<Effect>) {
        if let Err(reason) = self.admits(value) {
            return effects.push(Effect::Refused { call: RefusedCall::Propose, reason });
        }
        let Some(master) = self.role.master_mut() else { return };
        let index = self.log.last.next();
        self.log.append(index, effects);
        master.window.push(value);
        if broken(Rule::MasterCountsItsDisk) {
            master.saved.raise(self.host.node, index);
            self.log.synced = Some(index);
        }
        self.send_next_to_all(effects);
    }

    /// Checks that one more entry may be proposed.
    pub(super) fn admits(&self, value: EntrySize) -> Result<(), Refusal> {
        let master = self.role.leading_master()?;
        match master.phase {
            MasterPhase::Retiring => Err(Refusal::Retiring),
            _ if master.successor.is_some() => Err(Refusal::HandingOver),
            _ if !self.log.signs.is_empty() => Err(Refusal::Reconfiguring),
            _ => master.window.admits(value),
        }
    }

    /// Handles a refusal: a member has promised another ballot than ours.
    pub(super) fn on_refused(&mut self, from: NodeId, promised: Ballot, effects: &mut Vec<Effect>) {
        if promised > self.ballots.promised {
            return self.on_higher_promise(effects);
        }
        if promised == self.ballots.promised || !self.role.is_replicating() {
            return;
        }
        // It missed our `Prepare`, and refuses every message until it has promised: repeat it at
        // most once per heartbeat interval.
        let interval_ms = self.host.clock.heartbeat_interval_ms();
        let Some(follower) = self.progress.follower(from) else { return };
        if self.host.now.0 >= follower.last_activity.0.saturating_add(interval_ms) {
            self.request_promise(from, effects);
        }
    }

    /// Handles a higher promise: its member accepts nothing under this ballot any more. A master
    /// stands again, above it: it holds the lease, which does not bind its holder.
    fn on_higher_promise(&mut self, effects: &mut Vec<Effect>) {
        match &self.role {
            // Back to rounds: two candidates that supersede each other at once would never finish.
            RoleState::Candidate(_) => self.step_down(effects),
            // A retiring master begins no new reign, and may still finish with the other members.
            RoleState::Master(master) if master.phase != MasterPhase::Retiring => {
                self.step_down(effects);
                // To stand, it would have to save a promise.
                if !self.host.disk_hangs {
                    self.stand_for_election(Ballot::default(), effects);
                }
            }
            _ => {}
        }
    }

    /// Handles a tick as a master or as a candidate.
    pub(super) fn tick_active(&mut self, effects: &mut Vec<Effect>) {
        if let RoleState::Candidate(candidate) = &self.role
            && (self.host.now >= candidate.deadline || self.host.disk_hangs)
        {
            return self.step_down(effects);
        }
        if self.blocks_decisions() {
            return self.resign(effects);
        }
        // A timeout may end the wait for torn logs, without another message.
        if self.election.awaited_logs.is_some() {
            self.try_to_adopt(effects);
        }
        if let Some(master) = self.role.master() {
            if master.heartbeats.lost_majority(&self.host) {
                return self.step_down_without_majority(effects);
            }
            if self.host.now >= master.heartbeats.next_due {
                self.send_heartbeat(effects);
            }
        }
        self.retry_unanswered(effects);
        self.retry_fetch(effects);
        self.cancel_stalled_hand_over();
    }
}
