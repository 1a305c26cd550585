//! Readers of change feeds over HTTP: one that reads a long feed to its end, and many that wait.
//!
//! Events are counted in the raw bytes, and no JSON is parsed: server and reader share a machine,
//! so a reader must cost little beside what it measures.
//!
//! Promises: a feed that ends before `level`, or with an error, has no result; readers that wait
//! are told of a put at the end, so that they did wait.
//! Never: starts a server; compares the content of events.
//! Read next: `reading.rs`, `lines.rs`, then `watchers.rs`.

mod chunks;
mod connection;
mod lines;
mod pages;
mod reading;
#[cfg(test)]
mod tests;
mod watchers;

pub use reading::{FeedReading, read_pages, read_stream, wait_until_readable};
pub use watchers::{WatchForm, Watchers};

/// Size of the buffer of one read from a connection: a page of the server and its framing.
const READ_BYTES: usize = 256 * 1024;

/// Returns true if `bytes` contain `text`.
fn contains(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}
