//! What stands in for threads, timers, clocks and dice: tasks are polled one by one, in the order
//! in which they began, and time passes when nobody is awake.

use super::chance::Chance;
use runtime::world::{self, Task};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Where every wall clock begins, Unix milliseconds.
const EPOCH_MS: u64 = 1_700_000_000_000;

type Local = Pin<Box<dyn Future<Output = ()>>>;

/// A node's clocks, and whether it is asleep.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    /// Ahead of the world's, microseconds; and how fast it runs, in millionths.
    pub monotonic: (u64, u64),
    /// What its clock on the wall is off by, milliseconds.
    pub wall_off_ms: i64,
    pub paused_until: u64,
}

/// See the head of this file.
pub(super) struct Stage {
    state: RefCell<State>,
    /// Who was woken and has not had its turn.
    woken: Woken,
}

/// Who was woken, in any order: tokio wakes those who wait for one thing by chance.
type Woken = Arc<Mutex<BTreeSet<u64>>>;

struct State {
    now: u64,
    sequence: u64,
    tasks: BTreeMap<u64, Cast>,
    timers: BTreeMap<(u64, u64), Waker>,
    /// Those whose turn comes in this round.
    round: BTreeSet<u64>,
    /// Tasks that are awake, of nodes that are paused.
    held: Vec<(usize, u64)>,
    /// Whose turn it is.
    current: Option<usize>,
    clocks: Vec<Clock>,
    chance: Chance,
}

struct Cast {
    /// Of which node; none: of the world.
    of: Option<usize>,
    task: Local,
    alarm: Arc<Alarm>,
}

struct Alarm {
    id: u64,
    woken: Woken,
}

impl Wake for Alarm {
    fn wake(self: Arc<Alarm>) {
        self.woken.lock().expect("one thread").insert(self.id);
    }
}

thread_local! {
    static HERE: RefCell<Option<Rc<Stage>>> = const { RefCell::new(None) };
}

/// The stage of this thread.
pub(super) fn here() -> Rc<Stage> {
    HERE.with_borrow(|stage| stage.clone().expect("a stage is set"))
}

impl Stage {
    /// Sets a stage on this thread, until [`Stage::clear`].
    pub(super) fn set(seed: u64, clocks: Vec<Clock>) -> Rc<Stage> {
        // A history that was broken off has left its own.
        if let Some(before) = HERE.with_borrow(Option::clone) {
            before.clear();
        }
        let state = State {
            now: 0,
            sequence: 0,
            tasks: BTreeMap::new(),
            timers: BTreeMap::new(),
            round: BTreeSet::new(),
            held: Vec::new(),
            current: None,
            clocks,
            chance: Chance::new(seed.wrapping_add(0x57A6E)),
        };
        let stage = Rc::new(Stage { state: RefCell::new(state), woken: Woken::default() });
        HERE.set(Some(Rc::clone(&stage)));
        world::enter(Some(Rc::clone(&stage) as Rc<dyn world::World>));
        stage
    }

    /// Ends all tasks and leaves the thread as it was.
    pub(super) fn clear(&self) {
        let tasks = std::mem::take(&mut self.state.borrow_mut().tasks);
        drop(tasks);
        HERE.set(None);
        world::enter(None);
        world::set_time(None);
    }

    /// Microseconds since the beginning.
    pub(super) fn now(&self) -> u64 {
        self.state.borrow().now
    }

    /// The dice.
    pub(super) fn dice<T>(&self, roll: impl FnOnce(&mut Chance) -> T) -> T {
        roll(&mut self.state.borrow_mut().chance)
    }

    /// Changes a node's clocks, or lets it sleep.
    pub(super) fn clock<T>(&self, of: usize, change: impl FnOnce(&mut Clock) -> T) -> T {
        change(&mut self.state.borrow_mut().clocks[of])
    }

    pub(super) fn is_paused(&self, of: usize) -> bool {
        let state = self.state.borrow();
        state.clocks[of].paused_until > state.now
    }

    /// Begins a task, of a node or of the world.
    pub(super) fn begin(&self, of: Option<usize>, task: impl Future<Output = ()> + 'static) {
        let mut state = self.state.borrow_mut();
        state.sequence += 1;
        let id = state.sequence;
        let alarm = Arc::new(Alarm { id, woken: self.woken.clone() });
        state.tasks.insert(id, Cast { of, task: Box::pin(task), alarm });
        self.woken.lock().expect("one thread").insert(id);
    }

    /// A node is no more: so are its tasks.
    pub(super) fn kill(&self, node: usize) {
        let mut state = self.state.borrow_mut();
        let gone: Vec<_> = state.tasks.extract_if(.., |_, cast| cast.of == Some(node)).collect();
        state.held.retain(|(of, _)| *of != node);
        drop(state);
        drop(gone);
    }

    /// Does something as a node, at once.
    pub(super) fn within<T>(&self, of: usize, act: impl FnOnce() -> T) -> T {
        let before = self.turn(Some(of));
        let done = act();
        self.turn(before);
        done
    }

    fn turn(&self, of: Option<usize>) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let own = match of {
            None => state.now,
            Some(of) => {
                let (ahead, rate) = state.clocks[of].monotonic;
                ahead + (u128::from(state.now) * u128::from(rate) / 1_000_000) as u64
            }
        };
        world::set_time(Some(own * 1_000));
        std::mem::replace(&mut state.current, of)
    }

    /// Lets so many microseconds pass.
    pub(super) fn run(&self, microseconds: u64) {
        let end = self.now() + microseconds;
        loop {
            while let Some(id) = self.next() {
                self.poll(id);
            }
            let mut state = self.state.borrow_mut();
            let due = state.timers.first_key_value().map(|((at, _), _)| *at);
            match due.filter(|at| *at <= end) {
                Some(at) => {
                    state.now = state.now.max(at);
                    while let Some(timer) = state.timers.first_entry() {
                        if timer.key().0 > at {
                            break;
                        }
                        timer.remove().wake();
                    }
                }
                None => {
                    state.now = end;
                    return;
                }
            }
        }
    }

    /// Who was woken in one round has its turn in the next one, the oldest first.
    fn next(&self) -> Option<u64> {
        let mut state = self.state.borrow_mut();
        if state.round.is_empty() {
            state.round = std::mem::take(&mut *self.woken.lock().expect("one thread"));
        }
        state.round.pop_first()
    }

    fn poll(&self, id: u64) {
        let mut state = self.state.borrow_mut();
        let Some(mut cast) = state.tasks.remove(&id) else { return };
        if let Some(of) = cast.of.filter(|of| state.clocks[*of].paused_until > state.now) {
            state.tasks.insert(id, cast);
            if !state.held.contains(&(of, id)) {
                state.held.push((of, id));
            }
            return;
        }
        drop(state);
        let waker = Waker::from(Arc::clone(&cast.alarm));
        let before = self.turn(cast.of);
        let polled = cast.task.as_mut().poll(&mut Context::from_waker(&waker));
        self.turn(before);
        if polled.is_pending() {
            self.state.borrow_mut().tasks.insert(id, cast);
        }
    }

    /// Lets a node sleep for so long, and then catch up.
    pub(super) fn pause(self: &Rc<Stage>, node: usize, microseconds: u64) {
        let until = self.now() + microseconds;
        self.clock(node, |clock| clock.paused_until = until);
        let stage = Rc::clone(self);
        self.begin(None, async move {
            stage.rest(microseconds).await;
            stage.wake(node);
        });
    }

    /// A node that slept goes on, unless it is to sleep longer.
    pub(super) fn wake(&self, node: usize) {
        let mut state = self.state.borrow_mut();
        if state.clocks[node].paused_until > state.now {
            return;
        }
        let awake: Vec<_> = state.held.extract_if(.., |(of, _)| *of == node).collect();
        self.woken.lock().expect("one thread").extend(awake.into_iter().map(|(_, id)| id));
    }

    /// Resolves after so many microseconds of the world.
    pub(super) fn rest(&self, microseconds: u64) -> Asleep {
        Asleep { until: self.now() + microseconds, timer: None }
    }
}

impl world::World for Stage {
    fn spawn(&self, task: Task) {
        let of = self.state.borrow().current;
        self.begin(of, task);
    }

    fn sleep(&self, time: Duration) -> Task {
        let state = self.state.borrow();
        let rate = state.current.map_or(1_000_000, |of| state.clocks[of].monotonic.1);
        let real = (time.as_micros() * 1_000_000).div_ceil(u128::from(rate)) as u64;
        let until = state.now + real;
        Box::pin(Asleep { until, timer: None })
    }

    fn chance(&self) -> u64 {
        self.dice(Chance::next)
    }

    fn unix_ms(&self) -> u64 {
        let state = self.state.borrow();
        let off = state.current.map_or(0, |of| state.clocks[of].wall_off_ms);
        (EPOCH_MS + state.now / 1_000).saturating_add_signed(off)
    }
}

/// A timer; it goes away with whoever waits for it.
pub(super) struct Asleep {
    until: u64,
    timer: Option<(u64, u64)>,
}

impl Future for Asleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Asleep>, context: &mut Context<'_>) -> Poll<()> {
        let stage = here();
        let mut state = stage.state.borrow_mut();
        if state.now >= self.until {
            return Poll::Ready(());
        }
        if self.timer.is_none() {
            state.sequence += 1;
            let key = (self.until, state.sequence);
            state.timers.insert(key, context.waker().clone());
            self.timer = Some(key);
        }
        Poll::Pending
    }
}

impl Drop for Asleep {
    fn drop(&mut self) {
        let Some(key) = self.timer else { return };
        let stage = HERE.with_borrow(Option::clone);
        if let Some(stage) = stage
            && let Ok(mut state) = stage.state.try_borrow_mut()
        {
            state.timers.remove(&key);
        }
    }
}
