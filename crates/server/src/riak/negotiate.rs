//! Content negotiation by `Accept`.

use super::request::RiakRequest;

/// Client's preferences on the answer: `Accept` and `Accept-Encoding`.
#[derive(Debug, Default)]
pub(super) struct Preferences {
    accept: Option<String>,
    encodings: Option<String>,
}

impl Preferences {
    pub(super) fn from_request(request: &RiakRequest) -> Preferences {
        // Several headers of one name are one list.
        let text = |name: &str| {
            request.header(name)?;
            String::from_utf8(request.joined(name)).ok()
        };
        Preferences { accept: text("accept"), encodings: text("accept-encoding") }
    }

    pub(super) fn accept(&self) -> Option<&str> {
        self.accept.as_deref()
    }

    /// Returns true if the client refuses (`q=0`) the encoding in which a value is stored.
    pub(super) fn refuses(&self, stored: &[u8]) -> bool {
        let Some(encodings) = self.encodings.as_deref() else { return false };
        let stored = if stored.is_empty() { b"identity" } else { stored };
        let weight = |encoding: &[u8]| {
            encodings.split(',').find_map(|entry| {
                let mut parts = entry.split(';').map(str::trim);
                let name = parts.next().unwrap_or_default();
                let weight =
                    parts.find_map(|part| part.strip_prefix("q=")).map_or(1_000, thousandths);
                name.as_bytes().eq_ignore_ascii_case(encoding).then_some(weight)
            })
        };
        weight(stored).or_else(|| weight(b"*")) == Some(0)
    }
}

/// Returns the ranges of an `Accept` header in the client's order: the name in lower case, and the
/// weight in thousandths.
fn ranges(accept: &str) -> impl Iterator<Item = (String, u16)> + '_ {
    accept.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1_000, thousandths);
        (name, weight)
    })
}

/// Returns the specificity of a range for a media type: 3 the type itself, 2 its family, 1 any
/// type, 0 no match.
fn specificity(range: &str, kind: &str) -> u8 {
    let family = kind.split_once('/').map_or(kind, |(family, _)| family);
    match range {
        "*/*" | "*" => 1,
        range if range.strip_suffix("/*") == Some(family) => 2,
        range if range == kind => 3,
        _ => 0,
    }
}

/// Returns the weight of a media type for a client in thousandths: that of the most specific range.
/// Without an `Accept` header every type has the full weight.
pub(super) fn accept_weight(accept: Option<&str>, kind: &str) -> u16 {
    let Some(accept) = accept else { return 1_000 };
    let mut best = (0, 0);
    for (range, weight) in ranges(accept) {
        let specific = specificity(&range, kind);
        if specific > best.0 {
            best = (specific, weight);
        }
    }
    best.1
}

/// Parses a weight such as `0.5` into thousandths. A text that is not a number counts as 1.
fn thousandths(text: &str) -> u16 {
    let weight: f32 = text.parse().unwrap_or(1.0);
    (weight.clamp(0.0, 1.0) * 1_000.0) as u16
}

/// Representation of siblings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SiblingFormat {
    /// Their tags, one per line.
    Tags,
    /// All values, as parts of one body.
    Parts,
}

impl SiblingFormat {
    fn media_type(self) -> &'static str {
        match self {
            SiblingFormat::Tags => "text/plain",
            SiblingFormat::Parts => "multipart/mixed",
        }
    }
}

/// Returns the representation in which a client gets siblings, or `None` if it refuses both.
/// `first` applies to a range that matches both, and to a client without an `Accept` header.
///
/// As in Webmachine, of ranges with equal weight the one that the client names last counts first
/// (`lists:reverse(lists:keysort(1, Ranges))`). Riak's Java client sends `*/*, multipart/mixed`
/// with every read and understands only parts. A type that the client refuses (`q=0`) is never
/// chosen, although Webmachine would.
pub(super) fn siblings(accept: Option<&str>, first: SiblingFormat) -> Option<SiblingFormat> {
    let Some(text) = accept else { return Some(first) };
    let second =
        if first == SiblingFormat::Tags { SiblingFormat::Parts } else { SiblingFormat::Tags };
    let offered = [first, second];
    let chosen = ranges(text).filter_map(|(range, weight)| {
        let matches_range = |format: &&SiblingFormat| {
            let kind = format.media_type();
            weight > 0 && specificity(&range, kind) > 0 && accept_weight(accept, kind) > 0
        };
        offered.iter().find(matches_range).map(|format| (weight, *format))
    });
    // `max_by_key` returns the last of several with equal weight.
    chosen.max_by_key(|(weight, _)| *weight).map(|(_, format)| format)
}
