//! Worker: one thread of the load, which begins operations that are due, waits for answers, and
//! records them.

use super::asking::ThreadState;
use super::record::{Recorder, ThreadMessage};
use super::schedule::Starts;
use crate::config::{Config, Mode};
use crate::drivers::{Driver, Target};
use crate::generators::{Blob, Dice};
use crate::wrong::Wrong;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// Interval of the search for calls beyond their time limit, and the longest wait.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Precision of a wait; nearer starts are awaited by spinning.
const WAIT_EXACT: Duration = Duration::from_millis(1);
/// Most operations of an open load that are started before answers are handled again.
const STARTS_MAX: usize = 64;

/// One thread of the load.
pub struct Worker<'a> {
    config: &'a Config,
    thread: usize,
    driver: Box<dyn Driver>,
    state: ThreadState<'a>,
    sender: SyncSender<ThreadMessage>,
    stop: &'a AtomicBool,
    looked: Instant,
}

impl<'a> Worker<'a> {
    /// Binds this thread to its core and connects its clients.
    pub fn new(
        config: &'a Config,
        target: &dyn Target,
        thread: usize,
        blob: Blob,
        sender: SyncSender<ThreadMessage>,
        stop: &'a AtomicBool,
    ) -> Result<Worker<'a>, Wrong> {
        if let Some(core) = config.pin.get(thread % config.pin.len().max(1)) {
            crate::machine::bind_to_core(*core)?;
        }
        let (clients, threads) = (config.concurrent, config.threads);
        let mine = clients * thread / threads..clients * (thread + 1) / threads;
        let driver = target.driver(mine.len())?;
        let state = ThreadState::new(config, mine, blob);
        Ok(Worker { config, thread, driver, state, sender, stop, looked: Instant::now() })
    }

    /// Runs until the end, the last key, or the stop; then waits for operations in flight.
    pub fn run(mut self, begin: Instant) {
        let mut recorder = Recorder::new(self.config, self.thread, self.sender.clone(), begin);
        let mut starts = match self.config.mode {
            Mode::Max => None,
            Mode::Rate(rate) => {
                let dice = Dice::new(!self.config.rng_seed, self.thread as u64);
                let (schedule, threads) = (self.config.schedule, self.config.threads);
                Some(Starts::new(schedule, rate, self.thread, threads, dice, begin))
            }
        };
        std::thread::sleep(begin.saturating_duration_since(Instant::now()));
        let ended = loop {
            let now = Instant::now();
            recorder.roll(now);
            let over = recorder.end().is_some_and(|end| now >= end);
            if over || self.state.has_finished() || self.stop.load(Ordering::Relaxed) {
                break now;
            }
            self.look(now, &mut recorder);
            self.state.follow_up(&mut *self.driver);
            let timeout = match &mut starts {
                None => {
                    self.state.start_ready(&mut *self.driver);
                    LOOK_EVERY
                }
                Some(starts) => self.start_due(starts, recorder.end()),
            };
            let until_window = recorder.window_end().saturating_duration_since(now);
            self.wait(timeout.min(until_window), &mut recorder);
        };
        let measured = begin + self.config.warm_up;
        let ended = recorder.end().map_or(ended, |end| end.min(ended));
        let unstarted = starts.map_or(0, |starts| unstarted(starts, measured, ended));
        self.drain(&mut recorder);
        let unanswered = self.state.in_flight() as u64;
        recorder.finish(Instant::now(), unstarted, unanswered);
    }

    fn wait(&mut self, timeout: Duration, recorder: &mut Recorder) {
        let timeout = self.state.thinks_for().map_or(timeout, |thinks| timeout.min(thinks));
        let state = &mut self.state;
        self.driver.wait(timeout, &mut |client, at, answer| {
            state.answered(client, at, answer, recorder);
        });
        if self.config.shutdown_on_error && self.state.failed() {
            self.stop.store(true, Ordering::Relaxed);
        }
    }

    /// Starts operations that are due on free clients; returns the longest time to wait.
    fn start_due(&mut self, starts: &mut Starts, end: Option<Instant>) -> Duration {
        let mut now = Instant::now();
        for _ in 0..STARTS_MAX {
            let due = starts.due();
            if end.is_some_and(|end| due >= end) {
                return LOOK_EVERY;
            }
            if due > now {
                let left = due - now;
                return if left > 2 * WAIT_EXACT { left - WAIT_EXACT } else { Duration::ZERO };
            }
            if !self.state.start_one(&mut *self.driver, due) {
                return LOOK_EVERY;
            }
            starts.advance();
            now = Instant::now();
        }
        Duration::ZERO
    }

    fn look(&mut self, now: Instant, recorder: &mut Recorder) {
        if now - self.looked >= LOOK_EVERY {
            self.looked = now;
            self.state.time_out(&mut *self.driver, now, recorder);
            self.state.wake(now);
        }
    }

    fn drain(&mut self, recorder: &mut Recorder) {
        let until = Instant::now() + self.config.operation_timeout + LOOK_EVERY;
        while self.state.in_flight() > 0 && Instant::now() < until {
            self.look(Instant::now(), recorder);
            self.state.follow_up(&mut *self.driver);
            self.wait(LOOK_EVERY, recorder);
        }
    }
}

/// Returns the number of operations of the measured part that were due before `ended` and not
/// started.
fn unstarted(mut starts: Starts, measured: Instant, ended: Instant) -> u64 {
    let mut count = 0;
    while starts.due() < ended {
        count += u64::from(starts.due() >= measured);
        starts.advance();
    }
    count
}
