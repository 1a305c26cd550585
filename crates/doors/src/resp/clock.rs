//! The hour, for the few commands of Redis that speak of it (`EXPIREAT`, `TIME`, `CLIENT LIST`).
//!
//! Inside the house rows expire by their group's time. A door that is told an absolute hour turns
//! it into a span here, by its own clock, once, before it asks the node.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where the hour comes from.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's clock.
    Wall,
    /// Always the same, for tests: milliseconds since 1970.
    #[cfg(test)]
    Fixed(u64),
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
            #[cfg(test)]
            Clock::Fixed(ms) => Duration::from_millis(ms),
        }
    }
}
