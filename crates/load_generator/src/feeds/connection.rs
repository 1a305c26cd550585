//! Connection of one reader of a feed: requests of HTTP/1.1, and answers as bytes.

use super::contains;
use crate::config::HttpConfig;
use crate::drivers::resolve;
use crate::error::BenchError;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Time limit of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Time without a byte after which a server counts as gone: twice the interval of a stream's signs
/// of life.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest head of an answer, bytes.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Connection to the feed of one bucket.
pub struct FeedConnection {
    stream: TcpStream,
    host: String,
    /// Path of the feed.
    path: String,
}

impl FeedConnection {
    /// Connects to the server of a bucket.
    pub fn connect(config: &HttpConfig) -> Result<FeedConnection, BenchError> {
        let address = resolve(&config.address)?;
        let unreachable = |error: std::io::Error| {
            BenchError::unavailable(format!("can't connect to {address}: {error}"))
        };
        let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT).map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        stream.set_read_timeout(Some(READ_TIMEOUT)).map_err(unreachable)?;
        let path = format!("/v1/buckets/{}/feed", config.bucket.full());
        Ok(FeedConnection { stream, host: config.address.clone(), path })
    }

    /// Sends a GET of what stands behind the path of the feed; `headers` are whole lines.
    pub fn get(&mut self, behind: &str, headers: &str) -> Result<(), BenchError> {
        let (path, host) = (&self.path, &self.host);
        let request = format!("GET {path}{behind} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n");
        self.stream.write_all(request.as_bytes()).map_err(lost)
    }

    /// Reads at least one byte; returns their number.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, BenchError> {
        loop {
            match self.stream.read(buffer) {
                Ok(0) => return Err(BenchError::unavailable("the server closed the connection")),
                Ok(count) => return Ok(count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
    }

    /// Appends what has arrived, without waiting. Errors: the server closed the connection.
    pub fn read_arrived(&mut self, received: &mut Vec<u8>) -> Result<(), BenchError> {
        self.stream.set_nonblocking(true).map_err(lost)?;
        let mut buffer = [0; 4 * 1024];
        let result = loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => {
                    break Err(BenchError::unavailable("the server closed the connection"));
                }
                Ok(count) => received.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => break Err(lost(error)),
            }
        };
        self.stream.set_nonblocking(false).map_err(lost)?;
        result
    }

    /// Reads the head of an answer, which must be a success; returns the bytes behind it.
    pub fn read_head(&mut self, buffer: &mut [u8]) -> Result<Vec<u8>, BenchError> {
        let mut received = Vec::new();
        while !contains(&received, HEAD_END) && received.len() < HEAD_BYTES_MAX {
            let count = self.read(buffer)?;
            received.extend_from_slice(&buffer[..count]);
        }
        split_head(received)
    }
}

/// Line end of the last line of a head, and the empty line behind it.
const HEAD_END: &[u8; 4] = b"\r\n\r\n";

/// Returns what stands behind the head of a successful answer. Errors: another status, with the
/// begin of the body; no answer of HTTP.
fn split_head(mut received: Vec<u8>) -> Result<Vec<u8>, BenchError> {
    let end = received.windows(HEAD_END.len()).position(|window| window == HEAD_END);
    let (Some(end), true) = (end, received.starts_with(b"HTTP/1.1 ")) else {
        return Err("the server does not answer in HTTP/1.1".into());
    };
    if !received.starts_with(b"HTTP/1.1 200 ") {
        let text = String::from_utf8_lossy(&received).into_owned();
        let status: String = text.chars().skip("HTTP/1.1 ".len()).take(3).collect();
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        let text = format!("the feed can't be read: {status} {}", body.trim_end());
        return Err(BenchError::unavailable(text));
    }
    received.drain(..end + HEAD_END.len());
    Ok(received)
}

fn lost(error: std::io::Error) -> BenchError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => BenchError::unavailable(format!(
            "the server sent nothing for {} s",
            READ_TIMEOUT.as_secs()
        )),
        _ => BenchError::unavailable(format!("the connection is lost: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_of_a_success_is_cut_off_and_that_of_a_refusal_is_an_error() {
        let body = split_head(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n1\r\nx".to_vec());
        assert_eq!(body.expect("a success"), b"1\r\nx");
        let refusal = b"HTTP/1.1 503 Service Unavailable\r\na: b\r\n\r\n{\"error\":{}}\n";
        let error = split_head(refusal.to_vec()).expect_err("refused");
        assert_eq!(error.text, "the feed can't be read: 503 {\"error\":{}}");
        assert!(split_head(b"-ERR\r\n\r\n".to_vec()).is_err());
        assert!(split_head(b"HTTP/1.1 200 OK\r\n".to_vec()).is_err());
    }
}
