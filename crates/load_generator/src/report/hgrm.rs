//! Percentile files in HdrHistogram's text format, which its plotters read; values in microseconds.

use hdrhistogram::Histogram;
use std::fmt::Write;

/// Number of steps after which the distance to 100 % halves.
const TICKS_PER_HALF: u32 = 5;

/// Returns the percentile distribution as text.
pub fn text(histogram: &Histogram<u64>) -> String {
    let mut text = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let microseconds = |nanoseconds: f64| nanoseconds / 1000.0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF) {
        let value = microseconds(step.value_iterated_to() as f64);
        let (quantile, count) =
            (step.quantile_iterated_to(), histogram.count_between(0, step.value_iterated_to()));
        // Writing to a String can't fail.
        let _ = if quantile < 1.0 {
            writeln!(
                text,
                "{value:>12.3} {quantile:>2.12} {count:>10} {:>14.2}",
                1.0 / (1.0 - quantile)
            )
        } else {
            writeln!(text, "{value:>12.3} {quantile:>2.12} {count:>10}")
        };
    }
    let _ = writeln!(
        text,
        "#[Mean    = {:>12.3}, StdDeviation   = {:>12.3}]",
        microseconds(histogram.mean()),
        microseconds(histogram.stdev())
    );
    let _ = writeln!(
        text,
        "#[Max     = {:>12.3}, Total count    = {:>12}]",
        microseconds(histogram.max() as f64),
        histogram.len()
    );
    let buckets = 64 - (histogram.high().max(2) / 2048).leading_zeros() + 1;
    let _ = writeln!(text, "#[Buckets = {buckets:>12}, SubBuckets     = {:>12}]", 2048);
    text
}
