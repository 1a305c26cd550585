//! Proposal queue of a group's master: the entry that updates are evaluated into, and the closed
//! entries that wait to be proposed, decided or applied.
//!
//! Updates are evaluated on the store under all of these entries ([`ProposalQueue::overlay`]), so
//! an entry stays here until the store holds its effects.
//!
//! Invariants: entries stand in the order of their indexes; the first `proposed` of `pending` are
//! proposed, and the others and the open one follow each other without gaps; versions and times
//! rise from entry to entry. An entry is closed once, and no update enters it afterwards. A closed
//! entry holds the row of every count that it changes.
//! Never: checks whether this node is master; passes an entry to consensus (`driver.rs` does).

use super::batching::BatchingPolicy;
use super::budget::Budget;
use super::clock::GroupClock;
use super::counts::BucketCounts;
use super::group_indexes::GroupIndexes;
use super::large::LargeTurn;
use super::overlay::{Overlay, StoreSource};
use super::recent_removals::RecentRemovals;
use super::wait::Applied;
use base::limits::{UNDECIDED_UPDATES_MAX, VALUE_BATCH_BYTES, VALUE_UPDATES_MAX};
use base::{Error, GroupId, LogIndex, Millis, Reason, Result, Version};
use bytes::Bytes;
use logic::consensus::{Configuration, Replica};
use replica_state::layout::Mark;
use replica_state::pending_entry::{EntryBuffers, PendingEntry};
use runtime::submit::Ticket;
use runtime::world;
use std::collections::VecDeque;
use store::Trees;

/// See the head of this file.
pub struct ProposalQueue {
    group: GroupId,
    /// Open entry. `None`: no update since the last close.
    open: Option<PendingEntry>,
    /// Closed entries that are not applied yet, proposed or not.
    pending: VecDeque<PendingEntry>,
    /// Updates and bytes of `pending`, which every update checks.
    closed: QueueSize,
    /// Number of entries at the front of `pending` that are proposed.
    proposed: usize,
    /// Rule for closing the open entry.
    batching: BatchingPolicy,
    /// Group time. The next entry carries its current value.
    pub clock: GroupClock,
    /// Version of the next entry's first update.
    next_version: u64,
    /// Counts of the group's counted buckets, after the last update of the open entry.
    pub(super) counts: BucketCounts,
    /// Indexes in force in the group's buckets, after the last update of the open entry.
    pub(super) indexes: GroupIndexes,
    /// Versions of the rows that this master has removed.
    removals: RecentRemovals,
    /// Bound on undecided bytes: beyond it updates are answered `overloaded`.
    bytes_max: usize,
    /// Buffer for tree keys.
    scratch: Vec<u8>,
    /// Buffers of the last closed entry, reused for the next one.
    buffers: EntryBuffers,
    /// True if updates that are not large were added since the last large one.
    has_small: bool,
    /// Turn of a large update, until this node's log has its entry.
    large_turn: Option<(LogIndex, LargeTurn)>,
}

/// Number of updates and bytes of some entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct QueueSize {
    updates: u64,
    bytes: usize,
}

impl QueueSize {
    fn add(&mut self, entry: &PendingEntry) {
        self.updates += u64::from(entry.updates);
        self.bytes += entry.payload_bytes();
    }

    fn remove(&mut self, entry: &PendingEntry) {
        self.updates -= u64::from(entry.updates);
        self.bytes -= entry.payload_bytes();
    }
}

impl ProposalQueue {
    /// Creates an empty queue behind the last applied entry.
    pub(super) fn new(group: GroupId, mark: Mark, bytes_max: usize) -> ProposalQueue {
        let next_version = mark.next_version.max(1);
        ProposalQueue {
            group,
            open: None,
            pending: VecDeque::new(),
            closed: QueueSize::default(),
            proposed: 0,
            batching: BatchingPolicy::default(),
            clock: GroupClock::starting_at(mark.time),
            next_version,
            counts: BucketCounts::default(),
            indexes: GroupIndexes::default(),
            removals: RecentRemovals::known_from(next_version),
            bytes_max,
            scratch: Vec::new(),
            buffers: EntryBuffers::default(),
            has_small: false,
            large_turn: None,
        }
    }

    /// Restarts behind the last applied entry, which another master may have proposed. `counts`
    /// and `indexes`: those of the applied rows.
    pub(super) fn restart(&mut self, mark: Mark, counts: BucketCounts, indexes: GroupIndexes) {
        self.clock = GroupClock::starting_at(mark.time);
        self.next_version = mark.next_version.max(1);
        self.counts = counts;
        self.indexes = indexes;
        self.removals = RecentRemovals::known_from(self.next_version);
    }

    /// Forgets the removed rows, before others go without an update.
    pub(super) fn forget_removals(&mut self) {
        let next = self.open.as_ref().map_or(self.next_version, |open| open.version().0);
        self.removals = RecentRemovals::known_from(next);
    }

    /// Opens an entry unless one is open. Returns true if it holds no update yet, and its length in
    /// bytes.
    pub fn begin(&mut self, replica: &Replica) -> (bool, usize) {
        let buffers = match &self.open {
            Some(open) if open.updates > 0 => return (false, open.payload_bytes()),
            // The last update failed and left the entry empty. The next may fail as well, so no
            // buffers are reserved for it.
            Some(_) => EntryBuffers::default(),
            None => std::mem::take(&mut self.buffers),
        };
        let (now, salt) = (self.clock.now(), world::salt() ^ u64::from(self.group.0));
        let entry =
            PendingEntry::new(self.next_index(replica), now, self.next_version, salt, buffers);
        (true, self.open.insert(entry).payload_bytes())
    }

    /// Returns the overlay on which an update is evaluated.
    pub(super) fn overlay<'a>(&'a mut self, trees: &'a dyn Trees) -> Overlay<'a> {
        self.counts.begin_update();
        Overlay {
            group: self.group,
            store: StoreSource::Live(trees),
            pending: &mut self.pending,
            open: self.open.as_mut().expect("`begin` was called"),
            budget: Budget::unbounded(),
            saw_expired: false,
            counts: &mut self.counts,
            indexes: &mut self.indexes,
            removals: &mut self.removals,
            scratch: &mut self.scratch,
        }
    }

    /// Counts one more update of the open entry, and closes the entry if it is full. `is_first`:
    /// the entry held no update before. Returns the entry's index, and true if the driver must run
    /// now.
    #[inline]
    pub fn add(&mut self, is_first: bool, sync: bool) -> (LogIndex, bool) {
        let open = self.open.as_mut().expect("an update was just written into it");
        open.updates += 1;
        open.sync |= sync;
        self.has_small = true;
        let index = open.index;
        let full =
            open.payload_bytes() >= VALUE_BATCH_BYTES || open.updates as usize >= VALUE_UPDATES_MAX;
        let is_due = full || is_first || self.batching.is_complete(open.updates);
        if full {
            self.close();
        }
        (index, is_due)
    }

    /// Returns true if something was written into the open entry since `begin` returned this
    /// length.
    pub(super) fn changed(&self, begun_bytes: usize) -> bool {
        self.open.as_ref().is_some_and(|open| open.payload_bytes() > begun_bytes)
    }

    /// Returns the version of the update that is being evaluated.
    pub(super) fn version(&self) -> Option<Version> {
        self.open.as_ref().map(PendingEntry::version)
    }

    /// Raises the next version to this one at least.
    pub(super) fn raise_version(&mut self, version: u64) {
        if version > self.next_version {
            self.close();
            self.next_version = self.next_version.max(version);
        }
    }

    /// Closes the open entry if it need not wait for more updates. `decided`: the last decided
    /// index.
    pub(super) fn close_if_due(&mut self, decided: LogIndex, now: Millis) {
        let in_flight = self.pending.iter().take(self.proposed);
        let undecided =
            in_flight.filter(|entry| entry.index > decided).map(|entry| entry.updates).sum();
        let open = self.open.as_ref().map_or(0, |open| open.updates);
        if self.batching.is_due(open, undecided, now.0) {
            self.close();
        }
    }

    /// Returns the milliseconds until the open entry must be checked again. `None`: it does not
    /// wait.
    pub(super) fn pause(&self) -> Option<u64> {
        self.batching.pause()
    }

    /// Closes the open entry, if it holds an update. The counts that its updates changed are its
    /// last effects.
    pub(super) fn close(&mut self) {
        let Some(mut open) = self.open.take_if(|open| open.updates > 0) else { return };
        self.counts.write_changed(self.group, &mut open);
        self.buffers = open.close_for_reuse();
        self.next_version = open.first_version + u64::from(open.updates);
        self.push_closed(open);
    }

    fn push_closed(&mut self, entry: PendingEntry) {
        self.closed.add(&entry);
        self.pending.push_back(entry);
    }

    /// Prepares for a large update, which gets an entry of its own. Returns true if smaller ones
    /// were added since the last large one.
    pub(super) fn begin_large(&mut self) -> bool {
        self.close();
        std::mem::take(&mut self.has_small)
    }

    /// Closes the entry of a large update. `turn`: held until this node's log has the entry.
    pub(super) fn close_large(&mut self, turn: Option<LargeTurn>) {
        self.close();
        self.has_small = false;
        self.large_turn = self.pending.back().map(|entry| entry.index).zip(turn);
    }

    /// Takes the turn of the large update in this entry, which this node's log has now. The second
    /// value is true if updates wait behind it.
    pub(super) fn take_turn(&mut self, index: LogIndex) -> Option<(LargeTurn, bool)> {
        let (_, turn) = self.large_turn.take_if(|(held, _)| *held == index)?;
        Some((turn, self.last().is_some_and(|last| last > index)))
    }

    /// Appends a stop-sign behind all accepted updates. Returns its index.
    pub(super) fn append_sign(&mut self, replica: &Replica, next: Configuration) -> LogIndex {
        self.close();
        let (index, time) = (self.next_index(replica), self.clock.now());
        self.push_closed(PendingEntry::sign(index, time, self.next_version, next));
        index
    }

    /// Returns true if a stop-sign waits to be applied.
    pub(super) fn has_sign(&self) -> bool {
        self.pending.iter().any(|entry| entry.sign.is_some())
    }

    /// Returns the index of the next entry, behind those that wait to be proposed.
    fn next_index(&self, replica: &Replica) -> LogIndex {
        let ahead = (self.pending.len() - self.proposed) as u64;
        LogIndex(replica.next().0 + ahead)
    }

    /// Returns the closed entry that is proposed next.
    pub(super) fn next_proposal(&self) -> Option<&PendingEntry> {
        self.pending.get(self.proposed)
    }

    /// Notes that consensus accepted the next proposal.
    pub(super) fn mark_proposed(&mut self) {
        self.proposed += 1;
    }

    /// Returns true if no closed entry waits to be proposed.
    pub(super) fn is_proposed(&self) -> bool {
        self.proposed == self.pending.len()
    }

    /// Returns the payload of the entry that is being proposed, and true if a client waits for its
    /// sync.
    pub(super) fn payload(&mut self, index: LogIndex) -> (Bytes, bool) {
        let entry = self.pending.get_mut(self.proposed).filter(|entry| entry.index == index);
        let entry = entry.expect("a value is logged when it comes or when it is proposed");
        (entry.close(), entry.sync)
    }

    /// Returns the index of the first own entry that is not proposed yet.
    pub(super) fn first_unproposed(&self) -> Option<LogIndex> {
        self.next_proposal().or(self.open.as_ref()).map(|first| first.index)
    }

    /// Returns true if the last entry with an update in it is not proposed yet.
    pub(super) fn has_unproposed(&self) -> bool {
        let open = self.open.as_ref().is_some_and(|open| open.updates > 0);
        open || self.pending.len() > self.proposed
    }

    /// Returns true if a proposed entry is not decided.
    pub(super) fn has_in_flight(&self, decided: LogIndex) -> bool {
        self.pending.iter().take(self.proposed).any(|entry| entry.index > decided)
    }

    /// Returns the index of the last entry with an update that is not applied yet. `None`: all are
    /// applied.
    #[inline]
    pub(super) fn last(&self) -> Option<LogIndex> {
        let open = self.open.as_ref().filter(|open| open.updates > 0);
        open.or(self.pending.back()).map(|last| last.index)
    }

    /// Returns a ticket for the last entry with an update. `None`: it is applied.
    pub(super) fn ticket(&self, applied: &Applied) -> Option<Ticket> {
        let index = self.last()?;
        let group = self.group;
        (index > applied.index()).then(|| Ticket { group, index, epoch: applied.epoch() })
    }

    /// Returns the index of the last entry that was begun before this group time.
    pub(super) fn last_before(&self, time: u64) -> Option<LogIndex> {
        let count = self.pending.partition_point(|entry| entry.time < time);
        let last = count.checked_sub(1).and_then(|last| self.pending.get(last));
        last.map(|last| last.index)
    }

    /// Releases entries up to an applied index.
    pub(super) fn release_applied(&mut self, applied: LogIndex) {
        self.large_turn.take_if(|(held, _)| *held <= applied);
        while let Some(entry) = self.pending.pop_front_if(|entry| entry.index <= applied) {
            self.closed.remove(&entry);
            self.proposed = self.proposed.saturating_sub(1);
        }
    }

    /// Ends the epoch: drops this node's entries that are not decided, and fails their tickets.
    pub(super) fn end_epoch(&mut self, decided: LogIndex, applied: &Applied) {
        // An unproposed entry was never decided, whatever entry stands at its index.
        let unproposed = self.first_unproposed();
        let previous = |first: LogIndex| LogIndex(first.0.saturating_sub(1));
        let decided = unproposed.map_or(decided, |first| decided.min(previous(first)));
        if unproposed.is_none() && self.pending.back().is_none_or(|last| last.index <= decided) {
            return; // No ticket names a later index.
        }
        let proposed = self.pending.iter().take(self.proposed).last().map(|last| last.index);
        let proposed = proposed.map_or(decided, |proposed| proposed.max(decided));
        applied.end_epoch(decided, proposed);
        self.pending.retain(|entry| entry.index <= decided);
        self.closed = QueueSize::default();
        self.pending.iter().for_each(|entry| self.closed.add(entry));
        self.proposed = self.pending.len();
        self.open = None;
        self.large_turn = None;
    }

    /// Refuses updates while too many wait.
    #[inline]
    pub(super) fn check_room(&self) -> Result<()> {
        let (updates, bytes) = self.undecided();
        if updates >= UNDECIDED_UPDATES_MAX as u64 || bytes >= self.bytes_max {
            return Err(Error::new(
                Reason::Overloaded,
                format!(
                    "{updates} updates of {bytes} bytes already wait for the disk \
                     (undecided_updates_max, undecided_bytes_max): retry later"
                ),
            ));
        }
        Ok(())
    }

    /// Updates and bytes that are not applied yet.
    #[inline]
    pub fn undecided(&self) -> (u64, usize) {
        let mut size = self.closed;
        if let Some(open) = &self.open {
            size.add(open);
        }
        (size.updates, size.bytes)
    }

    /// Closed entries that are not applied yet.
    pub fn pending(&self) -> impl Iterator<Item = &PendingEntry> {
        self.pending.iter()
    }

    /// Returns the maximum of undecided bytes, in this queue and in messages of other members.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }
}

#[cfg(test)]
pub(crate) mod tests;
