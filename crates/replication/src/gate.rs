//! The lock around a group's state, which its driver gets within one evaluation.
//!
//! Updates are evaluated under this lock by as many threads as clients keep busy, and a mutex of
//! the standard library is not fair: a late caller may get it before one that waits, for long. The
//! driver must not wait so: without its heartbeats the group loses its master.
//!
//! The lock has two kinds of callers. An *urgent* one announces itself before it waits. A *patient*
//! one checks for urgent ones before it takes the lock and once more when it has it, and releases
//! it if one waits. Therefore an urgent caller waits for the one evaluation that was under way when
//! it came, and for no other: every later holder is urgent too, or releases the lock at once.

use runtime::sync::{Mutex, MutexGuard};
use std::sync::TryLockError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// See the head of this file.
pub struct Gate<T> {
    inside: Mutex<T>,
    /// Number of urgent callers that wait.
    urgent: AtomicUsize,
    /// Held by the urgent caller whose turn is next, while it waits. Patient callers wait here.
    turn: Mutex<()>,
}

const NO_PANIC: &str = "no one panics while holding it";

impl<T> Gate<T> {
    pub fn new(inside: T) -> Gate<T> {
        Gate { inside: Mutex::new(inside), urgent: AtomicUsize::new(0), turn: Mutex::new(()) }
    }

    /// Locks for the driver, and for a caller that only reads or notes something.
    pub fn urgent(&self) -> MutexGuard<'_, T> {
        match self.inside.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Poisoned(_)) => panic!("{NO_PANIC}"),
        }
        // Before it waits: a patient one that takes the lock behind this line gives it back.
        self.urgent.fetch_add(1, Ordering::SeqCst);
        let turn = self.turn.lock().expect(NO_PANIC);
        let guard = self.inside.lock().expect(NO_PANIC);
        self.urgent.fetch_sub(1, Ordering::SeqCst);
        drop(turn);
        guard
    }

    /// Locks for an evaluation.
    #[inline]
    pub fn patient(&self) -> MutexGuard<'_, T> {
        loop {
            if self.urgent.load(Ordering::SeqCst) == 0 {
                let guard = self.inside.lock().expect(NO_PANIC);
                // It may have come while this one waited with others for the lock.
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
    fn whoever_is_urgent_waits_for_one_evaluation_at_most() {
        const EVALUATIONS: usize = 8;
        for _ in 0..20 {
            let (gate, came) = (Gate::new(Vec::new()), AtomicUsize::new(0));
            thread::scope(|scope| {
                let under_way = gate.patient();
                for _ in 0..EVALUATIONS {
                    scope.spawn(|| {
                        came.fetch_add(1, Ordering::SeqCst);
                        gate.patient().push("an evaluation");
                    });
                }
                let wait_until = |holds: &dyn Fn() -> bool| {
                    while !holds() {
                        thread::sleep(Duration::from_millis(1));
                    }
                };
                // They wait for the lock before the driver does.
                wait_until(&|| came.load(Ordering::SeqCst) == EVALUATIONS);
                scope.spawn(|| gate.urgent().push("the driver"));
                wait_until(&|| gate.urgent.load(Ordering::SeqCst) == 1);
                drop(under_way);
            });
            let inside = gate.urgent();
            assert_eq!(inside.len(), EVALUATIONS + 1, "everybody had a turn");
            assert_eq!(inside[0], "the driver");
        }
    }

    #[test]
    fn whoever_is_patient_gets_its_turn_as_well() {
        let (gate, done) = (Gate::new(0_u64), AtomicUsize::new(0));
        thread::scope(|scope| {
            for urgent in [false, false, true, true] {
                let (gate, done) = (&gate, &done);
                scope.spawn(move || {
                    for _ in 0..10_000 {
                        *(if urgent { gate.urgent() } else { gate.patient() }) += 1;
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((done.into_inner(), *gate.patient()), (4, 40_000), "and nothing was lost");
    }
}
