//! Content negotiation by `Accept`.

use super::request::RiakRequest;

/// Client's preferences on the answer: `Accept` and `Accept-Encoding`.
#[derive(Debug, Default)]
pub(super) struct Wants {
    accept: Option<String>,
    encodings: Option<String>,
}

impl Wants {
    pub(super) fn of(asked: &RiakRequest) -> Wants {
        // Several headers of one name are one list.
        let text = |name: &str| {
            asked.header(name)?;
            String::from_utf8(asked.joined(name)).ok()
        };
        Wants { accept: text("accept"), encodings: text("accept-encoding") }
    }

    pub(super) fn accept(&self) -> Option<&str> {
        self.accept.as_deref()
    }

    /// Returns true if the client refuses (`q=0`) the encoding in which a value is stored.
    pub(super) fn refuses(&self, stored: &[u8]) -> bool {
        let Some(encodings) = self.encodings.as_deref() else { return false };
        let stored = if stored.is_empty() { b"identity" } else { stored };
        let weight = |wanted: &[u8]| {
            encodings.split(',').find_map(|one| {
                let mut parts = one.split(';').map(str::trim);
                let name = parts.next().unwrap_or_default();
                let weight =
                    parts.find_map(|part| part.strip_prefix("q=")).map_or(1_000, thousandths);
                name.as_bytes().eq_ignore_ascii_case(wanted).then_some(weight)
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

/// Returns how exactly a range names a media type: 3 the type itself, 2 its family, 1 any type, 0
/// not at all.
fn exactness(range: &str, kind: &str) -> u8 {
    let family = kind.split_once('/').map_or(kind, |(family, _)| family);
    match range {
        "*/*" | "*" => 1,
        range if range.strip_suffix("/*") == Some(family) => 2,
        range if range == kind => 3,
        _ => 0,
    }
}

/// Returns the weight of a media type for a client in thousandths, taken from the most exact range.
/// Without an `Accept` header every type has the full weight.
pub(super) fn welcome(accept: Option<&str>, kind: &str) -> u16 {
    let Some(accept) = accept else { return 1_000 };
    let mut best = (0, 0);
    for (range, weight) in ranges(accept) {
        let exact = exactness(&range, kind);
        if exact > best.0 {
            best = (exact, weight);
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
pub(super) enum Manner {
    /// Their tags, one per line.
    Tags,
    /// All values, as parts of one body.
    Parts,
}

impl Manner {
    fn media_type(self) -> &'static str {
        match self {
            Manner::Tags => "text/plain",
            Manner::Parts => "multipart/mixed",
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
pub(super) fn siblings(accept: Option<&str>, first: Manner) -> Option<Manner> {
    let Some(text) = accept else { return Some(first) };
    let second = if first == Manner::Tags { Manner::Parts } else { Manner::Tags };
    let offered = [first, second];
    let chosen = ranges(text).filter_map(|(range, weight)| {
        let fits = |manner: &&Manner| {
            let kind = manner.media_type();
            weight > 0 && exactness(&range, kind) > 0 && welcome(accept, kind) > 0
        };
        offered.iter().find(fits).map(|manner| (weight, *manner))
    });
    // `max_by_key` returns the last of several with equal weight.
    chosen.max_by_key(|(weight, _)| *weight).map(|(_, manner)| manner)
}
