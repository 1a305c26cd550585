//! Passwords that were verified lately: HTTP clients send theirs with each request.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Time for which a verified password is remembered.
const KEPT: Duration = Duration::from_secs(600);
/// Maximum number of remembered ones.
const REMEMBERED_MAX: usize = 16_384;

/// Keyed digest of a user, its hash and its password.
type LoginDigest = [u8; 32];

/// Digests of passwords that were verified lately, with their times.
#[derive(Default)]
pub struct Remembered(Mutex<BTreeMap<LoginDigest, Instant>>);

impl Remembered {
    /// Returns true if this was verified lately.
    pub fn contains(&self, digest: &LoginDigest, now: Instant) -> bool {
        self.lock().get(digest).is_some_and(|at| !is_over(*at, now))
    }

    /// Remembers a verified password.
    pub fn insert(&self, digest: LoginDigest, now: Instant) {
        let mut remembered = self.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, at| !is_over(*at, now));
        }
        if remembered.len() >= REMEMBERED_MAX {
            // They only cost a verification each.
            remembered.clear();
        }
        remembered.insert(digest, now);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<LoginDigest, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_over(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) >= KEPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembered_login_ends_after_ten_minutes_and_their_number_is_bounded() {
        let (remembered, now) = (Remembered::default(), Instant::now());
        remembered.insert([1; 32], now);
        assert!(remembered.contains(&[1; 32], now + Duration::from_secs(599)));
        assert!(!remembered.contains(&[1; 32], now + KEPT) && !remembered.contains(&[2; 32], now));
        for number in 0..2 * REMEMBERED_MAX as u64 {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_le_bytes());
            remembered.insert(digest, now);
        }
        assert!(remembered.lock().len() <= REMEMBERED_MAX);
    }
}
