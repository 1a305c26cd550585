//! Beats of long tasks, by which a watchdog tells a task that works or rests from one that stands
//! still.
//!
//! A task changes its beat whenever it begins or ends to work: a relaxed store or two, without a
//! clock. The watchdog alone measures time: it looks once a second, and counts for how long a beat
//! has not changed. A pause of the whole process or machine is no time that passed.
//!
//! A loop comes round when it rests, or makes progress in a long round (`round.rs`). Its [`Watch`]
//! says how long a round may take. A thread tells its beat itself what it does.
//!
//! Never: says why a task stands still.

use crate::round::{LoopWait, PollMarks};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Time for which a task may work, or rest beyond its pause, before it is late, in milliseconds.
pub const LATE_MS: u64 = 10_000;
/// Time for which a task may wait for the disk before it is late, in milliseconds.
pub const LATE_DISK_MS: u64 = 60_000;
/// Pause of a task that rests until an event.
const UNTIL_EVENT_MS: u64 = u64::MAX;

/// Watch over a loop: the time for which it may go without coming round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// The loop comes round at least this often, also without work.
    Every(Duration),
    /// The loop rests until it has work. From then on a round takes at most this long.
    Round(Duration),
    /// The loop may wait for others without a bound, for this reason. It is reported only while a
    /// poll of it does not return.
    Unbounded(&'static str),
}

impl Watch {
    /// Returns the longest rest and the longest round, in milliseconds.
    fn bounds_ms(self) -> (u64, u64) {
        let milliseconds = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        match self {
            Watch::Every(time) => (milliseconds(time), milliseconds(time)),
            Watch::Round(time) => (UNTIL_EVENT_MS, milliseconds(time)),
            Watch::Unbounded(_) => (UNTIL_EVENT_MS, UNTIL_EVENT_MS),
        }
    }
}

/// Activity of a task, the lowest two bits of its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// The task waits for its next turn.
    Rests,
    /// The task works.
    Works,
    /// The task works on files.
    UsesDisk,
    /// The task waits for something in the middle of a round.
    Waits,
}

impl Activity {
    /// Returns the name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Activity::Rests => "rests",
            Activity::Works => "works",
            Activity::UsesDisk => "uses the disk",
            Activity::Waits => "waits",
        }
    }

    fn of_state(state: u64) -> Activity {
        match state & 3 {
            0 => Activity::Rests,
            1 => Activity::Works,
            2 => Activity::UsesDisk,
            _ => Activity::Waits,
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
    /// Number of times that the task came round.
    rounds: AtomicU64,
    pause_max_ms: AtomicU64,
    round_max_ms: AtomicU64,
    /// Event of the last wait in the middle of a round.
    place: Mutex<Option<&'static str>>,
    progress: OnceLock<ProgressProbe>,
    /// State and progress at the watchdog's last look.
    observed: (AtomicU64, AtomicU64),
    /// Rounds at the watchdog's last look.
    observed_rounds: AtomicU64,
    /// Time since state and progress changed, in milliseconds.
    unchanged_ms: AtomicU64,
    /// Time since the task came round, in milliseconds.
    round_ms: AtomicU64,
}

/// Beat of a task as the watchdog saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeatStatus {
    /// Name of the task, behind that of its scope.
    pub name: String,
    /// Activity of the task.
    pub activity: Activity,
    /// Event that the task waits for in the middle of a round, if that is known.
    pub place: Option<&'static str>,
    /// Time since the beat changed, or since the task came round if it waits in the middle of a
    /// round, in milliseconds.
    pub unchanged_ms: u64,
    /// True if the beat is late: the task stands still.
    pub is_late: bool,
    /// Time for which the beat has been late, in milliseconds.
    pub late_ms: u64,
}

impl BeatStatus {
    /// Returns what the task does, for operators.
    pub fn activity_text(&self) -> String {
        match self.place {
            Some(place) => format!("waits for {place}"),
            None => self.activity.name().into(),
        }
    }
}

impl Beat {
    /// Returns the beat of a task that rests until an event.
    pub fn new(name: impl Into<String>) -> Beat {
        Beat {
            name: name.into(),
            state: AtomicU64::new(0),
            rounds: AtomicU64::new(0),
            pause_max_ms: AtomicU64::new(UNTIL_EVENT_MS),
            round_max_ms: AtomicU64::new(UNTIL_EVENT_MS),
            place: Mutex::new(None),
            progress: OnceLock::new(),
            observed: Default::default(),
            observed_rounds: AtomicU64::new(0),
            unchanged_ms: AtomicU64::new(0),
            round_ms: AtomicU64::new(0),
        }
    }

    /// Returns the beat of a loop.
    pub(crate) fn of_loop(name: impl Into<String>, watch: Watch) -> Beat {
        let (pause_max_ms, round_max_ms) = watch.bounds_ms();
        let beat = Beat::new(name);
        beat.pause_max_ms.store(pause_max_ms, Relaxed);
        beat.round_max_ms.store(round_max_ms, Relaxed);
        beat
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

    /// Notes the end of a loop's poll.
    #[inline]
    pub(crate) fn end_poll(&self, marks: PollMarks) {
        if marks.came_round {
            // No other thread stores it.
            self.rounds.store(self.rounds.load(Relaxed).wrapping_add(1), Relaxed);
        }
        match marks.place {
            Some(LoopWait::Rest) => self.rest(),
            Some(LoopWait::Wait(place)) => self.wait(Some(place)),
            None => self.wait(None),
        }
    }

    fn wait(&self, place: Option<&'static str>) {
        *self.place.lock().expect("no one panics while holding it") = place;
        self.change(3);
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
        let rounds = self.rounds.load(Relaxed);
        let came_round = self.observed_rounds.swap(rounds, Relaxed) != rounds
            || Activity::of_state(state) == Activity::Rests;
        let round_ms = self.round_ms.load(Relaxed).saturating_add(elapsed_ms);
        self.round_ms.store(if came_round { 0 } else { round_ms }, Relaxed);
    }

    /// Returns the beat at the last look. `scope`: name of the task's scope.
    pub(crate) fn status(&self, scope: &str) -> BeatStatus {
        let activity = Activity::of_state(self.observed.0.load(Relaxed));
        let (unchanged_ms, round_ms) =
            (self.unchanged_ms.load(Relaxed), self.round_ms.load(Relaxed));
        let round_late_ms = late_since(round_ms, self.round_max_ms.load(Relaxed));
        let late_ms = match activity {
            Activity::Rests => late_since(unchanged_ms, self.pause_max_ms.load(Relaxed)),
            Activity::Works => late_since(unchanged_ms, 0).max(round_late_ms),
            Activity::UsesDisk => late_since(unchanged_ms, LATE_DISK_MS - LATE_MS),
            Activity::Waits => round_late_ms,
        };
        let waits = activity == Activity::Waits;
        let place = *self.place.lock().expect("no one panics while holding it");
        BeatStatus {
            name: format!("{scope}: {}", self.name),
            activity,
            place: place.filter(|_| waits),
            unchanged_ms: match waits || round_late_ms.is_some() {
                true => round_ms,
                false => unchanged_ms,
            },
            is_late: late_ms.is_some(),
            late_ms: late_ms.unwrap_or(0),
        }
    }
}

/// Returns the time for which a beat has been late, in milliseconds. `None`: it is not. `bound_ms`:
/// time that the task may take.
fn late_since(elapsed_ms: u64, bound_ms: u64) -> Option<u64> {
    elapsed_ms.checked_sub(bound_ms.saturating_add(LATE_MS))
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
    fn round_of_a_loop_is_late_beyond_its_bound_however_often_it_is_polled() {
        let beat = Beat::of_loop("counts", Watch::Round(Duration::from_secs(20)));
        let poll = |came_round, place| {
            beat.work();
            beat.end_poll(PollMarks { came_round, place });
        };
        poll(true, Some(LoopWait::Rest));
        assert!(!late(&beat, 100_000), "it waits for work");
        for second in 1..=30 {
            poll(second == 1, Some(LoopWait::Wait("the directory")));
            assert!(!late(&beat, 1), "{second}");
        }
        poll(false, Some(LoopWait::Wait("the directory")));
        assert!(late(&beat, 1));
        let BeatStatus { activity, place, unchanged_ms, .. } = beat.status("loops");
        assert_eq!((activity, place), (Activity::Waits, Some("the directory")));
        assert_eq!(unchanged_ms, 30_000);
        assert!(late(&beat, 7));
        assert_eq!(beat.status("loops").late_ms, 7_000);
        poll(true, None);
        assert!(!late(&beat, 1), "it made progress");
        let BeatStatus { place, late_ms, .. } = beat.status("loops");
        assert_eq!((place, late_ms), (None, 0));
    }

    #[test]
    fn unbounded_loop_is_late_only_while_a_poll_does_not_return() {
        let beat = Beat::of_loop("move of a/b", Watch::Unbounded("it waits for members"));
        beat.work();
        beat.end_poll(PollMarks::default());
        assert!(!late(&beat, 100_000));
        beat.work();
        assert!(!late(&beat, 10) && late(&beat, 1));
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
