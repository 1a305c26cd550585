//! Flame graphs: where the processor time of running processes goes, as SVG.
//!
//! `perf` of Linux takes the samples; the graph needs no other program.
//!
//! Promises: the same samples give the same SVG; a frame's title has its name and its share.
//! Never: changes or stops the processes.
//! Read next: `stacks.rs`, then `svg.rs`.

mod stacks;
mod svg;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// Samples a second and processor: a prime, so that periodic work is not met at one place.
const SAMPLES_PER_SECOND: &str = "199";
/// Length of a recording; a load that is shorter is recorded to its end and a moment of idleness.
const RECORD_SECONDS: &str = "5";
/// Bytes of the stack that are copied for each sample: enough for 60 frames of optimised code.
const STACK: &str = "dwarf,8192";

/// A recording that is under way.
pub struct Recording {
    thread: JoinHandle<Result<(), String>>,
}

impl Recording {
    /// Records processes from `delay` on, and writes the graph to a file.
    pub fn start(processes: Vec<u32>, delay: Duration, file: PathBuf) -> Recording {
        Recording { thread: std::thread::spawn(move || record(&processes, delay, &file)) }
    }

    /// Waits for the graph.
    pub fn finish(self) -> Result<(), String> {
        self.thread.join().map_err(|_| "the recording's thread panicked".to_string())?
    }
}

fn record(processes: &[u32], delay: Duration, file: &Path) -> Result<(), String> {
    std::thread::sleep(delay);
    let samples = file.with_extension("perf");
    let processes: Vec<_> = processes.iter().map(u32::to_string).collect();
    let samples_path = samples.display().to_string();
    let recorded = perf(&[
        &["record", "-q", "-F", SAMPLES_PER_SECOND, "--call-graph", STACK, "-o", &samples_path],
        &["-p", &processes.join(","), "--", "sleep", RECORD_SECONDS],
    ]);
    let text = recorded.and_then(|_| perf(&[&["script", "--no-inline", "-i", &samples_path]]));
    // The file of samples is large, and the graph has what matters of it.
    let _ = std::fs::remove_file(&samples);
    let stacks = stacks::fold(&text?);
    if stacks.is_empty() {
        return Err("perf took no sample: was the server idle?".into());
    }
    let title = file.file_stem().unwrap_or_default().to_string_lossy().replace('-', " ");
    std::fs::write(file, svg::draw(&title, &stacks))
        .map_err(|error| format!("{}: {error}", file.display()))
}

fn perf(arguments: &[&[&str]]) -> Result<String, String> {
    let mut command = Command::new("perf");
    for part in arguments {
        command.args(*part);
    }
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        format!("can't start `perf`: {error}; as root: apt-get install -y linux-perf")
    })?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let remedy = "as root, or with `sysctl kernel.perf_event_paranoid=1`";
        return Err(format!("perf failed ({remedy}): {}", stderr.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
