//! Rate limit in bytes a second: a token bucket.

/// Burst that may be sent at once after a pause, in milliseconds' worth of bytes.
const BURST_MS: u64 = 50;

/// Rate limit in bytes a second.
#[derive(Clone, Debug)]
pub(super) struct Rate {
    /// Limit. 0: unlimited.
    bytes_per_second: u64,
    /// Bytes that may be sent now. May be negative: a piece is never split, and the next one waits
    /// longer.
    tokens: i64,
    refilled_at: u64,
}

impl Rate {
    pub(super) fn new(bytes_per_second: u64, now: u64) -> Rate {
        let mut rate = Rate { bytes_per_second, tokens: 0, refilled_at: now };
        rate.tokens = rate.burst();
        rate
    }

    fn burst(&self) -> i64 {
        i64::try_from(self.bytes_per_second.saturating_mul(BURST_MS) / 1_000)
            .unwrap_or(i64::MAX)
            .max(1)
    }

    /// Returns the nanoseconds until the next send; 0: now.
    pub(super) fn wait(&mut self, now: u64) -> u64 {
        if self.bytes_per_second == 0 {
            return 0;
        }
        let elapsed_ns = now.saturating_sub(self.refilled_at);
        let gained = u128::from(elapsed_ns) * u128::from(self.bytes_per_second) / 1_000_000_000;
        let gained = i64::try_from(gained).unwrap_or(i64::MAX);
        // Fractions of a byte are not lost: `refilled_at` only advances with a gain.
        if gained > 0 {
            self.tokens = self.tokens.saturating_add(gained).min(self.burst());
            self.refilled_at = now;
        }
        if self.tokens > 0 {
            return 0;
        }
        let missing = u128::from(self.tokens.unsigned_abs()) + 1;
        let nanoseconds = missing * 1_000_000_000 / u128::from(self.bytes_per_second) + 1;
        u64::try_from(nanoseconds).unwrap_or(u64::MAX)
    }

    /// Deducts sent bytes.
    pub(super) fn spend(&mut self, bytes: usize) {
        if self.bytes_per_second > 0 {
            self.tokens = self.tokens.saturating_sub(i64::try_from(bytes).unwrap_or(i64::MAX));
        }
    }
}
