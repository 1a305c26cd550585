//! One run of a soak: a fresh server, all loads at the same time, and the measurements.

use super::follow_up::succeeded;
use super::watch::{ServerMeasurements, watch};
use super::{
    DISK_BYTES, DISK_BYTES_MERGED, DISK_SPACE, DISK_SPACE_MERGED, MEMORY, MEMORY_PEAK, RESTART,
    ROWS_WALKED, SERVER_US, Series, Soak, SoakLoad, SoakRun,
};
use crate::flame::Recording;
use crate::median::median;
use crate::suite::file::{Suite, config};
use crate::suite::point::SuitePaths;
use crate::suite::progress::ProgressLine;
use crate::suite::server::{StartedServer, start};
use load_generator::config::Config;
use load_generator::disk;
use load_generator::error::BenchError;
use load_generator::load::{self, Collected, ReportRow, RunObserver};
use load_generator::report::{Percentiles, merged_latency};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes of a MiB.
pub(super) const MEBIBYTE: f64 = 1_048_576.0;
/// Time from the start of the loads to that of a flame graph's recording.
const PROFILE_AFTER: Duration = Duration::from_secs(5);
/// Niceness of other loads' threads, relative to the probe's.
const NICE: i32 = 5;
/// Percentiles that are recorded of each second.
const RECORDED_PERCENTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Record of a load's results, second by second.
pub(super) struct LoadRecord {
    progress: ProgressLine,
    ok: Series,
    failed: u64,
    latency: [Series; RECORDED_PERCENTILES.len()],
}

impl LoadRecord {
    /// Returns the record of a load with this label.
    pub(super) fn new(label: &str) -> LoadRecord {
        let latency = RECORDED_PERCENTILES.map(|_| Series::new());
        LoadRecord { progress: ProgressLine::new(label), ok: Series::new(), failed: 0, latency }
    }
}

impl RunObserver for LoadRecord {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        self.progress.row(row)?;
        let elapsed_s = row.elapsed_s;
        if row.window_s > 0.0 {
            self.ok.push((elapsed_s, row.ok() as f64 / row.window_s));
        }
        self.failed += row.failed();
        let mut merged = load::new_histogram();
        for latency in row.operations.iter().filter_map(|operation| operation.latency.as_ref()) {
            merged.add(latency).expect("all histograms have the same bounds");
        }
        if !merged.is_empty() {
            for (series, (_, quantile)) in self.latency.iter_mut().zip(RECORDED_PERCENTILES) {
                series.push((elapsed_s, merged.value_at_quantile(quantile) as f64 / 1e6));
            }
        }
        Ok(())
    }
}

/// Runs a soak on a server or on a store without one. `flame_graph`: file that gets a flame graph
/// of the server's processor time.
pub fn run(
    suite: &Suite,
    soak: &Soak,
    name: &str,
    paths: &SuitePaths,
    flame_graph: Option<&Path>,
) -> Result<SoakRun, String> {
    let with_context = |error: String| format!("{} on {name}: {error}", soak.name);
    match suite.programs.get(name) {
        Some(program) => super::program::run(soak, (name, program), paths).map_err(with_context),
        None => run_server(suite, soak, name, paths, flame_graph).map_err(with_context),
    }
}

fn run_server(
    suite: &Suite,
    soak: &Soak,
    name: &str,
    paths: &SuitePaths,
    flame_graph: Option<&Path>,
) -> Result<SoakRun, String> {
    let (server, core) = (&suite.servers[name], suite.driver_core);
    let first_config = |placeholders: &_| {
        let mut configs = soak.configs(name, server, placeholders, core)?.into_iter();
        configs.next().map(|(_, config)| config).ok_or_else(|| "it has no load".to_string())
    };
    let load_average = load_average();
    let mut started = start(suite, name, paths, &first_config)?;
    if let Some(items) = &soak.prepare {
        let prepare = config(items, server, None, &started.placeholders, core)?;
        run_preparation(&prepare, &started)?;
    }
    let written_before = started.processes.written_bytes();
    let recording = flame_graph
        .map(|file| Recording::start(started.processes.ids(), PROFILE_AFTER, file.to_path_buf()));
    let loads = soak.configs(name, server, &started.placeholders, core)?;
    let (outcomes, measurements) = run_loads(&soak.name, &loads, &started);
    recording.map_or(Ok(()), Recording::finish)?;
    let mut result = SoakRun {
        soak: soak.name.clone(),
        server: name.into(),
        version: started.target.version(),
        load_average,
        fdatasync_us: started.fdatasync_us,
        ..SoakRun::default()
    };
    let (mut rates, mut operations) = (Vec::new(), 0);
    for (outcome, (load, _)) in outcomes.into_iter().zip(&loads) {
        let outcome = outcome.map_err(|_| "a load's thread panicked".to_string())?;
        let (record, collected) = outcome.map_err(|error| error.text)?;
        rates.push(record.ok.clone());
        operations += succeeded(&collected);
        result.add_load(&load.name, record, &collected);
    }
    let measurements = measurements.map_err(|_| "the watch panicked".to_string())?;
    result.add_measurements(measurements, &rates);
    result.add_written(DISK_BYTES, &started, (written_before, operations));
    result.add_disk_space(DISK_SPACE, &started)?;
    result.add_follow_ups(soak, (server, core), &started)?;
    result.add_written(DISK_BYTES_MERGED, &started, (written_before, operations));
    result.add_disk_space(DISK_SPACE_MERGED, &started)?;
    let peak = started.processes.memory_bytes() as f64 / MEBIBYTE;
    result.whole.insert(MEMORY_PEAK.into(), peak);
    started.processes.check()?;
    if soak.restart {
        let time = started.restart()?;
        result.whole.insert(RESTART.into(), time.as_secs_f64() * 1000.0);
    }
    Ok(result)
}

/// Outcome of a load's thread: its record and its totals, an error, or a panic.
type LoadOutcome = std::thread::Result<Result<(LoadRecord, Collected), BenchError>>;

/// Runs all loads at the same time and watches the server meanwhile.
fn run_loads(
    soak: &str,
    loads: &[(&SoakLoad, Config)],
    started: &StartedServer,
) -> (Vec<LoadOutcome>, std::thread::Result<ServerMeasurements>) {
    let (stop, finished) = (AtomicBool::new(false), AtomicBool::new(false));
    let (target, processes) = (&*started.target, &started.processes);
    let port = started.placeholders.get("port").and_then(|port| port.parse().ok());
    let metrics = port.and_then(|port| metrics_address(&target.version(), port));
    std::thread::scope(|threads| {
        let watcher = threads.spawn(|| watch(processes, metrics, &finished));
        let running: Vec<_> = loads
            .iter()
            .map(|(load, config)| {
                let stop = &stop;
                threads.spawn(move || {
                    if !load.is_probe {
                        // A failure is ignored: the probe then has no priority.
                        let _ = rustix::process::nice(NICE);
                    }
                    let mut record = LoadRecord::new(&format!("{soak}: {}", load.name));
                    let result = load::run(config, target, stop, &mut record);
                    if load.ends_soak {
                        stop.store(true, Ordering::Relaxed);
                    }
                    result.map(|collected| (record, collected))
                })
            })
            .collect();
        let outcomes: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
        finished.store(true, Ordering::Relaxed);
        (outcomes, watcher.join())
    })
}

/// Runs a load that is not measured; fails if an operation does.
fn run_preparation(config: &Config, started: &StartedServer) -> Result<(), String> {
    let mut progress = ProgressLine::new("preparation");
    let no_stop = AtomicBool::new(false);
    let result = load::run(config, &*started.target, &no_stop, &mut progress);
    match result.map_err(|error| error.text)?.failed() {
        0 => Ok(()),
        failed => Err(format!("{failed} operations of the preparation failed")),
    }
}

/// Returns the address of a server's metrics. `None`: it is not Credenza.
fn metrics_address(version: &str, port: u16) -> Option<SocketAddr> {
    version.starts_with("credenza").then(|| SocketAddr::from(([127, 0, 0, 1], port)))
}

impl SoakRun {
    /// Adds the bytes that the server wrote to its disk since a moment, for each operation.
    fn add_written(&mut self, figure: &str, started: &StartedServer, since: (u64, u64)) {
        let (before, operations) = since;
        let written = started.processes.written_bytes().saturating_sub(before);
        self.whole.insert(figure.into(), written as f64 / operations.max(1) as f64);
    }

    /// Adds the disk space that the server's data takes now.
    fn add_disk_space(&mut self, figure: &str, started: &StartedServer) -> Result<(), String> {
        let bytes = disk::used_bytes(&started.data.0)?;
        self.whole.insert(figure.into(), bytes as f64 / MEBIBYTE);
        Ok(())
    }

    pub(super) fn add_load(&mut self, load: &str, record: LoadRecord, collected: &Collected) {
        let figure_name = |figure: &str| format!("{load} {figure}");
        let percentiles = Percentiles::from_histogram(&merged_latency(collected));
        let ms = [percentiles.p50, percentiles.p99, percentiles.p99_9, percentiles.max]
            .map(|us| us / 1000.0);
        for (((figure, _), series), ms) in
            RECORDED_PERCENTILES.into_iter().zip(record.latency).zip(ms)
        {
            self.series.insert(figure_name(figure), rounded(series));
            self.whole.insert(figure_name(figure), ms);
        }
        self.series.insert(figure_name("rate"), rounded(record.ok));
        self.whole.insert(figure_name("rate"), collected.throughput());
        self.whole.insert(figure_name("failed"), record.failed as f64);
        let unserved = collected.unstarted + collected.unanswered;
        self.whole.insert(figure_name("unserved"), unserved as f64);
    }

    fn add_measurements(&mut self, measurements: ServerMeasurements, rates: &[Series]) {
        let totals = total_rate(rates);
        let us = measurements.cores.iter().filter_map(|(elapsed_s, cores)| {
            let rate = totals.get(&(elapsed_s.round() as u64)).filter(|rate| **rate > 0.0)?;
            Some((*elapsed_s, cores * 1e6 / rate))
        });
        let us: Series = us.collect();
        for (name, series) in [
            (SERVER_US, us),
            (MEMORY, measurements.memory),
            (ROWS_WALKED, measurements.rows_walked),
        ] {
            if !series.is_empty() {
                self.whole.insert(name.into(), median(series.iter().map(|(_, y)| *y)));
                self.series.insert(name.into(), rounded(series));
            }
        }
    }

    /// Formats the soak as one line.
    pub fn line(&self) -> String {
        let rates = self.whole.keys().filter_map(|name| name.strip_suffix(" rate"));
        let loads = rates.map(|load| {
            let figure_value = |figure: &str| {
                self.whole.get(&format!("{load} {figure}")).copied().unwrap_or_default()
            };
            let mut text = format!(
                "{load} {:.0}/s p50 {:.2} p99.9 {:.1} max {:.0} ms",
                figure_value("rate"),
                figure_value("p50"),
                figure_value("p99.9"),
                figure_value("max")
            );
            for what in ["failed", "unserved"].into_iter().filter(|what| figure_value(what) > 0.0) {
                text.push_str(&format!(" {} {what}", figure_value(what)));
            }
            text
        });
        loads.collect::<Vec<_>>().join("; ")
    }
}

/// Returns the operations a second of all loads together, by second.
fn total_rate(rates: &[Series]) -> BTreeMap<u64, f64> {
    let mut totals = BTreeMap::new();
    for (at, rate) in rates.iter().flatten() {
        *totals.entry(at.round() as u64).or_default() += rate;
    }
    totals
}

/// Rounds to three decimals: more than the precision of the measurement, and a small file.
pub(super) fn rounded(series: Series) -> Series {
    let round = |number: f64| (number * 1000.0).round() / 1000.0;
    series.into_iter().map(|(at, y)| (round(at), round(y))).collect()
}

/// Returns the average number of processes that were ready to run in the last minute.
pub(super) fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|field| field.parse().ok()).unwrap_or_default()
}
