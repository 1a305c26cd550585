//! Basho Bench's tables, with its names, columns and number formats.

use crate::config::Config;
use crate::load::{Causality, Collected, OperationWindow, ReportRow, RunObserver};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Header of `summary.csv`.
pub const SUMMARY: &str = "elapsed, window, total, successful, failed\n";
/// Header of `<label>_latencies.csv`.
pub const LATENCIES: &str =
    "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n";
/// Header of `<label>_causality.csv`: bytes of contexts, and values of a key, of the rows found.
pub const CAUSALITY: &str = "elapsed, window, n, clock_mean, clock_median, clock_99th, clock_max, \
     values_mean, values_99th, values_max\n";
/// Header of `errors.csv`.
pub const ERRORS: &str = "\"error\",\"count\"\n";

/// The tables that grow row by row.
pub struct Csv {
    summary: BufWriter<File>,
    latencies: Vec<BufWriter<File>>,
    /// Created with the first row that has causality, since most servers report none.
    causality: Vec<Option<BufWriter<File>>>,
    folder: PathBuf,
    labels: Vec<String>,
}

fn create(folder: &Path, name: &str, header: &str) -> Result<BufWriter<File>, String> {
    let path = folder.join(name);
    let file = File::create_new(&path).and_then(|file| {
        let mut file = BufWriter::new(file);
        file.write_all(header.as_bytes())?;
        Ok(file)
    });
    file.map_err(|error| format!("can't write {}: {error}", path.display()))
}

impl Csv {
    /// Creates the files with their headers.
    pub fn create(folder: &Path, config: &Config) -> Result<Csv, String> {
        let labels: Vec<_> =
            config.operations.iter().map(|weighted| file_label(&weighted.label)).collect();
        let latencies =
            labels.iter().map(|label| create(folder, &format!("{label}_latencies.csv"), LATENCIES));
        Ok(Csv {
            summary: create(folder, "summary.csv", SUMMARY)?,
            latencies: latencies.collect::<Result<_, _>>()?,
            causality: labels.iter().map(|_| None).collect(),
            folder: folder.to_path_buf(),
            labels,
        })
    }

    fn write_causality(&mut self, row: &ReportRow) -> Result<(), String> {
        let files = self.causality.iter_mut().zip(&self.labels).zip(&row.operations);
        for ((file, label), operation) in files {
            let Some(causality) = &operation.causality else { continue };
            if file.is_none() {
                let name = format!("{label}_causality.csv");
                *file = Some(create(&self.folder, &name, CAUSALITY)?);
            }
            let line = causality_line(row.elapsed_s, row.window_s, causality);
            let Some(file) = file else { continue };
            let written = file.write_all(line.as_bytes()).and_then(|()| file.flush());
            written.map_err(|error| format!("can't write the tables: {error}"))?;
        }
        Ok(())
    }
}

impl RunObserver for Csv {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        if row.part != crate::load::RunPart::Measured {
            return Ok(());
        }
        let write_error = |error: std::io::Error| format!("can't write the tables: {error}");
        self.summary.write_all(summary_line(row).as_bytes()).map_err(write_error)?;
        self.summary.flush().map_err(write_error)?;
        for (file, operation) in self.latencies.iter_mut().zip(&row.operations) {
            let line = latency_line(row.elapsed_s, row.window_s, operation);
            file.write_all(line.as_bytes()).and_then(|()| file.flush()).map_err(write_error)?;
        }
        self.write_causality(row)
    }
}

/// Formats a row of `summary.csv`. Erlang writes seconds as the shortest number with a point in it;
/// so does `{:?}`.
pub fn summary_line(row: &ReportRow) -> String {
    let (ok, failed) = (row.ok(), row.failed());
    let (elapsed, window) = (rounded(row.elapsed_s), rounded(row.window_s));
    format!("{elapsed:?}, {window:?}, {}, {ok}, {failed}\n", ok + failed)
}

/// Formats a row of `<label>_latencies.csv`, in microseconds.
pub fn latency_line(elapsed_s: f64, window_s: f64, operation: &OperationWindow) -> String {
    let (elapsed, window) = (rounded(elapsed_s), rounded(window_s));
    let failed = operation.failed();
    let Some(latency) = operation.latency.as_ref().filter(|latency| !latency.is_empty()) else {
        return format!("{elapsed:?}, {window:?}, 0, 0, 0, 0, 0, 0, 0, 0, {failed}\n");
    };
    let microseconds = |quantile| (latency.value_at_quantile(quantile) + 500) / 1000;
    format!(
        "{elapsed:?}, {window:?}, {}, {}, {:.1}, {}, {}, {}, {}, {}, {failed}\n",
        operation.ok,
        (latency.min() + 500) / 1000,
        latency.mean() / 1000.0,
        microseconds(0.5),
        microseconds(0.95),
        microseconds(0.99),
        microseconds(0.999),
        (latency.max() + 500) / 1000,
    )
}

/// Formats a row of `<label>_causality.csv`.
pub fn causality_line(elapsed_s: f64, window_s: f64, causality: &Causality) -> String {
    let (clock, values) = (&causality.clock_bytes, &causality.values);
    format!(
        "{:?}, {:?}, {}, {:.1}, {}, {}, {}, {:.3}, {}, {}\n",
        rounded(elapsed_s),
        rounded(window_s),
        values.len(),
        clock.mean(),
        clock.value_at_quantile(0.5),
        clock.value_at_quantile(0.99),
        clock.max(),
        values.mean(),
        values.value_at_quantile(0.99),
        values.max(),
    )
}

/// Returns the text of `errors.csv`: one line for every operation and kind.
pub fn errors_text(collected: &Collected) -> String {
    let mut text = ERRORS.to_string();
    for operation in &collected.operations {
        for (kind, count) in &operation.errors {
            let kind = kind.replace('"', "'");
            text.push_str(&format!("\"{{{},{kind}}}\",\"{count}\"\n", operation.label));
        }
    }
    text
}

/// Converts a label to a part of a file name: other characters than letters and digits become `-`.
pub fn file_label(label: &str) -> String {
    label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}
