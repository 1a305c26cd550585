//! Time of a group.

use runtime::world;

/// Group time: continues from the last entry's time, by monotonic time only.
#[derive(Clone, Copy, Debug)]
pub struct GroupClock {
    group_ms: u64,
    monotonic_ms: u64,
}

impl GroupClock {
    /// Starts the clock at this group time, in milliseconds.
    pub fn starting_at(group_ms: u64) -> GroupClock {
        GroupClock { group_ms, monotonic_ms: world::milliseconds() }
    }

    /// Returns the current group time, in milliseconds.
    pub fn now(&self) -> u64 {
        self.group_ms + world::milliseconds().saturating_sub(self.monotonic_ms)
    }
}
