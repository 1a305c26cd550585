//! Monitor of a server during a soak: processor time and memory from /proc, and the rows that its
//! range reads visited, if the server reports them.

use super::Series;
use crate::suite::metrics::{scrape, sum_of};
use crate::suite::process::Processes;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval of the measurements.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// Measurements, second by second.
#[derive(Debug, Default)]
pub struct ServerMeasurements {
    /// Number of cores used.
    pub cores: Series,
    /// Memory held, MiB.
    pub memory: Series,
    /// Rows visited for each row returned, if the server counts both.
    pub rows_walked: Series,
}

/// Measures until `stop` is set. `metrics`: address of the server's metrics.
pub fn watch(
    processes: &Processes,
    metrics: Option<SocketAddr>,
    stop: &AtomicBool,
) -> ServerMeasurements {
    let (start, mut measurements) = (Instant::now(), ServerMeasurements::default());
    let mut previous = (start, processes.cpu_seconds(), row_counts(metrics));
    for second in 1u32.. {
        while start.elapsed() < second * MEASURE_INTERVAL {
            if stop.load(Ordering::Relaxed) {
                return measurements;
            }
            std::thread::sleep(MEASURE_INTERVAL / 50);
        }
        let current = (Instant::now(), processes.cpu_seconds(), row_counts(metrics));
        let elapsed_s = start.elapsed().as_secs_f64();
        measurements
            .cores
            .push((elapsed_s, (current.1 - previous.1) / (current.0 - previous.0).as_secs_f64()));
        measurements.memory.push((elapsed_s, processes.resident_bytes() as f64 / 1_048_576.0));
        if let (Some((walked, returned)), Some((walked_before, returned_before))) =
            (current.2, previous.2)
        {
            // A second in which no row was returned has no ratio.
            if returned > returned_before {
                let ratio = (walked - walked_before) / (returned - returned_before);
                measurements.rows_walked.push((elapsed_s, ratio));
            }
        }
        previous = current;
    }
    measurements
}

/// Returns the rows visited and returned so far. `None`: the server reports none.
fn row_counts(metrics: Option<SocketAddr>) -> Option<(f64, f64)> {
    let text = scrape(metrics?).ok()?;
    let (walked, returned) =
        ("credenza_store_rows_walked_total", "credenza_store_rows_returned_total");
    Some((sum_of(&text, walked)?, sum_of(&text, returned)?))
}
