//! Threads of which one runs at a time: at each point that a thread comes to, a lock or a wait, the
//! dice say which goes on.
//!
//! Promises: one seed is one interleaving, as long as the threads ask neither time nor chance.
//! Never: runs a thread of a test that did not ask for it otherwise than the system does.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

/// Points after which the threads of a test are taken to wait for each other.
const POINTS_MAX: u64 = 200_000;

thread_local! {
    /// Whose turns this thread waits for, and its place among them.
    static PLACE: RefCell<Option<(Arc<Turns>, usize)>> = const { RefCell::new(None) };
}

/// See the head of this file.
pub struct Turns {
    state: Mutex<State>,
    passed: Condvar,
}

struct State {
    dice: u64,
    /// Another thread goes on once in so many points.
    one_in: u64,
    /// Who runs.
    now: usize,
    running: Vec<bool>,
    points: u64,
}

/// What a thread of a test does.
pub type ThreadBody<'a> = Box<dyn FnOnce() + Send + 'a>;

impl Turns {
    /// Runs these threads to their end, in the interleaving of a seed.
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
    /// A number below `end` (SplitMix64).
    fn below(&mut self, end: u64) -> usize {
        self.dice = self.dice.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.dice;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((word ^ (word >> 31)) % end) as usize
    }

    /// Draws who runs next.
    fn pass(&mut self) {
        let all = (0..self.running.len()).filter(|place| self.running[*place]);
        let all: Vec<_> = all.collect();
        if !all.is_empty() {
            self.now = all[self.below(all.len() as u64)];
        }
    }
}

/// A thread that is at its end, well or not: the others go on.
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

/// Another thread may go on here. `waits`: this one can't before another did.
fn pass_on(waits: bool) {
    let Some((turns, place)) = PLACE.with_borrow(Clone::clone) else { return };
    if std::thread::panicking() {
        return; // It comes to its end.
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

/// A point where another thread may go on.
pub fn point() {
    pass_on(false);
}

/// The same, of a thread that waits for another.
pub(super) fn wait() {
    pass_on(true);
}

/// Returns true if this thread runs only in its turn.
pub(super) fn takes_turns() -> bool {
    PLACE.with_borrow(Option::is_some)
}
