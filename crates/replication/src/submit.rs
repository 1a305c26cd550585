//! Submission: evaluates updates into the open entry.

use super::budget::Budget;
use super::evaluate::evaluate_within;
use super::group::Group;
use super::heavy::Turn;
use super::overlay::{Overlay, StoreSource};
use super::pending_entry::{EntryBuffers, PendingEntry};
use super::read::{BYTES_AT_ONCE, is_long};
use super::session::{self, Attempt, Retried};
use crate::bucket::Bucket;
use base::error::shutting_down;
use base::request::Steps;
use base::{Error, LogIndex, Outcome, Read, Reason, Result, RetryId, SyncPolicy, Update, Version};
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
    /// Index of the entry that holds it. If it wrote nothing: an index that is not behind anything
    /// it saw.
    pub index: LogIndex,
    /// The version of the rows that it wrote; none if it wrote none, or if an earlier attempt did.
    pub version: Option<Version>,
}

impl Stamp {
    /// The stamp of what only reads.
    pub fn of_read(index: LogIndex) -> Stamp {
        Stamp { index, version: None }
    }
}

impl Turn<'_> {
    /// Evaluates an update: once away from the lock, then, if its budget sufficed, in earnest.
    pub async fn submit(
        &mut self,
        group: &Arc<Group>,
        bucket: &Arc<Bucket>,
        update: &Arc<Update>,
        retry: Option<RetryId>,
    ) -> Result<Submission> {
        let (group, bucket, update) = (group.clone(), bucket.clone(), update.clone());
        let tasks = group.shared.tasks.clone();
        let evaluated = tasks.run_blocking(move || {
            // A retry may be answered with what the first attempt came to, whatever it would cost
            // now.
            if retry.is_none() {
                group.rehearse(&bucket, &update)?;
            }
            let began = world::milliseconds();
            let submission = group.submit(&bucket, &update, retry)?;
            Ok((submission, world::milliseconds().saturating_sub(began)))
        });
        let stopping = || Err(shutting_down());
        let (submission, held_ms) = evaluated.await.unwrap_or_else(stopping)?;
        self.ended(held_ms);
        Ok(submission)
    }
}

impl Group {
    /// Evaluates an update into the open value.
    pub fn submit(
        &self,
        bucket: &Bucket,
        update: &Update,
        retry: Option<RetryId>,
    ) -> Result<Submission> {
        self.submit_within(bucket, update, retry, Budget::of_update())
    }

    /// Evaluates a read, or a sequence of reads, on undecided entries. `None` if it takes so long
    /// that it belongs on a thread that may block.
    pub fn submit_read(&self, bucket: &Bucket, update: &Update) -> Result<Option<Submission>> {
        let budget = match update {
            Update::Read(read) if is_long(read) => return Ok(None),
            // One value is never too large.
            Update::Read(Read::Get(_)) => Budget::of_update(),
            _ => Budget::of_short_read(BYTES_AT_ONCE),
        };
        let submission = self.submit_within(bucket, update, None, budget)?;
        let is_cut = |error: &Error| error.reason == Reason::TooLarge;
        Ok(Some(submission).filter(|(_, _, outcome)| !outcome.as_ref().is_err_and(is_cut)))
    }

    fn submit_within(
        &self,
        bucket: &Bucket,
        update: &Update,
        retry: Option<RetryId>,
        budget: Budget,
    ) -> Result<Submission> {
        // Before the lock is taken: a value of megabytes takes milliseconds to hash.
        let attempt = retry.map(|retry| Attempt::new(retry, update));
        // One lock from here to the ticket: the mastership, the rows seen and the index are of one
        // epoch.
        let mut guard = self.serving(bucket)?;
        let state = &mut *guard;
        let (before, begun) = state.queue.begin(&state.replica);
        let mut overlay = state.queue.overlay(&*self.shared.trees);
        let (result, earlier) = match attempt {
            None => (evaluate_within(&mut overlay, bucket, update, budget), None),
            Some(attempt) => match session::once(&mut overlay, bucket, update, attempt)? {
                Retried::Now(result) => (result, None),
                Retried::Before(index, result) => (result, Some(index)),
            },
        };
        // A row that has expired must stay expired under another master, whose time continues from
        // the last entry's: so the entry records the time.
        let dated = overlay.saw_expired;
        let wrote = state.queue.changed(begun);
        let versioned = wrote && earlier.is_none() && result.is_ok();
        let version = if versioned { state.queue.version() } else { None };
        let logged = wrote || dated || (*update == Update::Nop && result.is_ok());
        // An update that changes nothing is like a read: it needs a lease, or an entry to wait for
        // that a majority accepts from now on; an empty one, if there is no other. An entry that
        // was proposed already proves nothing: a majority may have accepted it before this machine
        // stalled, and another master may have led since.
        let sure = self.leadership.readable() || Mutant::OutcomeWithoutLease.is_active();
        if logged || !(sure || state.queue.has_unproposed()) {
            let wanted = matches!(update, Update::Sequence { mode: Steps::Synced, .. });
            let sync = wanted || bucket.properties.sync == SyncPolicy::Sync;
            self.take(state, before, sync);
        }
        // Also for an update that wrote nothing: entries that it saw may be undecided, and its
        // answer must not show what another master could void.
        let ticket = state.queue.ticket(&self.applied);
        let index = earlier.or(ticket.map(|ticket| ticket.index));
        let index = index.unwrap_or_else(|| self.applied.shown());
        Ok((ticket, Stamp { index, version }, result))
    }

    /// Evaluates an update without the lock, only to check its budget. A too expensive update fails
    /// here, so the group never waits for it. The rows that it read come from memory when it is
    /// evaluated again.
    ///
    /// The applied rows are as good for this as the undecided ones: an update that is too expensive
    /// now may be refused, though another update might make it cheaper in the next moment.
    pub(super) fn rehearse(&self, bucket: &Bucket, update: &Update) -> Result<()> {
        let budget = Budget::of_rehearsal();
        match self.evaluate_aside(bucket, update, StoreSource::Now(&*self.shared.trees), budget) {
            Err(error) if error.reason == Reason::TooLarge => Err(error),
            _ => Ok(()),
        }
    }

    /// Evaluates a sequence of reads on the applied rows at one moment. Returns its outcome, and an
    /// index that is not behind anything read.
    pub fn read_steps(&self, bucket: &Bucket, update: &Update) -> (LogIndex, Result<Outcome>) {
        let snapshot = self.shared.trees.snapshot();
        let index = self.applied.shown();
        let store = StoreSource::Then(&*snapshot);
        (index, self.evaluate_aside(bucket, update, store, Budget::of_reads()))
    }

    fn evaluate_aside(
        &self,
        bucket: &Bucket,
        update: &Update,
        store: StoreSource<'_>,
        budget: Budget,
    ) -> Result<Outcome> {
        let (pending, time) = (VecDeque::new(), self.applied.time());
        let mut open =
            PendingEntry::new(LogIndex(0), time, 0, world::salt(), EntryBuffers::default());
        let mut overlay = Overlay {
            group: self.id,
            store,
            pending: &pending,
            open: &mut open,
            budget: Budget::unbounded(),
            saw_expired: false,
            scratch: &mut Vec::new(),
        };
        evaluate_within(&mut overlay, bucket, update, budget)
    }
}
