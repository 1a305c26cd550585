//! Suites: the same load on several servers, in turn, on the same machine.
//!
//! Promises: one server runs at a time, bound to one core, the load to another; every run begins
//! with a fresh data directory; servers take turns (ABBA), and of the repeats the median counts; a
//! suite that was interrupted can be continued.
//! Never: ends a process that it did not start; hides the speed of the disk during the runs.
//! Read next: `file.rs`, then `run.rs` and `point.rs`.

mod bounds;
mod coupons;
mod failover;
mod feeds;
mod file;
mod flames;
mod goals;
mod measure;
mod metrics;
mod output;
mod overview;
mod point;
mod process;
mod progress;
mod published;
mod published_experiments;
mod relay;
mod results;
mod run;
mod server;
mod sizes;
mod soak;
mod store_program;
mod tables;
#[cfg(test)]
mod tests;
mod work;

pub use file::LoadOverrides;
pub use flames::draw_flame_graphs;
pub use output::write_pages;
pub use process::Process;
pub use run::run;

use std::path::{Path, PathBuf};

/// The suites that every binary contains, by name, in the order in which `make bench` runs them.
pub const SUITES: [(&str, &str); 14] = [
    ("performance", include_str!("../../suites/performance.toml")),
    ("available", include_str!("../../suites/available.toml")),
    ("cluster", include_str!("../../suites/cluster.toml")),
    ("large", include_str!("../../suites/large.toml")),
    ("both-cores", include_str!("../../suites/both-cores.toml")),
    ("arakoon", include_str!("../../suites/arakoon.toml")),
    ("growth", include_str!("../../suites/growth.toml")),
    ("garbage", include_str!("../../suites/garbage.toml")),
    ("coupons", include_str!("../../suites/coupons.toml")),
    ("queries", include_str!("../../suites/queries.toml")),
    ("pgo", include_str!("../../suites/pgo.toml")),
    ("cost", include_str!("../../suites/cost.toml")),
    ("training", include_str!("../../suites/training.toml")),
    ("smoke", include_str!("../../suites/smoke.toml")),
];

/// Options of a suite from the command line.
#[derive(Clone, Debug, Default)]
pub struct SuiteOptions {
    /// Folder of the results.
    pub results: PathBuf,
    /// Folder of the servers' data while they run. `None`: beside the results.
    pub data: Option<PathBuf>,
    /// The server's program. `None`: the one beside this program.
    pub program: Option<PathBuf>,
    /// Folder of the peers' programs.
    pub peers: PathBuf,
    /// Folder of documents that gets the suite's document. `None`: no document.
    pub documents: Option<PathBuf>,
    /// Number of repeats. `None`: the file's.
    pub repeat: Option<usize>,
    /// Names of the measures or points to run; empty: all.
    pub only: Vec<String>,
    /// True if the newest run of the suite is continued: what it has of this commit is kept.
    pub resume: bool,
    /// Options that change the suite's loads.
    pub overrides: LoadOverrides,
}

/// Returns the text of a suite: a file, or one that this binary contains.
pub fn suite_text(name: &str) -> Result<String, String> {
    match SUITES.iter().find(|(suite_name, _)| *suite_name == name) {
        Some((_, text)) => Ok(text.to_string()),
        None => load_generator::console::read(Path::new(name)),
    }
}

fn create_directory(directory: &Path) -> Result<(), String> {
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("can't make {}: {error}", directory.display()))
}
