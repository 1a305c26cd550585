//! Operation: a get or a put that this node coordinates, as a state machine behind a lock.
//!
//! An operation has no task. Its steps run where its events arise: in the client's future when it
//! begins, in the connection's task when a replica answers, in the loop of the store when the local
//! batch is applied, and in the loop of `operation_timers.rs` when a time is up. It holds this node
//! weakly: answers that are awaited must not keep a stopped node alive.
//!
//! Promises: the client's future resolves once; an operation goes on to its end if that future is
//! dropped, so that all replicas get a write and stale ones are repaired.
//! Never: calls a waiter or a handler that could call it again while it holds its lock.

use std::task::{Context, Poll, Waker};

/// Answer of an operation to its client, who awaits it.
#[derive(Debug)]
pub(super) enum ClientSlot<T> {
    /// There is no answer yet. The waker is of the client that has asked for it.
    Awaited(Option<Waker>),
    /// The client has not taken the answer yet.
    Answered(T),
    /// The client has taken the answer.
    Taken,
}

impl<T> ClientSlot<T> {
    /// Returns a slot without an answer.
    pub(super) fn new() -> ClientSlot<T> {
        ClientSlot::Awaited(None)
    }

    /// Returns true if there is no answer yet.
    pub(super) fn is_awaited(&self) -> bool {
        matches!(self, ClientSlot::Awaited(_))
    }

    /// Sets the answer, if there is none yet. Returns the waker of the client, to be woken without
    /// the operation's lock.
    #[must_use]
    pub(super) fn answer(&mut self, answer: T) -> Option<Waker> {
        match self {
            ClientSlot::Awaited(waker) => {
                let waker = waker.take();
                *self = ClientSlot::Answered(answer);
                waker
            }
            ClientSlot::Answered(_) | ClientSlot::Taken => None,
        }
    }

    /// Takes the answer, or has the client woken once there is one.
    pub(super) fn poll(&mut self, context: &Context<'_>) -> Poll<T> {
        match std::mem::replace(self, ClientSlot::Taken) {
            ClientSlot::Answered(answer) => Poll::Ready(answer),
            ClientSlot::Awaited(waker) => {
                let is_same = |waker: &Waker| waker.will_wake(context.waker());
                let waker = waker.filter(is_same).unwrap_or_else(|| context.waker().clone());
                *self = ClientSlot::Awaited(Some(waker));
                Poll::Pending
            }
            ClientSlot::Taken => Poll::Pending,
        }
    }
}

/// Wakes a client that awaits its answer, if there is one.
pub(super) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct WakeCount(AtomicUsize);

    impl Wake for WakeCount {
        fn wake(self: Arc<WakeCount>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn last_client_to_ask_is_woken_and_takes_the_first_answer_once() {
        let counts = [Arc::<WakeCount>::default(), Arc::default()];
        let wakers = counts.clone().map(Waker::from);
        let mut slot = ClientSlot::new();
        for waker in &wakers {
            assert!(slot.poll(&Context::from_waker(waker)).is_pending() && slot.is_awaited());
        }
        slot.answer(1).expect("a client asked").wake();
        assert!(slot.answer(2).is_none() && !slot.is_awaited());
        let woken = counts.map(|count| count.0.load(Ordering::SeqCst));
        assert_eq!(woken, [0, 1]);
        assert_eq!(slot.poll(&Context::from_waker(&wakers[0])), Poll::Ready(1));
        assert!(slot.poll(&Context::from_waker(&wakers[0])).is_pending());
        assert!(slot.answer(3).is_none());
    }

    #[test]
    fn answer_before_the_client_asks_wakes_nobody() {
        let mut slot = ClientSlot::new();
        assert!(slot.answer("done").is_none());
        assert_eq!(slot.poll(&Context::from_waker(Waker::noop())), Poll::Ready("done"));
    }
}
