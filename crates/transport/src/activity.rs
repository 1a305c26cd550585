//! LinkActivity of a connection: decides when it is pinged. Pure.
//!
//! A ping shows two things: each side hears the other, and the other side reads what it is sent.
//! Traffic in both directions shows the first as well. So a busy connection is pinged seldom. A
//! quiet one is pinged by one side, which is enough: the other hears the ping, and answers.

use std::time::Duration;

/// Number of intervals after which a connection with traffic is pinged.
const BUSY_INTERVALS: u32 = 4;

/// Times of a connection, in nanoseconds of this node's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LinkActivity {
    /// True if this side pings a quiet connection: that of the lower node id.
    pub(super) is_pinger: bool,
    /// Time at which data was last received.
    pub(super) received_at: u64,
    /// Time at which data was last written.
    pub(super) sent_at: u64,
    /// Time of the last ping; 0: none was sent.
    pub(super) pinged_at: u64,
}

impl LinkActivity {
    /// Returns true if a ping is due at `now`, the end of an interval.
    pub(super) fn is_ping_due(&self, now: u64, interval: Duration) -> bool {
        let is_within =
            |at: u64, limit: Duration| u128::from(now.saturating_sub(at)) < limit.as_nanos();
        // The other side pings only if this one does not: it waits one interval longer.
        let quiet = if self.is_pinger { interval / 2 } else { interval * 3 / 2 };
        let is_busy = is_within(self.received_at, quiet) && is_within(self.sent_at, quiet);
        let is_pinged = self.pinged_at > 0 && is_within(self.pinged_at, interval * BUSY_INTERVALS);
        !(is_busy && is_pinged)
    }
}
