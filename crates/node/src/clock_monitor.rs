//! Monitor of the wall clock: notices jumps by comparing it with the monotonic clock.

use std::sync::Mutex;

/// Difference between the advances of both clocks that is a jump, in milliseconds. A time service
/// that slews the clock stays far below it between two looks.
const JUMP_MS_MIN: u64 = 1_000;
/// Time for which a jump stays an alarm, in milliseconds.
const RECENT_MS: u64 = 600_000;

/// See the head of this file.
#[derive(Default)]
pub(crate) struct ClockMonitor(Mutex<ClockState>);

#[derive(Default)]
struct ClockState {
    /// Monotonic clock and wall clock at the last look, in milliseconds.
    last: Option<(u64, u64)>,
    /// Time of the last jump by the monotonic clock, and its size.
    jump: Option<(u64, i64)>,
}

impl ClockMonitor {
    /// Compares the clocks' advances since the last look.
    pub(crate) fn observe(&self, monotonic_ms: u64, unix_ms: u64) {
        let mut state = self.0.lock().expect("no one panics while holding it");
        let Some((last_monotonic, last_unix)) = state.last.replace((monotonic_ms, unix_ms)) else {
            return;
        };
        let advance = monotonic_ms.saturating_sub(last_monotonic);
        let jump_ms = (unix_ms as i64).wrapping_sub(last_unix.wrapping_add(advance) as i64);
        if jump_ms.unsigned_abs() >= JUMP_MS_MIN {
            state.jump = Some((monotonic_ms, jump_ms));
            tracing::warn!(target: "node", jump_ms, "the wall clock jumped");
        }
    }

    /// Returns the last jump in milliseconds. `None`: there was none for a while.
    pub(crate) fn recent_jump_ms(&self, monotonic_ms: u64) -> Option<i64> {
        let state = self.0.lock().expect("no one panics while holding it");
        let (since, jump_ms) = state.jump?;
        (monotonic_ms.saturating_sub(since) < RECENT_MS).then_some(jump_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_jump_is_reported_for_ten_minutes_and_slewing_is_not() {
        let monitor = ClockMonitor::default();
        monitor.observe(1_000, 50_000);
        monitor.observe(11_000, 60_900);
        assert_eq!(monitor.recent_jump_ms(11_000), None, "0.9 s in 10 s");
        monitor.observe(21_000, 10_900);
        assert_eq!(monitor.recent_jump_ms(21_000), Some(-60_000));
        monitor.observe(31_000, 20_900);
        assert_eq!(monitor.recent_jump_ms(21_000 + RECENT_MS - 1), Some(-60_000));
        assert_eq!(monitor.recent_jump_ms(21_000 + RECENT_MS), None);
        monitor.observe(41_000, 40_900);
        assert_eq!(monitor.recent_jump_ms(41_000), Some(10_000));
    }
}
