//! When an open load starts its operations: a list of times that does not know the server.

use crate::config::Schedule;
use crate::generators::Dice;
use std::time::{Duration, Instant};

/// The intended starts of one thread.
pub struct Starts {
    dice: Dice,
    schedule: Schedule,
    gap_s: f64,
    begin: Instant,
    /// Since `begin`, as a sum, so that rounding does not add up.
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
        let gap_s = threads as f64 / rate;
        let next_s = match schedule {
            // Threads take turns, so that together their gaps are equal too.
            Schedule::Fixed => gap_s * thread as f64 / threads as f64,
            Schedule::Poisson => dice.exponential(gap_s),
        };
        Starts { dice, schedule, gap_s, begin, next_s }
    }

    /// The next intended start.
    #[inline]
    pub fn due(&self) -> Instant {
        self.begin + Duration::from_secs_f64(self.next_s)
    }

    /// Goes on to the one after it.
    #[inline]
    pub fn advance(&mut self) {
        self.next_s += match self.schedule {
            Schedule::Fixed => self.gap_s,
            Schedule::Poisson => self.dice.exponential(self.gap_s),
        };
    }
}
