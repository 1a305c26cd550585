//! Follower of a stream of events over HTTP. When its node stops or sends nothing any more, it goes
//! on at another one, from the last token.

use super::follower::{Follower, feed_path};
use super::shared::FAILOVER_PAUSE;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval at which it looks whether it must stop.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Longest silence of a node: a quiet feed sends a line every 15 seconds.
const SILENCE_MAX: Duration = Duration::from_secs(25);

/// Follower by a stream, on a thread of its own.
pub(super) struct StreamFollower {
    follower: Arc<Follower>,
    /// Messages since the last token. They come again if the stream ends before the next one.
    pending: Vec<Value>,
}

impl StreamFollower {
    pub fn new(follower: Arc<Follower>) -> StreamFollower {
        StreamFollower { follower, pending: Vec::new() }
    }

    /// Follows until stopped.
    pub fn run(mut self) {
        let shared = self.follower.shared.clone();
        let mut at = 1;
        while !shared.is_stopped() {
            // An error is the end of a stream, as a stop of its node is.
            let _ = self.follow(shared.node(at));
            self.pending.clear();
            if !shared.is_stopped() {
                self.follower.count_resumption();
            }
            at += 1;
            std::thread::sleep(FAILOVER_PAUSE);
        }
    }

    /// Follows the stream of a node until it ends.
    fn follow(&mut self, address: SocketAddr) -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
        stream.set_read_timeout(Some(POLL_INTERVAL))?;
        stream.set_write_timeout(Some(CONNECT_TIMEOUT))?;
        let path = feed_path(self.follower.shared.bucket, "/stream", &self.follower.token(), "");
        // HTTP/1.0 knows no chunks: the body is lines, up to the end of the connection.
        write!(stream, "GET {path} HTTP/1.0\r\nhost: {address}\r\n\r\n")?;
        let mut reader = BufReader::new(stream);
        let status = self.line(&mut reader, address)?;
        let code = status.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        while !self.line(&mut reader, address)?.is_empty() {}
        if code != 200 {
            let mut text = String::new();
            let _ = reader.read_to_string(&mut text);
            self.follower.on_refusal(code, &text);
            return Ok(());
        }
        while !self.follower.shared.must_leave(address) {
            let line = self.line(&mut reader, address)?;
            if !line.is_empty() && !self.take(&line) {
                break;
            }
        }
        Ok(())
    }

    /// Returns the next line. Fails if the stream ends or is silent, or if the follower must leave
    /// the node.
    fn line(&self, reader: &mut BufReader<TcpStream>, node: SocketAddr) -> io::Result<String> {
        let shared = &self.follower.shared;
        let (mut line, began) = (Vec::new(), Instant::now());
        loop {
            match reader.read_until(b'\n', &mut line) {
                // A line without an end was cut off.
                Ok(_) if line.last() != Some(&b'\n') => {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                Ok(_) => return Ok(String::from_utf8_lossy(&line).trim_end().to_string()),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if shared.must_leave(node) || began.elapsed() > SILENCE_MAX {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a message. Returns false if it is the last one of the stream.
    fn take(&mut self, line: &str) -> bool {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            self.follower.on_refusal(400, &format!("no message: {line}"));
            return false;
        };
        if let Some(error) = message.get("error") {
            let is_transient = matches!(error["kind"].as_str(), Some("unavailable" | "unknown"));
            self.follower.on_refusal(if is_transient { 503 } else { 400 }, line);
            return false;
        }
        match message["event"].as_str() {
            Some("level" | "token") => {
                let messages = std::mem::take(&mut self.pending);
                self.follower.apply(&message, |view| {
                    for earlier in &messages {
                        match earlier["event"] == "restart" {
                            true => view.restart(),
                            false => view.take(earlier),
                        }
                    }
                    match message["event"] == "level" {
                        true => view.reach_level(),
                        false => view.leave_level(),
                    }
                });
            }
            _ => self.pending.push(message),
        }
        true
    }
}
