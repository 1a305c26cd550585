//! Content negotiation by `Accept`.

use super::asked::RiakRequest;

/// What a client says of the answers that it takes.
#[derive(Debug, Default)]
pub(super) struct Wants {
    accept: Option<String>,
    encodings: Option<String>,
}

impl Wants {
    pub(super) fn of(asked: &RiakRequest) -> Wants {
        // Several lines of one of these mean one list.
        let text = |name: &str| {
            asked.header(name)?;
            String::from_utf8(asked.joined(name)).ok()
        };
        Wants { accept: text("accept"), encodings: text("accept-encoding") }
    }

    pub(super) fn accept(&self) -> Option<&str> {
        self.accept.as_deref()
    }

    /// Whether it refuses, in so many words (`q=0`), the one encoding in which a value is stored.
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

/// The ranges of an `Accept` header in the client's order: the name in lower case, and the weight
/// in thousandths.
fn ranges(accept: &str) -> impl Iterator<Item = (String, u16)> + '_ {
    accept.split(',').map(|range| {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1_000, thousandths);
        (name, weight)
    })
}

/// Exactness with which a range names a media type: 3 the type itself, 2 its family, 1 any type,
/// 0 not at all.
fn exactness(range: &str, kind: &str) -> u8 {
    let family = kind.split_once('/').map_or(kind, |(family, _)| family);
    match range {
        "*/*" | "*" => 1,
        range if range.strip_suffix("/*") == Some(family) => 2,
        range if range == kind => 3,
        _ => 0,
    }
}

/// Weight of a media type for a client, in thousandths: that of the most exact range. Without an
/// `Accept` every type is welcome.
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

/// `0.5` and its like; what is none counts in full.
fn thousandths(text: &str) -> u16 {
    let weight: f32 = text.parse().unwrap_or(1.0);
    (weight.clamp(0.0, 1.0) * 1_000.0) as u16
}

/// How siblings are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Their tags, one a line.
    Tags,
    /// All of them, as parts.
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

/// The manner in which a client gets siblings, or none if it refuses both. `first` is what a range
/// that fits both means, and what a client without an `Accept` gets.
///
/// As in Webmachine, of ranges with equal weight the one that the client names last counts first
/// (`lists:reverse(lists:keysort(1, Ranges))`): Riak's Java client sends `*/*, multipart/mixed`
/// with every read and understands parts alone. A type that the client refuses (`q=0`) is never
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
    // Of several with the same weight this is the last.
    chosen.max_by_key(|(weight, _)| *weight).map(|(_, manner)| manner)
}
