//! Monitor of a server during a soak: processor time and memory from /proc, and the rows that its
//! range reads visited, if the server reports them.

use super::Series;
use crate::suite::point::Processes;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval of the measurements.
const LOOK: Duration = Duration::from_secs(1);
/// Time limit for a server's metrics; a slower answer leaves a gap in that second.
const METRICS_MAX: Duration = Duration::from_millis(500);

/// Measurements, second by second.
#[derive(Debug, Default)]
pub struct Watched {
    /// Number of cores used.
    pub cores: Series,
    /// Memory held, MiB.
    pub memory: Series,
    /// Rows visited for each row returned, if the server counts both.
    pub walked: Series,
}

/// Measures until `stop` is set. `metrics`: address of the server's metrics.
pub fn watch(processes: &Processes, metrics: Option<SocketAddr>, stop: &AtomicBool) -> Watched {
    let (begun, mut watched) = (Instant::now(), Watched::default());
    let mut before = (begun, processes.cpu_seconds(), rows(metrics));
    for second in 1u32.. {
        while begun.elapsed() < second * LOOK {
            if stop.load(Ordering::Relaxed) {
                return watched;
            }
            std::thread::sleep(LOOK / 50);
        }
        let now = (Instant::now(), processes.cpu_seconds(), rows(metrics));
        let at = begun.elapsed().as_secs_f64();
        watched.cores.push((at, (now.1 - before.1) / (now.0 - before.0).as_secs_f64()));
        watched.memory.push((at, processes.resident_bytes() as f64 / 1_048_576.0));
        if let (Some((walked, returned)), Some((walked_before, returned_before))) =
            (now.2, before.2)
        {
            // A second in which no row was returned has no ratio.
            if returned > returned_before {
                let ratio = (walked - walked_before) / (returned - returned_before);
                watched.walked.push((at, ratio));
            }
        }
        before = now;
    }
    watched
}

/// Returns the rows visited and returned so far. `None`: the server reports none.
fn rows(metrics: Option<SocketAddr>) -> Option<(f64, f64)> {
    let text = told(metrics?).ok()?;
    let sum = |name: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix(name));
        let values = lines.filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok());
        values.reduce(|sum, value| sum + value)
    };
    Some((sum("credenza_store_rows_walked_total")?, sum("credenza_store_rows_returned_total")?))
}

fn told(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, METRICS_MAX)?;
    stream.set_read_timeout(Some(METRICS_MAX))?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}
