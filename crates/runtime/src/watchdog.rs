//! Watchdog over every long task: a thread of its own, which looks at the beats once a second.
//!
//! Promises: a task that stands still is reported within a second of being late, and until it goes
//! on, with what it waits for if that is known; a watchdog that stands still itself reports that.
//! Never: ends or restarts a task.

use crate::beat::{Activity, Beat, BeatStatus, LATE_MS};
use crate::maintenance_signal::MaintenanceSignal;
use crate::tasks::TaskScope;
use crate::world;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pause between two looks, in milliseconds.
const PAUSE_MS: u64 = 1_000;
/// Most of the time between two looks that counts: the process or the machine stood still else.
const COUNTED_MS_MAX: u64 = 2 * PAUSE_MS;

/// Time for which a task must have been late before the process is to be restarted, in
/// milliseconds. The alarm `stalled` comes with the first look: operators have this time to see
/// what stands still, and a task that goes on by itself costs no restart.
const RESTART_LATE_MS: u64 = 60_000;

/// See the head of this file.
pub struct Watchdog {
    /// Parents of the watched tasks.
    scopes: Vec<TaskScope>,
    /// Beats of threads that are in no scope.
    threads: Vec<Arc<Beat>>,
    /// Time of the last look, in milliseconds. 0: there was none.
    looked_ms: AtomicU64,
    /// Tasks that stood still at the last look, each with what it waits for.
    late: Mutex<BTreeMap<String, Option<&'static str>>>,
    closed: AtomicBool,
    signal: MaintenanceSignal,
}

impl Watchdog {
    /// Returns the watchdog of these scopes and threads.
    pub fn new(scopes: Vec<TaskScope>, threads: Vec<Arc<Beat>>) -> Watchdog {
        Watchdog {
            scopes,
            threads,
            looked_ms: AtomicU64::new(0),
            late: Mutex::default(),
            closed: AtomicBool::new(false),
            signal: MaintenanceSignal::default(),
        }
    }

    /// Looks once a second, until it is closed.
    pub fn run(&self) {
        while !self.closed.load(Ordering::Acquire) {
            self.look(world::milliseconds());
            self.signal.wait(Duration::from_millis(PAUSE_MS));
        }
    }

    /// Ends the watch: a node that stops is not watched.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.signal.raise();
    }

    /// Observes all beats at this time, and logs tasks that stand still or go on again.
    pub fn look(&self, now_ms: u64) {
        let last_ms = self.looked_ms.swap(now_ms.max(1), Ordering::Relaxed);
        let elapsed_ms = if last_ms == 0 { 0 } else { now_ms.saturating_sub(last_ms) };
        let mut late = BTreeMap::new();
        self.visit(&mut |scope, beat| {
            beat.observe(elapsed_ms.min(COUNTED_MS_MAX));
            let status = beat.status(scope);
            if status.is_late {
                late.insert(status.name, status.place);
            }
        });
        let mut known = self.late.lock().expect("no one panics while holding it");
        for (task, waits_for) in late.iter().filter(|(task, _)| !known.contains_key(*task)) {
            tracing::error!(target: "node", task, waits_for, "a task stands still");
        }
        for task in known.keys().filter(|task| !late.contains_key(*task)) {
            tracing::info!(target: "node", task, "a task goes on or has ended");
        }
        *known = late;
    }

    /// Returns the beats at the last look: first those of tasks that stand still, then those that
    /// changed longest ago.
    pub fn beats(&self) -> Vec<BeatStatus> {
        let mut beats = Vec::new();
        self.visit(&mut |scope, beat| beats.push(beat.status(scope)));
        beats.sort_by_key(|beat| (!beat.is_late, std::cmp::Reverse(beat.unchanged_ms)));
        beats
    }

    /// Returns the beats of the tasks that stand still.
    pub fn late_beats(&self) -> Vec<BeatStatus> {
        let mut beats = self.beats();
        beats.retain(|beat| beat.is_late);
        beats
    }

    /// Returns true if no task stands still, nor this watchdog. Before its first look, and once it
    /// is closed, nothing is late.
    pub fn is_all_well(&self) -> bool {
        let is_looking = self.silence_ms() < LATE_MS;
        is_looking && self.late.lock().expect("no one panics while holding it").is_empty()
    }

    /// Returns the tasks that have stood still for so long that the process is to be restarted. The
    /// watchdog itself may be one of them.
    pub fn tasks_to_restart(&self) -> Vec<BeatStatus> {
        let mut beats = self.beats();
        let silence_ms = self.silence_ms();
        if let Some(late_ms) = silence_ms.checked_sub(LATE_MS) {
            beats.push(BeatStatus {
                name: "threads: watchdog".into(),
                activity: Activity::Works,
                place: None,
                unchanged_ms: silence_ms,
                is_late: true,
                late_ms,
            });
        }
        beats.retain(needs_restart);
        beats
    }

    /// Returns the time since the last look, in milliseconds. Before the first one, and once the
    /// watchdog is closed, there is none.
    fn silence_ms(&self) -> u64 {
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        match looked_ms == 0 || self.closed.load(Ordering::Acquire) {
            true => 0,
            false => world::milliseconds().saturating_sub(looked_ms),
        }
    }

    fn visit(&self, visitor: &mut dyn FnMut(&str, &Beat)) {
        self.threads.iter().for_each(|beat| visitor("threads", beat));
        self.scopes.iter().for_each(|scope| scope.visit_beats(visitor));
    }
}

/// Decides whether a process is to be restarted for a task: it stands still, and has done so for
/// [`RESTART_LATE_MS`].
fn needs_restart(beat: &BeatStatus) -> bool {
    beat.is_late && beat.late_ms >= RESTART_LATE_MS
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beat::Watch;
    use crate::round;
    use std::future::pending;
    use std::sync::mpsc;

    fn look(watchdog: &Watchdog, seconds: std::ops::RangeInclusive<u64>) {
        seconds.for_each(|second| watchdog.look(second * 1_000));
    }

    #[tokio::test]
    async fn thread_that_stands_still_is_reported_until_it_goes_on() {
        let scope = TaskScope::new("loops");
        let (go, wait) = mpsc::channel::<()>();
        let (reached, is_reached) = mpsc::channel();
        let body = move |beat: &Beat| {
            beat.work();
            reached.send(()).expect("the test waits");
            let _ = wait.recv();
        };
        scope.start_thread("housekeeper", body).expect("a thread");
        is_reached.recv().expect("it works");
        let watchdog = Watchdog::new(vec![scope.clone()], Vec::new());
        look(&watchdog, 1..=10);
        assert!(watchdog.late_beats().is_empty());
        look(&watchdog, 11..=12);
        let late = watchdog.late_beats();
        assert_eq!((late.len(), late[0].name.as_str()), (1, "loops: housekeeper"));
        assert_eq!(late[0].activity, Activity::Works);
        assert!(!watchdog.is_all_well());
        drop(go);
        assert!(scope.cancel_and_wait(Duration::from_secs(60)).await.is_empty());
        look(&watchdog, 13..=13);
        assert!(watchdog.beats().is_empty());
    }

    #[tokio::test]
    async fn task_that_does_not_come_round_is_late_with_what_it_waits_for() {
        let scope = TaskScope::new("loops");
        let second = Duration::from_secs(1);
        scope.spawn("group 1", Watch::Every(second), pending());
        scope.spawn("idle", Watch::Round(second), round::rest(pending()));
        scope.spawn("counts", Watch::Round(second), round::wait("a reply", pending()));
        scope.spawn("move", Watch::Unbounded("it waits for members"), pending());
        tokio::task::yield_now().await;
        let watchdog = Watchdog::new(vec![scope], Vec::new());
        look(&watchdog, 1..=11);
        assert!(watchdog.late_beats().is_empty());
        look(&watchdog, 12..=100);
        let late = watchdog.late_beats();
        let late: Vec<_> = late.iter().map(|beat| (beat.name.as_str(), beat.place)).collect();
        let expected = [("loops: counts", Some("a reply")), ("loops: group 1", None)];
        assert_eq!(late.len(), 2, "{late:?}");
        assert!(expected.iter().all(|task| late.contains(task)), "{late:?}");
    }

    #[test]
    fn task_that_stands_still_needs_a_restart_a_minute_after_its_alarm() {
        let [merger, idle] = ["merger", "idle"].map(|name| Arc::new(Beat::new(name)));
        merger.work();
        idle.rest();
        let watchdog = Watchdog::new(Vec::new(), vec![merger.clone(), idle]);
        // The time of the last look is what the watchdog's own silence is measured by.
        let look = |second: u64| {
            world::set_time(Some(second * 1_000_000_000));
            watchdog.look(second * 1_000);
        };
        let names = || -> Vec<_> {
            watchdog.tasks_to_restart().into_iter().map(|beat| beat.name).collect()
        };
        for second in 1..=10 {
            look(second);
            assert!(watchdog.is_all_well() && names().is_empty(), "{second}");
        }
        for second in 11..=70 {
            look(second);
            assert!(!watchdog.is_all_well() && names().is_empty(), "{second}");
        }
        look(71);
        assert_eq!(names(), ["threads: merger"]);
        merger.work();
        look(72);
        assert!(watchdog.is_all_well() && names().is_empty(), "it goes on");
        let silent_ms = 72_000 + LATE_MS + RESTART_LATE_MS;
        world::set_time(Some((silent_ms - 1) * 1_000_000));
        assert!(names().is_empty());
        world::set_time(Some(silent_ms * 1_000_000));
        assert_eq!(names(), ["threads: watchdog"]);
        watchdog.close();
        assert!(names().is_empty(), "a node that stops is not watched");
        world::set_time(None);
    }

    #[test]
    fn process_is_restarted_only_for_a_task_that_has_been_late_for_long() {
        let beat = |is_late, late_ms| {
            let (name, activity) = ("loops: merger".into(), Activity::UsesDisk);
            BeatStatus { name, activity, place: None, unchanged_ms: 600_000, is_late, late_ms }
        };
        assert!(!needs_restart(&beat(false, 0)));
        assert!(!needs_restart(&beat(true, RESTART_LATE_MS - 1)));
        assert!(needs_restart(&beat(true, RESTART_LATE_MS)));
        assert!(needs_restart(&beat(true, u64::MAX)));
    }

    #[test]
    fn pause_of_the_whole_process_makes_no_task_late() {
        let beat = Arc::new(Beat::new("log writer"));
        beat.work();
        let watchdog = Watchdog::new(Vec::new(), vec![beat]);
        look(&watchdog, 1..=2);
        watchdog.look(1_000_000);
        assert!(watchdog.late_beats().is_empty());
    }

    #[test]
    fn watchdog_that_stands_still_is_not_well() {
        let watchdog = Watchdog::new(Vec::new(), Vec::new());
        assert!(watchdog.is_all_well(), "it has not begun");
        watchdog.look(1_000);
        world::set_time(Some(1_000_000_000 + (LATE_MS - 1) * 1_000_000));
        assert!(watchdog.is_all_well());
        world::set_time(Some(1_000_000_000 + LATE_MS * 1_000_000));
        assert!(!watchdog.is_all_well());
        watchdog.close();
        assert!(watchdog.is_all_well(), "a node that stops is not watched");
        world::set_time(None);
    }
}
