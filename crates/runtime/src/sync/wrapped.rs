//! Lock and condition variable of the standard library with a scheduling point before each lock,
//! and waits that other threads end, under the scheduler of `thread_scheduler.rs`. Without it they
//! behave like the wrapped types.

use super::thread_scheduler::{is_scheduled, point, wait_for_others};
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
        let wrap = |guard| MutexGuard { mutex: self, guard };
        let poisoned = |error: PoisonError<_>| Err(PoisonError::new(wrap(error.into_inner())));
        while is_scheduled() {
            match self.0.try_lock() {
                Ok(guard) => return Ok(wrap(guard)),
                Err(TryLockError::Poisoned(error)) => return poisoned(error),
                Err(TryLockError::WouldBlock) => wait_for_others(),
            }
        }
        self.0.lock().map_or_else(poisoned, |guard| Ok(wrap(guard)))
    }

    /// Locks if no thread holds it.
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        point();
        let wrap = |guard| MutexGuard { mutex: self, guard };
        match self.0.try_lock() {
            Ok(guard) => Ok(wrap(guard)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(error)) => {
                let error = PoisonError::new(wrap(error.into_inner()));
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
    inner: std::sync::Condvar,
    /// Number of notifications so far.
    notifications: AtomicU64,
}

impl Condvar {
    /// Builds a condition variable.
    pub fn new() -> Condvar {
        Condvar::default()
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.notifications.fetch_add(1, Ordering::AcqRel);
        self.inner.notify_one();
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.notifications.fetch_add(1, Ordering::AcqRel);
        self.inner.notify_all();
    }

    /// Waits for a notification.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let MutexGuard { mutex, guard } = guard;
        if !is_scheduled() {
            let rewrap = |guard| MutexGuard { mutex, guard };
            return match self.inner.wait(guard) {
                Ok(guard) => Ok(rewrap(guard)),
                Err(error) => Err(PoisonError::new(rewrap(error.into_inner()))),
            };
        }
        let seen = self.notifications.load(Ordering::Acquire);
        drop(guard);
        while self.notifications.load(Ordering::Acquire) == seen {
            wait_for_others();
        }
        mutex.lock()
    }

    /// Waits for a notification, or for at most `timeout`. Returns true if it timed out. Under the
    /// scheduler no time passes: the wait always times out, after another thread has run.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, bool)> {
        let MutexGuard { mutex, guard } = guard;
        if !is_scheduled() {
            let rewrap = |guard| MutexGuard { mutex, guard };
            return match self.inner.wait_timeout(guard, timeout) {
                Ok((guard, result)) => Ok((rewrap(guard), result.timed_out())),
                Err(error) => {
                    let (guard, result) = error.into_inner();
                    Err(PoisonError::new((rewrap(guard), result.timed_out())))
                }
            };
        }
        drop(guard);
        wait_for_others();
        match mutex.lock() {
            Ok(guard) => Ok((guard, true)),
            Err(error) => Err(PoisonError::new((error.into_inner(), true))),
        }
    }
}
