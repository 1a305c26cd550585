//! Beats of long tasks, by which a watchdog tells a task that works or rests from one that stands
//! still.
//!
//! A task changes its beat whenever it begins or ends to work: one relaxed store, without a clock.
//! The watchdog alone measures time: it looks once a second, and counts for how long a beat has not
//! changed. A pause of the whole process or machine is no time that passed.
//!
//! Never: says why a task stands still.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Time for which a task may work, or rest beyond its pause, before it is late, in milliseconds.
pub const LATE_MS: u64 = 10_000;
/// Time for which a task may wait for the disk before it is late, in milliseconds.
pub const LATE_DISK_MS: u64 = 60_000;
/// Pause of a task that rests until an event.
const UNTIL_EVENT_MS: u64 = u64::MAX;

/// Activity of a task, the lowest two bits of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The task waits for its next turn.
    Rests,
    /// The task works.
    Works,
    /// The task works on files.
    UsesDisk,
}

impl Activity {
    /// Returns the name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Rests => "rests",
            Activity::Works => "works",
            Activity::UsesDisk => "uses the disk",
        }
    }

    fn of_state(state: u64) -> Activity {
        match state & 3 {
            0 => Activity::Rests,
            1 => Activity::Works,
            _ => Activity::UsesDisk,
        }
    }
}

/// Measure of the work that a thread has done, for work on files that takes long in one piece.
type ProgressProbe = Box<dyn Fn() -> Option<u64> + Send + Sync>;

/// Beat of one task. The task alone changes it; the watchdog alone observes it.
pub struct Beat {
    name: String,
    /// Number of changes, and the [`Activity`].
    state: AtomicU64,
    pause_max_ms: AtomicU64,
    progress: OnceLock<ProgressProbe>,
    /// State and progress at the watchdog's last look.
    observed: (AtomicU64, AtomicU64),
    /// Time since they changed, in milliseconds.
    unchanged_ms: AtomicU64,
}

/// Beat of a task as the watchdog saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatStatus {
    /// Name of the task, behind that of its scope.
    pub name: String,
    /// Activity of the task.
    pub activity: Activity,
    /// Time since the beat changed, in milliseconds.
    pub unchanged_ms: u64,
    /// True if the beat is late: the task stands still.
    pub is_late: bool,
}

impl Beat {
    /// Returns the beat of a task that rests until an event.
    pub fn new(name: impl Into<String>) -> Beat {
        Beat {
            name: name.into(),
            state: AtomicU64::new(0),
            pause_max_ms: AtomicU64::new(UNTIL_EVENT_MS),
            progress: OnceLock::new(),
            observed: Default::default(),
            unchanged_ms: AtomicU64::new(0),
        }
    }

    /// Returns the name of the task.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the longest time for which the task rests. By default it rests until an event.
    pub fn set_pause_max(&self, pause: Duration) {
        let pause_ms = u64::try_from(pause.as_millis()).unwrap_or(UNTIL_EVENT_MS);
        self.pause_max_ms.store(pause_ms, Relaxed);
    }

    /// Sets a measure of the work done: while it changes, work on files is not late.
    pub fn set_progress(&self, probe: impl Fn() -> Option<u64> + Send + Sync + 'static) {
        let _ = self.progress.set(Box::new(probe)); // The first one stays.
    }

    /// Notes that the task works.
    #[inline]
    pub fn work(&self) {
        self.change(1);
    }

    /// Notes that the task works on files.
    #[inline]
    pub fn use_disk(&self) {
        self.change(2);
    }

    /// Notes that the task rests.
    #[inline]
    pub fn rest(&self) {
        self.change(0);
    }

    #[inline]
    fn change(&self, activity: u64) {
        // No other thread stores it.
        let changes = self.state.load(Relaxed) >> 2;
        self.state.store(changes.wrapping_add(1) << 2 | activity, Relaxed);
    }

    /// Observes the beat, this long after the last look.
    pub(crate) fn observe(&self, elapsed_ms: u64) {
        let state = self.state.load(Relaxed);
        let mut changed = self.observed.0.swap(state, Relaxed) != state;
        if Activity::of_state(state) == Activity::UsesDisk
            && let Some(progress) = self.progress.get().and_then(|probe| probe())
        {
            changed |= self.observed.1.swap(progress, Relaxed) != progress;
        }
        let unchanged_ms = self.unchanged_ms.load(Relaxed).saturating_add(elapsed_ms);
        self.unchanged_ms.store(if changed { 0 } else { unchanged_ms }, Relaxed);
    }

    /// Returns the beat at the last look. `scope`: name of the task's scope.
    pub(crate) fn status(&self, scope: &str) -> BeatStatus {
        let activity = Activity::of_state(self.observed.0.load(Relaxed));
        let late_ms = match activity {
            Activity::Rests => self.pause_max_ms.load(Relaxed).saturating_add(LATE_MS),
            Activity::Works => LATE_MS,
            Activity::UsesDisk => LATE_DISK_MS,
        };
        let unchanged_ms = self.unchanged_ms.load(Relaxed);
        let name = format!("{scope}: {}", self.name);
        BeatStatus { name, activity, unchanged_ms, is_late: unchanged_ms >= late_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn late(beat: &Beat, looks: u64) -> bool {
        (0..looks).for_each(|_| beat.observe(1_000));
        beat.status("node").is_late
    }

    #[test]
    fn working_task_is_late_after_ten_seconds_and_on_the_disk_after_sixty() {
        let beat = Beat::new("merger");
        beat.work();
        assert!(!late(&beat, 10), "it was first seen at the first look");
        assert!(late(&beat, 1));
        assert_eq!(beat.status("loops").name, "loops: merger");
        beat.use_disk();
        assert!(!late(&beat, 60) && late(&beat, 1));
        beat.work();
        assert!(!late(&beat, 1), "every change is a beat");
    }

    #[test]
    fn resting_task_is_late_beyond_its_pause_only() {
        let beat = Beat::new("group 1");
        beat.rest();
        assert!(!late(&beat, 100_000), "it rests until an event");
        beat.set_pause_max(Duration::from_secs(1));
        beat.rest();
        assert!(!late(&beat, 11) && late(&beat, 1));
        beat.rest();
        assert!(!late(&beat, 1));
    }

    #[test]
    fn long_work_on_files_is_not_late_while_it_makes_progress() {
        let (beat, done) = (Beat::new("merger"), Arc::new(AtomicU64::new(1)));
        let probe = done.clone();
        beat.set_progress(move || Some(probe.load(Relaxed)));
        beat.use_disk();
        for _ in 0..10 {
            assert!(!late(&beat, 50));
            done.fetch_add(1, Relaxed);
        }
        assert!(late(&beat, 62), "it stands still");
    }
}
