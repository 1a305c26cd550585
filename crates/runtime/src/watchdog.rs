//! Watchdog over every long task: a thread of its own, which looks at the beats once a second.
//!
//! Promises: a task that stands still is reported within a second of being late, and until it goes
//! on, with what it waits for if that is known; a watchdog that stands still itself reports that.
//! Never: ends or restarts a task.

use crate::beat::{Beat, BeatStatus, LATE_MS};
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
        let looked_ms = self.looked_ms.load(Ordering::Relaxed);
        let looks = looked_ms == 0
            || self.closed.load(Ordering::Acquire)
            || world::milliseconds().saturating_sub(looked_ms) < LATE_MS;
        looks && self.late.lock().expect("no one panics while holding it").is_empty()
    }

    fn visit(&self, visitor: &mut dyn FnMut(&str, &Beat)) {
        self.threads.iter().for_each(|beat| visitor("threads", beat));
        self.scopes.iter().for_each(|scope| scope.visit_beats(visitor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::beat::{Activity, Watch};
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
