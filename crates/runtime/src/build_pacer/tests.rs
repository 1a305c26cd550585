//! Laws of the pacer, with writers whose latency is a function of the pace.

use super::*;

/// Time between two turns of a trial.
const TURN_NS: u64 = 1_000_000;
/// Bytes of a step.
const STEP_BYTES: u64 = 64 << 10;
/// Writes of a turn.
const TURN_WRITES: u32 = 2;
const WRITER: u32 = 1;

/// Pacer, and a clock that only this trial moves.
struct PacerTrial {
    pacer: BuildPacer,
    now_ns: u64,
}

/// What a span of a trial has shown.
#[derive(Debug, Default)]
struct TrialSpan {
    /// Bytes of all steps.
    bytes: u64,
    /// Longest latency of a write, in microseconds.
    latency_us_max: u64,
    /// Lowest and highest pace after a step.
    paces: Option<(u64, u64)>,
}

impl PacerTrial {
    fn new() -> PacerTrial {
        PacerTrial { pacer: BuildPacer::default(), now_ns: 77 * WINDOW_NS }
    }

    fn pace(&self) -> u64 {
        self.pacer.bytes_per_second().unwrap_or(0)
    }

    /// Runs for some seconds, with a build or without one. `latency_us`: that of writes at a pace,
    /// which is 0 without a build; `None`: nobody writes.
    fn run(
        &mut self,
        seconds: u64,
        has_build: bool,
        latency_us: impl Fn(u64) -> Option<u64>,
    ) -> TrialSpan {
        let mut span = TrialSpan::default();
        for _ in 0..seconds * WINDOW_NS / TURN_NS {
            self.now_ns += TURN_NS;
            world::set_time(Some(self.now_ns));
            if let Some(latency_us) = latency_us(self.pace()) {
                self.pacer.observe(WRITER, latency_us, TURN_WRITES);
                span.latency_us_max = span.latency_us_max.max(latency_us);
            }
            while has_build && self.pacer.is_due() {
                self.pacer.spend(self.now_ns / 1_000_000, STEP_BYTES);
                span.bytes += STEP_BYTES;
                let pace = self.pace();
                let (low, high) = span.paces.unwrap_or((pace, pace));
                span.paces = Some((low.min(pace), high.max(pace)));
            }
        }
        span
    }
}

impl Drop for PacerTrial {
    fn drop(&mut self) {
        world::set_time(None);
    }
}

/// Latency that grows with the pace, from 4 ms to five times as much at the highest pace.
fn growing(pace: u64) -> Option<u64> {
    Some(4_000 + 16_000 * pace / PACE_MAX)
}

#[test]
fn build_beside_nobody_has_the_highest_pace() {
    let mut trial = PacerTrial::new();
    assert_eq!(trial.pacer.bytes_per_second(), None);
    assert!(trial.pacer.is_due());
    let span = trial.run(10, true, |_| None);
    assert_eq!(span.paces, Some((PACE_MAX, PACE_MAX)));
    assert!((9 * PACE_MAX..=10 * PACE_MAX + STEP_BYTES).contains(&span.bytes), "{span:?}");
    trial.run(3, false, |_| None);
    assert_eq!(trial.pacer.bytes_per_second(), None, "it has ended");
}

#[test]
fn writers_take_less_than_twice_as_long_as_without_a_build() {
    let mut trial = PacerTrial::new();
    trial.run(20, false, growing);
    let span = trial.run(120, true, growing);
    assert!(span.latency_us_max < 2 * 4_000 * 9 / 8, "within the histogram's error: {span:?}");
    let (low, high) = span.paces.expect("it makes steps");
    assert!(low >= PACE_START / 2 && high < PACE_MAX / 2, "{span:?}");
    // At a pace of 6 MiB/s a write takes 7 ms, three quarters more than without a build.
    assert!(span.bytes > 120 * (4 << 20), "it uses what it may: {span:?}");
    // What is felt at that pace is no new baseline.
    trial.run(20, false, growing);
    let span = trial.run(120, true, growing);
    assert!(span.latency_us_max < 2 * 4_000 * 9 / 8, "{span:?}");
}

#[test]
fn build_beside_unhurt_writers_reaches_the_highest_pace() {
    let mut trial = PacerTrial::new();
    trial.run(20, false, |_| Some(4_000));
    let span = trial.run(30, true, |_| Some(4_000));
    assert_eq!(span.paces, Some((PACE_START, PACE_MAX)));
    assert_eq!(trial.pace(), PACE_MAX);
}

#[test]
fn latencies_below_the_least_baseline_do_not_slow_a_build() {
    let mut trial = PacerTrial::new();
    trial.run(20, false, |_| Some(50));
    trial.run(30, true, |_| Some(1_200));
    assert_eq!(trial.pace(), PACE_MAX, "24 times as long, and still fast");
}

#[test]
fn pace_has_a_lower_bound_however_slow_writes_are() {
    let mut trial = PacerTrial::new();
    trial.run(20, false, |_| Some(2_000));
    let slow = |_| Some(200_000);
    trial.run(5, true, slow);
    let span = trial.run(20, true, slow);
    assert_eq!(span.paces, Some((PACE_MIN, PACE_MIN)));
    assert!(span.bytes >= 19 * PACE_MIN, "{span:?}");
}

#[test]
fn writer_without_a_baseline_is_measured_at_the_lowest_pace() {
    let mut trial = PacerTrial::new();
    // As after a fail-over: the build goes on before anything is known.
    let first = trial.run(1, true, growing);
    assert_eq!(first.paces, Some((PACE_MIN, PACE_MIN)));
    let span = trial.run(120, true, growing);
    let baseline_us = growing(PACE_MIN).expect("somebody writes");
    assert!(span.latency_us_max < 2 * baseline_us * 9 / 8, "{span:?}");
    assert!(span.bytes > 120 * (4 << 20), "{span:?}");
    // One that comes later is, too.
    let mut trial = PacerTrial::new();
    trial.run(10, true, |_| None);
    trial.run(4, true, growing);
    assert!(trial.pace() < PACE_START, "{}", trial.pace());
}

#[test]
fn load_that_changes_during_a_build_becomes_the_baseline() {
    let mut trial = PacerTrial::new();
    trial.run(20, false, |_| Some(4_000));
    trial.run(30, true, |_| Some(4_000));
    // Slower by itself: a build can't know that before it has been at the lowest pace for a while.
    trial.run(u64::from(SLOW_WINDOWS_MAX) - 5, true, |_| Some(40_000));
    assert_eq!(trial.pace(), PACE_MIN);
    trial.run(60, true, |_| Some(40_000));
    assert_eq!(trial.pace(), PACE_MAX);
    // Faster by itself: then the double is less, too.
    trial.run(60, true, |_| Some(4_000));
    trial.run(15, true, |_| Some(10_000));
    assert_eq!(trial.pace(), PACE_MIN);
}

#[test]
fn few_writes_are_not_judged() {
    let mut trial = PacerTrial::new();
    trial.run(20, false, |_| Some(2_000));
    trial.run(1, true, |_| None);
    for second in 0..60 {
        trial.run(1, true, |_| None);
        trial.pacer.observe(WRITER, 1_000_000 * second, 1);
    }
    assert_eq!(trial.pace(), PACE_MAX, "one a second has no percentile");
}

#[test]
fn slowest_writer_counts_and_one_that_is_gone_does_not() {
    let mut trial = PacerTrial::new();
    let other = WRITER + 1;
    let run = |trial: &mut PacerTrial, seconds: u64, has_build, latency_us| {
        for _ in 0..seconds * WINDOW_NS / TURN_NS {
            trial.pacer.observe(other, latency_us, TURN_WRITES);
            trial.now_ns += TURN_NS;
            world::set_time(Some(trial.now_ns));
            trial.pacer.observe(WRITER, 4_000, 200 * TURN_WRITES);
            while has_build && trial.pacer.is_due() {
                trial.pacer.spend(trial.now_ns / 1_000_000, STEP_BYTES);
            }
        }
    };
    world::set_time(Some(trial.now_ns));
    run(&mut trial, 20, false, 4_000);
    run(&mut trial, 10, true, 40_000);
    assert_eq!(trial.pace(), PACE_MIN, "few of all writes are slow, but all of one group");
    trial.pacer.forget(other);
    trial.run(30, true, |_| Some(4_000));
    assert_eq!(trial.pace(), PACE_MAX);
}

#[test]
fn builds_share_the_pace_and_time_that_passed_is_not_saved_up() {
    let mut trial = PacerTrial::new();
    world::set_time(Some(trial.now_ns));
    let now_ms = trial.now_ns / 1_000_000;
    trial.pacer.spend(now_ms, PACE_MAX / 4);
    trial.pacer.spend(now_ms, PACE_MAX / 4);
    assert_eq!(trial.pacer.delay(), Duration::from_millis(500));
    trial.now_ns += 60 * WINDOW_NS;
    world::set_time(Some(trial.now_ns));
    assert!(trial.pacer.is_due());
    trial.pacer.spend(trial.now_ns / 1_000_000, PACE_MAX / 4);
    assert_eq!(trial.pacer.delay(), Duration::from_millis(250));
}
