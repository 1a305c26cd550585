//! Progress of a run: one line for every interval, and a bar.

use crate::charts::short;
use crate::config::Config;
use crate::load::{ReportRow, RunObserver, RunPart};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;

/// Observer that prints the progress.
pub struct ProgressPrinter {
    bar: ProgressBar,
    labels: Vec<String>,
    total_s: Option<f64>,
    warm_up_s: f64,
}

impl ProgressPrinter {
    /// Returns the printer of a run. The bar shows only on a terminal.
    pub fn new(config: &Config) -> ProgressPrinter {
        let total_s = config.duration.map(|duration| duration.as_secs_f64());
        let warm_up_s = config.warm_up.as_secs_f64();
        let milliseconds = total_s.map(|total| ((total + warm_up_s) * 1000.0) as u64);
        let bar = milliseconds.map_or_else(ProgressBar::no_length, progress_bar);
        let labels = config.operations.iter().map(|weighted| weighted.label.clone()).collect();
        ProgressPrinter { bar, labels, total_s, warm_up_s }
    }
}

/// Returns a bar of this many steps; it shows only on a terminal.
pub fn progress_bar(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    let style = ProgressStyle::with_template("{bar:40} {percent:>3}% {msg}");
    bar.set_style(style.expect("the template is ours").progress_chars("=> "));
    bar
}

/// Formats an interval as a line: throughput, latencies and errors.
pub fn line(row: &ReportRow, labels: &[String]) -> String {
    let part = if row.part == RunPart::WarmUp { "warm-up" } else { "" };
    let per_second = row.ok() as f64 / row.window_s.max(1e-9);
    let mut text = format!("{:>8.1}s {part:<7} {:>7}/s", row.elapsed_s, short(per_second));
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for (label, operation) in labels.iter().zip(&row.operations) {
        if let Some(latency) = &operation.latency {
            let microseconds =
                |quantile| short(latency.value_at_quantile(quantile) as f64 / 1000.0);
            let (p50, p99) = (microseconds(0.5), microseconds(0.99));
            text.push_str(&format!("  {label} p50 {p50} p99 {p99} us"));
        }
        for (kind, count) in &operation.errors {
            *errors.entry(format!("{label} {kind}")).or_default() += count;
        }
    }
    for (error, count) in errors {
        text.push_str(&format!("  {count} x {error}"));
    }
    text
}

impl RunObserver for ProgressPrinter {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        let line = line(row, &self.labels);
        self.bar.suspend(|| println!("{line}"));
        self.bar.set_position(((row.elapsed_s + self.warm_up_s) * 1000.0) as u64);
        if let Some(total_s) = self.total_s
            && row.elapsed_s >= total_s
        {
            self.bar.finish_and_clear();
        }
        Ok(())
    }
}

impl Drop for ProgressPrinter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
