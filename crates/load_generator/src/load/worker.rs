//! Worker: one thread of the load, which begins operations that are due, waits for answers, and
//! records them.

use super::record::{Recorder, ThreadMessage};
use super::schedule::Starts;
use super::thread_state::ThreadState;
use crate::config::{Config, Mode};
use crate::drivers::{Driver, Target};
use crate::error::BenchError;
use crate::generators::{Blob, SeededRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// Interval of the check for overdue calls, and the longest wait.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Precision of a wait; closer starts are awaited by spinning.
const WAIT_PRECISION: Duration = Duration::from_millis(1);
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
    last_check: Instant,
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
    ) -> Result<Worker<'a>, BenchError> {
        if let Some(core) = config.pin.get(thread % config.pin.len().max(1)) {
            crate::machine::bind_to_core(*core)?;
        }
        let (clients, threads) = (config.concurrent, config.threads);
        let numbers = clients * thread / threads..clients * (thread + 1) / threads;
        let driver = target.driver(numbers.len())?;
        let state = ThreadState::new(config, numbers, blob);
        Ok(Worker { config, thread, driver, state, sender, stop, last_check: Instant::now() })
    }

    /// Runs until the end, the last key, or the stop; then waits for operations in flight.
    pub fn run(mut self, begin: Instant) {
        let mut recorder = Recorder::new(self.config, self.thread, self.sender.clone(), begin);
        let mut starts = match self.config.mode {
            Mode::Max => None,
            Mode::Rate(rate) => {
                let rng = SeededRng::new(!self.config.rng_seed, self.thread as u64);
                let (schedule, threads) = (self.config.schedule, self.config.threads);
                Some(Starts::new(schedule, rate, self.thread, threads, rng, begin))
            }
        };
        std::thread::sleep(begin.saturating_duration_since(Instant::now()));
        let stopped_at = loop {
            let now = Instant::now();
            recorder.close_windows(now);
            let has_ended = recorder.end().is_some_and(|end| now >= end);
            if has_ended || self.state.has_finished() || self.stop.load(Ordering::Relaxed) {
                break now;
            }
            self.check_timeouts(now, &mut recorder);
            self.state.send_next_calls(&mut *self.driver);
            let timeout = match &mut starts {
                None => {
                    self.state.start_ready(&mut *self.driver);
                    CHECK_INTERVAL
                }
                Some(starts) => self.start_due(starts, recorder.end()),
            };
            let until_window = recorder.window_end().saturating_duration_since(now);
            self.wait(timeout.min(until_window), &mut recorder);
        };
        let measured_from = begin + self.config.warm_up;
        let stopped_at = recorder.end().map_or(stopped_at, |end| end.min(stopped_at));
        let unstarted =
            starts.map_or(0, |starts| count_unstarted(starts, measured_from, stopped_at));
        self.drain(&mut recorder);
        let unanswered = self.state.in_flight() as u64;
        recorder.finish(Instant::now(), unstarted, unanswered);
    }

    fn wait(&mut self, timeout: Duration, recorder: &mut Recorder) {
        let timeout =
            self.state.think_time_left().map_or(timeout, |think_time| timeout.min(think_time));
        let state = &mut self.state;
        self.driver.wait(timeout, &mut |client, at, answer| {
            state.on_answer(client, at, answer, recorder);
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
                return CHECK_INTERVAL;
            }
            if due > now {
                let time_left = due - now;
                return if time_left > 2 * WAIT_PRECISION {
                    time_left - WAIT_PRECISION
                } else {
                    Duration::ZERO
                };
            }
            if !self.state.start_one(&mut *self.driver, due) {
                return CHECK_INTERVAL;
            }
            starts.advance();
            now = Instant::now();
        }
        Duration::ZERO
    }

    fn check_timeouts(&mut self, now: Instant, recorder: &mut Recorder) {
        if now - self.last_check >= CHECK_INTERVAL {
            self.last_check = now;
            self.state.fail_overdue(&mut *self.driver, now, recorder);
            self.state.resume_reconnecting(now);
        }
    }

    fn drain(&mut self, recorder: &mut Recorder) {
        let until = Instant::now() + self.config.operation_timeout + CHECK_INTERVAL;
        while self.state.in_flight() > 0 && Instant::now() < until {
            self.check_timeouts(Instant::now(), recorder);
            self.state.send_next_calls(&mut *self.driver);
            self.wait(CHECK_INTERVAL, recorder);
        }
    }
}

/// Returns the number of operations of the measured part that were due before `end` and not
/// started.
fn count_unstarted(mut starts: Starts, measured_from: Instant, end: Instant) -> u64 {
    let mut count = 0;
    while starts.due() < end {
        count += u64::from(starts.due() >= measured_from);
        starts.advance();
    }
    count
}
