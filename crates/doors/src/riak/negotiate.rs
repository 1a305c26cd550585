//! What a client accepts.

use super::asked::Asked;

/// What a client says of the answers that it takes.
#[derive(Debug, Default)]
pub(super) struct Wants {
    accept: Option<String>,
    encodings: Option<String>,
}

impl Wants {
    pub(super) fn of(asked: &Asked) -> Wants {
        let text = |name: &str| asked.text(name).map(str::to_string);
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

/// How much a client wants a media type, in thousandths: the most exact range counts. Without an
/// `Accept` everything is welcome.
pub(super) fn welcome(accept: Option<&str>, kind: &str) -> u16 {
    let Some(accept) = accept else { return 1_000 };
    let family = kind.split_once('/').map_or(kind, |(family, _)| family);
    let mut best = (0, 0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_ascii_lowercase();
        let exact = match name.as_str() {
            "*/*" | "*" => 1,
            name if name.strip_suffix("/*") == Some(family) => 2,
            name if name == kind => 3,
            _ => continue,
        };
        let weight = parts.find_map(|part| part.strip_prefix("q=")).map_or(1_000, thousandths);
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

/// How a client wants siblings; `equal` where it likes both alike; nothing if it wants neither.
pub(super) fn siblings(accept: Option<&str>, equal: Manner) -> Option<Manner> {
    let parts = welcome(accept, "multipart/mixed");
    let tags = welcome(accept, "text/plain");
    match parts.cmp(&tags) {
        _ if parts == 0 && tags == 0 => None,
        std::cmp::Ordering::Greater => Some(Manner::Parts),
        std::cmp::Ordering::Less => Some(Manner::Tags),
        std::cmp::Ordering::Equal => Some(equal),
    }
}
