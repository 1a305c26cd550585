//! HTTP dates (RFC 9110, section 5.6.7): written as `Sat, 21 Nov 2026 09:08:22 GMT`, read in each
//! of the three forms that a recipient must accept.

use httpdate::HttpDate;
use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

/// Length of a date in bytes.
pub const DATE_BYTES: usize = 29;
/// Last second of the year 9999: a date has four digits for the year.
const SECOND_MAX: u64 = 253_402_300_799;

/// Returns the date of a time in milliseconds since 1970. Later times than the last date give the
/// last date.
pub fn format(ms: u64) -> String {
    date(ms / 1_000).to_string()
}

fn date(second: u64) -> HttpDate {
    HttpDate::from(UNIX_EPOCH + Duration::from_secs(second.min(SECOND_MAX)))
}

/// Current date of a connection's answers. It is formatted once a second, and most answers copy it.
#[derive(Clone, Copy, Debug)]
pub struct DateCache {
    /// Seconds since 1970 that `text` shows.
    second: u64,
    text: [u8; DATE_BYTES],
}

impl DateCache {
    /// Returns a cache with the date of this time (milliseconds since 1970).
    pub fn new(unix_ms: u64) -> DateCache {
        let second = unix_ms / 1_000;
        let mut text = [b' '; DATE_BYTES];
        write!(&mut text[..], "{}", date(second)).expect("every date has as many bytes");
        DateCache { second, text }
    }

    /// Returns the date of this time. Formats it only if the second has changed.
    pub fn format_at(&mut self, unix_ms: u64) -> &[u8; DATE_BYTES] {
        if self.second != unix_ms / 1_000 {
            *self = DateCache::new(unix_ms);
        }
        &self.text
    }
}

impl Default for DateCache {
    fn default() -> DateCache {
        DateCache::new(0)
    }
}

/// Parses a date. Returns seconds since 1970, or `None` if the text is not a date.
pub fn parse(text: &str) -> Option<u64> {
    let time = httpdate::parse_http_date(text).ok()?;
    time.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}
