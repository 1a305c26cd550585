//! Who waits for which index of a group's log.

use base::{Error, LogIndex, Result};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

/// The last applied index, and those who wait for a later one.
#[derive(Default)]
pub(crate) struct Applied {
    index: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// In the order they came, which is nearly the order of their indexes.
    wakers: VecDeque<(u64, Waker)>,
    failed: Option<Error>,
}

impl Applied {
    /// The last applied index.
    #[inline]
    pub(crate) fn index(&self) -> LogIndex {
        LogIndex(self.index.load(Ordering::Acquire))
    }

    /// Everything up to here is applied and visible; wakes who waited for it.
    pub(crate) fn advance(&self, upto: LogIndex) {
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

    /// Nothing more will be applied here.
    pub(crate) fn fail(&self, error: Error) {
        let wakers = {
            let mut waiting = self.waiting.lock().expect("no one panics while holding it");
            waiting.failed.get_or_insert(error);
            std::mem::take(&mut waiting.wakers)
        };
        wakers.into_iter().for_each(|(_, waker)| waker.wake());
    }

    /// Waits until `index` is applied.
    pub(crate) fn reached(&self, index: LogIndex) -> Reached<'_> {
        Reached { applied: self, index }
    }
}

/// See [`Applied::reached`].
pub(crate) struct Reached<'a> {
    applied: &'a Applied,
    index: LogIndex,
}

impl Future for Reached<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.applied.index() >= self.index {
            return Poll::Ready(Ok(()));
        }
        let mut waiting = self.applied.waiting.lock().expect("no one panics while holding it");
        if self.applied.index() >= self.index {
            return Poll::Ready(Ok(()));
        }
        if let Some(error) = &waiting.failed {
            return Poll::Ready(Err(error.clone()));
        }
        waiting.wakers.push_back((self.index.0, context.waker().clone()));
        Poll::Pending
    }
}
