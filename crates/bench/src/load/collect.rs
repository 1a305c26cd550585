//! Puts the windows of all threads together: rows for the reports, totals of the whole run.

use super::causality::Causality;
use super::record::{OperationWindow, RunPart, ThreadMessage, new_histogram};
use crate::config::Config;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How often a view may look at the keyboard.
const TICK: Duration = Duration::from_millis(100);

/// One row of the reports: a window of all threads.
#[derive(Clone, Debug)]
pub struct ReportRow {
    /// Which part of the run.
    pub part: RunPart,
    /// Seconds from the start of the measured part to the end of the window.
    pub elapsed_s: f64,
    /// How long the window was in seconds.
    pub window_s: f64,
    /// By operation, in the order of the config.
    pub operations: Vec<OperationWindow>,
}

impl ReportRow {
    /// How many operations succeeded.
    pub fn ok(&self) -> u64 {
        self.operations.iter().map(|operation| operation.ok).sum()
    }

    /// How many failed.
    pub fn failed(&self) -> u64 {
        self.operations.iter().map(OperationWindow::failed).sum()
    }
}

impl OperationWindow {
    /// How many failed.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds what another thread measured.
    fn add(&mut self, other: OperationWindow) {
        add_histogram(&mut self.latency, other.latency);
        add_histogram(&mut self.service, other.service);
        add_histogram(&mut self.failure, other.failure);
        for (sum, other) in self.legs.iter_mut().zip(other.legs) {
            add_histogram(sum, other);
        }
        if let Some(causality) = other.causality {
            self.causality.get_or_insert_default().add(&causality);
        }
        self.ok += other.ok;
        self.missing += other.missing;
        self.not_applied += other.not_applied;
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
    }
}

fn add_histogram(sum: &mut Option<Histogram<u64>>, other: Option<Histogram<u64>>) {
    match (sum.as_mut(), other) {
        (Some(sum), Some(other)) => sum.add(other).expect("all histograms have the same bounds"),
        (None, Some(other)) => *sum = Some(other),
        (_, None) => {}
    }
}

/// An operation over the whole measured part.
#[derive(Clone, Debug)]
pub struct OperationTotals {
    /// What reports call it.
    pub label: String,
    /// Time from the (intended) start of those that succeeded, nanoseconds.
    pub latency: Histogram<u64>,
    /// Time from sending; open loads only.
    pub service: Option<Histogram<u64>>,
    /// Time of those that failed.
    pub failure: Histogram<u64>,
    /// Time of the gets and of the puts that updates are made of.
    pub legs: [Option<Histogram<u64>>; 2],
    /// Contexts and values of the rows found, if the server tells them.
    pub causality: Option<Box<Causality>>,
    /// How many succeeded in time.
    pub ok: u64,
    /// How many succeeded after the end.
    pub late: u64,
    /// How many found no row.
    pub missing: u64,
    /// How many test_and_sets found another value.
    pub not_applied: u64,
    /// How many failed, by kind.
    pub errors: BTreeMap<String, u64>,
}

/// What a run measured.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Seconds of the measured part.
    pub seconds: f64,
    /// By operation, in the order of the config.
    pub operations: Vec<OperationTotals>,
    /// Operations of an open load that were due and never started.
    pub unstarted: u64,
    /// Operations that were in flight and unanswered when the run was over.
    pub unanswered: u64,
}

impl Collected {
    /// Operations that succeeded in time.
    pub fn ok(&self) -> u64 {
        self.operations.iter().map(|operation| operation.ok).sum()
    }

    /// Operations that failed.
    pub fn failed(&self) -> u64 {
        self.operations.iter().flat_map(|operation| operation.errors.values()).sum()
    }

    /// Operations a second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.ok() as f64 / self.seconds } else { 0.0 }
    }
}

/// Someone who looks at a run while it goes on.
pub trait RunObserver {
    /// A window is over. An error ends the run.
    fn row(&mut self, row: &ReportRow) -> Result<(), String>;

    /// Called now and then; false ends the run.
    fn goes_on(&mut self) -> bool {
        true
    }
}

struct Collector<'a> {
    config: &'a Config,
    /// How many windows each thread has reported; all, if it has finished.
    reported: Vec<usize>,
    waiting: BTreeMap<usize, ReportRow>,
    collected: Collected,
    failed: Option<String>,
}

/// Takes what the threads report until all have finished.
pub fn collect(
    config: &Config,
    receiver: &Receiver<ThreadMessage>,
    stop: &AtomicBool,
    view: &mut dyn RunObserver,
) -> Result<Collected, String> {
    let operations = config.operations.iter().map(|weighted| OperationTotals {
        label: weighted.label.clone(),
        latency: new_histogram(),
        service: config.is_open().then(new_histogram),
        failure: new_histogram(),
        legs: [None, None],
        causality: None,
        ok: 0,
        late: 0,
        missing: 0,
        not_applied: 0,
        errors: BTreeMap::new(),
    });
    let collected =
        Collected { seconds: 0.0, operations: operations.collect(), unstarted: 0, unanswered: 0 };
    let mut collector = Collector {
        config,
        reported: vec![0; config.threads],
        waiting: BTreeMap::new(),
        collected,
        failed: None,
    };
    loop {
        match receiver.recv_timeout(TICK) {
            Ok(message) => collector.take(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        collector.show(view);
        if collector.failed.is_some() || !view.goes_on() {
            stop.store(true, Ordering::Relaxed);
        }
    }
    collector.reported.fill(usize::MAX);
    collector.show(view);
    match collector.failed {
        Some(error) => Err(error),
        None => Ok(collector.collected),
    }
}

impl Collector<'_> {
    fn take(&mut self, message: ThreadMessage) {
        match message {
            ThreadMessage::Window { thread, index, part, end_s, window_s, operations } => {
                self.reported[thread] = index + 1;
                let elapsed_s = end_s - self.config.warm_up.as_secs_f64();
                let Some(row) = self.waiting.get_mut(&index) else {
                    self.waiting.insert(index, ReportRow { part, elapsed_s, window_s, operations });
                    return;
                };
                // Threads whose keys end early have a last window of their own length.
                row.elapsed_s = row.elapsed_s.max(elapsed_s);
                row.window_s = row.window_s.max(window_s);
                for (sum, other) in row.operations.iter_mut().zip(operations) {
                    sum.add(other);
                }
            }
            ThreadMessage::Finished { thread, unstarted, unanswered } => {
                self.reported[thread] = usize::MAX;
                self.collected.unstarted += unstarted;
                self.collected.unanswered += unanswered;
            }
        }
    }

    /// Hands rows over that every thread has reported.
    fn show(&mut self, view: &mut dyn RunObserver) {
        let complete = self.reported.iter().copied().min().unwrap_or(0);
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() >= complete {
                break;
            }
            let row = entry.remove();
            // A last row of no length holds nothing that the row before it does not.
            let empty = row.window_s <= 0.0 && row.ok() + row.failed() == 0;
            if row.part != RunPart::Late
                && !empty
                && let Err(error) = view.row(&row)
            {
                self.failed.get_or_insert(error);
            }
            if row.part != RunPart::WarmUp {
                self.total(row);
            }
        }
    }

    fn total(&mut self, row: ReportRow) {
        let late = row.part == RunPart::Late;
        if !late {
            self.collected.seconds += row.window_s;
        }
        for (total, window) in self.collected.operations.iter_mut().zip(row.operations) {
            let same = "all histograms have the same bounds";
            if let Some(latency) = window.latency {
                total.latency.add(latency).expect(same);
            }
            if let (Some(total), Some(service)) = (&mut total.service, window.service) {
                total.add(service).expect(same);
            }
            if let Some(failure) = window.failure {
                total.failure.add(failure).expect(same);
            }
            for (total, leg) in total.legs.iter_mut().zip(window.legs) {
                add_histogram(total, leg);
            }
            if let Some(causality) = window.causality {
                total.causality.get_or_insert_default().add(&causality);
            }
            if late {
                total.late += window.ok;
            } else {
                total.ok += window.ok;
            }
            total.missing += window.missing;
            total.not_applied += window.not_applied;
            for (kind, count) in window.errors {
                *total.errors.entry(kind).or_default() += count;
            }
        }
    }
}
