//! Report of a run as JSON; two reports can be compared.

use crate::load::{Collected, new_histogram};
use crate::machine::Machine;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Report of a whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The run's name.
    pub name: String,
    /// Time of the start, UTC.
    pub started: String,
    /// The version of this program.
    pub credenza: String,
    /// Name of the driver.
    pub driver: String,
    /// Name and version of the server, as the server reports them.
    pub server: String,
    /// Machine the load ran on.
    pub machine: Machine,
    /// Median time of a 4 KiB write with fdatasync in `disk_dir`, microseconds. `None`: not
    /// measured.
    pub fdatasync_us_p50: Option<f64>,
    /// The effective settings as TOML.
    pub config: String,
    /// Length of the measured part, seconds.
    pub seconds: f64,
    /// Operations that succeeded, a second.
    pub throughput: f64,
    /// Number of operations that succeeded.
    pub ok: u64,
    /// Number of operations that failed.
    pub failed: u64,
    /// Number of operations of an open load that were due and never started.
    pub unstarted: u64,
    /// Number of operations that were never answered.
    pub unanswered: u64,
    /// Latency over all operations, from the intended start.
    pub latency_us: Percentiles,
    /// Reports of the operations, by label.
    pub operations: BTreeMap<String, OperationReport>,
}

/// Report of one operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationReport {
    /// Number that succeeded before the end of the measured part.
    pub ok: u64,
    /// Number that succeeded after the end.
    pub late: u64,
    /// Number of successes that found no row.
    pub missing: u64,
    /// Number of test_and_sets that found another value than expected.
    pub not_applied: u64,
    /// Number that failed.
    pub failed: u64,
    /// Number of failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// Successes a second.
    pub throughput: f64,
    /// Time from the (intended) start.
    pub latency_us: Percentiles,
    /// Time from sending; open loads only. The difference from `latency_us` is the delay before
    /// sending.
    pub service_us: Option<Percentiles>,
    /// Time of the operations that failed. `None`: none failed.
    pub failure_us: Option<Percentiles>,
    /// Time of the gets of updates. `None`: not an update.
    #[serde(default)]
    pub get_us: Option<Percentiles>,
    /// Time of the puts of updates. `None`: not an update.
    #[serde(default)]
    pub put_us: Option<Percentiles>,
    /// Length of the contexts of the rows found, bytes. `None`: the server reports none.
    #[serde(default)]
    pub clock_bytes: Option<CountSpread>,
    /// Number of values of the keys found. `None`: the server reports no siblings.
    #[serde(default)]
    pub values_per_key: Option<CountSpread>,
}

/// Distribution of a count.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CountSpread {
    /// Number of samples.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

impl CountSpread {
    /// Summarizes a histogram.
    pub fn from_histogram(histogram: &Histogram<u64>) -> CountSpread {
        CountSpread {
            count: histogram.len(),
            mean: (histogram.mean() * 1000.0).round() / 1000.0,
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        }
    }
}

/// A distribution of times, microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Percentiles {
    /// Number of samples.
    pub count: u64,
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 75th percentile.
    pub p75: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// 99.99th percentile.
    pub p99_99: f64,
    /// The longest.
    pub max: f64,
}

impl Percentiles {
    /// Summarizes a histogram of nanoseconds.
    pub fn from_histogram(histogram: &Histogram<u64>) -> Percentiles {
        if histogram.is_empty() {
            return Percentiles::default();
        }
        let microseconds_at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Percentiles {
            count: histogram.len(),
            min: histogram.min() as f64 / 1000.0,
            mean: (histogram.mean()).round() / 1000.0,
            p50: microseconds_at(0.5),
            p75: microseconds_at(0.75),
            p90: microseconds_at(0.9),
            p95: microseconds_at(0.95),
            p99: microseconds_at(0.99),
            p99_9: microseconds_at(0.999),
            p99_99: microseconds_at(0.9999),
            max: histogram.max() as f64 / 1000.0,
        }
    }
}

/// Merges the latencies of all operations into one histogram.
pub fn merged_latency(collected: &Collected) -> Histogram<u64> {
    let mut merged = new_histogram();
    for operation in &collected.operations {
        merged.add(&operation.latency).expect("all histograms have the same bounds");
    }
    merged
}

/// Returns the reports of the operations, by label.
fn operations(collected: &Collected) -> BTreeMap<String, OperationReport> {
    let reports = collected.operations.iter().map(|operation| {
        let failed = operation.errors.values().sum();
        let per_second = operation.ok as f64 / collected.seconds.max(1e-9);
        let report = OperationReport {
            ok: operation.ok,
            late: operation.late,
            missing: operation.missing,
            not_applied: operation.not_applied,
            failed,
            errors: operation.errors.clone(),
            throughput: (per_second * 10.0).round() / 10.0,
            latency_us: Percentiles::from_histogram(&operation.latency),
            service_us: operation.service.as_ref().map(Percentiles::from_histogram),
            failure_us: (failed > 0).then(|| Percentiles::from_histogram(&operation.failure)),
            get_us: operation.call_times[0].as_ref().map(Percentiles::from_histogram),
            put_us: operation.call_times[1].as_ref().map(Percentiles::from_histogram),
            clock_bytes: operation
                .causality
                .as_ref()
                .map(|causality| CountSpread::from_histogram(&causality.clock_bytes)),
            values_per_key: operation
                .causality
                .as_ref()
                .map(|causality| CountSpread::from_histogram(&causality.values)),
        };
        (operation.label.clone(), report)
    });
    reports.collect()
}

impl RunReport {
    /// Returns a report of the measurements; the fields that describe the run are empty.
    pub fn of(collected: &Collected) -> RunReport {
        RunReport {
            name: String::new(),
            started: String::new(),
            credenza: String::new(),
            driver: String::new(),
            server: String::new(),
            machine: Machine::default(),
            fdatasync_us_p50: None,
            config: String::new(),
            seconds: collected.seconds,
            throughput: (collected.throughput() * 10.0).round() / 10.0,
            ok: collected.ok(),
            failed: collected.failed(),
            unstarted: collected.unstarted,
            unanswered: collected.unanswered,
            latency_us: Percentiles::from_histogram(&merged_latency(collected)),
            operations: operations(collected),
        }
    }

    /// Formats the whole run in a few lines.
    pub fn text(&self) -> String {
        let mut text = format!(
            "{}: {} with {}, {:.1} s: {:.0} operations/s, {} failed\n",
            self.name, self.server, self.driver, self.seconds, self.throughput, self.failed
        );
        let columns = ["p50", "p95", "p99", "p99.9", "max"];
        text.push_str(&format!("{:<16}{:>12}", "operation (us)", "op/s"));
        columns.iter().for_each(|column| text.push_str(&format!("{column:>12}")));
        text.push('\n');
        for (label, operation) in &self.operations {
            let latency = &operation.latency_us;
            text.push_str(&format!("{label:<16}{:>12.0}", operation.throughput));
            for number in [latency.p50, latency.p95, latency.p99, latency.p99_9, latency.max] {
                text.push_str(&format!("{number:>12.0}"));
            }
            text.push('\n');
            if let (Some(clock), Some(values)) = (&operation.clock_bytes, &operation.values_per_key)
            {
                text.push_str(&format!(
                    "{label:<16}clock {:.1} bytes (p99 {}), {:.3} values a key (max {})\n",
                    clock.mean, clock.p99, values.mean, values.max
                ));
            }
            for (kind, count) in &operation.errors {
                text.push_str(&format!("{label:<16}{count:>12} errors {kind}\n"));
            }
        }
        if self.unstarted > 0 {
            text.push_str(&format!(
                "{} operations were due and never started: the server can't keep this rate\n",
                self.unstarted
            ));
        }
        if self.unanswered > 0 {
            text.push_str(&format!("{} operations were never answered\n", self.unanswered));
        }
        text
    }
}
