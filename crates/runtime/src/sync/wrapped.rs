//! Lock and condition variable of the standard library with a scheduling point before each lock,
//! and waits that other threads end, under the scheduler of `turns.rs`. Without it they behave as
//! what they wrap.

use super::turns::{point, takes_turns, wait};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

/// Wrapper of [`std::sync::Mutex`].
#[derive(Default)]
pub struct Mutex<T>(std::sync::Mutex<T>);

/// Guard of a locked [`Mutex`].
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
    guard: std::sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    /// Wraps a value.
    pub fn new(value: T) -> Mutex<T> {
        Mutex(std::sync::Mutex::new(value))
    }

    /// Locks, letting other threads of the simulation run first.
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        point();
        let guarded = |guard| MutexGuard { mutex: self, guard };
        let poisoned = |error: PoisonError<_>| Err(PoisonError::new(guarded(error.into_inner())));
        while takes_turns() {
            match self.0.try_lock() {
                Ok(guard) => return Ok(guarded(guard)),
                Err(TryLockError::Poisoned(error)) => return poisoned(error),
                Err(TryLockError::WouldBlock) => wait(),
            }
        }
        self.0.lock().map_or_else(poisoned, |guard| Ok(guarded(guard)))
    }

    /// Locks if no thread holds it.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        point();
        let guarded = |guard| MutexGuard { mutex: self, guard };
        match self.0.try_lock() {
            Ok(guard) => Ok(guarded(guard)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(error)) => {
                let error = PoisonError::new(guarded(error.into_inner()));
                Err(TryLockError::Poisoned(error))
            }
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}

/// Wrapper of [`std::sync::Condvar`].
#[derive(Default)]
pub struct Condvar {
    real: std::sync::Condvar,
    /// Number of notifications so far.
    notified: AtomicU64,
}

impl Condvar {
    /// Builds a condition variable.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.notified.fetch_add(1, Ordering::AcqRel);
        self.real.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.notified.fetch_add(1, Ordering::AcqRel);
        self.real.notify_all();
    }

    /// Waits for a notification.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { mutex, guard } = guard;
        if !takes_turns() {
            let again = |guard| MutexGuard { mutex, guard };
            return match self.real.wait(guard) {
                Ok(guard) => Ok(again(guard)),
                Err(error) => Err(PoisonError::new(again(error.into_inner()))),
            };
        }
        let seen = self.notified.load(Ordering::Acquire);
        drop(guard);
        while self.notified.load(Ordering::Acquire) == seen {
            wait();
        }
        mutex.lock()
    }

    /// Waits for a notification, or for at most `pause`. Returns true if it timed out. Under the
    /// scheduler no time passes: the wait always times out, after another thread has run.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        pause: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        let MutexGuard { mutex, guard } = guard;
        if !takes_turns() {
            let again = |guard| MutexGuard { mutex, guard };
            return match self.real.wait_timeout(guard, pause) {
                Ok((guard, over)) => Ok((again(guard), over.timed_out())),
                Err(error) => {
                    let (guard, over) = error.into_inner();
                    Err(PoisonError::new((again(guard), over.timed_out())))
                }
            };
        }
        drop(guard);
        wait();
        match mutex.lock() {
            Ok(guard) => Ok((guard, true)),
            Err(error) => Err(PoisonError::new((error.into_inner(), true))),
        }
    }
}
