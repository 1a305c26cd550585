//! Progress of a long load inside a suite: a line every ten seconds.

use load_generator::charts::short;
use load_generator::console::print_progress;
use load_generator::load::{ReportRow, RunObserver};
use std::time::Instant;

/// Seconds between two lines; a load that is shorter has none.
const LINE_INTERVAL_S: f64 = 10.0;

/// Observer that prints a line now and then.
pub struct ProgressLine {
    label: String,
    printed_s: f64,
    ok: u64,
    failed: u64,
}

impl ProgressLine {
    /// Returns the progress of a load with this label.
    pub fn new(label: impl Into<String>) -> ProgressLine {
        ProgressLine { label: label.into(), printed_s: 0.0, ok: 0, failed: 0 }
    }

    /// Counts a row; returns the line that is due after it.
    fn count(&mut self, row: &ReportRow) -> Option<String> {
        self.ok += row.ok();
        self.failed += row.failed();
        let elapsed_s = row.elapsed_s;
        let since_s = elapsed_s - self.printed_s;
        if since_s < LINE_INTERVAL_S {
            return None;
        }
        self.printed_s = elapsed_s;
        let rate = short(std::mem::take(&mut self.ok) as f64 / since_s);
        let failed = match std::mem::take(&mut self.failed) {
            0 => String::new(),
            failed => format!(", {failed} failed"),
        };
        Some(format!("    {elapsed_s:>6.0} s  {}: {rate}/s{failed}", self.label))
    }
}

impl RunObserver for ProgressLine {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        if let Some(line) = self.count(row) {
            print_progress(&format!("{line}\n"));
        }
        Ok(())
    }
}

/// Progress of a known number of steps: a line every ten seconds.
pub struct CountProgress {
    label: String,
    all: u64,
    begin: Instant,
    printed_s: f64,
}

impl CountProgress {
    /// Returns the progress of so many steps, which begin now.
    pub fn new(label: impl Into<String>, all: u64) -> CountProgress {
        CountProgress { label: label.into(), all, begin: Instant::now(), printed_s: 0.0 }
    }

    /// Prints the line that is due when so many steps are done.
    pub fn observe(&mut self, done: u64) {
        if let Some(line) = self.line(done, self.begin.elapsed().as_secs_f64()) {
            print_progress(&format!("{line}\n"));
        }
    }

    fn line(&mut self, done: u64, elapsed_s: f64) -> Option<String> {
        if elapsed_s - self.printed_s < LINE_INTERVAL_S {
            return None;
        }
        self.printed_s = elapsed_s;
        let (done, all) = (short(done as f64), short(self.all as f64));
        Some(format!("    {elapsed_s:>6.0} s  {}: {done} of {all}", self.label))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use load_generator::load::{OperationWindow, RunPart};

    #[test]
    fn progress_has_a_line_every_ten_seconds_with_the_rate_since_the_last() {
        let mut progress = ProgressLine::new("writers");
        let lines = (1..=20).filter_map(|second| {
            let window = OperationWindow { ok: second * 100, ..OperationWindow::default() };
            progress.count(&ReportRow {
                part: RunPart::Measured,
                elapsed_s: second as f64,
                window_s: 1.0,
                operations: vec![window],
            })
        });
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines, ["        10 s  writers: 550/s", "        20 s  writers: 1550/s"]);
    }

    #[test]
    fn count_has_a_line_every_ten_seconds() {
        let mut progress = CountProgress::new("updates", 5_000_000);
        let lines: Vec<_> = [1.0, 9.9, 10.0, 19.0, 21.0]
            .into_iter()
            .filter_map(|elapsed_s| progress.line(elapsed_s as u64 * 20_000, elapsed_s))
            .collect();
        let expected = ["        10 s  updates: 200k of 5M", "        21 s  updates: 420k of 5M"];
        assert_eq!(lines, expected);
    }
}
