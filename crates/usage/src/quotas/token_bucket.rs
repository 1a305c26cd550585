//! Token bucket: a rate that may be exceeded for a moment, by what was not used before.
//!
//! Law: requests whose cost is at most the burst take, in any time, at most the burst and what the
//! rate adds in that time. A larger one is admitted by a full bucket alone, which then is in debt.

/// Thousandths of a token that are one token.
const PARTS: i64 = 1_000;

/// Bucket of tokens, in thousandths of a token: a rate of tokens a second is as many thousandths a
/// millisecond, so that nothing is rounded.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    /// Tokens a second. `None`: no bound.
    rate: Option<u64>,
    /// Capacity: at least one token.
    burst: i64,
    /// Content. Below 0: a debt.
    level: i64,
    refilled_ms: u64,
}

impl TokenBucket {
    /// Returns a full bucket. `burst_ms`: the time whose tokens it holds.
    pub fn new(rate: Option<u64>, burst_ms: u32, now_ms: u64) -> TokenBucket {
        let burst = burst_of(rate, burst_ms);
        TokenBucket { rate, burst, level: burst, refilled_ms: now_ms }
    }

    /// Changes rate and burst. What the bucket holds stays, as far as it fits.
    pub fn change(&mut self, rate: Option<u64>, burst_ms: u32, now_ms: u64) {
        self.refill(now_ms);
        let burst = burst_of(rate, burst_ms);
        self.level = if self.rate.is_none() { burst } else { self.level.min(burst) };
        (self.rate, self.burst) = (rate, burst);
    }

    /// Returns the time in milliseconds after which so many tokens may be taken. 0: now.
    pub fn wait_ms(&mut self, tokens: u64, now_ms: u64) -> u64 {
        let Some(rate) = self.rate else { return 0 };
        self.refill(now_ms);
        let missing = parts(tokens).min(self.burst).saturating_sub(self.level);
        u64::try_from(missing).unwrap_or(0).div_ceil(rate.max(1))
    }

    /// Takes tokens, whether the bucket holds them or not.
    pub fn take(&mut self, tokens: u64) {
        if self.rate.is_some() {
            self.level = self.level.saturating_sub(parts(tokens));
        }
    }

    fn refill(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.refilled_ms);
        self.refilled_ms = self.refilled_ms.max(now_ms);
        let gained = u128::from(passed_ms) * u128::from(self.rate.unwrap_or(0));
        let gained = i64::try_from(gained).unwrap_or(i64::MAX);
        self.level = self.level.saturating_add(gained).min(self.burst);
    }
}

fn parts(tokens: u64) -> i64 {
    i64::try_from(tokens).unwrap_or(i64::MAX).saturating_mul(PARTS)
}

/// Returns what a bucket of this rate holds. A burst below one token would admit nothing.
fn burst_of(rate: Option<u64>, burst_ms: u32) -> i64 {
    let burst = u128::from(rate.unwrap_or(0)) * u128::from(burst_ms);
    i64::try_from(burst).unwrap_or(i64::MAX).max(PARTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::limits::{QUOTA_BURST_MS_MAX, QUOTA_BYTES_MAX};

    /// Takes tokens if that may be now.
    fn try_take(bucket: &mut TokenBucket, tokens: u64, now_ms: u64) -> bool {
        let is_admitted = bucket.wait_ms(tokens, now_ms) == 0;
        if is_admitted {
            bucket.take(tokens);
        }
        is_admitted
    }

    /// Returns the times at which a client gets a token that tries every `step_ms`, for 20 s.
    fn greedy(bucket: &mut TokenBucket, step_ms: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        for now_ms in (0..20_000).step_by(step_ms) {
            while try_take(bucket, 1, now_ms) {
                taken.push(now_ms);
            }
        }
        taken
    }

    #[test]
    fn tokens_taken_in_any_time_are_at_most_the_burst_and_the_rate() {
        // Rates, bursts in milliseconds, and steps between attempts in milliseconds.
        for (rate, burst_ms, step_ms) in [(5, 1_000, 1), (1_000, 250, 7), (7, 100, 30), (3, 1, 400)]
        {
            let burst = burst_of(Some(rate), burst_ms);
            let taken = greedy(&mut TokenBucket::new(Some(rate), burst_ms, 0), step_ms);
            // Of all times from one token to a later one, the busiest.
            let (mut least, mut busiest) = (i64::MAX, i64::MIN);
            for (number, at_ms) in (0..).zip(&taken) {
                let excess = PARTS * number - (rate * at_ms) as i64;
                least = least.min(excess);
                busiest = busiest.max(excess - least + PARTS);
            }
            assert!(busiest <= burst, "{rate} a second: {busiest} above the rate at once");
        }
    }

    #[test]
    fn whoever_always_tries_gets_the_whole_burst_and_rate() {
        let taken = greedy(&mut TokenBucket::new(Some(5), 1_000, 0), 1);
        assert_eq!(taken.iter().filter(|at_ms| **at_ms == 0).count(), 5);
        assert_eq!(taken.len(), 5 + 99);
    }

    #[test]
    fn wait_is_the_shortest_after_which_tokens_are_there() {
        let mut bucket = TokenBucket::new(Some(4), 1_000, 50);
        assert!((0..4).all(|_| try_take(&mut bucket, 1, 50)));
        let wait_ms = bucket.wait_ms(2, 50);
        assert_eq!(wait_ms, 500);
        assert!(!try_take(&mut bucket, 2, 50 + wait_ms - 1));
        assert!(try_take(&mut bucket, 2, 50 + wait_ms));
        assert_eq!(bucket.wait_ms(1, 0), 250, "a clock that was set back adds nothing");
    }

    #[test]
    fn cost_above_the_burst_needs_a_full_bucket_and_leaves_a_debt() {
        let mut bucket = TokenBucket::new(Some(10), 1_000, 0);
        assert!(try_take(&mut bucket, 1, 0));
        assert!(!try_take(&mut bucket, 100, 0), "it is not full");
        assert!(try_take(&mut bucket, 100, 100), "it is");
        assert_eq!(bucket.wait_ms(1, 100), 9_100, "its debt of 90 is paid first");
        // What is known afterwards is taken without asking.
        bucket.take(u64::MAX);
        assert!(bucket.wait_ms(1, 1_000_000) > 1_000_000);
    }

    #[test]
    fn changed_rate_counts_from_the_change_and_adds_no_burst() {
        let mut bucket = TokenBucket::new(None, 1_000, 0);
        assert!(try_take(&mut bucket, u64::MAX, 0), "there is no bound");
        bucket.change(Some(100), 1_000, 5);
        assert!(try_take(&mut bucket, 100, 5), "a bound begins with a full bucket");
        bucket.change(Some(1_000), 1_000, 10);
        assert_eq!(bucket.wait_ms(1, 10), 1, "half a token was gained at the former rate");
        assert!(try_take(&mut bucket, 10, 20));
        bucket.change(Some(10), 100, 2_000);
        assert!(try_take(&mut bucket, 1, 2_000) && !try_take(&mut bucket, 1, 2_000));
        bucket.change(None, 1_000, 2_000);
        assert_eq!(bucket.wait_ms(u64::MAX, 2_000), 0);
    }

    #[test]
    fn largest_quota_and_longest_pause_stay_exact() {
        let mut bucket = TokenBucket::new(Some(QUOTA_BYTES_MAX), QUOTA_BURST_MS_MAX, 0);
        let burst = QUOTA_BYTES_MAX * u64::from(QUOTA_BURST_MS_MAX) / 1_000;
        assert!(try_take(&mut bucket, burst, u64::MAX - 1_000));
        assert_eq!(bucket.wait_ms(QUOTA_BYTES_MAX, u64::MAX - 1_000), 1_000);
        assert!(try_take(&mut bucket, QUOTA_BYTES_MAX, u64::MAX));
    }
}
