//! Failed logins: an address may guess the password of one user only so many times a minute.
//!
//! The user is not locked: others, at other addresses, log in as before.

use base::{Error, Reason, Result, address_or_network};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Most failures of one address for one user in a window.
const FAILURES_MAX: u32 = 10;
/// Length of a window.
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of pairs of address and user that are counted.
const PAIRS_MAX: usize = 8_192;

/// Address, and digest of the name that was presented.
type Guess = (IpAddr, [u8; 32]);

/// Counts of failures by address and user.
#[derive(Default)]
pub struct Failures(Mutex<BTreeMap<Guess, FailureCount>>);

#[derive(Clone, Copy)]
struct FailureCount {
    since: Instant,
    count: u32,
}

impl Failures {
    /// Fails if this address has failed too often for this user.
    pub fn check(&self, (from, user): Guess, now: Instant) -> Result<()> {
        let found = self.lock().get(&(address_or_network(from), user)).copied();
        match found {
            Some(found) if !is_over(&found, now) && found.count >= FAILURES_MAX => {
                let text = "too many failed logins from this address: wait a minute";
                Err(Error::new(Reason::TooMany, text))
            }
            _ => Ok(()),
        }
    }

    /// Counts an attempt as failed. It is called before the attempt, so that attempts at the same
    /// time are bounded, too.
    pub fn count(&self, (from, user): Guess, now: Instant) {
        let (mut counts, guess) = (self.lock(), (address_or_network(from), user));
        if counts.len() >= PAIRS_MAX && !counts.contains_key(&guess) {
            counts.retain(|_, it| !is_over(it, now));
            let fewest = || counts.iter().min_by_key(|(_, it)| it.count).map(|(key, _)| *key);
            if counts.len() >= PAIRS_MAX
                && let Some(fewest) = fewest()
            {
                counts.remove(&fewest);
            }
        }
        let entry = counts.entry(guess).or_insert(FailureCount { since: now, count: 0 });
        if is_over(entry, now) {
            *entry = FailureCount { since: now, count: 0 };
        }
        entry.count += 1;
    }

    /// Takes back what was counted for an attempt that was right, or was not tried.
    pub fn take_back(&self, (from, user): Guess) {
        if let Some(entry) = self.lock().get_mut(&(address_or_network(from), user)) {
            entry.count = entry.count.saturating_sub(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Guess, FailureCount>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_over(it: &FailureCount, now: Instant) -> bool {
    now.saturating_duration_since(it.since) >= WINDOW
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_address_for_one_user_are_bounded_within_a_minute() {
        let (failures, now) = (Failures::default(), Instant::now());
        let guess = |last: u8, user| (IpAddr::from([198, 18, 0, last]), [user; 32]);
        for _ in 0..FAILURES_MAX {
            assert_eq!(failures.check(guess(1, 1), now), Ok(()));
            failures.count(guess(1, 1), now);
        }
        let refused = failures.check(guess(1, 1), now).map_err(|error| error.reason);
        assert_eq!(refused, Err(Reason::TooMany));
        failures.take_back(guess(1, 1));
        assert!(failures.check(guess(1, 1), now).is_ok(), "one of them was right");
        failures.count(guess(1, 1), now);
        assert!(failures.check(guess(1, 2), now).is_ok(), "another user");
        assert!(
            failures.check(guess(2, 1), now).is_ok(),
            "another address: the user is not locked"
        );
        assert!(failures.check(guess(1, 1), now + WINDOW).is_ok(), "the next minute");
        for user in 2..=u8::MAX {
            (1..=u8::MAX).for_each(|last| failures.count(guess(last, user), now));
        }
        assert_eq!(failures.lock().len(), PAIRS_MAX);
        assert!(failures.check(guess(1, 1), now).is_err(), "the busiest stays counted");
    }
}
