//! Servers beside each other: the same load on each, turn by turn, on the same machine.
//!
//! Promises: one server runs at a time, bound to one core, the load to another; every run begins
//! with a fresh data directory; servers take turns (ABAB), and of the repeats the median counts.
//! Never: ends a process that it did not start; hides how fast the disk was meanwhile.
//! Read next: `file.rs`, then `point.rs`.

mod file;
mod output;
mod point;
mod process;
mod results;
#[cfg(test)]
mod tests;

use crate::config::Items;
use crate::machine::{Machine, allow_many_files};
use crate::report::time_name;
use file::Suite;
use results::Results;
pub use results::median;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What the command line says of a suite.
#[derive(Clone, Debug, Default)]
pub struct SuiteOptions {
    /// Where results are written.
    pub results: PathBuf,
    /// Where servers keep their data while they run; none: beside the results.
    pub data: Option<PathBuf>,
    /// Where the peers' programs are.
    pub peers: PathBuf,
    /// Another number of repeats than the file's.
    pub repeat: Option<usize>,
    /// Measures to run, by name; empty: all.
    pub only: Vec<String>,
    /// Settings that replace those of every load.
    pub settings: Items,
}

/// Runs a suite and writes its results; gives the folder and the Markdown text.
pub fn run(
    file: &str,
    text: &str,
    options: &SuiteOptions,
    say: &mut dyn FnMut(&str),
) -> Result<(PathBuf, String), String> {
    allow_many_files();
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let suite = Suite::read(Items::parse(file, text)?, &options.settings)?;
    let repeat = options.repeat.unwrap_or(suite.repeat);
    let started = time_name(SystemTime::now());
    let folder = options.results.join(format!("{}-{started}", suite.name));
    make(&folder)?;
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    let data = options.data.clone().unwrap_or_else(|| folder.join("data"));
    make(&data)?;
    let place = point::Place {
        program,
        peers: options.peers.canonicalize().unwrap_or_else(|_| options.peers.clone()),
        data: data.canonicalize().map_err(|error| error.to_string())?,
        logs: folder.clone(),
    };
    let mut results = Results::new(&suite, started, Machine::here());
    for round in 1..=repeat {
        for (measure, clients) in suite.points() {
            if !options.only.is_empty() && !options.only.contains(&measure.name) {
                continue;
            }
            for server in &measure.servers {
                let run = point::run(&suite, measure, server, clients, &place)?;
                say(&format!(
                    "{round}/{repeat} {:<24} {clients:>5} clients  {server:<20} {}\n",
                    measure.name,
                    run.line()
                ));
                results.add(&measure.name, server, clients, run);
                // Written after every run, so that an interrupted suite keeps what it has.
                results.write(&folder)?;
            }
        }
    }
    // What is left of the data directories' parent is empty.
    let _ = std::fs::remove_dir(&data);
    let text = output::write(&suite, &results, &folder)?;
    Ok((folder, text))
}

fn make(directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("can't make {}: {error}", directory.display()))
}
