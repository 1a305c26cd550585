//! The run as one JSON report; two of them can be compared.

use crate::load::{Collected, new_histogram};
use crate::machine::Machine;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The run's name.
    pub name: String,
    /// When it began, UTC.
    pub started: String,
    /// The version of this program.
    pub credenza: String,
    /// Which driver.
    pub driver: String,
    /// What the server says of itself.
    pub server: String,
    /// Where it ran.
    pub machine: Machine,
    /// Median time of a 4 KiB write with fdatasync in `disk_dir`, microseconds, when that was
    /// asked.
    pub fdatasync_us_p50: Option<f64>,
    /// The effective settings as TOML.
    pub config: String,
    /// Seconds of the measured part.
    pub seconds: f64,
    /// Operations that succeeded, a second.
    pub throughput: f64,
    /// Operations that succeeded.
    pub ok: u64,
    /// Operations that failed.
    pub failed: u64,
    /// Operations of an open load that were due and never started.
    pub unstarted: u64,
    /// Operations that were never answered.
    pub unanswered: u64,
    /// Latency over all operations, from the intended start.
    pub latency_us: Percentiles,
    /// By label.
    pub operations: BTreeMap<String, OperationReport>,
}

/// One operation.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OperationReport {
    /// How many succeeded.
    pub ok: u64,
    /// How many succeeded after the end.
    pub late: u64,
    /// How many of them found no row.
    pub missing: u64,
    /// How many test_and_sets found another value than expected.
    pub not_applied: u64,
    /// How many failed.
    pub failed: u64,
    /// Why.
    pub errors: BTreeMap<String, u64>,
    /// Those that succeeded, a second.
    pub throughput: f64,
    /// Time from the (intended) start.
    pub latency_us: Percentiles,
    /// Time from sending: open loads only. The difference is what the server kept waiting.
    pub service_us: Option<Percentiles>,
    /// Time of those that failed.
    pub failure_us: Option<Percentiles>,
    /// Of updates: time of their gets.
    #[serde(default)]
    pub get_us: Option<Percentiles>,
    /// Of updates: time of their puts.
    #[serde(default)]
    pub put_us: Option<Percentiles>,
    /// Bytes of the contexts of the rows found, if the server tells them.
    #[serde(default)]
    pub clock_bytes: Option<CountSpread>,
    /// Values of the keys found.
    #[serde(default)]
    pub values_per_key: Option<CountSpread>,
}

/// How a count is spread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CountSpread {
    /// How many were counted.
    pub count: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// 99 %.
    pub p99: u64,
    /// The largest.
    pub max: u64,
}

impl CountSpread {
    /// Of a histogram.
    pub fn of(histogram: &Histogram<u64>) -> CountSpread {
        CountSpread {
            count: histogram.len(),
            mean: (histogram.mean() * 1000.0).round() / 1000.0,
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            max: histogram.max(),
        }
    }
}

/// A distribution, microseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Percentiles {
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min: f64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 75 %.
    pub p75: f64,
    /// 90 %.
    pub p90: f64,
    /// 95 %.
    pub p95: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p99_9: f64,
    /// 99.99 %.
    pub p99_99: f64,
    /// The longest.
    pub max: f64,
}

impl Percentiles {
    /// Of a histogram of nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Percentiles {
        if histogram.is_empty() {
            return Percentiles::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1000.0;
        Percentiles {
            count: histogram.len(),
            min: histogram.min() as f64 / 1000.0,
            mean: (histogram.mean()).round() / 1000.0,
            p50: at(0.5),
            p75: at(0.75),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: histogram.max() as f64 / 1000.0,
        }
    }
}

/// One histogram of all operations.
pub fn merged(collected: &Collected) -> Histogram<u64> {
    let mut all = new_histogram();
    for operation in &collected.operations {
        all.add(&operation.latency).expect("all histograms have the same bounds");
    }
    all
}

/// By label.
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
            latency_us: Percentiles::of(&operation.latency),
            service_us: operation.service.as_ref().map(Percentiles::of),
            failure_us: (failed > 0).then(|| Percentiles::of(&operation.failure)),
            get_us: operation.legs[0].as_ref().map(Percentiles::of),
            put_us: operation.legs[1].as_ref().map(Percentiles::of),
            clock_bytes: operation.causality.as_ref().map(|all| CountSpread::of(&all.clock_bytes)),
            values_per_key: operation.causality.as_ref().map(|all| CountSpread::of(&all.values)),
        };
        (operation.label.clone(), report)
    });
    reports.collect()
}

impl RunReport {
    /// What was measured; where and what it was is empty.
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
            latency_us: Percentiles::of(&merged(collected)),
            operations: operations(collected),
        }
    }

    /// The whole run in a few lines.
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
