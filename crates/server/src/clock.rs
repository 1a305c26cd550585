//! The hour, for the few commands of old clients that speak of it: Redis' `EXPIREAT`, `TIME` and
//! `CLIENT LIST`, Arakoon's statistics.
//!
//! Inside the house rows expire by their group's time. A front-end that is told an absolute hour
//! turns it into a span here, by its own clock, once, before it asks the node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the hour comes from.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's clock.
    Wall,
}

impl Clock {
    /// Milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        self.since_1970().as_millis() as u64
    }

    /// Time since 1970.
    pub fn since_1970(self) -> Duration {
        match self {
            // A clock before 1970 was never set: all spans then count from there.
            Clock::Wall => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }
}
