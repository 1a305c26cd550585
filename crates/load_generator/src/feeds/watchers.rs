//! Readers that wait at the end of a feed.

use super::connection::FeedConnection;
use super::contains;
use crate::config::HttpConfig;
use crate::error::BenchError;
use std::time::{Duration, Instant};

/// Time for which a page waits for an event, milliseconds: the most that the server allows.
const PAGE_WAIT_MS: u64 = 55_000;
/// Longest time for which pages are left waiting, so that none of them ends by itself.
const PAGES_WATCH_MAX: Duration = Duration::from_millis(PAGE_WAIT_MS - 5_000);
/// Message of a put, in a page and in a stream.
const PUT: &[u8] = b"\"event\":\"put\"";
/// Messages of a stream that was told something; the others say where it is.
const NEWS: [&[u8]; 4] = [b"event: put", b"event: delete", b"event: restart", b"event: failure"];
/// Message of a stream at its end.
const LEVEL: &[u8] = b"\"event\":\"level\"";
/// Pause between two looks at readers that were not told yet.
const LOOK_PAUSE: Duration = Duration::from_millis(1);

/// Way in which readers wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchForm {
    /// Streams of server-sent events.
    Streams,
    /// Pages that wait for an event.
    Pages,
}

/// Readers of one feed that wait for an event. They close their connections when dropped.
pub struct Watchers {
    readers: Vec<WatchReader>,
    form: WatchForm,
    began: Instant,
}

struct WatchReader {
    connection: FeedConnection,
    /// Bytes received since it waits.
    received: Vec<u8>,
}

impl Watchers {
    /// Returns the longest time for which readers of this form wait. `None`: without an end.
    pub fn longest_wait(form: WatchForm) -> Option<Duration> {
        (form == WatchForm::Pages).then_some(PAGES_WATCH_MAX)
    }

    /// Connects so many readers; each asks for what comes behind all changes so far. A stream has
    /// said that it is there when this returns; a page says nothing until it ends.
    pub fn start(
        config: &HttpConfig,
        form: WatchForm,
        count: usize,
    ) -> Result<Watchers, BenchError> {
        let began = Instant::now();
        let mut readers = Vec::with_capacity(count);
        for _ in 0..count {
            let mut connection = FeedConnection::connect(config)?;
            match form {
                WatchForm::Streams => {
                    connection.get("/stream?from=now", "accept: text/event-stream\r\n")?;
                }
                WatchForm::Pages => {
                    connection.get(&format!("?from=now&wait_ms={PAGE_WAIT_MS}"), "")?;
                }
            }
            readers.push(WatchReader { connection, received: Vec::new() });
        }
        if form == WatchForm::Streams {
            readers.iter_mut().try_for_each(WatchReader::read_to_level)?;
        }
        Ok(Watchers { readers, form, began })
    }

    /// Checks that every reader still waits: it is connected, and was told of no change. Errors: a
    /// reader was refused, cut off or told.
    pub fn check(&mut self) -> Result<(), BenchError> {
        for reader in &mut self.readers {
            reader.connection.read_arrived(&mut reader.received)?;
            // A stream says now and then that it is alive; a page says nothing.
            let is_waiting = match self.form {
                WatchForm::Streams => NEWS.iter().all(|news| !contains(&reader.received, news)),
                WatchForm::Pages => reader.received.is_empty(),
            };
            if !is_waiting {
                let text = String::from_utf8_lossy(&reader.received);
                let text: String = text.chars().take(200).collect();
                let text = format!("a reader that waits was answered: {text}");
                return Err(BenchError::unavailable(text));
            }
            reader.received.clear();
        }
        match Watchers::longest_wait(self.form).is_some_and(|most| self.began.elapsed() > most) {
            true => Err("pages waited for too long to be sure of them: take a shorter time".into()),
            false => Ok(()),
        }
    }

    /// Waits until every reader was told of a put, at most `timeout`. Errors: one was not.
    pub fn wait_for_put(&mut self, timeout: Duration) -> Result<(), BenchError> {
        let begin = Instant::now();
        let count = self.readers.len();
        for (told, reader) in self.readers.iter_mut().enumerate() {
            while !contains(&reader.received, PUT) {
                if begin.elapsed() > timeout {
                    let seconds = timeout.as_secs();
                    let text = format!("{told} of {count} readers were told within {seconds} s");
                    return Err(BenchError::unavailable(text));
                }
                let before = reader.received.len();
                reader.connection.read_arrived(&mut reader.received)?;
                if reader.received.len() == before {
                    std::thread::sleep(LOOK_PAUSE);
                }
            }
        }
        Ok(())
    }
}

impl WatchReader {
    /// Reads the head of a stream and its first message, behind which it waits.
    fn read_to_level(&mut self) -> Result<(), BenchError> {
        let mut buffer = [0; 4 * 1024];
        let mut received = self.connection.read_head(&mut buffer)?;
        while !contains(&received, LEVEL) {
            let count = self.connection.read(&mut buffer)?;
            received.extend_from_slice(&buffer[..count]);
            if contains(&received, b"event: failure") {
                let text = String::from_utf8_lossy(&received).into_owned();
                return Err(BenchError::unavailable(format!("the feed ended: {text}")));
            }
        }
        // The rest of the message may still be on its way: its token is of no use.
        self.received.clear();
        Ok(())
    }
}
