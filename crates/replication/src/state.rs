//! State of a group on this node: what its driver and the threads that evaluate updates change.
//!
//! It stands behind one lock (`gate.rs`), which is never held across a wait. Each part has its own
//! file, its own invariants, and knows nothing of the others.

use super::entries::Entries;
use super::lifecycle::Lifecycle;
use super::log_progress::LogProgress;
use super::master_state::MasterState;
use super::mastership::Mastership;
use super::proposal_queue::ProposalQueue;
use super::read_requests::ReadRequests;
use super::recovered::RecoveredGroup;
use super::snapshot::PendingSnapshot;
use super::ticks::Ticks;
use super::turn_output::TurnOutput;
use super::wait::Applied;
use base::{BucketId, Error, LogIndex, Millis};
use bytes::Bytes;
use logic::consensus::Replica;
use runtime::mutants::Mutant;
use std::collections::BTreeSet;
use std::time::Duration;

/// See the head of this file.
pub struct GroupState {
    /// The protocol's own state.
    pub replica: Replica,
    /// Entries of this master, from the first update in them until they are applied.
    pub queue: ProposalQueue,
    /// Mastership state of this node.
    pub(super) mastership: Mastership,
    /// State that only a master keeps.
    pub master: MasterState,
    /// Entries that are in the log and not in the store yet.
    pub entries: Entries,
    /// Watermarks of the log.
    pub progress: LogProgress,
    /// Records and messages of this turn.
    pub output: TurnOutput,
    /// Reads that wait for their read index.
    pub(super) reads: ReadRequests,
    /// Snapshot that this replica needs.
    pub snapshot: PendingSnapshot,
    /// Timers.
    pub(super) ticks: Ticks,
    /// Lifecycle of the driver.
    pub life: Lifecycle,
}

impl GroupState {
    /// Restores the state from the log and the store, with the applied seals.
    pub(super) fn restored(
        found: RecoveredGroup,
        sealed: BTreeSet<BucketId>,
        undecided_bytes_max: usize,
        failed: Option<Error>,
    ) -> GroupState {
        let RecoveredGroup { id, replica, mark, tail, runs, .. } = found;
        GroupState {
            replica,
            queue: ProposalQueue::new(id, mark, undecided_bytes_max),
            mastership: Mastership::default(),
            master: MasterState::new(sealed),
            entries: Entries::restored(LogIndex(mark.applied), tail.into_values(), runs),
            progress: LogProgress::new(mark),
            output: TurnOutput::new(),
            reads: ReadRequests::default(),
            snapshot: PendingSnapshot::default(),
            ticks: Ticks::default(),
            life: Lifecycle::new(failed),
        }
    }

    /// Returns true if the group has one member.
    pub(super) fn is_alone(&self) -> bool {
        self.replica.configuration().members().len() == 1
    }

    /// Returns the bytes of an entry that is to be logged, and whether it must be synced: it came
    /// with the message, or it is the one being proposed.
    pub(super) fn payload(&mut self, index: LogIndex, came: &[(LogIndex, Bytes)]) -> (Bytes, bool) {
        if let Some((_, payload)) = came.iter().find(|(at, _)| *at == index) {
            return (payload.clone(), !Mutant::AcceptedUnsynced.is_active());
        }
        // Where others count on this log, an accepted entry must not be forgotten: a voter that
        // loses one may help to decide another in its place.
        let shared = !self.is_alone() && !Mutant::AcceptedUnsynced.is_active();
        let (payload, sync) = self.queue.payload(index);
        (payload, sync || shared)
    }

    /// Notes that entries up to here are decided, and will be applied.
    pub(super) fn decided(&mut self, upto: LogIndex, applied: &Applied) {
        self.progress.decide(upto);
        // A candidate keeps what it has not proposed, because it may lead again without another
        // master in between. Here another master led: its entries take these indexes.
        if self.queue.unproposed().is_some_and(|first| first <= upto) {
            self.end_term(applied);
        }
    }

    /// Ends the epoch: own entries that are not decided are none of this node's any more.
    pub(super) fn end_term(&mut self, applied: &Applied) {
        self.queue.end_term(self.replica.decided(), applied);
    }

    /// Releases everything up to an applied index.
    pub(super) fn landed(&mut self, upto: LogIndex) {
        self.queue.landed(upto);
        self.entries.land(upto, self.is_alone());
    }

    /// Returns the time for which there is nothing to do, unless a message comes.
    pub(super) fn sleep(&self, now: Millis) -> Duration {
        let tick = self.ticks.sleep(now);
        let tick = self.queue.pause().map_or(tick, |pause| tick.min(Duration::from_millis(pause)));
        if !self.mastership.held {
            return tick;
        }
        self.master.sweep.sleep(self.queue.clock.now()).map_or(tick, |sweep| sweep.min(tick))
    }
}
