//! Applied watermark of a group's log, and the waiters for their indexes.
//!
//! A ticket names an index *of an epoch*: the time from which this node is master until it no
//! longer is. An index alone identifies no entry: once another master has led, its entry may stand
//! there.

use super::mastership::not_master_error;
use base::{Error, LogIndex, Reason, Result};
use replica_state::layout::Mark;
use runtime::mutants::Mutant;
use runtime::sync::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// Number of ended epochs that are retained. A ticket of an older one has an unknown outcome.
const ENDED_EPOCHS_MAX: usize = 256;

/// Last applied index, and the waiters for later ones.
#[derive(Default)]
pub struct Applied {
    index: AtomicU64,
    /// Highest index whose rows readers may see already.
    visible: AtomicU64,
    /// Group time of the last applied entry, milliseconds: what reads compare expiries with.
    time: AtomicU64,
    /// Index of the last entry that the store is known to hold durably.
    flushed: AtomicU64,
    epoch: AtomicU64,
    waiting: Mutex<WaitingTickets>,
}

#[derive(Default)]
struct WaitingTickets {
    /// Index and waker of each wait, in order of arrival: nearly the order of the indexes.
    wakers: VecDeque<(u64, Waker)>,
    /// Ends of the last epochs, oldest first.
    ended: VecDeque<EndedEpoch>,
    /// Epoch and index up to which waits were given up.
    given_up: Option<(u64, u64)>,
    failed: Option<Error>,
}

/// End of an epoch.
#[derive(Clone, Copy)]
struct EndedEpoch {
    epoch: u64,
    /// Last decided index of its entries.
    decided: u64,
    /// Last proposed index of its entries. Entries between the two may still be decided.
    proposed: u64,
}

impl Applied {
    /// Begins behind the last applied entry.
    pub(super) fn new(mark: Mark) -> Applied {
        Applied {
            index: AtomicU64::new(mark.applied),
            time: AtomicU64::new(mark.time),
            ..Applied::default()
        }
    }

    /// The last applied index.
    #[inline]
    pub fn index(&self) -> LogIndex {
        LogIndex(self.index.load(Ordering::Acquire))
    }

    /// Last index whose rows may be visible. Called *after* a read: nothing that it found is of a
    /// later one.
    #[inline]
    pub fn visible_index(&self) -> LogIndex {
        if Mutant::ReturnStaleIndex.is_active() {
            return self.index();
        }
        self.index().max(LogIndex(self.visible.load(Ordering::Acquire)))
    }

    /// Raises the visible index: rows of entries up to `index` become visible from now on, one
    /// entry after the other.
    pub fn raise_visible(&self, index: LogIndex) {
        // The store publishes the rows after this write, so a reader of such a row reads this
        // index, too.
        self.visible.fetch_max(index.0, Ordering::Release);
    }

    /// Lowers `visible` to the applied index, after a snapshot that could not be installed.
    pub fn reset_visible(&self) {
        self.visible.store(self.index().0, Ordering::Release);
    }

    /// Group time of the last applied entry, milliseconds.
    #[inline]
    pub fn time(&self) -> u64 {
        self.time.load(Ordering::Acquire)
    }

    /// Sets the group time of an applied entry. The entry does not count before
    /// [`Applied::advance`].
    pub(super) fn set_time(&self, time: u64) {
        self.time.store(time, Ordering::Release);
    }

    /// Index of the last entry that the store is known to hold durably.
    pub fn flushed(&self) -> LogIndex {
        LogIndex(self.flushed.load(Ordering::Relaxed))
    }

    /// Notes that the store holds all entries up to `index` durably. A flush that began before a
    /// snapshot was installed reports an earlier index than that.
    pub fn raise_flushed(&self, index: LogIndex) {
        self.flushed.fetch_max(index.0, Ordering::Relaxed);
    }

    /// Returns the epoch of tickets that are issued now.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Publishes that all entries up to `applied` are applied and visible. Wakes their waiters.
    pub fn advance(&self, applied: LogIndex) {
        let due = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            // Under the lock: no waiter registers between this store and the search below.
            self.index.store(applied.0, Ordering::Release);
            let mut due = Vec::new();
            for _ in 0..waiting.wakers.len() {
                let Some((index, waker)) = waiting.wakers.pop_front() else { break };
                if index <= applied.0 {
                    due.push(waker);
                } else {
                    waiting.wakers.push_back((index, waker));
                }
            }
            due
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// Ends the epoch: its entries up to `decided` are decided, those up to `proposed` may still be
    /// decided, and later ones never left this node. Must be called before another entry can take
    /// one of these indexes.
    pub fn end_epoch(&self, decided: LogIndex, proposed: LogIndex) {
        let wakers = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            let epoch = self.epoch();
            if waiting.ended.len() == ENDED_EPOCHS_MAX {
                waiting.ended.pop_front();
            }
            waiting.ended.push_back(EndedEpoch { epoch, decided: decided.0, proposed: proposed.0 });
            self.epoch.store(epoch + 1, Ordering::Release);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Ends the waits for entries of this epoch up to `last` that are not applied yet, with
    /// [`Reason::DeadlinePassed`]: the entries may still be applied later.
    pub fn give_up(&self, last: LogIndex) {
        let wakers = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            let given_up = Some((self.epoch(), last.0));
            if waiting.given_up == given_up {
                return;
            }
            waiting.given_up = given_up;
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Ends all waits with an error: no further entry is applied here.
    pub fn fail(&self, error: Error) {
        let wakers = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            waiting.failed.get_or_insert(error);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Waits until `index` is applied, whichever master proposed the entry there.
    pub fn wait_reached(&self, index: LogIndex) -> AppliedWait<'_> {
        AppliedWait { applied: self, index, epoch: None }
    }

    /// Waits until `index` is applied as it was proposed in `epoch`.
    pub fn wait_applied(&self, epoch: u64, index: LogIndex) -> AppliedWait<'_> {
        AppliedWait { applied: self, index, epoch: Some(epoch) }
    }

    /// Returns true if all entries up to `index` are applied as they were proposed in `epoch`.
    pub fn is_applied(&self, epoch: u64, index: LogIndex) -> bool {
        // In this order: an entry applied while the epoch lasts was proposed in it.
        self.index() >= index && (self.epoch() == epoch || Mutant::IgnoreTicketEpoch.is_active())
    }
}

/// See [`Applied::wait_reached`] and [`Applied::wait_applied`].
pub struct AppliedWait<'a> {
    applied: &'a Applied,
    index: LogIndex,
    epoch: Option<u64>,
}

impl Future for AppliedWait<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let applied = self.applied;
        if self
            .epoch
            .map_or(applied.index() >= self.index, |epoch| applied.is_applied(epoch, self.index))
        {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = applied.waiting.lock().expect("no one panics while holding it");
        let has_ended =
            |epoch: &u64| *epoch != applied.epoch() && !Mutant::IgnoreTicketEpoch.is_active();
        // The epoch is checked before the index: once the epoch has ended, another entry may stand
        // at the index, unless the ticket's entry was decided in the epoch.
        if let Some(epoch) = self.epoch.filter(has_ended) {
            let ended = waiting.ended.iter().find(|ended| ended.epoch == epoch).copied();
            match ended {
                Some(ended) if self.index.0 <= ended.decided => {}
                Some(ended) if self.index.0 > ended.proposed => {
                    return Poll::Ready(Err(not_master_error(None)));
                }
                _ => return Poll::Ready(Err(unknown_outcome())),
            }
        }
        // Checked again under the lock that `advance` holds: it may have passed this index since.
        if applied.index() >= self.index {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &waiting.failed {
            return Poll::Ready(Err(error.clone()));
        }
        let is_given_up = |(epoch, last)| self.epoch == Some(epoch) && self.index.0 <= last;
        if waiting.given_up.is_some_and(is_given_up) {
            return Poll::Ready(Err(late_decision()));
        }
        waiting.wakers.push_back((self.index.0, context.waker().clone()));
        Poll::Pending
    }
}

fn unknown_outcome() -> Error {
    Error::new(
        Reason::NoLongerMaster,
        "this node lost its mastership before the request was decided: it may have been applied; \
         read before retrying",
    )
}

fn late_decision() -> Error {
    Error::new(
        Reason::DeadlinePassed,
        "the request was not decided in time: the log's disk is full or hangs, or other members do \
         not answer; it may have been applied: read before retrying",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll(future: &mut AppliedWait<'_>) -> Poll<Result<()>> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn reason(future: &mut AppliedWait<'_>) -> Option<Reason> {
        match poll(future) {
            Poll::Ready(Err(error)) => Some(error.reason),
            _ => None,
        }
    }

    #[test]
    fn ticket_resolves_once_its_index_is_applied_in_its_epoch() {
        let applied = Applied::default();
        let mut ticket = applied.wait_applied(0, LogIndex(2));
        assert!(poll(&mut ticket).is_pending());
        applied.advance(LogIndex(2));
        assert_eq!(poll(&mut ticket), Poll::Ready(Ok(())));
        assert!(applied.is_applied(0, LogIndex(2)));
    }

    #[test]
    fn ticket_beyond_the_last_decided_index_of_its_ended_epoch_fails() {
        let applied = Applied::default();
        applied.advance(LogIndex(3));
        applied.end_epoch(LogIndex(4), LogIndex(6));
        applied.advance(LogIndex(10));
        assert_eq!(poll(&mut applied.wait_applied(0, LogIndex(4))), Poll::Ready(Ok(())));
        let reason_of = |index| reason(&mut applied.wait_applied(0, LogIndex(index)));
        assert_eq!(reason_of(5), Some(Reason::NoLongerMaster));
        assert_eq!(reason_of(6), Some(Reason::NoLongerMaster));
        assert_eq!(reason_of(7), Some(Reason::NotMaster));
        assert!(!applied.is_applied(0, LogIndex(5)));
    }

    #[test]
    fn shown_index_falls_back_to_applied_after_failed_snapshot() {
        let applied = Applied::default();
        applied.advance(LogIndex(3));
        assert_eq!(applied.visible_index(), LogIndex(3));
        applied.raise_visible(LogIndex(9));
        applied.raise_visible(LogIndex(5));
        assert_eq!((applied.visible_index(), applied.index()), (LogIndex(9), LogIndex(3)));
        applied.reset_visible();
        assert_eq!(applied.visible_index(), LogIndex(3));
    }

    #[test]
    fn ticket_decided_before_its_epoch_ended_waits_until_applied() {
        let applied = Applied::default();
        applied.end_epoch(LogIndex(4), LogIndex(4));
        let mut ticket = applied.wait_applied(0, LogIndex(4));
        assert!(poll(&mut ticket).is_pending());
        applied.advance(LogIndex(4));
        assert_eq!(poll(&mut ticket), Poll::Ready(Ok(())));
    }

    #[test]
    fn give_up_fails_tickets_up_to_its_index_and_later_ones_wait() {
        let applied = Applied::default();
        let mut tickets: Vec<_> = (1..=3).map(|n| applied.wait_applied(0, LogIndex(n))).collect();
        assert!(tickets.iter_mut().all(|ticket| poll(ticket).is_pending()));
        applied.give_up(LogIndex(2));
        assert_eq!(reason(&mut tickets[0]), Some(Reason::DeadlinePassed));
        assert_eq!(reason(&mut tickets[1]), Some(Reason::DeadlinePassed));
        assert!(poll(&mut tickets[2]).is_pending());
        assert!(
            poll(&mut applied.wait_reached(LogIndex(1))).is_pending(),
            "it has its own patience"
        );
        applied.advance(LogIndex(3));
        assert_eq!(
            poll(&mut applied.wait_applied(0, LogIndex(1))),
            Poll::Ready(Ok(())),
            "it happened"
        );
        applied.end_epoch(LogIndex(3), LogIndex(3));
        assert!(poll(&mut applied.wait_applied(1, LogIndex(4))).is_pending(), "another term");
    }

    #[test]
    fn ticket_of_a_forgotten_epoch_fails_though_applied() {
        let applied = Applied::default();
        for _ in 0..=ENDED_EPOCHS_MAX {
            applied.end_epoch(LogIndex(9), LogIndex(9));
        }
        applied.advance(LogIndex(9));
        let mut ticket = applied.wait_applied(0, LogIndex(1));
        assert_eq!(reason(&mut ticket), Some(Reason::NoLongerMaster));
    }
}
