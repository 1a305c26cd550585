//! Rate limit of a warning that strangers can provoke: logged once in a while, with the number
//! suppressed.

use crate::world;
use std::sync::Mutex;

/// Shortest pause between two logged warnings, milliseconds.
const PAUSE_MS: u64 = 5_000;
/// Time for which the status shows it after it was last logged, milliseconds.
const RECENT_MS: u64 = 60_000;

/// Rate limit of one warning; see the head of this file.
#[derive(Default)]
pub struct WarningLimiter(Mutex<Option<LastWarning>>);

struct LastWarning {
    logged_ms: u64,
    suppressed: u64,
}

impl WarningLimiter {
    /// Returns the number of warnings suppressed since the last one, if this one may be logged now.
    /// `None`: this one is suppressed, and counted.
    pub fn try_acquire(&self) -> Option<u64> {
        let now = world::milliseconds();
        let mut last = self.0.lock().expect("no one panics while holding it");
        match last.as_mut() {
            Some(last) if now.saturating_sub(last.logged_ms) < PAUSE_MS => {
                last.suppressed += 1;
                None
            }
            _ => Some(
                last.replace(LastWarning { logged_ms: now, suppressed: 0 })
                    .map_or(0, |last| last.suppressed),
            ),
        }
    }

    /// Returns true if one was logged within the last minute, so that the status still shows it.
    pub fn is_recent(&self) -> bool {
        let last = self.0.lock().expect("no one panics while holding it");
        let now = world::milliseconds();
        last.as_ref().is_some_and(|last| now.saturating_sub(last.logged_ms) < RECENT_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_warning_is_counted_and_logged_once_per_pause() {
        let limiter = WarningLimiter::default();
        let at = |ms: u64| world::set_time(Some(ms * 1_000_000));
        at(1);
        assert_eq!(limiter.try_acquire(), Some(0));
        assert_eq!((limiter.try_acquire(), limiter.try_acquire()), (None, None));
        at(PAUSE_MS);
        assert_eq!(limiter.try_acquire(), None);
        at(PAUSE_MS + 1);
        assert_eq!((limiter.try_acquire(), limiter.try_acquire()), (Some(3), None));
        assert!(limiter.is_recent() && !WarningLimiter::default().is_recent());
        at(PAUSE_MS + 1 + RECENT_MS);
        assert!(!limiter.is_recent());
        world::set_time(None);
    }
}
