//! Format of one event as one line of text: time, level, section, message, fields.
//!
//! Control bytes are escaped, so that input can't forge a line.

use super::levels::{SECTIONS, level_name, level_number, section_of};
use base::codec::printable;
use base::utc_time;
use std::fmt::{self, Write};
use std::time::{Duration, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata};

/// Formats an event, without a newline.
pub fn line(event: &Event<'_>, since_epoch: Duration) -> String {
    let mut line = LogLine { text: head(event.metadata(), since_epoch) };
    event.record(&mut line);
    line.text
}

/// Formats time, level and section.
pub fn head(metadata: &Metadata<'_>, since_epoch: Duration) -> String {
    let level = level_name(level_number(metadata.level()));
    let section = SECTIONS[section_of(metadata.target())];
    format!("{} {level:<5} {section}", time(since_epoch))
}

/// Appends ` name=value`, or ` value` for the message itself.
pub fn append(text: &mut String, name: &str, value: &str) {
    let shown = printable(value.as_bytes());
    let is_quoted = name != "message" && (shown.is_empty() || shown.contains([' ', '"', '=']));
    let result = match (name, is_quoted) {
        ("message", _) => write!(text, " {shown}"),
        (_, true) => write!(text, " {name}=\"{}\"", shown.replace('"', "\\\"")),
        (_, false) => write!(text, " {name}={shown}"),
    };
    result.expect("a String takes everything");
}

struct LogLine {
    text: String,
}

impl Visit for LogLine {
    fn record_str(&mut self, field: &Field, value: &str) {
        append(&mut self.text, field.name(), value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        append(&mut self.text, field.name(), &format!("{value:?}"));
    }
}

/// Formats a time as `2026-02-28T23:59:59.123Z`.
pub fn time(since_epoch: Duration) -> String {
    utc_time::rfc3339(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the time since 1970.
pub fn now() -> Duration {
    UNIX_EPOCH.elapsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_formatted_as_rfc3339() {
        let time_text = |seconds: u64| time(Duration::from_millis(seconds * 1_000 + 7));
        assert_eq!(time_text(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(time_text(951_782_399), "2000-02-28T23:59:59.007Z");
        assert_eq!(time_text(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(time_text(4_107_542_400), "2100-03-01T00:00:00.007Z");
        assert_eq!(time_text(1_798_761_599), "2026-12-31T23:59:59.007Z");
    }

    #[test]
    fn log_field_values_are_escaped_against_forgery() {
        let mut text = String::new();
        append(&mut text, "message", "hello\nERROR \x1b[31mfake");
        append(&mut text, "name", "a b=\"c\"");
        append(&mut text, "plain", "7");
        assert_eq!(text, " hello\\x0aERROR \\x1b[31mfake name=\"a b=\\\"c\\\"\" plain=7");
    }
}
