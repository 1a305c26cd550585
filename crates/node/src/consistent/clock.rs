//! A group's own time.

use crate::world;

/// Group time: goes on from the last value's time, by monotonic time only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    group_ms: u64,
    monotonic_ms: u64,
}

impl Clock {
    /// Goes on from here.
    pub(crate) fn from(group_ms: u64) -> Clock {
        Clock { group_ms, monotonic_ms: world::milliseconds() }
    }

    /// Group time now.
    pub(crate) fn now(&self) -> u64 {
        self.group_ms + world::milliseconds().saturating_sub(self.monotonic_ms)
    }
}
