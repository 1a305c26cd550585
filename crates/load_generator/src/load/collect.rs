//! Collector of the windows of all threads: sums them to rows for the reports and to totals of the
//! run.

use super::causality::Causality;
use super::record::{OperationWindow, RunPart, ThreadMessage, new_histogram};
use crate::config::Config;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Longest time between two calls of an observer, which may read the keyboard.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// One row of the reports: a window, summed over all threads.
#[derive(Clone, Debug)]
pub struct ReportRow {
    /// Part of the run that the window belongs to.
    pub part: RunPart,
    /// Seconds from the start of the measured part to the end of the window.
    pub elapsed_s: f64,
    /// Length of the window in seconds.
    pub window_s: f64,
    /// Measurements by operation, in the order of the config.
    pub operations: Vec<OperationWindow>,
}

impl ReportRow {
    /// Returns the number of operations that succeeded.
    pub fn ok(&self) -> u64 {
        self.operations.iter().map(|operation| operation.ok).sum()
    }

    /// Returns the number of operations that failed.
    pub fn failed(&self) -> u64 {
        self.operations.iter().map(OperationWindow::failed).sum()
    }
}

impl OperationWindow {
    /// Returns the number of operations that failed.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Adds another thread's window.
    fn add(&mut self, other: OperationWindow) {
        add_histogram(&mut self.latency, other.latency);
        add_histogram(&mut self.service, other.service);
        add_histogram(&mut self.failure, other.failure);
        for (sum, other) in self.call_times.iter_mut().zip(other.call_times) {
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
    /// Label in reports.
    pub label: String,
    /// Time from the (intended) start of operations that succeeded, nanoseconds.
    pub latency: Histogram<u64>,
    /// Time from sending, nanoseconds. `None`: the load is closed.
    pub service: Option<Histogram<u64>>,
    /// Time of operations that failed, nanoseconds.
    pub failure: Histogram<u64>,
    /// Time of the gets and of the puts that updates consist of, nanoseconds.
    pub call_times: [Option<Histogram<u64>>; 2],
    /// Contexts and values of the rows found. `None`: the server reports none.
    pub causality: Option<Box<Causality>>,
    /// Number that succeeded before the end of the measured part.
    pub ok: u64,
    /// Number that succeeded after the end.
    pub late: u64,
    /// Number that found no row.
    pub missing: u64,
    /// Number of test_and_sets that found another value than expected.
    pub not_applied: u64,
    /// Number that failed, by kind.
    pub errors: BTreeMap<String, u64>,
}

/// Measurements of a whole run.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Length of the measured part, seconds.
    pub seconds: f64,
    /// Totals by operation, in the order of the config.
    pub operations: Vec<OperationTotals>,
    /// Operations of an open load that were due and never started.
    pub unstarted: u64,
    /// Operations that were in flight and unanswered when the run was over.
    pub unanswered: u64,
}

impl Collected {
    /// Returns the number of operations that succeeded before the end of the measured part.
    pub fn ok(&self) -> u64 {
        self.operations.iter().map(|operation| operation.ok).sum()
    }

    /// Returns the number of operations that failed.
    pub fn failed(&self) -> u64 {
        self.operations.iter().flat_map(|operation| operation.errors.values()).sum()
    }

    /// Returns the operations that succeeded, a second.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.ok() as f64 / self.seconds } else { 0.0 }
    }
}

/// Observer of a running load.
pub trait RunObserver {
    /// Receives a complete row. An error ends the run.
    fn row(&mut self, row: &ReportRow) -> Result<(), String>;

    /// Returns false to end the run. Called about every 100 ms or more often.
    fn should_continue(&mut self) -> bool {
        true
    }
}

/// An observer that ignores every row.
pub struct NullObserver;

impl RunObserver for NullObserver {
    fn row(&mut self, _row: &ReportRow) -> Result<(), String> {
        Ok(())
    }
}

struct Collector<'a> {
    config: &'a Config,
    /// Number of windows that each thread has reported; `usize::MAX` if it has finished.
    reported: Vec<usize>,
    incomplete: BTreeMap<usize, ReportRow>,
    collected: Collected,
    failed: Option<String>,
}

/// Collects the threads' messages until all threads have finished.
pub fn collect(
    config: &Config,
    receiver: &Receiver<ThreadMessage>,
    stop: &AtomicBool,
    observer: &mut dyn RunObserver,
) -> Result<Collected, String> {
    let operations = config.operations.iter().map(|weighted| OperationTotals {
        label: weighted.label.clone(),
        latency: new_histogram(),
        service: config.is_open().then(new_histogram),
        failure: new_histogram(),
        call_times: [None, None],
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
        incomplete: BTreeMap::new(),
        collected,
        failed: None,
    };
    loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(message) => collector.on_message(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        collector.emit_complete_rows(observer);
        if collector.failed.is_some() || !observer.should_continue() {
            stop.store(true, Ordering::Relaxed);
        }
    }
    collector.reported.fill(usize::MAX);
    collector.emit_complete_rows(observer);
    match collector.failed {
        Some(error) => Err(error),
        None => Ok(collector.collected),
    }
}

impl Collector<'_> {
    fn on_message(&mut self, message: ThreadMessage) {
        match message {
            ThreadMessage::Window { thread, index, part, end_s, window_s, operations } => {
                self.reported[thread] = index + 1;
                let elapsed_s = end_s - self.config.warm_up.as_secs_f64();
                let Some(row) = self.incomplete.get_mut(&index) else {
                    self.incomplete
                        .insert(index, ReportRow { part, elapsed_s, window_s, operations });
                    return;
                };
                // Threads whose keys end early have a shorter last window.
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

    /// Passes rows that every thread has reported to the observer and to the totals.
    fn emit_complete_rows(&mut self, observer: &mut dyn RunObserver) {
        let complete = self.reported.iter().copied().min().unwrap_or(0);
        while let Some(entry) = self.incomplete.first_entry() {
            if *entry.key() >= complete {
                break;
            }
            let row = entry.remove();
            // An empty last row is omitted.
            let is_empty = row.window_s <= 0.0 && row.ok() + row.failed() == 0;
            if row.part != RunPart::Late
                && !is_empty
                && let Err(error) = observer.row(&row)
            {
                self.failed.get_or_insert(error);
            }
            if row.part != RunPart::WarmUp {
                self.add_to_totals(row);
            }
        }
    }

    fn add_to_totals(&mut self, row: ReportRow) {
        let is_late = row.part == RunPart::Late;
        if !is_late {
            self.collected.seconds += row.window_s;
        }
        for (total, window) in self.collected.operations.iter_mut().zip(row.operations) {
            let message = "all histograms have the same bounds";
            if let Some(latency) = window.latency {
                total.latency.add(latency).expect(message);
            }
            if let (Some(total), Some(service)) = (&mut total.service, window.service) {
                total.add(service).expect(message);
            }
            if let Some(failure) = window.failure {
                total.failure.add(failure).expect(message);
            }
            for (total, times) in total.call_times.iter_mut().zip(window.call_times) {
                add_histogram(total, times);
            }
            if let Some(causality) = window.causality {
                total.causality.get_or_insert_default().add(&causality);
            }
            if is_late {
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
