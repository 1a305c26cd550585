//! The lock around a group's state, which its driver gets within one evaluation.
//!
//! Updates are evaluated under this lock by as many threads as clients keep busy, and a mutex of
//! the standard library is not fair: a late caller may get it before one that waits, for long. The
//! driver must not wait so: without its heartbeats the group loses its master.
//!
//! The lock has two kinds of callers. An *urgent* one announces itself before it waits. A *patient*
//! one checks for urgent ones before it takes the lock and once more when it has it, and releases
//! it if one waits. Therefore an urgent caller waits for the one evaluation that was under way when
//! it came, and for no other: every later holder is urgent too, or releases the lock at once. A run
//! of sets (`set_run.rs`), which is bounded, counts as one evaluation.

use runtime::sync::{Mutex, MutexGuard};
use std::sync::TryLockError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the head of this file.
pub struct Gate<T> {
    value: Mutex<T>,
    /// Number of urgent callers that wait.
    urgent: AtomicUsize,
    /// Held by the urgent caller whose turn is next, while it waits. Patient callers wait here.
    turn: Mutex<()>,
}

const NO_PANIC: &str = "no one panics while holding it";

impl<T> Gate<T> {
    pub fn new(value: T) -> Gate<T> {
        Gate { value: Mutex::new(value), urgent: AtomicUsize::new(0), turn: Mutex::new(()) }
    }

    /// Locks for the driver, and for a caller that holds the lock only for an instant.
    pub fn lock_urgent(&self) -> MutexGuard<'_, T> {
        match self.value.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Poisoned(_)) => panic!("{NO_PANIC}"),
        }
        // Before it waits: a patient caller that takes the lock after this line releases it.
        self.urgent.fetch_add(1, Ordering::SeqCst);
        let turn = self.turn.lock().expect(NO_PANIC);
        let guard = self.value.lock().expect(NO_PANIC);
        self.urgent.fetch_sub(1, Ordering::SeqCst);
        drop(turn);
        guard
    }

    /// Locks for an evaluation, if nobody holds the lock, and no urgent caller waits for it.
    #[inline]
    pub fn try_lock_patient(&self) -> Option<MutexGuard<'_, T>> {
        if self.urgent.load(Ordering::SeqCst) != 0 {
            return None;
        }
        let guard = self.value.try_lock().ok()?;
        // As below: an urgent caller that came between must not wait for this evaluation.
        (self.urgent.load(Ordering::SeqCst) == 0).then_some(guard)
    }

    /// Locks for an evaluation.
    #[inline]
    pub fn lock_patient(&self) -> MutexGuard<'_, T> {
        loop {
            if self.urgent.load(Ordering::SeqCst) == 0 {
                let guard = self.value.lock().expect(NO_PANIC);
                // An urgent caller may have arrived while this one waited for the lock.
                if self.urgent.load(Ordering::SeqCst) == 0 {
                    return guard;
                }
            }
            drop(self.turn.lock().expect(NO_PANIC));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn urgent_lock_caller_waits_for_at_most_one_evaluation() {
        const EVALUATIONS: usize = 8;
        for _ in 0..20 {
            let (gate, arrived) = (Gate::new(Vec::new()), AtomicUsize::new(0));
            thread::scope(|scope| {
                let under_way = gate.lock_patient();
                for _ in 0..EVALUATIONS {
                    scope.spawn(|| {
                        arrived.fetch_add(1, Ordering::SeqCst);
                        gate.lock_patient().push("an evaluation");
                    });
                }
                let wait_until = |holds: &dyn Fn() -> bool| {
                    while !holds() {
                        thread::sleep(Duration::from_millis(1));
                    }
                };
                // All evaluations wait for the lock before the driver does.
                wait_until(&|| arrived.load(Ordering::SeqCst) == EVALUATIONS);
                scope.spawn(|| gate.lock_urgent().push("the driver"));
                wait_until(&|| gate.urgent.load(Ordering::SeqCst) == 1);
                drop(under_way);
            });
            let value = gate.lock_urgent();
            assert_eq!(value.len(), EVALUATIONS + 1, "everybody had a turn");
            assert_eq!(value[0], "the driver");
        }
    }

    #[test]
    fn attempt_to_lock_fails_while_the_lock_is_held_or_an_urgent_caller_waits() {
        let gate = Gate::new("value");
        let held = gate.try_lock_patient().expect("nobody holds it");
        assert!(gate.try_lock_patient().is_none());
        drop(held);
        gate.urgent.fetch_add(1, Ordering::SeqCst);
        assert!(gate.try_lock_patient().is_none(), "its evaluation would come before the driver");
        gate.urgent.fetch_sub(1, Ordering::SeqCst);
        assert_eq!(*gate.try_lock_patient().expect("it is free again"), "value");
    }

    #[test]
    fn patient_lock_callers_progress_beside_urgent_ones() {
        let (gate, done) = (Gate::new(0_u64), AtomicUsize::new(0));
        thread::scope(|scope| {
            for urgent in [false, false, true, true] {
                let (gate, done) = (&gate, &done);
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        *(if urgent { gate.lock_urgent() } else { gate.lock_patient() }) += 1;
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((done.into_inner(), *gate.lock_patient()), (4, 40_000), "and nothing was lost");
    }
}
