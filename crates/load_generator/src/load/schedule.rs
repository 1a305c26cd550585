//! Schedule of an open-loop load: start times that do not depend on the server.

use crate::config::Schedule;
use crate::generators::SeededRng;
use std::time::{Duration, Instant};

/// The intended starts of one thread.
pub struct Starts {
    rng: SeededRng,
    schedule: Schedule,
    rate: f64,
    threads: usize,
    begin: Instant,
    /// Index of the next start among those of all threads. A fixed schedule computes the start from
    /// it, so that rounding errors do not add up.
    index: usize,
    /// Time of the next start, in seconds since `begin`.
    next_s: f64,
}

impl Starts {
    /// Returns the starts of thread `thread` of `threads`, which together start `rate` operations a
    /// second.
    pub fn new(
        schedule: Schedule,
        rate: f64,
        thread: usize,
        threads: usize,
        mut rng: SeededRng,
        begin: Instant,
    ) -> Starts {
        let next_s = match schedule {
            // Threads start in turn, so that the gaps between all starts are equal.
            Schedule::Fixed => thread as f64 / rate,
            Schedule::Poisson => rng.exponential(threads as f64 / rate),
        };
        Starts { rng, schedule, rate, threads, begin, index: thread, next_s }
    }

    /// Returns the next intended start.
    #[inline]
    pub fn due(&self) -> Instant {
        self.begin + Duration::from_secs_f64(self.next_s)
    }

    /// Advances to the start after it.
    #[inline]
    pub fn advance(&mut self) {
        self.index += self.threads;
        match self.schedule {
            Schedule::Fixed => self.next_s = self.index as f64 / self.rate,
            Schedule::Poisson => {
                self.next_s += self.rng.exponential(self.threads as f64 / self.rate);
            }
        }
    }
}
