//! Pacer of background builds: how many bytes a second the builds of this node may read and write,
//! by the latency that clients' writes have meanwhile.
//!
//! Each writer, which is a group, reports the latency of its clients' writes. Their 99th percentile
//! while no build runs is the writer's *baseline*. While one runs, the pace falls once a writer's
//! percentile comes near twice its baseline, and rises while it does not. Two rules keep the
//! baseline true during a long build. A build never makes writes faster: so a percentile below the
//! baseline lowers it. At the lowest pace a build is hardly felt: so the percentile of a writer
//! without a baseline is taken there, and so is that of one that stays slow there for
//! [`SLOW_WINDOWS_MAX`] windows, because its load has changed.
//!
//! Promises: the pace is [`PACE_MIN`] at least and [`PACE_MAX`] at most, in all builds of a node
//! together; it is the highest while nobody writes; a writer takes the memory of one histogram.
//! Never: waits; decides which build takes the next step.

use crate::latency_histogram::LatencyHistogram;
use crate::world;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// Lowest pace, in bytes a second: a build ends, however slow writes are.
pub const PACE_MIN: u64 = 1 << 20;
/// Highest pace, in bytes a second.
pub const PACE_MAX: u64 = 32 << 20;
/// Pace at which a build beside writers with known baselines begins, in bytes a second.
const PACE_START: u64 = 4 << 20;
/// Least length of a window of latencies, and least time between two changes of the pace, in
/// nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;
/// Length at which a window with too few writes ends without a percentile, in nanoseconds.
const WINDOW_NS_MAX: u64 = 5 * WINDOW_NS;
/// Least number of writes of which a 99th percentile is taken.
const WRITES_MIN: u64 = 100;
/// Time without a step after which no build runs, and time without a write after which a writer
/// does not count, in nanoseconds.
const QUIET_NS: u64 = 2 * WINDOW_NS;
/// Baseline below which latencies are compared with this one, in microseconds: what timers and the
/// scheduler add would stop builds beside very fast writes.
const BASELINE_US_MIN: u64 = 1_000;
/// Windows in a row that a writer may be slow at the lowest pace, before that is its baseline.
const SLOW_WINDOWS_MAX: u32 = 30;

/// Effect of a window of one writer on the pace, in the order of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PaceChange {
    /// To the lowest pace: the writer has no baseline yet.
    Lowest,
    /// Lower: writes take nearly twice as long as without a build.
    Lower,
    /// As it is.
    Unchanged,
    /// Higher: there is room.
    Higher,
}

/// Latencies of one writer.
struct WriterLatency {
    window: LatencyHistogram,
    window_begun_ns: u64,
    /// True if a build ran when the window began.
    is_during_build: bool,
    last_write_ns: u64,
    /// 99th percentile without a build, in microseconds. `None`: it is not known.
    baseline_us: Option<u64>,
    /// Windows in a row in which it was slow at the lowest pace.
    slow_windows: u32,
}

impl WriterLatency {
    fn new(now_ns: u64) -> WriterLatency {
        WriterLatency {
            window: LatencyHistogram::default(),
            window_begun_ns: now_ns,
            is_during_build: false,
            last_write_ns: now_ns,
            baseline_us: None,
            slow_windows: 0,
        }
    }

    /// Adds writes. `pace`: that of the builds that run; `None`: none does. Returns what follows
    /// for the pace at the end of a window during a build.
    fn add(
        &mut self,
        now_ns: u64,
        (latency_us, writes): (u64, u32),
        pace: Option<u64>,
    ) -> Option<PaceChange> {
        if self.is_during_build != pace.is_some() {
            // What a window has from before a build began, or ended, says nothing about either.
            self.begin_window(now_ns, pace.is_some());
        }
        self.last_write_ns = now_ns;
        self.window.add(latency_us, writes);
        let age_ns = now_ns.saturating_sub(self.window_begun_ns);
        let has_enough = self.window.total() >= WRITES_MIN && age_ns >= WINDOW_NS;
        if !has_enough && age_ns < WINDOW_NS_MAX {
            return None;
        }
        let p99_us = self.window.p99_us();
        self.begin_window(now_ns, pace.is_some());
        match pace {
            Some(_) if !has_enough => Some(PaceChange::Higher),
            Some(pace) => Some(self.judge(p99_us, pace == PACE_MIN)),
            None if !has_enough => None,
            None => {
                let known_us = self.baseline_us.unwrap_or(p99_us);
                // The mean of about the last eight windows: single ones vary.
                self.baseline_us = Some(known_us - known_us / 8 + p99_us / 8);
                None
            }
        }
    }

    fn begin_window(&mut self, now_ns: u64, is_during_build: bool) {
        self.window = LatencyHistogram::default();
        (self.window_begun_ns, self.is_during_build) = (now_ns, is_during_build);
    }

    /// Compares the percentile of a window with the baseline, and corrects the baseline.
    fn judge(&mut self, p99_us: u64, is_lowest_pace: bool) -> PaceChange {
        let Some(known_us) = self.baseline_us else {
            if !is_lowest_pace {
                return PaceChange::Lowest;
            }
            self.baseline_us = Some(p99_us);
            return PaceChange::Unchanged;
        };
        let baseline_us = known_us.max(BASELINE_US_MIN);
        // Below twice the baseline: the pace must fall before it is reached.
        if p99_us * 4 >= baseline_us * 7 {
            self.slow_windows = if is_lowest_pace { self.slow_windows + 1 } else { 0 };
            if self.slow_windows >= SLOW_WINDOWS_MAX {
                (self.baseline_us, self.slow_windows) = (Some(p99_us), 0);
            }
            return PaceChange::Lower;
        }
        self.slow_windows = 0;
        self.baseline_us = Some(known_us - known_us.saturating_sub(p99_us) / 8);
        if p99_us * 2 <= baseline_us * 3 { PaceChange::Higher } else { PaceChange::Unchanged }
    }

    fn is_active(&self, now_ns: u64) -> bool {
        now_ns < self.last_write_ns + QUIET_NS
    }
}

/// State behind the lock.
struct BuildPacerState {
    writers: BTreeMap<u32, WriterLatency>,
    /// Pace while somebody writes, in bytes a second.
    pace: u64,
    /// Time of the last change of the pace, and the strongest effect of a window since then.
    changed_ns: u64,
    next_change: Option<PaceChange>,
    /// Time at which the next step may begin. `None`: there was no step yet.
    free_ns: Option<u64>,
}

impl BuildPacerState {
    fn is_building(&self, now_ns: u64) -> bool {
        self.free_ns.is_some_and(|free_ns| now_ns < free_ns.saturating_add(QUIET_NS))
    }

    /// Returns the pace of this moment.
    fn pace(&self, now_ns: u64) -> u64 {
        let is_written = self.writers.values().any(|writer| writer.is_active(now_ns));
        if is_written { self.pace } else { PACE_MAX }
    }

    /// Begins with a build after a time without one.
    fn begin_build(&mut self, now_ns: u64) {
        let is_unknown =
            |writer: &WriterLatency| writer.is_active(now_ns) && writer.baseline_us.is_none();
        self.pace = if self.writers.values().any(is_unknown) { PACE_MIN } else { PACE_START };
        (self.changed_ns, self.next_change) = (now_ns, None);
    }

    /// Changes the pace by the end of a writer's window: by the strongest one of a second, if there
    /// are several writers.
    fn change_pace(&mut self, now_ns: u64, change: PaceChange) {
        let change = self.next_change.map_or(change, |earlier| earlier.min(change));
        if now_ns < self.changed_ns + WINDOW_NS {
            self.next_change = Some(change);
            return;
        }
        let pace = match change {
            PaceChange::Lowest => PACE_MIN,
            PaceChange::Lower => self.pace / 2,
            PaceChange::Unchanged => self.pace,
            PaceChange::Higher => self.pace + self.pace / 2,
        };
        self.pace = pace.clamp(PACE_MIN, PACE_MAX);
        (self.changed_ns, self.next_change) = (now_ns, None);
    }
}

/// See the head of this file.
pub struct BuildPacer(Mutex<BuildPacerState>);

impl Default for BuildPacer {
    fn default() -> BuildPacer {
        BuildPacer(Mutex::new(BuildPacerState {
            writers: BTreeMap::new(),
            pace: PACE_START,
            changed_ns: 0,
            next_change: None,
            free_ns: None,
        }))
    }
}

impl BuildPacer {
    fn state(&self) -> MutexGuard<'_, BuildPacerState> {
        self.0.lock().expect("no one panics while holding it")
    }

    /// Notes writes of this latency, in microseconds, which clients of a writer have made.
    pub fn observe(&self, writer: u32, latency_us: u64, writes: u32) {
        let now_ns = world::nanoseconds();
        let mut guard = self.state();
        let state = &mut *guard;
        let pace = state.is_building(now_ns).then_some(state.pace);
        let latency = state.writers.entry(writer).or_insert_with(|| WriterLatency::new(now_ns));
        if let Some(change) = latency.add(now_ns, (latency_us, writes), pace) {
            state.change_pace(now_ns, change);
        }
    }

    /// Forgets a writer that is gone, with its baseline.
    pub fn forget(&self, writer: u32) {
        self.state().writers.remove(&writer);
    }

    /// Notes a step that has begun at this time, in milliseconds, and has read and written this
    /// many bytes: the next one may begin once the pace allows for them.
    pub fn spend(&self, begun_ms: u64, bytes: u64) {
        let now_ns = world::nanoseconds();
        let mut state = self.state();
        if !state.is_building(now_ns) {
            state.begin_build(now_ns);
        }
        let cost_ns = bytes.saturating_mul(1_000_000_000) / state.pace(now_ns);
        let begun_ns = state.free_ns.unwrap_or(0).max(begun_ms.saturating_mul(1_000_000));
        state.free_ns = Some(begun_ns.saturating_add(cost_ns));
    }

    /// Returns the time until the next step may begin.
    pub fn delay(&self) -> Duration {
        let free_ns = self.state().free_ns.unwrap_or(0);
        Duration::from_nanos(free_ns.saturating_sub(world::nanoseconds()))
    }

    /// Returns true if the next step may begin.
    pub fn is_due(&self) -> bool {
        self.delay().is_zero()
    }

    /// Returns the pace of the builds that run, in bytes a second. `None`: none runs.
    pub fn bytes_per_second(&self) -> Option<u64> {
        let now_ns = world::nanoseconds();
        let state = self.state();
        state.is_building(now_ns).then(|| state.pace(now_ns))
    }
}

#[cfg(test)]
mod tests;
