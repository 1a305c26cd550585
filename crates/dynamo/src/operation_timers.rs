//! Timers of operations: one ordered queue and one loop for the times of all gets and puts in
//! progress.
//!
//! Nearly all operations end long before their first time is up. So a time is only an entry in the
//! queue, and the loop sleeps until the earliest one that it has seen, whether or not that
//! operation has ended since.
//!
//! Promises: an operation in progress is in the queue; the loop ends after the last operation, and
//! none begins afterwards.
//! Never: holds its lock while it calls an operation.

use crate::Available;
use base::Result;
use base::error::shutting_down;
use runtime::world::sleep;
use runtime::{round, world};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::sync::Notify;

/// Operation whose time may be up.
pub(super) trait TimedOperation: Send + Sync {
    /// Handles the time that it was scheduled for. It has been taken out of the queue, and
    /// schedules its next time itself, unless it has ended.
    fn on_time(self: Arc<Self>, available: &Arc<Available>);
}

/// Place of an operation in the queue: its time in milliseconds of this node's clock, and its
/// number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TimerKey {
    due_ms: u64,
    number: u64,
}

/// See the head of this file.
pub struct OperationTimers {
    queue: Mutex<TimerQueue>,
    /// Signals an operation that is due before the loop would look again, or the end of the last
    /// one.
    changed: Notify,
}

struct TimerQueue {
    operations: BTreeMap<TimerKey, Arc<dyn TimedOperation>>,
    last_number: u64,
    /// Time at which the loop looks again. `u64::MAX`: once it is woken.
    next_look_ms: u64,
    stopping: bool,
    /// True once the loop has ended.
    closed: bool,
}

impl Default for OperationTimers {
    fn default() -> OperationTimers {
        let queue = TimerQueue {
            operations: BTreeMap::new(),
            last_number: 0,
            next_look_ms: u64::MAX,
            stopping: false,
            closed: false,
        };
        OperationTimers { queue: Mutex::new(queue), changed: Notify::new() }
    }
}

impl OperationTimers {
    fn queue(&self) -> MutexGuard<'_, TimerQueue> {
        self.queue.lock().expect("no one panics while holding it")
    }

    /// Adds an operation that is due at this time. Errors: the node stops.
    pub(super) fn schedule(
        &self,
        due_ms: u64,
        operation: Arc<dyn TimedOperation>,
    ) -> Result<TimerKey> {
        let mut queue = self.queue();
        if queue.closed {
            return Err(shutting_down());
        }
        queue.last_number += 1;
        let key = TimerKey { due_ms, number: queue.last_number };
        queue.operations.insert(key, operation);
        if due_ms < queue.next_look_ms {
            queue.next_look_ms = due_ms;
            self.changed.notify_one();
        }
        Ok(key)
    }

    /// Removes an operation.
    pub(super) fn remove(&self, key: TimerKey) {
        let mut queue = self.queue();
        queue.operations.remove(&key);
        if queue.stopping && queue.operations.is_empty() {
            self.changed.notify_one();
        }
    }

    /// Returns the number of operations in progress.
    pub fn count(&self) -> usize {
        self.queue().operations.len()
    }

    /// Plans the next look. `stopping`: the node stops. Returns the time until then, which is
    /// `None` if only a signal ends it; an error ends the loop.
    fn plan_look(&self, stopping: bool) -> std::result::Result<Option<Duration>, ()> {
        let mut queue = self.queue();
        queue.stopping = stopping;
        let first = queue.operations.first_key_value().map(|(key, _)| key.due_ms);
        if stopping && first.is_none() {
            queue.closed = true;
            return Err(());
        }
        queue.next_look_ms = first.unwrap_or(u64::MAX);
        let until = |due_ms: u64| due_ms.saturating_sub(world::milliseconds());
        Ok(first.map(|due_ms| Duration::from_millis(until(due_ms))))
    }

    /// Ends the queue as the loop does when the node stops and nothing is in progress.
    #[cfg(test)]
    pub(super) fn close(&self) {
        self.queue().closed = true;
    }

    /// Calls the operations whose time is up.
    pub(super) fn call_due(&self, available: &Arc<Available>) {
        while let Some(operation) = self.take_due() {
            operation.on_time(available);
        }
    }

    /// Takes an operation whose time is up.
    fn take_due(&self) -> Option<Arc<dyn TimedOperation>> {
        let mut queue = self.queue();
        let first = queue.operations.first_entry()?;
        (first.key().due_ms <= world::milliseconds()).then(|| first.remove())
    }
}

/// Calls the operations whose time is up, until the node stops and none is left.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.cancellation_token().clone();
    let timers = &available.operation_timers;
    let mut stopping = false;
    while let Ok(wait) = timers.plan_look(stopping) {
        tokio::select! {
            biased;
            () = round::rest(timers.changed.notified()) => {}
            () = stop.cancelled(), if !stopping => stopping = true,
            () = sleep(wait.unwrap_or_default()), if wait.is_some() => {}
        }
        timers.call_due(&available);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct IdleOperation;

    impl TimedOperation for IdleOperation {
        fn on_time(self: Arc<IdleOperation>, _available: &Arc<Available>) {}
    }

    fn schedule(timers: &OperationTimers, due_ms: u64) -> TimerKey {
        timers.schedule(due_ms, Arc::new(IdleOperation)).expect("it is open")
    }

    #[test]
    fn due_operations_are_taken_in_the_order_of_their_times() {
        world::set_time(Some(0));
        let timers = OperationTimers::default();
        let keys = [700, 500, 600, 500].map(|due_ms| schedule(&timers, due_ms));
        assert_eq!(timers.plan_look(false), Ok(Some(Duration::from_millis(500))));
        assert!(timers.take_due().is_none());
        timers.remove(keys[1]);
        world::set_time(Some(600_000_000));
        assert!(timers.take_due().is_some() && timers.take_due().is_some());
        assert!(timers.take_due().is_none());
        assert_eq!(
            (timers.count(), timers.plan_look(false)),
            (1, Ok(Some(Duration::from_millis(100))))
        );
        timers.remove(keys[0]);
        assert_eq!(timers.plan_look(false), Ok(None));
        world::set_time(None);
    }

    #[test]
    fn loop_is_signalled_only_for_an_earlier_time_than_it_waits_for() {
        world::set_time(Some(0));
        let timers = OperationTimers::default();
        let is_signalled = || {
            let mut signal = std::pin::pin!(timers.changed.notified());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            signal.as_mut().poll(&mut context).is_ready()
        };
        assert_eq!(timers.plan_look(false), Ok(None));
        let first = schedule(&timers, 500);
        assert!(is_signalled(), "the loop waits for nothing else");
        assert_eq!(timers.plan_look(false), Ok(Some(Duration::from_millis(500))));
        timers.remove(first);
        let second = schedule(&timers, 500);
        schedule(&timers, 700);
        assert!(!is_signalled(), "the loop looks then anyway");
        schedule(&timers, 40);
        assert!(is_signalled());
        timers.remove(second);
        assert!(!is_signalled());
        world::set_time(None);
    }

    #[test]
    fn stopping_queue_closes_after_its_last_operation() {
        let timers = OperationTimers::default();
        let last = schedule(&timers, u64::MAX);
        assert!(timers.plan_look(true).is_ok());
        let late = schedule(&timers, u64::MAX);
        timers.remove(last);
        assert!(timers.plan_look(true).is_ok(), "one is left");
        timers.remove(late);
        assert_eq!(timers.plan_look(true), Err(()));
        assert!(timers.schedule(1, Arc::new(IdleOperation)).is_err(), "nobody would call it");
    }
}
