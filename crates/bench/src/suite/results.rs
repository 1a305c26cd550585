//! Results of a suite.

use super::file::Suite;
use super::soak::SoakRun;
use crate::charts::short;
use crate::codec::Way;
use crate::machine::Machine;
use crate::median::median;
use crate::report::Percentiles;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// The suite's name.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// When it began, UTC.
    pub started: String,
    /// The version of this program.
    pub credenza: String,
    /// Where it ran; what was known before may be of another.
    pub machine: Machine,
    /// What each server says of itself.
    pub versions: BTreeMap<String, String>,
    /// Who was left out, because the program is not here.
    pub left_out: Vec<String>,
    /// Runs that failed, and why.
    pub failures: Vec<String>,
    /// The codec's ways; empty: not measured.
    pub codec: Vec<Way>,
    /// Where those ran, if not on `machine`.
    #[serde(default)]
    pub codec_elsewhere: Option<Machine>,
    /// In the order in which they were begun.
    pub points: Vec<Point>,
    /// In the order in which they were begun.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub soaks: Vec<SoakRun>,
}

/// One load on one server with so many clients.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Which load.
    pub measure: String,
    /// Which server.
    pub server: String,
    /// How many clients.
    pub clients: usize,
    /// When its suite began, UTC.
    pub started: String,
    /// Whether it was a short look.
    pub quick: bool,
    /// Where it ran, if not on the results' `machine`.
    #[serde(default)]
    pub elsewhere: Option<Machine>,
    /// Median of the runs.
    pub median: Median,
    /// Every run.
    pub runs: Vec<Run>,
}

/// Medians, each of its own.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Median {
    /// Operations a second.
    pub throughput: f64,
    /// Latency, microseconds.
    pub p50_us: f64,
    /// Latency, microseconds.
    pub p99_us: f64,
    /// The disk before the run, microseconds.
    pub fdatasync_us: f64,
    /// Cores the server used.
    pub server_cpu: f64,
    /// Cores the load used; near 1 it, not the server, was the bound.
    pub driver_cpu: f64,
    /// Most memory the server held, bytes.
    pub memory_bytes: f64,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Run {
    /// What the server says of itself.
    pub version: String,
    /// Operations a second.
    pub throughput: f64,
    /// Latency.
    pub latency_us: Percentiles,
    /// Operations that failed.
    pub failed: u64,
    /// Why.
    pub errors: BTreeMap<String, u64>,
    /// Median of 4 KiB writes with fdatasync just before, microseconds.
    pub fdatasync_us: f64,
    /// Cores the server used.
    pub server_cpu: f64,
    /// Cores the load used.
    pub driver_cpu: f64,
    /// Most memory the server held, bytes.
    pub memory_bytes: u64,
}

impl Run {
    /// In one line.
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
        if self.failed > 0 {
            text.push_str(&format!("  FAILED {} {:?}", self.failed, self.errors));
        }
        text
    }
}

impl Results {
    /// Nothing yet.
    pub fn new(suite: &Suite, started: String, machine: Machine) -> Results {
        Results {
            name: suite.name.clone(),
            about: suite.about.clone(),
            started,
            credenza: env!("CARGO_PKG_VERSION").into(),
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

    /// Adds a soak; of one that is repeated the last counts.
    pub fn add_soak(&mut self, run: SoakRun, quick: bool) {
        self.versions.insert(run.server.clone(), run.version.clone());
        self.soaks.retain(|known| (&known.soak, &known.server) != (&run.soak, &run.server));
        self.soaks.push(SoakRun { started: self.started.clone(), quick, ..run });
    }

    /// Adds a run.
    pub fn add(&mut self, measure: &str, server: &str, clients: usize, quick: bool, run: Run) {
        self.versions.insert(server.into(), run.version.clone());
        let at = self.points.iter().position(|point| {
            point.measure == measure && point.server == server && point.clients == clients
        });
        let at = at.unwrap_or_else(|| {
            let (measure, server) = (measure.to_string(), server.to_string());
            let (median, runs) = (Median::default(), Vec::new());
            let started = self.started.clone();
            let elsewhere = None;
            let point = Point { measure, server, clients, started, quick, elsewhere, median, runs };
            self.points.push(point);
            self.points.len() - 1
        });
        let point = &mut self.points[at];
        point.runs.push(run);
        let of = |number: fn(&Run) -> f64| median(point.runs.iter().map(number));
        point.median = Median {
            throughput: of(|run| run.throughput),
            p50_us: of(|run| run.latency_us.p50),
            p99_us: of(|run| run.latency_us.p99),
            fdatasync_us: of(|run| run.fdatasync_us),
            server_cpu: of(|run| run.server_cpu),
            driver_cpu: of(|run| run.driver_cpu),
            memory_bytes: of(|run| run.memory_bytes as f64),
        };
    }

    /// A point, if it was run.
    pub fn point(&self, measure: &str, server: &str, clients: usize) -> Option<&Point> {
        self.points.iter().find(|point| {
            point.measure == measure && point.server == server && point.clients == clients
        })
    }

    /// What is known with these results added: a measure that was run anew replaces what it was
    /// before. Measures of another machine stay, and say so: servers are compared within a measure.
    pub fn merged_into(&self, known: Option<Results>) -> Results {
        let mut all = self.clone();
        let Some(mut known) = known else { return all };
        known.are_told_by(&self.machine);
        let is_new = |name: &str| self.points.iter().any(|point| point.measure == name);
        all.points.extend(known.points.into_iter().filter(|point| !is_new(&point.measure)));
        let is_new = |name: &str| self.soaks.iter().any(|run| run.soak == name);
        all.soaks.extend(known.soaks.into_iter().filter(|run| !is_new(&run.soak)));
        for (server, version) in known.versions {
            all.versions.entry(server).or_insert(version);
        }
        let of_points = all.points.iter().map(|point| &point.server);
        let run: BTreeSet<_> = of_points.chain(all.soaks.iter().map(|run| &run.server)).collect();
        let has_run = |server: &String| run.contains(server);
        all.left_out.retain(|server| !has_run(server));
        if all.codec.is_empty() {
            (all.codec, all.codec_elsewhere) = (known.codec, known.codec_elsewhere);
        }
        all
    }

    /// Makes this the machine that is not named.
    fn are_told_by(&mut self, machine: &Machine) {
        let before = std::mem::replace(&mut self.machine, machine.clone());
        let points = self.points.iter_mut().map(|point| &mut point.elsewhere);
        let soaks = self.soaks.iter_mut().map(|run| &mut run.elsewhere);
        for elsewhere in points.chain(soaks).chain([&mut self.codec_elsewhere]) {
            let ran_on = elsewhere.take().unwrap_or_else(|| before.clone());
            *elsewhere = Some(ran_on).filter(|ran_on| ran_on != machine);
        }
    }

    /// Reads `results.json`; none if there is none, or one of another form.
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
