//! State of a group on this node: what its driver and the threads that evaluate updates change.
//!
//! It stands behind one lock (`gate.rs`), which is never held across a wait. Each part has its own
//! file and its own invariants, and depends on none of the others.

use super::entries::Entries;
use super::entry_times::EntryTimes;
use super::lifecycle::Lifecycle;
use super::log_progress::LogProgress;
use super::master_state::MasterState;
use super::mastership::Mastership;
use super::proposal_queue::ProposalQueue;
use super::read_requests::ReadRequests;
use super::recovered::RecoveredGroup;
use super::ticks::Ticks;
use super::turn_output::TurnOutput;
use super::wait::Applied;
use base::{BucketId, Error, LogIndex};
use bytes::Bytes;
use logic::consensus::Replica;
use replica_state::snapshot::PendingSnapshot;
use runtime::WriteLatencies;
use runtime::mutants::Mutant;
use std::collections::BTreeSet;
use std::time::Duration;

/// See the head of this file.
pub struct GroupState {
    /// The protocol's own state.
    pub replica: Replica,
    /// Entries of this master, from their first update until they are applied.
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
    /// Times of this master's entries, for the slow log.
    pub times: EntryTimes,
    /// Latencies of clients' updates, for the pace of builds.
    pub latencies: WriteLatencies,
    /// Timers.
    pub(super) ticks: Ticks,
    /// Lifecycle of the driver.
    pub lifecycle: Lifecycle,
}

impl GroupState {
    /// Restores the state from the log and the store, with the applied seals.
    pub(super) fn restored(
        recovered: RecoveredGroup,
        sealed: BTreeSet<BucketId>,
        undecided_bytes_max: usize,
        failed: Option<Error>,
    ) -> GroupState {
        let RecoveredGroup { id, replica, mark, tail, positions, .. } = recovered;
        GroupState {
            replica,
            queue: ProposalQueue::new(id, mark, undecided_bytes_max),
            mastership: Mastership::default(),
            master: MasterState::new(sealed),
            entries: Entries::restore(LogIndex(mark.applied), tail.into_values(), positions),
            progress: LogProgress::new(mark),
            output: TurnOutput::new(),
            reads: ReadRequests::default(),
            snapshot: PendingSnapshot::default(),
            times: EntryTimes::default(),
            latencies: WriteLatencies::default(),
            ticks: Ticks::default(),
            lifecycle: Lifecycle::new(failed),
        }
    }

    /// Returns true if the group has one member.
    pub(super) fn is_alone(&self) -> bool {
        self.replica.configuration().members().len() == 1
    }

    /// Returns the payload of an entry that is to be logged, and true if it must be synced. The
    /// entry is one of those received with the message, or the one being proposed.
    pub(super) fn payload(
        &mut self,
        index: LogIndex,
        received: &[(LogIndex, Bytes)],
    ) -> (Bytes, bool) {
        if let Some((_, payload)) = received.iter().find(|(at, _)| *at == index) {
            return (payload.clone(), !Mutant::SkipAcceptSync.is_active());
        }
        // In a group with several members, an accepted entry must be durable: a voter that loses
        // one may help to decide another in its place.
        let shared = !self.is_alone() && !Mutant::SkipAcceptSync.is_active();
        let (payload, sync) = self.queue.payload(index);
        (payload, sync || shared)
    }

    /// Notes that entries up to `last` are decided, and will be applied.
    pub(super) fn decided(&mut self, last: LogIndex, applied: &Applied) {
        self.progress.decide(last);
        self.times.on_decided(last);
        // A candidate keeps entries that it has not proposed, because it may lead again without
        // another master in between. Here another master led: its entries have these indexes.
        if self.queue.first_unproposed().is_some_and(|first| first <= last) {
            self.end_epoch(applied);
        }
    }

    /// Ends the epoch: drops this node's entries that are not decided.
    pub(super) fn end_epoch(&mut self, applied: &Applied) {
        self.queue.end_epoch(self.replica.decided(), applied);
        self.latencies.clear();
    }

    /// Releases all entries up to an applied index.
    pub(super) fn release_applied(&mut self, applied: LogIndex) {
        self.queue.release_applied(applied);
        self.entries.release_applied(applied, self.is_alone());
    }

    /// Returns the time for which there is nothing to do, unless a message comes.
    pub(super) fn sleep(&self) -> Duration {
        let tick = self.ticks.sleep();
        let tick = self.queue.pause().map_or(tick, |pause| tick.min(Duration::from_millis(pause)));
        if !self.mastership.is_held {
            return tick;
        }
        self.master.sweep.sleep(self.queue.clock.now()).map_or(tick, |sweep| sweep.min(tick))
    }
}
