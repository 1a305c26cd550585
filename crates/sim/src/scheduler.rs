//! Scheduler of simulated nodes' tasks: it polls them one by one, in the order in which they were
//! started. Simulated time advances when no task is runnable.
//!
//! It is the [`World`](runtime::world::World) of its thread: the source of tasks, timers, clocks
//! and random numbers for the product.

use crate::chance::Chance;
use crate::clock::SimClock;
use crate::queue::{EventKey, EventQueue};
use runtime::world::{self, Task};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Unix time of every wall clock at the start of a history, in milliseconds.
const EPOCH_MS: u64 = 1_700_000_000_000;

type LocalTask = Pin<Box<dyn Future<Output = ()>>>;

/// Scheduler of one history; see the head of this file.
pub struct Scheduler {
    state: RefCell<SchedulerState>,
    /// Tasks that were woken and not polled yet.
    woken: WokenTasks,
}

/// Set of woken tasks, ordered by id: the order in which tokio wakes several waiters is random.
type WokenTasks = Arc<Mutex<BTreeSet<u64>>>;

struct SchedulerState {
    timers: EventQueue<Waker>,
    started: u64,
    tasks: BTreeMap<u64, SimTask>,
    /// Tasks to be polled in this round.
    round: BTreeSet<u64>,
    /// Runnable tasks of paused nodes.
    paused_tasks: Vec<(usize, u64)>,
    /// Node whose task is being polled.
    current: Option<usize>,
    clocks: Vec<SimClock>,
    /// Wake-ups of each node by timers.
    wake_ups: Vec<WakeUps>,
    chance: Chance,
}

/// Wake-ups of a node by timers.
#[derive(Clone, Copy, Debug, Default)]
pub struct WakeUps {
    /// Number of timers that expired.
    pub timers: u64,
    /// Number of milliseconds in which at least one did: a process wakes once for all of them.
    pub instants: u64,
    /// The last such millisecond.
    last_ms: Option<u64>,
}

struct SimTask {
    /// Node that owns the task. `None`: it belongs to the simulation itself.
    node: Option<usize>,
    task: LocalTask,
    waker: Arc<TaskWaker>,
}

struct TaskWaker {
    id: u64,
    woken: WokenTasks,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<TaskWaker>) {
        self.woken.lock().expect("one thread").insert(self.id);
    }
}

thread_local! {
    static ENTERED: RefCell<Option<Rc<Scheduler>>> = const { RefCell::new(None) };
}

impl Scheduler {
    /// Installs a new scheduler as the world of this thread, until [`Scheduler::uninstall`].
    pub fn install(seed: u64, clocks: Vec<SimClock>) -> Rc<Scheduler> {
        // An aborted history has left its scheduler installed.
        if let Some(before) = ENTERED.with_borrow(Option::clone) {
            before.uninstall();
        }
        let wake_ups = vec![WakeUps::default(); clocks.len()];
        let state = SchedulerState {
            timers: EventQueue::default(),
            started: 0,
            tasks: BTreeMap::new(),
            round: BTreeSet::new(),
            paused_tasks: Vec::new(),
            current: None,
            clocks,
            wake_ups,
            chance: Chance::new(seed.wrapping_add(0x57A6E)),
        };
        let state = RefCell::new(state);
        let scheduler = Rc::new(Scheduler { state, woken: WokenTasks::default() });
        ENTERED.set(Some(Rc::clone(&scheduler)));
        world::set_current(Some(Rc::clone(&scheduler) as Rc<dyn world::World>));
        scheduler
    }

    /// Returns the scheduler of this thread.
    pub fn current() -> Rc<Scheduler> {
        ENTERED.with_borrow(|scheduler| scheduler.clone().expect("a scheduler is entered"))
    }

    /// Ends all tasks and uninstalls the scheduler from its thread.
    pub fn uninstall(&self) {
        let tasks = std::mem::take(&mut self.state.borrow_mut().tasks);
        drop(tasks);
        ENTERED.set(None);
        world::set_current(None);
        world::set_time(None);
    }

    /// Returns the time since the start of the history, in microseconds.
    pub fn now(&self) -> u64 {
        self.state.borrow().timers.now()
    }

    /// Draws from the seed's random sequence.
    pub fn draw<T>(&self, draw: impl FnOnce(&mut Chance) -> T) -> T {
        draw(&mut self.state.borrow_mut().chance)
    }

    /// Reads or changes a node's clocks.
    pub fn clock<T>(&self, node: usize, change: impl FnOnce(&mut SimClock) -> T) -> T {
        change(&mut self.state.borrow_mut().clocks[node])
    }

    /// Returns true if a node is paused.
    pub fn is_paused(&self, node: usize) -> bool {
        self.state.borrow().is_paused(node)
    }

    /// Starts a task of a node. `None`: a task of the simulation itself.
    pub fn spawn(&self, node: Option<usize>, task: impl Future<Output = ()> + 'static) {
        let mut state = self.state.borrow_mut();
        state.started += 1;
        let id = state.started;
        let waker = Arc::new(TaskWaker { id, woken: self.woken.clone() });
        state.tasks.insert(id, SimTask { node, task: Box::pin(task), waker });
        self.woken.lock().expect("one thread").insert(id);
    }

    /// Starts a task of the simulation itself after `delay_us` microseconds.
    pub fn spawn_after(self: &Rc<Scheduler>, delay_us: u64, act: impl FnOnce() + 'static) {
        let scheduler = Rc::clone(self);
        self.spawn(None, async move {
            scheduler.sleep_us(delay_us).await;
            act();
        });
    }

    /// Ends all tasks of a node whose process has ended.
    pub fn kill(&self, node: usize) {
        let mut state = self.state.borrow_mut();
        let ended: Vec<_> = state.tasks.extract_if(.., |_, it| it.node == Some(node)).collect();
        state.paused_tasks.retain(|(of, _)| *of != node);
        drop(state);
        drop(ended);
    }

    /// Runs a function immediately on behalf of a node.
    pub fn run_as_node<T>(&self, node: usize, act: impl FnOnce() -> T) -> T {
        let before = self.switch_to(Some(node));
        let done = act();
        self.switch_to(before);
        done
    }

    /// Makes a node current, and sets its clock on this thread. Returns the previous current node.
    fn switch_to(&self, node: Option<usize>) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        let now = state.timers.now();
        match node {
            None => world::set_time(Some(now * 1_000)),
            Some(node) => state.clocks[node].enter(now),
        }
        std::mem::replace(&mut state.current, node)
    }

    /// Advances the simulation by this many microseconds.
    pub fn run(&self, microseconds: u64) {
        let end = self.now() + microseconds;
        loop {
            while let Some(id) = self.next() {
                self.poll(id);
            }
            let mut state = self.state.borrow_mut();
            let Some(timer) = state.timers.next_until(end) else { return };
            timer.wake();
            while let Some(timer) = state.timers.next_due() {
                timer.wake();
            }
        }
    }

    /// Returns the next task to poll. A task that is woken in one round is polled in the next one,
    /// oldest first.
    fn next(&self) -> Option<u64> {
        let mut state = self.state.borrow_mut();
        if state.round.is_empty() {
            state.round = std::mem::take(&mut *self.woken.lock().expect("one thread"));
        }
        state.round.pop_first()
    }

    fn poll(&self, id: u64) {
        let mut state = self.state.borrow_mut();
        let Some(mut task) = state.tasks.remove(&id) else { return };
        if let Some(node) = task.node.filter(|node| state.is_paused(*node)) {
            state.tasks.insert(id, task);
            if !state.paused_tasks.contains(&(node, id)) {
                state.paused_tasks.push((node, id));
            }
            return;
        }
        drop(state);
        let waker = Waker::from(Arc::clone(&task.waker));
        let before = self.switch_to(task.node);
        let polled = task.task.as_mut().poll(&mut Context::from_waker(&waker));
        self.switch_to(before);
        if polled.is_pending() {
            self.state.borrow_mut().tasks.insert(id, task);
        }
    }

    /// Pauses a node for this many microseconds; its runnable tasks run afterwards.
    pub fn pause(self: &Rc<Scheduler>, node: usize, microseconds: u64) {
        let until = self.now() + microseconds;
        self.clock(node, |clock| clock.paused_until = until);
        let scheduler = Rc::clone(self);
        self.spawn_after(microseconds, move || scheduler.resume(node));
    }

    /// Resumes the tasks of a paused node, unless a longer pause is in force.
    fn resume(&self, node: usize) {
        let mut state = self.state.borrow_mut();
        if state.is_paused(node) {
            return;
        }
        let resumed: Vec<_> = state.paused_tasks.extract_if(.., |(of, _)| *of == node).collect();
        self.woken.lock().expect("one thread").extend(resumed.into_iter().map(|(_, id)| id));
    }

    /// Ends all pauses of a node.
    pub fn resume_now(&self, node: usize) {
        self.clock(node, |clock| clock.paused_until = 0);
        self.resume(node);
    }

    /// Returns the wake-ups of a node by timers since the start of the history.
    pub fn wake_ups(&self, node: usize) -> WakeUps {
        self.state.borrow().wake_ups[node]
    }

    /// Returns a future that resolves after this many microseconds of simulated time.
    pub fn sleep_us(&self, microseconds: u64) -> impl Future<Output = ()> + use<> {
        SimSleep { until: self.now() + microseconds, timer: None }
    }
}

impl SchedulerState {
    /// Counts an expired timer of the current node.
    fn note_wake_up(&mut self) {
        let now_ms = self.timers.now() / 1_000;
        let Some(wake_ups) = self.current.and_then(|node| self.wake_ups.get_mut(node)) else {
            return;
        };
        wake_ups.timers += 1;
        if wake_ups.last_ms.replace(now_ms) != Some(now_ms) {
            wake_ups.instants += 1;
        }
    }

    fn is_paused(&self, node: usize) -> bool {
        self.clocks[node].paused_until > self.timers.now()
    }
}

impl world::World for Scheduler {
    fn spawn(&self, task: Task) {
        let node = self.state.borrow().current;
        self.spawn(node, task);
    }

    fn sleep(&self, time: Duration) -> Task {
        let state = self.state.borrow();
        // Rounded up: a sleep of less than a microsecond must pass, too.
        let own_us = time.as_nanos().div_ceil(1_000);
        let real_us =
            state.current.map_or(own_us as u64, |node| state.clocks[node].real_us(own_us));
        Box::pin(SimSleep { until: state.timers.now() + real_us, timer: None })
    }

    fn random_u64(&self) -> u64 {
        self.draw(Chance::next_u64)
    }

    fn unix_ms(&self) -> u64 {
        let state = self.state.borrow();
        let off = state.current.map_or(0, |node| state.clocks[node].wall_offset_ms);
        (EPOCH_MS + state.timers.now() / 1_000).saturating_add_signed(off)
    }
}

/// Timer of one waiter; dropping it cancels it.
struct SimSleep {
    until: u64,
    timer: Option<EventKey>,
}

impl Future for SimSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut SimSleep>, context: &mut Context<'_>) -> Poll<()> {
        let scheduler = Scheduler::current();
        let mut state = scheduler.state.borrow_mut();
        if state.timers.now() >= self.until {
            if self.timer.take().is_some() {
                state.note_wake_up();
            }
            return Poll::Ready(());
        }
        if self.timer.is_none() {
            self.timer = Some(state.timers.schedule_at(self.until, context.waker().clone()));
        }
        Poll::Pending
    }
}

impl Drop for SimSleep {
    fn drop(&mut self) {
        let Some(key) = self.timer else { return };
        let scheduler = ENTERED.with_borrow(Option::clone);
        if let Some(scheduler) = scheduler
            && let Ok(mut state) = scheduler.state.try_borrow_mut()
        {
            state.timers.cancel(key);
        }
    }
}
