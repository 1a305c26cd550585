//! Applied watermark of a group's log, and the waiters for their indexes.
//!
//! A ticket names an index *of an epoch*: the time from which this node is master until it no
//! longer is. An index alone does not tell whose entry stands there once another master has led.

use super::layout::Mark;
use super::mastership::not_master;
use base::{Error, LogIndex, Reason, Result};
use runtime::mutants::Mutant;
use runtime::sync::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// Number of epochs whose end is remembered. A ticket of an older one has an unknown outcome.
const TERMS_MAX: usize = 256;

/// Last applied index, and the waiters for later ones.
#[derive(Default)]
pub struct Applied {
    index: AtomicU64,
    /// Rows of entries behind this index are nowhere to be seen yet.
    shown: AtomicU64,
    /// Group time of the last applied entry, milliseconds: what reads compare expiries with.
    time: AtomicU64,
    /// The last entry that the store is known to hold durably.
    flushed: AtomicU64,
    epoch: AtomicU64,
    waiting: Mutex<WaitingTickets>,
}

#[derive(Default)]
struct WaitingTickets {
    /// In the order they came, which is nearly the order of their indexes.
    wakers: VecDeque<(u64, Waker)>,
    /// Ends of the last epochs, oldest first.
    ended: VecDeque<EndedEpoch>,
    /// Epoch and index up to which waiting was given up.
    late: Option<(u64, u64)>,
    failed: Option<Error>,
}

/// End of an epoch.
#[derive(Clone, Copy)]
struct EndedEpoch {
    epoch: u64,
    /// Last decided index of its entries.
    decided: u64,
    /// Last proposed index of its entries. Those in between may be decided yet, or not.
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
    pub fn shown(&self) -> LogIndex {
        if Mutant::IndexOfThePast.is_active() {
            return self.index();
        }
        self.index().max(LogIndex(self.shown.load(Ordering::Acquire)))
    }

    /// Rows of the entries up to here will be seen from now on, one entry after the other.
    pub fn shows(&self, upto: LogIndex) {
        // A reader that sees such a row sees this, too: the store publishes it behind this.
        self.shown.fetch_max(upto.0, Ordering::Release);
    }

    /// Lowers `shown` to the applied index, after a snapshot that could not be installed.
    pub fn shows_no_more(&self) {
        self.shown.store(self.index().0, Ordering::Release);
    }

    /// Group time of the last applied entry, milliseconds.
    #[inline]
    pub fn time(&self) -> u64 {
        self.time.load(Ordering::Acquire)
    }

    /// An entry of this time was applied; it does not count before [`Applied::advance`].
    pub(super) fn set_time(&self, time: u64) {
        self.time.store(time, Ordering::Release);
    }

    /// The last entry that the store is known to hold durably.
    pub fn flushed(&self) -> LogIndex {
        LogIndex(self.flushed.load(Ordering::Relaxed))
    }

    /// The store holds everything up to here durably.
    pub fn set_flushed(&self, upto: LogIndex) {
        self.flushed.store(upto.0, Ordering::Relaxed);
    }

    /// Raises what the store holds durably, unless it is known to hold more.
    pub(super) fn raise_flushed(&self, upto: LogIndex) {
        self.flushed.fetch_max(upto.0, Ordering::Relaxed);
    }

    /// The epoch that tickets are given for now.
    #[inline]
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Publishes that everything up to here is applied and visible. Wakes the waiters for it.
    pub fn advance(&self, upto: LogIndex) {
        let due = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            // Under the lock, so that nobody registers between this store and the search below.
            self.index.store(upto.0, Ordering::Release);
            let mut due = Vec::new();
            for _ in 0..waiting.wakers.len() {
                let Some((index, waker)) = waiting.wakers.pop_front() else { break };
                if index <= upto.0 {
                    due.push(waker);
                } else {
                    waiting.wakers.push_back((index, waker));
                }
            }
            due
        };
        due.into_iter().for_each(Waker::wake);
    }

    /// Ends the epoch: of its entries, those up to `decided` stand, those up to `proposed` may yet
    /// be decided, the others never left this node. Must be called before another entry can take
    /// one of these indexes.
    pub fn end_term(&self, decided: LogIndex, proposed: LogIndex) {
        let wakers = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            let epoch = self.epoch();
            if waiting.ended.len() == TERMS_MAX {
                waiting.ended.pop_front();
            }
            waiting.ended.push_back(EndedEpoch { epoch, decided: decided.0, proposed: proposed.0 });
            self.epoch.store(epoch + 1, Ordering::Release);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Ends the waits for entries of this epoch up to this index that are not applied yet, with
    /// [`Reason::DeadlinePassed`]: the entries may still be applied later.
    pub fn give_up(&self, upto: LogIndex) {
        let wakers = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            let late = Some((self.epoch(), upto.0));
            if waiting.late == late {
                return;
            }
            waiting.late = late;
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Ends all waits with an error: nothing more will be applied here.
    pub fn fail(&self, error: Error) {
        let wakers = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            waiting.failed.get_or_insert(error);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Waits until `index` is applied, whichever master proposed the entry there.
    pub fn reached(&self, index: LogIndex) -> AppliedWait<'_> {
        AppliedWait { applied: self, index, epoch: None }
    }

    /// Waits until `index` is applied as it was proposed in `epoch`.
    pub fn settled(&self, epoch: u64, index: LogIndex) -> AppliedWait<'_> {
        AppliedWait { applied: self, index, epoch: Some(epoch) }
    }

    /// Returns true if everything up to there is applied as it was proposed in that epoch.
    pub fn has(&self, epoch: u64, index: LogIndex) -> bool {
        // In this order: an entry applied while the epoch lasts was proposed in it.
        self.index() >= index && (self.epoch() == epoch || Mutant::TicketsWithoutTerms.is_active())
    }
}

/// See [`Applied::reached`] and [`Applied::settled`].
pub struct AppliedWait<'a> {
    applied: &'a Applied,
    index: LogIndex,
    epoch: Option<u64>,
}

impl Future for AppliedWait<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let applied = self.applied;
        if self.epoch.map_or(applied.index() >= self.index, |epoch| applied.has(epoch, self.index))
        {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = applied.waiting.lock().expect("no one panics while holding it");
        let over =
            |epoch: &u64| *epoch != applied.epoch() && !Mutant::TicketsWithoutTerms.is_active();
        // The epoch before the index: once it has ended, another entry may stand at the index,
        // unless the ticket's own was decided in the epoch.
        if let Some(epoch) = self.epoch.filter(over) {
            let ended = waiting.ended.iter().find(|ended| ended.epoch == epoch).copied();
            match ended {
                Some(ended) if self.index.0 <= ended.decided => {}
                Some(ended) if self.index.0 > ended.proposed => {
                    return Poll::Ready(Err(not_master(None)));
                }
                _ => return Poll::Ready(Err(unknown())),
            }
        }
        // Again, under the lock that `advance` takes: it may have passed this index since.
        if applied.index() >= self.index {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &waiting.failed {
            return Poll::Ready(Err(error.clone()));
        }
        let late = |(epoch, upto)| self.epoch == Some(epoch) && self.index.0 <= upto;
        if waiting.late.is_some_and(late) {
            return Poll::Ready(Err(late_decision()));
        }
        waiting.wakers.push_back((self.index.0, context.waker().clone()));
        Poll::Pending
    }
}

fn unknown() -> Error {
    Error::new(
        Reason::NoLongerMaster,
        "this node lost its mastership before this was known to be decided: it may have happened; \
         read before retrying",
    )
}

fn late_decision() -> Error {
    Error::new(
        Reason::DeadlinePassed,
        "this was not written in time: the log's disk is full or hangs, or other members do not \
         answer; it may have happened: read before retrying",
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
    fn a_ticket_is_good_once_its_index_is_applied_in_its_term() {
        let applied = Applied::default();
        let mut ticket = applied.settled(0, LogIndex(2));
        assert!(poll(&mut ticket).is_pending());
        applied.advance(LogIndex(2));
        assert_eq!(poll(&mut ticket), Poll::Ready(Ok(())));
        assert!(applied.has(0, LogIndex(2)));
    }

    #[test]
    fn another_masters_value_at_the_same_index_makes_no_ticket_good() {
        let applied = Applied::default();
        applied.advance(LogIndex(3));
        applied.end_term(LogIndex(4), LogIndex(6));
        applied.advance(LogIndex(10));
        assert_eq!(poll(&mut applied.settled(0, LogIndex(4))), Poll::Ready(Ok(())));
        let of = |index| reason(&mut applied.settled(0, LogIndex(index)));
        assert_eq!(of(5), Some(Reason::NoLongerMaster));
        assert_eq!(of(6), Some(Reason::NoLongerMaster));
        assert_eq!(of(7), Some(Reason::NotMaster));
        assert!(!applied.has(0, LogIndex(5)));
    }

    #[test]
    fn what_did_not_come_is_shown_no_more() {
        let applied = Applied::default();
        applied.advance(LogIndex(3));
        assert_eq!(applied.shown(), LogIndex(3));
        applied.shows(LogIndex(9));
        applied.shows(LogIndex(5));
        assert_eq!((applied.shown(), applied.index()), (LogIndex(9), LogIndex(3)));
        applied.shows_no_more();
        assert_eq!(applied.shown(), LogIndex(3));
    }

    #[test]
    fn what_was_decided_when_the_term_ended_is_still_waited_for() {
        let applied = Applied::default();
        applied.end_term(LogIndex(4), LogIndex(4));
        let mut ticket = applied.settled(0, LogIndex(4));
        assert!(poll(&mut ticket).is_pending());
        applied.advance(LogIndex(4));
        assert_eq!(poll(&mut ticket), Poll::Ready(Ok(())));
    }

    #[test]
    fn who_has_waited_long_enough_is_told_and_others_wait_on() {
        let applied = Applied::default();
        let mut tickets: Vec<_> = (1..=3).map(|n| applied.settled(0, LogIndex(n))).collect();
        assert!(tickets.iter_mut().all(|ticket| poll(ticket).is_pending()));
        applied.give_up(LogIndex(2));
        assert_eq!(reason(&mut tickets[0]), Some(Reason::DeadlinePassed));
        assert_eq!(reason(&mut tickets[1]), Some(Reason::DeadlinePassed));
        assert!(poll(&mut tickets[2]).is_pending());
        assert!(poll(&mut applied.reached(LogIndex(1))).is_pending(), "it has its own patience");
        applied.advance(LogIndex(3));
        assert_eq!(poll(&mut applied.settled(0, LogIndex(1))), Poll::Ready(Ok(())), "it happened");
        applied.end_term(LogIndex(3), LogIndex(3));
        assert!(poll(&mut applied.settled(1, LogIndex(4))).is_pending(), "another term");
    }

    #[test]
    fn a_term_that_is_forgotten_leaves_its_tickets_in_doubt() {
        let applied = Applied::default();
        for _ in 0..=TERMS_MAX {
            applied.end_term(LogIndex(9), LogIndex(9));
        }
        applied.advance(LogIndex(9));
        let mut ticket = applied.settled(0, LogIndex(1));
        assert_eq!(reason(&mut ticket), Some(Reason::NoLongerMaster));
    }
}
