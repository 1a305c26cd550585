//! Results of a suite.

use super::file::Suite;
use super::soak::SoakRun;
use crate::codec::CodecResult;
use crate::median::median;
use load_generator::charts::short;
use load_generator::machine::Machine;
use load_generator::report::Percentiles;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All results of a suite.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The suite's name.
    pub name: String,
    /// Time of the start, UTC.
    pub started: String,
    /// The version of this program.
    pub credenza: String,
    /// Commit of the program that was measured; a `+` behind it: with changes. Empty: unknown.
    #[serde(default)]
    pub commit: String,
    /// Machine the suite ran on; older results of others name theirs.
    pub machine: Machine,
    /// Name and version of each server, as it reports them.
    pub versions: BTreeMap<String, String>,
    /// Servers that were left out, because their program is absent.
    pub left_out: Vec<String>,
    /// Runs that failed, each with the error.
    pub failures: Vec<String>,
    /// Results of the codec's implementations; empty: not measured.
    pub codec: Vec<CodecResult>,
    /// Machine the codec was measured on. `None`: `machine`.
    #[serde(default)]
    pub codec_elsewhere: Option<Machine>,
    /// Points in the order in which they were begun.
    pub points: Vec<Point>,
    /// Soaks in the order in which they were begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub soaks: Vec<SoakRun>,
}

/// One load on one server with one number of clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Name of the load.
    pub measure: String,
    /// Name of the server.
    pub server: String,
    /// Number of clients.
    pub clients: usize,
    /// Time at which its suite began, UTC.
    pub started: String,
    /// True if it was a quick run.
    pub quick: bool,
    /// Commit of the program that was measured. Empty: unknown.
    #[serde(default)]
    pub commit: String,
    /// Machine it ran on. `None`: the results' `machine`.
    #[serde(default)]
    pub elsewhere: Option<Machine>,
    /// Medians of the runs.
    pub median: Median,
    /// Every run.
    pub runs: Vec<Run>,
}

/// Medians of the runs, each figure for itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Median {
    /// Operations a second.
    pub throughput: f64,
    /// Median latency, microseconds.
    pub p50_us: f64,
    /// 99th percentile of latency, microseconds.
    pub p99_us: f64,
    /// Time of a 4 KiB write with fdatasync before the run, microseconds.
    pub fdatasync_us: f64,
    /// Cores that the server used.
    pub server_cpu: f64,
    /// Cores that the load used; near 1 the load, not the server, was the bottleneck.
    pub driver_cpu: f64,
    /// Most memory the server held, bytes.
    pub memory_bytes: f64,
    /// Figures of this kind of work alone, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// Name and version of the server, as it reports them.
    pub version: String,
    /// Operations a second.
    pub throughput: f64,
    /// Distribution of the latency.
    pub latency_us: Percentiles,
    /// Number of operations that failed.
    pub failed: u64,
    /// Number of failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// Median time of a 4 KiB write with fdatasync just before, microseconds.
    pub fdatasync_us: f64,
    /// Cores that the server used.
    pub server_cpu: f64,
    /// Cores that the load used.
    pub driver_cpu: f64,
    /// Most memory the server held, bytes.
    pub memory_bytes: u64,
    /// Figures of this kind of work alone, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, f64>,
}

impl Run {
    /// Formats the run as one line.
    pub fn line(&self) -> String {
        let mut text = format!(
            "{:>7}/s  p50 {:>6} p99 {:>6} us  fdatasync {:>5} us  cpu {:.2} server {:.2} load  {}",
            short(self.throughput),
            short(self.latency_us.p50),
            short(self.latency_us.p99),
            short(self.fdatasync_us),
            self.server_cpu,
            self.driver_cpu,
            format_args!("{} MB", self.memory_bytes >> 20)
        );
        for (name, value) in &self.figures {
            text.push_str(&format!("  {name} {}", short(*value)));
        }
        if self.failed > 0 {
            text.push_str(&format!("  FAILED {} {:?}", self.failed, self.errors));
        }
        text
    }
}

impl Point {
    /// Returns the median of a figure by its name in bounds. `None`: it was not measured.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let median = &self.median;
        match name {
            "rate" => Some(median.throughput),
            "p50 ms" => Some(median.p50_us / 1000.0),
            "p99 ms" => Some(median.p99_us / 1000.0),
            "server us/op" => Some(median.server_cpu * 1e6 / median.throughput.max(1e-9)),
            "% of a core" => Some(median.server_cpu * 100.0),
            "memory MiB" => Some(median.memory_bytes / 1_048_576.0),
            name => median.figures.get(name).copied(),
        }
    }
}

/// Returns the median of each figure over the runs that have it.
fn median_figures(runs: &[Run]) -> BTreeMap<String, f64> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.figures.keys()).collect();
    let median_of =
        |name: &String| median(runs.iter().filter_map(|run| run.figures.get(name).copied()));
    names.into_iter().map(|name| (name.clone(), median_of(name))).collect()
}

impl Results {
    /// Returns empty results.
    pub fn new(suite: &Suite, started: String, commit: String, machine: Machine) -> Results {
        Results {
            name: suite.name.clone(),
            started,
            credenza: env!("CARGO_PKG_VERSION").into(),
            commit,
            machine,
            versions: BTreeMap::new(),
            left_out: Vec::new(),
            failures: Vec::new(),
            codec: Vec::new(),
            codec_elsewhere: None,
            points: Vec::new(),
            soaks: Vec::new(),
        }
    }

    /// Adds a soak, in place of an earlier one of the same soak and server.
    pub fn add_soak(&mut self, run: SoakRun, quick: bool) {
        self.versions.insert(run.server.clone(), run.version.clone());
        self.soaks.retain(|other| (&other.soak, &other.server) != (&run.soak, &run.server));
        let (started, commit) = (self.started.clone(), self.commit.clone());
        self.soaks.push(SoakRun { started, commit, quick, ..run });
    }

    /// Adds a run.
    pub fn add(&mut self, measure: &str, server: &str, clients: usize, quick: bool, run: Run) {
        self.versions.insert(server.into(), run.version.clone());
        let index = self.points.iter().position(|point| {
            point.measure == measure && point.server == server && point.clients == clients
        });
        let index = index.unwrap_or_else(|| {
            self.points.push(Point {
                measure: measure.into(),
                server: server.into(),
                clients,
                started: self.started.clone(),
                quick,
                commit: self.commit.clone(),
                elsewhere: None,
                median: Median::default(),
                runs: Vec::new(),
            });
            self.points.len() - 1
        });
        let point = &mut self.points[index];
        point.runs.push(run);
        let median_of = |number: fn(&Run) -> f64| median(point.runs.iter().map(number));
        point.median = Median {
            throughput: median_of(|run| run.throughput),
            p50_us: median_of(|run| run.latency_us.p50),
            p99_us: median_of(|run| run.latency_us.p99),
            fdatasync_us: median_of(|run| run.fdatasync_us),
            server_cpu: median_of(|run| run.server_cpu),
            driver_cpu: median_of(|run| run.driver_cpu),
            memory_bytes: median_of(|run| run.memory_bytes as f64),
            figures: median_figures(&point.runs),
        };
    }

    /// Returns the number of runs of a point.
    pub fn run_count(&self, measure: &str, server: &str, clients: usize) -> usize {
        self.point(measure, server, clients).map_or(0, |point| point.runs.len())
    }

    /// Returns true if a soak was run on a server.
    pub fn has_soak(&self, soak: &str, server: &str) -> bool {
        self.soaks.iter().any(|run| run.soak == soak && run.server == server)
    }

    /// Returns a point. `None`: it was not run.
    pub fn point(&self, measure: &str, server: &str, clients: usize) -> Option<&Point> {
        self.points.iter().find(|point| {
            point.measure == measure && point.server == server && point.clients == clients
        })
    }

    /// Returns these results merged into older ones: a measure that was run anew replaces its older
    /// results. Older results of another machine stay and name it, since servers are compared
    /// within a measure.
    pub fn merged_into(&self, previous: Option<Results>) -> Results {
        let mut merged = self.clone();
        let Some(mut previous) = previous else { return merged };
        previous.set_machine(&self.machine);
        let is_new = |name: &str| self.points.iter().any(|point| point.measure == name);
        merged.points.extend(previous.points.into_iter().filter(|point| !is_new(&point.measure)));
        let is_new = |name: &str| self.soaks.iter().any(|run| run.soak == name);
        merged.soaks.extend(previous.soaks.into_iter().filter(|run| !is_new(&run.soak)));
        for (server, version) in previous.versions {
            merged.versions.entry(server).or_insert(version);
        }
        let point_servers = merged.points.iter().map(|point| &point.server);
        let servers: BTreeSet<_> =
            point_servers.chain(merged.soaks.iter().map(|run| &run.server)).collect();
        let has_results = |server: &String| servers.contains(server);
        merged.left_out.retain(|server| !has_results(server));
        if merged.codec.is_empty() {
            (merged.codec, merged.codec_elsewhere) = (previous.codec, previous.codec_elsewhere);
        }
        merged
    }

    /// Sets the results' machine; points of other machines name theirs, points of this one do not.
    fn set_machine(&mut self, machine: &Machine) {
        let previous_machine = std::mem::replace(&mut self.machine, machine.clone());
        let points = self.points.iter_mut().map(|point| &mut point.elsewhere);
        let soaks = self.soaks.iter_mut().map(|run| &mut run.elsewhere);
        for elsewhere in points.chain(soaks).chain([&mut self.codec_elsewhere]) {
            let run_machine = elsewhere.take().unwrap_or_else(|| previous_machine.clone());
            *elsewhere = Some(run_machine).filter(|run_machine| run_machine != machine);
        }
    }

    /// Reads `results.json`. `None`: it is absent or has another format.
    pub fn read(folder: &Path) -> Option<Results> {
        let text = std::fs::read_to_string(folder.join("results.json")).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes `results.json`.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let json = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        let path = folder.join("results.json");
        std::fs::write(&path, json).map_err(|error| format!("{}: {error}", path.display()))
    }
}
