//! Wall clock, for commands of old clients that use absolute times: Redis' `EXPIREAT`, `TIME` and
//! `CLIENT LIST`, Arakoon's statistics.
//!
//! Inside the database rows expire by their group's time. A front-end converts an absolute time
//! into a duration by its own clock, once, before it submits the request.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Source of the absolute time.
#[derive(Clone, Copy, Debug)]
pub enum Clock {
    /// The machine's clock.
    Wall,
}

impl Clock {
    /// Returns milliseconds since 1970.
    pub fn unix_ms(self) -> u64 {
        self.unix_time().as_millis() as u64
    }

    /// Returns the time since 1970.
    pub fn unix_time(self) -> Duration {
        match self {
            // A clock before 1970 was never set: it counts as 1970.
            Clock::Wall => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
        }
    }
}
