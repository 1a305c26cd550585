//! Metrics of a server, read over HTTP in Prometheus' text format.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time limit for a server's metrics; a slower answer counts as none.
const METRICS_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the text of a server's metrics.
pub fn scrape(address: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, METRICS_TIMEOUT)?;
    stream.set_read_timeout(Some(METRICS_TIMEOUT))?;
    let request = format!("GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Returns the sum of a metric over all its labels. `None`: the server does not have it.
pub fn sum_of(text: &str, name: &str) -> Option<f64> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(name));
    let is_whole_name = |rest: &&str| rest.starts_with(['{', ' ']);
    let values =
        lines.filter(is_whole_name).filter_map(|rest| rest.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.reduce(|sum, value| sum + value)
}
