//! Longest path, most segments, and largest distance from the end of an array.

use crate::limits::{PATH_BYTES_MAX, PATH_FROM_END_MAX, PATH_SEGMENTS_MAX};
use crate::{JsonPath, ValueFormat, ValueType, select};
use base::Reason;

fn reason(text: &str) -> Option<Reason> {
    JsonPath::parse(text).err().map(|error| error.reason)
}

#[test]
fn path_ends_at_its_limits() {
    let path = |length: usize| format!("$.{}", "x".repeat(length - 2));
    assert_eq!(reason(&path(PATH_BYTES_MAX)), None);
    assert_eq!(reason(&path(PATH_BYTES_MAX + 1)), Some(Reason::TooLarge));
    // In its one form, each quote has a backslash.
    let quotes = |count: usize| format!("$[\"{}\"]", "'".repeat(count));
    assert_eq!(reason(&quotes(PATH_BYTES_MAX / 2 - 3)), None);
    assert_eq!(reason(&quotes(PATH_BYTES_MAX / 2)), Some(Reason::TooLarge));
    let segments = |count: usize| format!("${}", "[0]".repeat(count));
    assert_eq!(reason(&segments(PATH_SEGMENTS_MAX)), None);
    assert_eq!(reason(&segments(PATH_SEGMENTS_MAX + 1)), Some(Reason::TooLarge));
    assert_eq!(reason(&format!("$[-{PATH_FROM_END_MAX}]")), None);
    let farther = format!("$[-{}]", PATH_FROM_END_MAX + 1);
    assert_eq!(reason(&farther), Some(Reason::TooLarge));
}

#[test]
fn longest_path_is_followed_to_its_end() {
    let path = JsonPath::parse(&format!("${}", "[-1]".repeat(PATH_SEGMENTS_MAX))).expect("a path");
    let (open, close) = ("[".repeat(PATH_SEGMENTS_MAX), "]".repeat(PATH_SEGMENTS_MAX));
    let json = format!("{open}7{close}");
    let selection = select(&path, ValueType::Int, ValueFormat::Json, json.as_bytes());
    assert_eq!(selection.expect("readable").terms.len(), 1);
}
