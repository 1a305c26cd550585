//! The watch over a server while a soak goes on: processor time and memory from /proc, and how many
//! rows its range reads walked, as far as the server counts that.

use super::Series;
use crate::suite::point::Processes;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often it looks.
const LOOK: Duration = Duration::from_secs(1);
/// A server that does not tell its metrics within this has a gap in that second.
const METRICS_MAX: Duration = Duration::from_millis(500);

/// What was seen, second by second.
#[derive(Debug, Default)]
pub struct Watched {
    /// Cores used.
    pub cores: Series,
    /// Memory held, MiB.
    pub memory: Series,
    /// Rows walked for each row returned, where both are counted.
    pub walked: Series,
}

/// Watches until told to stop. `metrics`: where a server tells them.
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
            // Of a second in which nothing was returned there is no ratio.
            if returned > returned_before {
                let ratio = (walked - walked_before) / (returned - returned_before);
                watched.walked.push((at, ratio));
            }
        }
        before = now;
    }
    watched
}

/// Rows walked and returned so far; none: not told.
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
