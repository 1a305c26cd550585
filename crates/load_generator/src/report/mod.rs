//! Report of a run: Basho Bench's tables, one JSON report, percentile files and charts.
//!
//! Promises: the CSV files have Basho Bench's names and columns, byte for byte, so its scripts read
//! them; percentiles in the JSON and `.hgrm` files are of the whole run.
//! Never: overwrites an older run.
//! Read next: `csv.rs`, then `summary.rs`.

mod csv;
mod description;
mod hgrm;
mod live;
mod plots;
mod progress;
mod summary;
#[cfg(test)]
mod tests;

pub use csv::{Csv, file_label};
pub use description::{describe_load, title};
pub use live::Live;
pub use plots::Curves;
pub use progress::{ProgressPrinter, progress_bar};
pub use summary::{Percentiles, RunReport, merged_latency};

use crate::config::Config;
use crate::load::{Collected, ReportRow, RunObserver};
use base::utc_time::UtcTime;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A run's folder.
pub struct Folder {
    /// Path of the folder.
    pub path: PathBuf,
}

impl Folder {
    /// Creates `test_dir/name` and points the link `test_dir/current` to it.
    pub fn create(test_dir: &Path, name: &str) -> Result<Folder, String> {
        let path = test_dir.join(name);
        std::fs::create_dir_all(test_dir)
            .and_then(|()| std::fs::create_dir(&path))
            .map_err(|error| format!("can't make {}: {error}", path.display()))?;
        // The new link replaces the old one in one step.
        let (link, temporary_link) = (test_dir.join("current"), test_dir.join(".current"));
        let _ = std::fs::remove_file(&temporary_link);
        std::os::unix::fs::symlink(name, &temporary_link)
            .and_then(|()| std::fs::rename(&temporary_link, &link))
            .map_err(|error| format!("can't link {}: {error}", link.display()))?;
        Ok(Folder { path })
    }

    /// Writes a file of the folder.
    pub fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.path.join(name);
        std::fs::write(&path, text)
            .map_err(|error| format!("can't write {}: {error}", path.display()))
    }

    /// Writes the files whose contents are known only at the end.
    pub fn finish(
        &self,
        config: &Config,
        report: &RunReport,
        collected: &Collected,
        curves: &Curves,
    ) -> Result<(), String> {
        let json = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
        self.write("report.json", &json)?;
        self.write("errors.csv", &csv::errors_text(collected))?;
        for operation in &collected.operations {
            let label = csv::file_label(&operation.label);
            self.write(&format!("{label}.hgrm"), &hgrm::text(&operation.latency))?;
            if !operation.failure.is_empty() {
                self.write(&format!("{label}_errors.hgrm"), &hgrm::text(&operation.failure))?;
            }
        }
        self.write("all.hgrm", &hgrm::text(&summary::merged_latency(collected)))?;
        for (name, chart) in curves.charts(&title(config, report), config, collected)? {
            self.write(&name, &chart)?;
        }
        Ok(())
    }
}

/// Several observers of one run.
pub struct Observers<'a>(pub Vec<&'a mut dyn RunObserver>);

impl RunObserver for Observers<'_> {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        self.0.iter_mut().try_for_each(|observer| observer.row(row))
    }

    fn should_continue(&mut self) -> bool {
        // Every observer is called, because each may read the keyboard.
        let mut should_continue = true;
        for observer in &mut self.0 {
            should_continue &= observer.should_continue();
        }
        should_continue
    }
}

/// Formats a time as `YYYYMMDD_HHMMSS`, UTC: the default name of a run.
pub fn time_name(time: SystemTime) -> String {
    let unix_seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let UtcTime { year, month, day, hour, minute, second } = UtcTime::from_unix(unix_seconds);
    format!("{year:04}{month:02}{day:02}_{hour:02}{minute:02}{second:02}")
}
