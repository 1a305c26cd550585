//! The charts of a run: throughput and latency over time, and the distribution of the whole run.

use crate::charts::{Axis, Chart, Scale, Series};
use crate::config::Config;
use crate::load::{Collected, Part, Row, View};
use hdrhistogram::Histogram;

/// Percentiles drawn over time.
const OVER_TIME: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// The distribution is drawn up to where so many samples decide.
const SAMPLES_MIN: u64 = 10;

/// What is kept of every row to draw it.
#[derive(Debug, Default)]
pub struct Curves {
    ok: Vec<(f64, f64)>,
    failed: Vec<(f64, f64)>,
    latencies: Vec<Vec<[(f64, f64); OVER_TIME.len()]>>,
}

impl View for Curves {
    fn row(&mut self, row: &Row) -> Result<(), String> {
        if row.part != Part::Measured || row.window_s <= 0.0 {
            return Ok(());
        }
        let at = row.elapsed_s;
        self.ok.push((at, row.ok() as f64 / row.window_s));
        self.failed.push((at, row.failed() as f64 / row.window_s));
        self.latencies.resize(row.operations.len(), Vec::new());
        for (points, operation) in self.latencies.iter_mut().zip(&row.operations) {
            if let Some(latency) = &operation.latency {
                let point = |(_, quantile)| (at, latency.value_at_quantile(quantile) as f64 / 1e6);
                points.push(OVER_TIME.map(point));
            }
        }
        Ok(())
    }
}

impl Curves {
    /// All charts with their file names.
    pub fn charts(
        &self,
        config: &Config,
        collected: &Collected,
    ) -> Result<Vec<(String, String)>, String> {
        let labels = || config.operations.iter().map(|weighted| &weighted.label);
        let title = |what: &str| format!("{what}, {} clients", config.concurrent);
        let seconds = || Axis::new("seconds", Scale::Linear);
        let milliseconds = || Axis::new("milliseconds", Scale::Logarithmic);
        let line = |name: &str, points| Series { name: name.into(), points };
        let mut throughput = vec![line("succeeded", self.ok.clone())];
        if self.failed.iter().any(|(_, count)| *count > 0.0) {
            throughput.push(line("failed", self.failed.clone()));
        }
        let mut latencies = Vec::new();
        for (label, rows) in labels().zip(&self.latencies) {
            for (place, (name, _)) in OVER_TIME.iter().enumerate() {
                let points = rows.iter().map(|row| row[place]).collect();
                latencies.push(line(&format!("{label} {name}"), points));
            }
        }
        let distribution = collected.operations.iter();
        let distribution = distribution.filter(|operation| !operation.latency.is_empty());
        let distribution = distribution
            .map(|operation| line(&operation.label, curve(&operation.latency)))
            .collect();
        let per_second = Axis::new("operations/s", Scale::Linear);
        let percentiles = Axis::new("percentile", Scale::Percentiles);
        let charts = [
            ("throughput.svg", title("Throughput"), seconds(), per_second, throughput),
            ("latencies.svg", title("Latency"), seconds(), milliseconds(), latencies),
            (
                "distribution.svg",
                title("Latency of the whole run"),
                percentiles,
                milliseconds(),
                distribution,
            ),
        ];
        let drawn = charts.into_iter().map(|(name, title, x, y, series)| {
            Ok((name.to_string(), Chart { title, x, y, series }.lines()?))
        });
        drawn.collect()
    }
}

/// Latency in milliseconds over `log10(1 / (1 - p))`.
fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let nines_max = (histogram.len().max(SAMPLES_MIN) as f64 / SAMPLES_MIN as f64).log10();
    let steps = (nines_max * 20.0) as usize + 1;
    let points = (0..=steps).map(|step| {
        let nines = nines_max * step as f64 / steps as f64;
        let value = histogram.value_at_quantile(1.0 - 10f64.powf(-nines));
        (nines, value as f64 / 1e6)
    });
    points.collect()
}
