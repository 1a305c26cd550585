//! Measurements of one thread, window by window.

use super::causality::{Causality, UpdateCall};
use crate::config::Config;
use crate::drivers::RowContext;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, Instant};

/// Longest time that the histograms distinguish, in nanoseconds: an hour; longer ones count as
/// this.
const NANOSECONDS_MAX: u64 = 3_600_000_000_000;
/// Most kinds of errors counted by name; further ones are counted as `other`.
const ERROR_KINDS_MAX: usize = 64;

/// Returns an empty histogram of nanoseconds with three significant digits.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(8, NANOSECONDS_MAX, 3).expect("the bounds are in order")
}

/// Part of the run that a window belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RunPart {
    /// Warm-up: counted nowhere.
    WarmUp,
    /// The measured part.
    Measured,
    /// Answers that came after the end: their latencies count, throughput does not.
    Late,
}

/// Measurements of one operation in one window by one thread.
#[derive(Clone, Debug, Default)]
pub struct OperationWindow {
    /// Time from the (intended) start, nanoseconds, of operations that succeeded.
    pub latency: Option<Histogram<u64>>,
    /// Time from sending, nanoseconds; open loads only.
    pub service: Option<Histogram<u64>>,
    /// Time of operations that failed, nanoseconds.
    pub failure: Option<Histogram<u64>>,
    /// Time of the gets and of the puts that updates consist of, nanoseconds.
    pub call_times: [Option<Histogram<u64>>; 2],
    /// Contexts and values of the rows found. `None`: the server reports none.
    pub causality: Option<Box<Causality>>,
    /// Number that succeeded.
    pub ok: u64,
    /// Number of successes that found no row.
    pub missing: u64,
    /// Number of successful test_and_sets that found another value than expected.
    pub not_applied: u64,
    /// Number that failed, by kind.
    pub errors: BTreeMap<String, u64>,
}

/// Message from a thread to the collector.
#[derive(Debug)]
pub enum ThreadMessage {
    /// A complete window.
    Window {
        /// Index of the thread.
        thread: usize,
        /// Index of the window, the same in every thread.
        index: usize,
        /// Part of the run.
        part: RunPart,
        /// End of the window, in seconds from the start of the load.
        end_s: f64,
        /// Length of the window in seconds.
        window_s: f64,
        /// Measurements by operation, in the order of the config.
        operations: Vec<OperationWindow>,
    },
    /// The end of the thread.
    Finished {
        /// Index of the thread.
        thread: usize,
        /// Operations of an open load that were due and never started.
        unstarted: u64,
        /// Operations in flight that were unanswered when the run ended.
        unanswered: u64,
    },
}

/// Result of an operation.
pub enum OperationResult<'a> {
    /// Success.
    Ok,
    /// Success without a row.
    Missing,
    /// A test_and_set that found another value than expected.
    NotApplied,
    /// Failure, with its kind.
    Error(&'a str),
}

/// Recorder of one thread's windows.
pub struct Recorder {
    thread: usize,
    sender: SyncSender<ThreadMessage>,
    begin: Instant,
    measured_from: Instant,
    end: Option<Instant>,
    interval: Duration,
    is_open: bool,
    part: RunPart,
    index: usize,
    window_begin: Instant,
    window_end: Instant,
    operations: Vec<OperationWindow>,
}

impl Recorder {
    /// Returns a recorder for a load that starts at `begin`.
    pub fn new(
        config: &Config,
        thread: usize,
        sender: SyncSender<ThreadMessage>,
        begin: Instant,
    ) -> Recorder {
        let measured_from = begin + config.warm_up;
        let mut recorder = Recorder {
            thread,
            sender,
            begin,
            measured_from,
            end: config.duration.map(|duration| measured_from + duration),
            interval: config.report_interval,
            is_open: config.is_open(),
            part: if config.warm_up.is_zero() { RunPart::Measured } else { RunPart::WarmUp },
            index: 0,
            window_begin: begin,
            window_end: begin,
            operations: vec![OperationWindow::default(); config.operations.len()],
        };
        recorder.window_end = recorder.end_of_window();
        recorder
    }

    /// Returns the end of the measured part. `None`: the run lasts until it is stopped.
    pub fn end(&self) -> Option<Instant> {
        self.end
    }

    /// Returns the end of the current window.
    pub fn window_end(&self) -> Instant {
        self.window_end
    }

    fn end_of_window(&self) -> Instant {
        let end = self.window_begin + self.interval;
        match self.part {
            RunPart::WarmUp => end.min(self.measured_from),
            _ => self.end.map_or(end, |last| end.min(last)),
        }
    }

    /// Sends all windows that have ended by `now`.
    #[inline]
    pub fn close_windows(&mut self, now: Instant) {
        while now >= self.window_end && self.part != RunPart::Late {
            self.send(self.window_end);
            self.window_begin = self.window_end;
            if self.part == RunPart::WarmUp && self.window_begin >= self.measured_from {
                self.part = RunPart::Measured;
            }
            if self.end.is_some_and(|end| self.window_begin >= end) {
                self.part = RunPart::Late;
            }
            self.window_end = self.end_of_window();
        }
    }

    fn send(&mut self, end: Instant) {
        let empty = vec![OperationWindow::default(); self.operations.len()];
        let message = ThreadMessage::Window {
            thread: self.thread,
            index: self.index,
            part: self.part,
            end_s: (end - self.begin).as_secs_f64(),
            window_s: end.saturating_duration_since(self.window_begin).as_secs_f64(),
            operations: std::mem::replace(&mut self.operations, empty),
        };
        self.index += 1;
        // A send fails only after the collector has ended, which needs no numbers.
        let _ = self.sender.send(message);
    }

    /// Counts one operation that ended at `at`.
    #[inline]
    pub fn record(
        &mut self,
        operation: usize,
        intended: Instant,
        sent: Instant,
        at: Instant,
        result: &OperationResult<'_>,
    ) {
        self.close_windows(at);
        let nanoseconds = |since: Instant| at.saturating_duration_since(since).as_nanos() as u64;
        let counts = &mut self.operations[operation];
        if let OperationResult::Error(kind) = result {
            let is_full = counts.errors.len() >= ERROR_KINDS_MAX;
            let kind = if is_full && !counts.errors.contains_key(*kind) { "other" } else { kind };
            *counts.errors.entry(kind.to_string()).or_default() += 1;
            let failure = counts.failure.get_or_insert_with(new_histogram);
            return failure.saturating_record(nanoseconds(intended));
        }
        counts.ok += 1;
        counts.missing += u64::from(matches!(result, OperationResult::Missing));
        counts.not_applied += u64::from(matches!(result, OperationResult::NotApplied));
        let latency = counts.latency.get_or_insert_with(new_histogram);
        latency.saturating_record(nanoseconds(intended));
        if self.is_open {
            let service = counts.service.get_or_insert_with(new_histogram);
            service.saturating_record(nanoseconds(sent));
        }
    }

    /// Counts the context and the values of a row that was found.
    pub fn record_row(&mut self, operation: usize, row: &RowContext<'_>) {
        if row.values > 0 {
            self.operations[operation].causality.get_or_insert_default().count(row);
        }
    }

    /// Records the time of one of an update's two calls.
    pub fn record_update_call(&mut self, operation: usize, call: UpdateCall, duration: Duration) {
        let histogram = &mut self.operations[operation].call_times[call as usize];
        histogram.get_or_insert_with(new_histogram).saturating_record(duration.as_nanos() as u64);
    }

    /// Sends the last window and the message that the thread has finished.
    pub fn finish(mut self, now: Instant, unstarted: u64, unanswered: u64) {
        self.close_windows(now);
        self.send(now.max(self.window_begin));
        let thread = self.thread;
        let _ = self.sender.send(ThreadMessage::Finished { thread, unstarted, unanswered });
    }
}
