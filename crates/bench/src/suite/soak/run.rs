//! One run of a soak: a fresh server, all loads at the same time, and the measurements.

use super::watch::{Watched, watch};
use super::{MEMORY, SERVER_US, Series, Soak, SoakRun, WALKED};
use crate::load::{self, Collected, ReportRow, RunObserver};
use crate::median::median;
use crate::report::{Percentiles, merged};
use crate::suite::file::{Suite, config};
use crate::suite::point::{SuitePaths, start};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// Niceness of other loads' threads, relative to the probe's.
const NICE: i32 = 5;
/// Percentiles that are recorded of each second.
const KEPT: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// Record of a load's results, second by second.
#[derive(Default)]
struct LoadRecord {
    ok: Series,
    failed: u64,
    latency: [Series; KEPT.len()],
}

impl RunObserver for LoadRecord {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        let at = row.elapsed_s;
        if row.window_s > 0.0 {
            self.ok.push((at, row.ok() as f64 / row.window_s));
        }
        self.failed += row.failed();
        let mut all = load::new_histogram();
        for latency in row.operations.iter().filter_map(|operation| operation.latency.as_ref()) {
            all.add(latency).expect("all histograms have the same bounds");
        }
        if !all.is_empty() {
            for (series, (_, quantile)) in self.latency.iter_mut().zip(KEPT) {
                series.push((at, all.value_at_quantile(quantile) as f64 / 1e6));
            }
        }
        Ok(())
    }
}

/// Runs a soak on a server.
pub fn run(suite: &Suite, soak: &Soak, name: &str, place: &SuitePaths) -> Result<SoakRun, String> {
    let of = |error: String| format!("{} on {name}: {error}", soak.name);
    let server = &suite.servers[name];
    let core = suite.driver_core;
    let first = |words: &_| {
        let mut all = soak.configs(name, server, words, core)?.into_iter();
        all.next().map(|(_, config)| config).ok_or_else(|| "it has no load".to_string())
    };
    let load_average = load_average();
    let mut started = start(suite, name, place, &first).map_err(of)?;
    if let Some(items) = &soak.prepare {
        let prepare = config(items, server, None, &started.words, core).map_err(of)?;
        let never = AtomicBool::new(false);
        let done = load::run(&prepare, &*started.target, &never, &mut LoadRecord::default());
        let failed = done.map_err(|wrong| of(wrong.text))?.failed();
        if failed > 0 {
            return Err(of(format!("{failed} operations of the preparation failed")));
        }
    }
    let version = started.target.version();
    let port = started.words.get("port").and_then(|port| port.parse::<u16>().ok());
    let metrics = port.filter(|_| version.starts_with("credenza"));
    let metrics = metrics.map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let loads = soak.configs(name, server, &started.words, core).map_err(of)?;
    let (stop, over) = (AtomicBool::new(false), AtomicBool::new(false));
    let (target, process) = (&*started.target, &started.process);
    let (done, watched) = std::thread::scope(|threads| {
        let watcher = threads.spawn(|| watch(process, metrics, &over));
        let running: Vec<_> = loads
            .iter()
            .map(|(load, config)| {
                let stop = &stop;
                threads.spawn(move || {
                    if !load.is_probe {
                        // Without the niceness the probe shares its core on equal terms.
                        let _ = rustix::process::nice(NICE);
                    }
                    let mut kept = LoadRecord::default();
                    let done = load::run(config, target, stop, &mut kept);
                    if load.ends {
                        stop.store(true, Ordering::Relaxed);
                    }
                    done.map(|collected| (load.name.clone(), kept, collected))
                })
            })
            .collect();
        let done: Vec<_> = running.into_iter().map(|one| one.join()).collect();
        over.store(true, Ordering::Relaxed);
        (done, watcher.join())
    });
    let mut result = SoakRun {
        soak: soak.name.clone(),
        server: name.into(),
        version,
        load_average,
        fdatasync_us: started.fdatasync_us,
        ..SoakRun::default()
    };
    let mut rates = Vec::new();
    for one in done {
        let one = one.map_err(|_| of("a load's thread panicked".into()))?;
        let (load, kept, collected) = one.map_err(|wrong| of(wrong.text))?;
        rates.push(kept.ok.clone());
        result.take(&load, kept, &collected);
    }
    let watched = watched.map_err(|_| of("the watch panicked".into()))?;
    result.take_watched(watched, &rates);
    started.process.check().map_err(of)?;
    Ok(result)
}

impl SoakRun {
    fn take(&mut self, load: &str, kept: LoadRecord, collected: &Collected) {
        let named = |figure: &str| format!("{load} {figure}");
        let whole = Percentiles::of(&merged(collected));
        let ms = [whole.p50, whole.p99, whole.p99_9, whole.max].map(|us| us / 1000.0);
        for (((figure, _), series), ms) in KEPT.into_iter().zip(kept.latency).zip(ms) {
            self.series.insert(named(figure), rounded(series));
            self.whole.insert(named(figure), ms);
        }
        self.series.insert(named("rate"), rounded(kept.ok));
        self.whole.insert(named("rate"), collected.throughput());
        self.whole.insert(named("failed"), kept.failed as f64);
        let unserved = collected.unstarted + collected.unanswered;
        self.whole.insert(named("unserved"), unserved as f64);
    }

    fn take_watched(&mut self, watched: Watched, rates: &[Series]) {
        let all = sum(rates);
        let us = watched.cores.iter().filter_map(|(at, cores)| {
            let rate = all.get(&(at.round() as u64)).filter(|rate| **rate > 0.0)?;
            Some((*at, cores * 1e6 / rate))
        });
        let us: Series = us.collect();
        for (name, series) in [(SERVER_US, us), (MEMORY, watched.memory), (WALKED, watched.walked)]
        {
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
            let of = |figure: &str| {
                self.whole.get(&format!("{load} {figure}")).copied().unwrap_or_default()
            };
            let mut text = format!(
                "{load} {:.0}/s p50 {:.2} p99.9 {:.1} max {:.0} ms",
                of("rate"),
                of("p50"),
                of("p99.9"),
                of("max")
            );
            for what in ["failed", "unserved"].into_iter().filter(|what| of(what) > 0.0) {
                text.push_str(&format!(" {} {what}", of(what)));
            }
            text
        });
        loads.collect::<Vec<_>>().join("; ")
    }
}

/// Returns the operations a second of all loads together, by second.
fn sum(rates: &[Series]) -> BTreeMap<u64, f64> {
    let mut all = BTreeMap::new();
    for (at, rate) in rates.iter().flatten() {
        *all.entry(at.round() as u64).or_default() += rate;
    }
    all
}

/// Rounds to three decimals, which are more than the precision of the measurement, and keep the
/// file small.
fn rounded(series: Series) -> Series {
    let round = |number: f64| (number * 1000.0).round() / 1000.0;
    series.into_iter().map(|(at, y)| (round(at), round(y))).collect()
}

/// Returns the average number of processes that were ready to run in the last minute.
fn load_average() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}
