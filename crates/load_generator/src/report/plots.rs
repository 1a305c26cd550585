//! The charts of a run: throughput and latency over time, and the distribution of the whole run.

use crate::charts::{Axis, Chart, LineWeight, Scale, Series};
use crate::config::{Config, Mode};
use crate::load::{Collected, ReportRow, RunObserver, RunPart};
use hdrhistogram::Histogram;

/// Percentiles drawn over time.
const PERCENTILES_OVER_TIME: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];
/// Number of samples that must lie above the last point of the distribution's curve.
const SAMPLES_MIN: u64 = 10;

/// Points of the charts, collected from every row.
#[derive(Debug, Default)]
pub struct Curves {
    ok: Vec<(f64, f64)>,
    failed: Vec<(f64, f64)>,
    latencies: Vec<Vec<[(f64, f64); PERCENTILES_OVER_TIME.len()]>>,
}

impl RunObserver for Curves {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        if row.part != RunPart::Measured || row.window_s <= 0.0 {
            return Ok(());
        }
        let elapsed_s = row.elapsed_s;
        self.ok.push((elapsed_s, row.ok() as f64 / row.window_s));
        self.failed.push((elapsed_s, row.failed() as f64 / row.window_s));
        self.latencies.resize(row.operations.len(), Vec::new());
        for (points, operation) in self.latencies.iter_mut().zip(&row.operations) {
            if let Some(latency) = &operation.latency {
                let point =
                    |(_, quantile)| (elapsed_s, latency.value_at_quantile(quantile) as f64 / 1e6);
                points.push(PERCENTILES_OVER_TIME.map(point));
            }
        }
        Ok(())
    }
}

impl Curves {
    /// Returns all charts with their file names.
    ///
    /// `about`: description of the run, after the subject in the title.
    pub fn charts(
        &self,
        about: &str,
        config: &Config,
        collected: &Collected,
    ) -> Result<Vec<(String, String)>, String> {
        let title = |subject: &str| format!("{subject}: {about}");
        let seconds = || Axis::new("seconds", Scale::Linear);
        let milliseconds = || Axis::new("milliseconds", Scale::Logarithmic);
        let mut throughput = vec![Series::new("succeeded", self.ok.clone())];
        // The chart shows the target rate and the failed operations beside the actual throughput.
        if let (Mode::Rate(rate), Some(first), Some(last)) =
            (config.mode, self.ok.first(), self.ok.last())
        {
            let due = Series::new("due", vec![(first.0, rate), (last.0, rate)]);
            throughput.push(due.with_style(1, LineWeight::Medium));
        }
        if self.failed.iter().any(|(_, count)| *count > 0.0) {
            throughput
                .push(Series::new("failed", self.failed.clone()).with_style(3, LineWeight::Strong));
        }
        let labels = config.operations.iter().map(|weighted| &weighted.label);
        let mut latencies = Vec::new();
        for (colour, (label, rows)) in labels.zip(&self.latencies).enumerate() {
            for (index, ((name, _), weight)) in
                PERCENTILES_OVER_TIME.iter().zip(LineWeight::ALL).enumerate()
            {
                let points = rows.iter().map(|row| row[index]).collect();
                latencies.push(
                    Series::new(format!("{label} {name}"), points).with_style(colour, weight),
                );
            }
        }
        let distribution = collected.operations.iter().enumerate();
        let distribution = distribution.filter(|(_, operation)| !operation.latency.is_empty());
        let distribution = distribution.flat_map(|(colour, operation)| {
            let curve = Series::new(operation.label.as_str(), curve(&operation.latency));
            // The curve ends where the samples are too few; the longest latency is a dot.
            let longest = Series::new(
                format!("{} max", operation.label),
                longest_latency(&operation.latency),
            );
            [
                curve.with_style(colour, LineWeight::Strong),
                longest.with_style(colour, LineWeight::Strong),
            ]
        });
        let distribution = distribution.collect();
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
        let rendered = charts.into_iter().map(|(name, title, x, y, series)| {
            Ok((name.to_string(), Chart { title, x, y, series }.lines()?))
        });
        rendered.collect()
    }
}

/// Returns the curve of latency in milliseconds over `log10(1 / (1 - p))`.
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

/// Returns the longest latency, at the position of the rarest sample.
fn longest_latency(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    vec![((histogram.len().max(1) as f64).log10(), histogram.max() as f64 / 1e6)]
}
