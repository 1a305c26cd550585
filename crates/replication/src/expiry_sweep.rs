//! Sweep of expired rows, as a group's master drives it: its next due time, its position, and its
//! look-ahead.
//!
//! Promises: a row is collected at most [`PAUSE_MS`] later than it could be, or as soon as the
//! sweeps before it leave time; one sweep looks at a bounded number of hints.
//! Never: runs where nothing is due; walks far ahead under the group's lock.

use super::evaluate::{Swept, expire_due};
use super::overlay::Overlay;
use base::Result;
use bytes::Bytes;
use std::time::Duration;

/// Hints looked at in one value that collects what expired.
const EXPIRED_PER_VALUE: usize = 1_000;
/// Expired rows are collected at most this often: a row may be seen this much longer.
const PAUSE_MS: u64 = 10;
/// Distance ahead of group time in which the sweep looks for the next expiry: what touches deleted
/// there is walked over under the group's lock, so it is little at a time.
const LOOK_AHEAD_MS_MIN: u64 = 1_000;
/// Maximum distance for which the next hint is searched, in milliseconds, after none was found for
/// long.
const LOOK_AHEAD_MS_MAX: u64 = 64_000;

/// See the head of this file.
#[derive(Default)]
pub struct ExpirySweep {
    /// The soonest expiry that is known of, in group time.
    next: u64,
    /// Key behind which the sweep continues. Empty: as stored.
    from: Bytes,
    /// Distance in which the next sweep looks for the next expiry; 0: as little as it may.
    look_ahead_ms: u64,
}

impl ExpirySweep {
    /// Restarts from the stored position: another node may have swept since.
    pub(super) fn restart(&mut self) {
        self.next = 0;
        self.from.clear();
    }

    /// Returns true if something may have expired.
    pub(super) fn is_due(&self, now: u64) -> bool {
        self.next <= now
    }

    /// Notes that a row expires then.
    pub(super) fn expires(&mut self, at: u64) {
        self.next = self.next.min(at);
    }

    /// Returns the time for which nothing is due. `None`: no row is known to expire.
    pub(super) fn sleep(&self, now: u64) -> Option<Duration> {
        let at = Some(self.next).filter(|at| *at != u64::MAX)?;
        Some(Duration::from_millis(at.saturating_sub(now)))
    }

    /// Writes into the open value what collects the rows that have expired by `now`. Returns how
    /// many hints it looked at.
    pub(super) fn run(&mut self, overlay: &mut Overlay, now: u64) -> Result<usize> {
        let from = std::mem::take(&mut self.from);
        let ahead = self.look_ahead_ms.max(LOOK_AHEAD_MS_MIN);
        let Swept { looked, upto, next } = expire_due(overlay, from, EXPIRED_PER_VALUE, ahead)?;
        self.from = upto;
        self.next = match next {
            Some(expires) => expires.max(now + PAUSE_MS),
            None => now.saturating_add(ahead),
        };
        // A group in which nothing expires is checked ever more rarely.
        let idle = looked == 0 && next.is_none();
        self.look_ahead_ms = if idle { (ahead * 2).min(LOOK_AHEAD_MS_MAX) } else { 0 };
        Ok(looked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_is_due_at_the_soonest_expiry_that_is_known() {
        let mut sweep = ExpirySweep { next: u64::MAX, ..ExpirySweep::default() };
        assert!(!sweep.is_due(5) && sweep.sleep(5).is_none());
        sweep.expires(9);
        sweep.expires(12);
        assert_eq!(sweep.sleep(5), Some(Duration::from_millis(4)));
        assert!(!sweep.is_due(8) && sweep.is_due(9));
        sweep.restart();
        assert!(sweep.is_due(0), "it is not known what another master left");
    }
}
