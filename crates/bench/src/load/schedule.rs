//! Schedule of an open-loop load: start times that do not depend on the server.

use crate::config::Schedule;
use crate::generators::Dice;
use std::time::{Duration, Instant};

/// The intended starts of one thread.
pub struct Starts {
    dice: Dice,
    schedule: Schedule,
    rate: f64,
    threads: usize,
    begin: Instant,
    /// The place of the next start among those of all threads: what a fixed one is reckoned from,
    /// so that rounding does not add up.
    place: usize,
    /// Since `begin`.
    next_s: f64,
}

impl Starts {
    /// `rate` starts a second over `threads` threads, of which this is number `thread`.
    pub fn new(
        schedule: Schedule,
        rate: f64,
        thread: usize,
        threads: usize,
        mut dice: Dice,
        begin: Instant,
    ) -> Starts {
        let next_s = match schedule {
            // Threads take turns, so that together their gaps are equal too.
            Schedule::Fixed => thread as f64 / rate,
            Schedule::Poisson => dice.exponential(threads as f64 / rate),
        };
        Starts { dice, schedule, rate, threads, begin, place: thread, next_s }
    }

    /// The next intended start.
    #[inline]
    pub fn due(&self) -> Instant {
        self.begin + Duration::from_secs_f64(self.next_s)
    }

    /// Goes on to the one after it.
    #[inline]
    pub fn advance(&mut self) {
        self.place += self.threads;
        match self.schedule {
            Schedule::Fixed => self.next_s = self.place as f64 / self.rate,
            Schedule::Poisson => {
                self.next_s += self.dice.exponential(self.threads as f64 / self.rate);
            }
        }
    }
}
