//! Standard output and standard error, and files that are read as text.

use crate::error::BenchError;
use crate::report::RunReport;
use std::io::Write;
use std::path::Path;

/// Prints a run's report: as JSON, or as a table, a sentence and the path of its files.
pub fn print_report(report: &RunReport, folder: &Path, json: bool) -> Result<(), BenchError> {
    if json {
        let json = serde_json::to_string_pretty(report).map_err(|error| error.to_string())?;
        return Ok(print(&format!("{json}\n"))?);
    }
    let (table, verdict, folder) = (report.text(), report.verdict(), folder.display());
    let plots = "throughput.svg, latencies.svg, distribution.svg";
    Ok(print(&format!("{table}{verdict}written to {folder} (plots: {plots})\n"))?)
}

/// Returns the text of a file.
pub fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("can't read {}: {error}", file.display()))
}

/// Prints a text. A closed pipe is not an error.
pub fn print(text: &str) -> Result<(), String> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("can't write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// Prints progress to standard error, so that standard output has results alone. A failed print is
/// ignored: nothing depends on it.
pub fn print_progress(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
