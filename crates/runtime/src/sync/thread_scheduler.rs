//! Deterministic scheduler of test threads: one runs at a time, and at each lock or wait a seeded
//! random number chooses the next.
//!
//! Promises: one seed is one interleaving, as long as the threads use neither clock nor randomness.
//! Never: affects threads of a test that does not use it.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Number of points after which the threads of a test are assumed to be in a deadlock.
const POINTS_MAX: u64 = 200_000;

thread_local! {
    /// Scheduler of this thread, and the thread's slot in it. `None`: the thread is not scheduled.
    static THREAD_SLOT: RefCell<Option<(Arc<ThreadScheduler>, usize)>> =
        const { RefCell::new(None) };
}

/// Scheduler; see the head of this file.
pub struct ThreadScheduler {
    state: Mutex<State>,
    turn_changed: Condvar,
}

struct State {
    rng_state: u64,
    /// Odds of a switch: another thread runs after one in this many points.
    switch_one_in: u64,
    /// Slot of the thread that runs.
    current: usize,
    active: Vec<bool>,
    point_count: u64,
}

/// Body of a test thread.
pub type ThreadBody<'a> = Box<dyn FnOnce() + Send + 'a>;

impl ThreadScheduler {
    /// Runs these threads to their end in the interleaving of a seed.
    pub fn run(seed: u64, bodies: Vec<ThreadBody>) {
        let mut state = State {
            rng_state: seed ^ 0x1A7E_41EA_F5EE_D000,
            switch_one_in: 1,
            current: 0,
            active: vec![true; bodies.len()],
            point_count: 0,
        };
        state.switch_one_in = [1, 2, 4, 16][state.below(4)];
        state.choose_next();
        let scheduler =
            Arc::new(ThreadScheduler { state: Mutex::new(state), turn_changed: Condvar::new() });
        std::thread::scope(|scope| {
            for (slot, body) in bodies.into_iter().enumerate() {
                let scheduler = scheduler.clone();
                scope.spawn(move || {
                    THREAD_SLOT.set(Some((scheduler.clone(), slot)));
                    let _guard = SlotGuard(scheduler.clone(), slot);
                    scheduler.wait_turn(scheduler.lock(), slot);
                    body();
                });
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no one panics while holding it")
    }

    /// Blocks until it is this slot's turn.
    fn wait_turn(&self, mut state: MutexGuard<'_, State>, slot: usize) {
        while state.current != slot {
            state = self.turn_changed.wait(state).expect("no one panics while holding it");
        }
    }
}

impl State {
    /// Returns a number below `end` (SplitMix64).
    fn below(&mut self, end: u64) -> usize {
        self.rng_state = self.rng_state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.rng_state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % end) as usize
    }

    /// Draws the next thread to run.
    fn choose_next(&mut self) {
        let candidates = (0..self.active.len()).filter(|slot| self.active[*slot]);
        let candidates: Vec<_> = candidates.collect();
        if !candidates.is_empty() {
            self.current = candidates[self.below(candidates.len() as u64)];
        }
    }
}

/// Guard that removes a thread from the schedule, even after a panic, so that the others continue.
struct SlotGuard(Arc<ThreadScheduler>, usize);

impl Drop for SlotGuard {
    fn drop(&mut self) {
        THREAD_SLOT.set(None);
        let mut state = self.0.lock();
        state.active[self.1] = false;
        state.choose_next();
        self.0.turn_changed.notify_all();
    }
}

/// Lets another thread run: always if `must_switch` (this one can't continue before), otherwise by
/// chance.
fn yield_turn(must_switch: bool) {
    let Some((scheduler, slot)) = THREAD_SLOT.with_borrow(Clone::clone) else { return };
    if std::thread::panicking() {
        return; // The thread is unwinding and runs to its end.
    }
    let mut state = scheduler.lock();
    state.point_count += 1;
    let deadlocked = state.point_count > POINTS_MAX;
    let switch_one_in = state.switch_one_in;
    if deadlocked || (!must_switch && state.below(switch_one_in) > 0) {
        drop(state);
        assert!(!deadlocked, "the threads wait for each other");
        return;
    }
    state.choose_next();
    scheduler.turn_changed.notify_all();
    scheduler.wait_turn(state, slot);
}

/// Marks a point where another thread may run.
pub fn point() {
    yield_turn(false);
}

/// Marks a point where this thread can continue only after another one ran.
pub(super) fn wait_for_others() {
    yield_turn(true);
}

/// Returns true if this thread runs only in its turn.
pub(super) fn is_scheduled() -> bool {
    THREAD_SLOT.with_borrow(Option::is_some)
}
