//! Suites: the same load on several servers, in turn, on the same machine.
//!
//! Promises: one server runs at a time, bound to one core, the load to another; every run begins
//! with a fresh data directory; servers take turns (ABBA), and of the repeats the median counts.
//! Never: ends a process that it did not start; hides the speed of the disk during the runs.
//! Read next: `file.rs`, then `point.rs`.

mod file;
mod output;
mod point;
mod process;
mod results;
mod soak;
mod tables;
#[cfg(test)]
mod tests;
mod work;

use crate::codec;
use crate::config::Items;
use crate::error::BenchError;
use crate::machine::{Machine, allow_many_files};
use crate::report::time_name;
pub use file::LoadOverrides;
use file::Suite;
pub use process::Process;
use results::Results;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The suites that every binary contains, by name.
const SUITES: [(&str, &str); 6] = [
    ("performance", include_str!("../../suites/performance.toml")),
    ("growth", include_str!("../../suites/growth.toml")),
    ("sustained", include_str!("../../suites/sustained.toml")),
    ("both-cores", include_str!("../../suites/both-cores.toml")),
    ("cost", include_str!("../../suites/cost.toml")),
    ("smoke", include_str!("../../suites/smoke.toml")),
];
/// The point that needs no server.
const CODEC: &str = "codec";

/// Options of a suite from the command line.
#[derive(Clone, Debug, Default)]
pub struct SuiteOptions {
    /// Folder of the results.
    pub results: PathBuf,
    /// Folder of the servers' data while they run. `None`: beside the results.
    pub data: Option<PathBuf>,
    /// Folder of the peers' programs.
    pub peers: PathBuf,
    /// Folder of documents whose `performance.md` gets the results. `None`: no document.
    pub documents: Option<PathBuf>,
    /// Number of repeats. `None`: the file's.
    pub repeat: Option<usize>,
    /// Names of the measures or points to run; empty: all.
    pub only: Vec<String>,
    /// Options that change the suite's loads.
    pub overrides: LoadOverrides,
}

/// Returns the text of a suite: a file, or one that this binary contains.
pub fn suite_text(name: &str) -> Result<String, String> {
    match SUITES.iter().find(|(suite_name, _)| *suite_name == name) {
        Some((_, text)) => Ok(text.to_string()),
        None => crate::console::read(Path::new(name)),
    }
}

/// Runs a suite and writes its results; returns the folder and the Markdown text.
pub fn run(
    file: &str,
    text: &str,
    options: &SuiteOptions,
    print_line: &mut dyn FnMut(&str),
) -> Result<(PathBuf, String), BenchError> {
    allow_many_files();
    let suite = Suite::read(Items::parse(file, text)?, &options.overrides)?;
    check_names(&suite, &options.only)?;
    let started = time_name(SystemTime::now());
    let folder = options.results.join(format!("{}-{started}", suite.name));
    create_directory(&folder)?;
    let folder = folder.canonicalize().map_err(|error| error.to_string())?;
    let data = options.data.clone().unwrap_or_else(|| folder.join("data"));
    create_directory(&data)?;
    let paths = point::SuitePaths {
        program: program::sibling_program("credenza"),
        peers: options.peers.canonicalize().unwrap_or_else(|_| options.peers.clone()),
        data: data.canonicalize().map_err(|error| error.to_string())?,
        logs: folder.clone(),
    };
    let mut results = Results::new(&suite, started, Machine::current());
    let absent = suite.servers.iter().filter(|(_, server)| !point::is_installed(server, &paths));
    results.left_out = absent.map(|(name, _)| name.clone()).collect();
    for name in &results.left_out {
        print_line(&format!(
            "{name} is left out: its program is not here (`make bench` sets it up)\n"
        ));
    }
    let is_codec_selected =
        options.only.is_empty() || options.only.iter().any(|name| name == CODEC);
    if is_codec_selected && !suite.codec.is_zero() {
        results.codec = codec::measure(suite.codec)?;
    }
    let previous = options
        .documents
        .as_deref()
        .and_then(|documents| Results::read(&output::folder_of(&suite, documents)));
    let rounds = |own: Option<usize>| options.repeat.or(own).unwrap_or(suite.repeat);
    let rounds_max = suite.measures.iter().map(|measure| rounds(measure.repeat)).max().unwrap_or(0);
    for round in 1..=rounds_max {
        run_round(&suite, options, &paths, (round, &rounds), &mut results, print_line)?;
        // The document is written after every round, so that an interrupted suite leaves one of
        // complete rounds.
        if let Some(documents) = &options.documents {
            let merged = results.merged_into(previous.clone());
            output::write_document(&suite, &merged, documents)?;
        }
    }
    run_soaks(&suite, options, (&paths, previous.as_ref()), &mut results, print_line)?;
    // The data directories are gone, so their parent is empty.
    let _ = std::fs::remove_dir(&data);
    let text = output::write(&suite, &results, &folder)?;
    match results.failures.len() {
        0 => Ok((folder, text)),
        many => Err(BenchError::unavailable(format!(
            "{many} runs failed, the others are in {}; the first: {}",
            folder.display(),
            results.failures[0]
        ))),
    }
}

/// Runs one round: every point once, on each point the servers in turn. A failed run is recorded,
/// and the other runs continue.
fn run_round(
    suite: &Suite,
    options: &SuiteOptions,
    paths: &point::SuitePaths,
    (round, rounds): (usize, &dyn Fn(Option<usize>) -> usize),
    results: &mut Results,
    print_line: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let quick = options.overrides.quick;
    for (measure, clients) in suite.points() {
        let rounds = rounds(measure.repeat);
        if round > rounds || !measure.is_selected(&options.only, quick) {
            continue;
        }
        // The first server of a round has an idle disk and free memory, the next one has not; so
        // the order alternates.
        let mut order: Vec<_> = measure.servers.iter().collect();
        if round % 2 == 0 {
            order.reverse();
        }
        for server in order {
            if results.left_out.contains(server) {
                continue;
            }
            let run = point::run(suite, measure, server, clients, paths);
            let line = run.as_ref().map_or_else(Clone::clone, results::Run::line);
            print_line(&format!(
                "{round}/{rounds} {:<34} {clients:>5} clients  {server:<18} {line}\n",
                measure.name
            ));
            match run {
                Ok(run) => results.add(&measure.name, server, clients, quick, run),
                Err(error) => results.failures.push(error),
            }
            // The results are written after every run, so that an interrupted suite keeps them.
            results.write(&paths.logs)?;
        }
    }
    Ok(())
}

/// Runs every selected soak once, its servers in turn, then checks its bounds.
fn run_soaks(
    suite: &Suite,
    options: &SuiteOptions,
    (paths, previous): (&point::SuitePaths, Option<&Results>),
    results: &mut Results,
    print_line: &mut dyn FnMut(&str),
) -> Result<(), String> {
    let quick = options.overrides.quick;
    for soak in suite.soaks.iter().filter(|soak| soak.is_selected(&options.only, quick)) {
        for server in &soak.servers {
            if results.left_out.contains(server) {
                continue;
            }
            let run = soak::run(suite, soak, server, paths);
            let line = run.as_ref().map_or_else(Clone::clone, soak::SoakRun::line);
            print_line(&format!("{:<24} {server:<18} {line}\n", soak.name));
            match run {
                Ok(run) => results.add_soak(run, quick),
                Err(error) => results.failures.push(error),
            }
            results.write(&paths.logs)?;
        }
        for verdict in soak::verdicts(soak, &results.soaks) {
            print_line(&format!("{:<24} {}\n", soak.name, verdict.line()));
        }
        if let Some(documents) = &options.documents {
            output::write_document(suite, &results.merged_into(previous.cloned()), documents)?;
        }
    }
    Ok(())
}

fn check_names(suite: &Suite, only: &[String]) -> Result<(), String> {
    let points = || {
        let points = suite.measures.iter().map(|measure| &measure.point);
        points.chain(suite.soaks.iter().map(|soak| &soak.name))
    };
    let is_known = |name: &String| {
        name == CODEC
            || points().any(|point| point == name)
            || suite.measures.iter().any(|measure| measure.name == *name)
    };
    let Some(unknown) = only.iter().find(|name| !is_known(name)) else { return Ok(()) };
    let mut names: Vec<_> = points().map(String::as_str).chain([CODEC]).collect();
    names.dedup();
    Err(format!("there is no point `{unknown}` in this suite: its points are {}", names.join(", ")))
}

fn create_directory(directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("can't make {}: {error}", directory.display()))
}
