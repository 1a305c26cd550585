//! Submission: evaluates updates into the open entry.

use super::budget::Budget;
use super::counts::BucketCounts;
use super::evaluate::{Weight, evaluate_with_budget};
use super::group::Group;
use super::group_indexes::GroupIndexes;
use super::heavy::Turn;
use super::large::LargeTurn;
use super::overlay::{Overlay, StoreSource};
use super::read::{BYTES_AT_ONCE, is_long};
use super::recent_removals::RecentRemovals;
use super::session::{self, Attempt, RetryResult, SessionUse};
use super::state::GroupState;
use crate::bucket::Bucket;
use base::error::shutting_down;
use base::request::SequenceMode;
use base::{Error, LogIndex, Outcome, Read, Reason, Result, SyncPolicy, Update, Version};
use replica_state::pending_entry::{EntryBuffers, PendingEntry};
use runtime::mutants::Mutant;
use runtime::submit::Ticket;
use runtime::world;
use std::collections::VecDeque;
use std::sync::Arc;

/// Outcome of an update, and the ticket that must be decided before the outcome may be sent.
pub type Submission = (Option<Ticket>, Stamp, Result<Outcome>);

/// The place of an update in its group's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Index of the entry that holds it. If it wrote nothing: an index at or above that of every
    /// row it read.
    pub index: LogIndex,
    /// Version of the rows that it wrote. `None`: it wrote none, or an earlier attempt did.
    pub version: Option<Version>,
}

impl Stamp {
    /// Returns the stamp of a request that only reads.
    pub fn for_read(index: LogIndex) -> Stamp {
        Stamp { index, version: None }
    }
}

impl Turn<'_> {
    /// Evaluates an update: first a dry run without the lock, then, if the budget sufficed, under
    /// the lock.
    pub async fn submit(
        &mut self,
        group: &Arc<Group>,
        bucket: &Arc<Bucket>,
        update: &Arc<Update>,
        session: Option<SessionUse>,
    ) -> Result<Submission> {
        let (group, bucket, update) = (group.clone(), bucket.clone(), update.clone());
        let tasks = group.shared.tasks.clone();
        let evaluated = tasks.run_blocking(move || {
            // A retry may be answered with the stored outcome of the first attempt, whatever an
            // evaluation would cost now.
            if session.is_none() {
                group.dry_run(&bucket, &update)?;
            }
            let began = world::milliseconds();
            let submission = group.submit(&bucket, &update, session)?;
            Ok((submission, world::milliseconds().saturating_sub(began)))
        });
        let stopping = || Err(shutting_down());
        let (submission, held_ms) = evaluated.await.unwrap_or_else(stopping)?;
        self.end(held_ms);
        Ok(submission)
    }
}

impl Group {
    /// Returns true if every write of a bucket looks up the row that it replaces.
    #[inline]
    pub fn reads_replaced_rows(&self, bucket: &Bucket) -> bool {
        bucket.properties.counted || self.indexes.has(bucket.id)
    }

    /// Evaluates an update into the open entry.
    pub fn submit(
        &self,
        bucket: &Bucket,
        update: &Update,
        session: Option<SessionUse>,
    ) -> Result<Submission> {
        self.submit_within(bucket, update, session, Budget::for_update(), None)
    }

    /// Evaluates a large update in its turn.
    pub fn submit_large(
        &self,
        bucket: &Bucket,
        update: &Update,
        session: Option<SessionUse>,
        turn: LargeTurn,
    ) -> Result<Submission> {
        self.submit_within(bucket, update, session, Budget::for_update(), Some(turn))
    }

    /// Evaluates a read, or a sequence of reads, on undecided entries. `None` if it takes so long
    /// that it belongs on a thread that may block.
    pub fn submit_read(&self, bucket: &Bucket, update: &Update) -> Result<Option<Submission>> {
        let budget = match update {
            Update::Read(read) if is_long(read) => return Ok(None),
            // A single value is never too large.
            Update::Read(Read::Get(_)) => Budget::for_update(),
            _ => Budget::for_short_read(BYTES_AT_ONCE),
        };
        let submission = self.submit_within(bucket, update, None, budget, None)?;
        let is_too_large = |error: &Error| error.reason == Reason::TooLarge;
        Ok(Some(submission).filter(|(_, _, outcome)| !outcome.as_ref().is_err_and(is_too_large)))
    }

    fn submit_within(
        &self,
        bucket: &Bucket,
        update: &Update,
        session: Option<SessionUse>,
        budget: Budget,
        turn: Option<LargeTurn>,
    ) -> Result<Submission> {
        // Before the lock is taken: a value of megabytes takes milliseconds to hash.
        let attempt = session.map(|session| Attempt::new(session, update));
        let is_large = Weight::measure(update, false).is_large();
        // One lock from here to the ticket: the mastership, the rows read and the index belong to
        // one epoch.
        let mut guard = self.lock_for_update(bucket)?;
        let state = &mut *guard;
        // Smaller updates must not share an entry with a large one. Without them in between, large
        // ones need no turns.
        let is_mixed = is_large && state.queue.begin_large();
        let turn = turn.filter(|_| is_mixed);
        let (is_first, begun_bytes) = state.queue.begin(&state.replica);
        let mut overlay = state.queue.overlay(&*self.shared.trees);
        let (result, earlier_index) = match attempt {
            None => (evaluate_with_budget(&mut overlay, bucket, update, budget), None),
            Some(attempt) => match session::evaluate_once(&mut overlay, bucket, update, attempt) {
                Ok(RetryResult::Evaluated(result)) => (result, None),
                Ok(RetryResult::Stored(index, result)) => (result, Some(index)),
                // It rests on what was read, as a result does: another master may have opened the
                // session, or an undecided entry have closed it.
                Err(refusal) => (Err(refusal), None),
            },
        };
        // A row that has expired must stay expired under another master, whose time continues from
        // the last entry's: so the entry records the time.
        let needs_time = overlay.saw_expired;
        let wrote = state.queue.changed(begun_bytes);
        let versioned = wrote && earlier_index.is_none() && result.is_ok();
        let version = if versioned { state.queue.version() } else { None };
        let logged = wrote || needs_time || (*update == Update::Nop && result.is_ok());
        if logged || self.needs_entry(state) {
            let sync_requested =
                matches!(update, Update::Sequence { mode: SequenceMode::Synced, .. });
            let sync = sync_requested || bucket.properties.sync == SyncPolicy::Sync;
            let Ticket { index, .. } = self.add_update(state, is_first, sync);
            state.latencies.add(index);
            if is_large {
                state.queue.close_large(turn);
            }
        }
        // Also for an update that wrote nothing: entries that it read may be undecided, and its
        // answer must not contain rows that another master could void.
        let ticket = state.queue.ticket(&self.applied);
        let index = earlier_index.or(ticket.map(|ticket| ticket.index));
        let index = index.unwrap_or_else(|| self.applied.visible_index());
        Ok((ticket, Stamp { index, version }, result))
    }

    /// Returns true if an answer of this moment that wrote nothing needs an entry of its own.
    ///
    /// It is like a read: it needs a lease, or an entry to wait for that a majority accepts from
    /// now on; an empty one, if there is no other. An entry that was proposed already proves
    /// nothing: a majority may have accepted it before this machine stalled, and another master may
    /// have led since.
    pub(super) fn needs_entry(&self, state: &GroupState) -> bool {
        let has_lease = self.leadership.can_read() || Mutant::AnswerNoOpWithoutLease.is_active();
        !(has_lease || state.queue.has_unproposed())
    }

    /// Evaluates an update without the lock, only to check its budget. A too expensive update fails
    /// here, so the group never waits for it. The rows that it read come from memory when it is
    /// evaluated again.
    ///
    /// The applied rows are as good for this as the undecided ones: an update that is too expensive
    /// now may be refused, though another update might make it cheaper in the next moment.
    pub(super) fn dry_run(&self, bucket: &Bucket, update: &Update) -> Result<()> {
        let store = StoreSource::Live(&*self.shared.trees);
        let outcome = self.with_unlocked_overlay(bucket, (self.applied.time(), store), |overlay| {
            *overlay.indexes = self.indexes.in_force(bucket.id);
            // An assertion that a key has been absent holds here: the steps behind it are measured.
            *overlay.removals = RecentRemovals::known_from(0);
            evaluate_with_budget(overlay, bucket, update, Budget::for_dry_run())
        });
        match outcome {
            Err(error) if error.reason == Reason::TooLarge => Err(error),
            _ => Ok(()),
        }
    }

    /// Evaluates a sequence of reads on the applied rows at one moment. Returns its outcome, and an
    /// index that is not behind anything read.
    pub fn read_steps(&self, bucket: &Bucket, update: &Update) -> (LogIndex, Result<Outcome>) {
        // Before the rows are read: by a later time, a row whose expiry was put off meanwhile would
        // have expired in the snapshot, though it never did.
        let time = self.applied.time();
        let snapshot = self.shared.trees.snapshot();
        let index = self.applied.visible_index();
        let store = StoreSource::Snapshot(&*snapshot);
        let outcome = self.with_unlocked_overlay(bucket, (time, store), |overlay| {
            evaluate_with_budget(overlay, bucket, update, Budget::for_reads())
        });
        (index, outcome)
    }

    /// Runs an evaluation without the group's lock, on the store as of a group time. Its effects
    /// are dropped. No index is in force.
    pub(super) fn with_unlocked_overlay<T>(
        &self,
        bucket: &Bucket,
        (time, store): (u64, StoreSource<'_>),
        evaluate: impl FnOnce(&mut Overlay) -> T,
    ) -> T {
        let mut pending = VecDeque::new();
        let mut open =
            PendingEntry::new(LogIndex(0), time, 0, world::salt(), EntryBuffers::default());
        let mut counts = match bucket.properties.counted {
            true => BucketCounts::for_dry_run(bucket.id),
            false => BucketCounts::default(),
        };
        evaluate(&mut Overlay {
            group: self.id,
            store,
            pending: &mut pending,
            open: &mut open,
            budget: Budget::unbounded(),
            saw_expired: false,
            counts: &mut counts,
            indexes: &mut GroupIndexes::default(),
            removals: &mut RecentRemovals::default(),
            scratch: &mut Vec::new(),
        })
    }
}
