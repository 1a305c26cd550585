//! Deterministic scheduler of test threads: one runs at a time, and at each lock or wait a seeded
//! random number chooses the next.
//!
//! Promises: one seed is one interleaving, as long as the threads use neither clock nor randomness.
//! Never: affects threads of a test that did not ask for it.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Number of points after which the threads of a test are assumed to be in a deadlock.
const POINTS_MAX: u64 = 200_000;

thread_local! {
    /// Scheduler of this thread, and the thread's place in it. `None`: the thread is not scheduled.
    static PLACE: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
}

/// Scheduler; see the head of this file.
pub struct Turns {
    state: Mutex<State>,
    passed: Condvar,
}

struct State {
    dice: u64,
    /// Odds of a switch: another thread goes on at one in this many points.
    one_in: u64,
    /// Place of the running thread.
    now: usize,
    running: Vec<bool>,
    points: u64,
}

/// Body of a test thread.
pub type ThreadBody<'a> = Box<dyn FnOnce() + Send + 'a>;

impl Turns {
    /// Runs these threads to their end in the interleaving of a seed.
    pub fn play(seed: u64, parts: Vec<ThreadBody>) {
        let mut state = State {
            dice: seed ^ 0x1A7E_41EA_F5EE_D000,
            one_in: 1,
            now: 0,
            running: vec![true; parts.len()],
            points: 0,
        };
        state.one_in = [1, 2, 4, 16][state.below(4)];
        state.pass();
        let turns = Arc::new(Turns { state: Mutex::new(state), passed: Condvar::new() });
        std::thread::scope(|scope| {
            for (place, part) in parts.into_iter().enumerate() {
                let turns = turns.clone();
                scope.spawn(move || {
                    PLACE.set(Some((turns.clone(), place)));
                    let _ends = Ends(turns.clone(), place);
                    turns.wait(turns.lock(), place);
                    part();
                });
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no one panics while holding it")
    }

    /// Waits for the turn of this place.
    fn wait(&self, mut state: MutexGuard<'_, State>, place: usize) {
        while state.now != place {
            state = self.passed.wait(state).expect("no one panics while holding it");
        }
    }
}

impl State {
    /// Returns a number below `end` (SplitMix64).
    fn below(&mut self, end: u64) -> usize {
        self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.dice;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ (word >> 31)) % end) as usize
    }

    /// Draws the next thread to run.
    fn pass(&mut self) {
        let all = (0..self.running.len()).filter(|place| self.running[*place]);
        let all: Vec<_> = all.collect();
        if !all.is_empty() {
            self.now = all[self.below(all.len() as u64)];
        }
    }
}

/// Guard that ends a thread's part in the schedule, even after a panic: the others go on.
struct Ends(Arc<Turns>, usize);

impl Drop for Ends {
    fn drop(&mut self) {
        PLACE.set(None);
        let mut state = self.0.lock();
        state.running[self.1] = false;
        state.pass();
        self.0.passed.notify_all();
    }
}

/// Lets another thread go on. `waits`: this one can't go on before another did.
fn pass_on(waits: bool) {
    let Some((turns, place)) = PLACE.with_borrow(Clone::clone) else { return };
    if std::thread::panicking() {
        return; // The thread is unwinding and runs to its end.
    }
    let mut state = turns.lock();
    state.points += 1;
    let stuck = state.points > POINTS_MAX;
    let one_in = state.one_in;
    if stuck || (!waits && state.below(one_in) > 0) {
        drop(state);
        assert!(!stuck, "the threads wait for each other");
        return;
    }
    state.pass();
    turns.passed.notify_all();
    turns.wait(state, place);
}

/// Marks a point where another thread may go on.
pub fn point() {
    pass_on(false);
}

/// Marks a point where this thread can only go on after another did.
pub(super) fn wait() {
    pass_on(true);
}

/// Returns true if this thread runs only in its turn.
pub(super) fn takes_turns() -> bool {
    PLACE.with_borrow(Option::is_some)
}
