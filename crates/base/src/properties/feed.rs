//! The properties about the feed of a bucket's changes.

use super::{BYTES_MAX_MOST, FEED, FEED_KEEP_BYTES, FEED_KEEP_MS, Property, PropertyShape};
use crate::limits::TTL_MS_MAX;

/// Feed of a bucket: its property `feed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FeedMode {
    /// The bucket has no feed.
    #[default]
    Off,
    /// Keys that changed. A change that a later one of its key has replaced may be left out.
    Keys,
    /// Keys that changed and the value of each change. In a consistent bucket every change is kept
    /// for `feed_keep_ms`.
    Values,
}

impl FeedMode {
    /// All of them, by their numbers on the wire.
    pub const ALL: [FeedMode; 3] = [FeedMode::Off, FeedMode::Keys, FeedMode::Values];
    /// Names of all of them.
    pub const NAMES: [&str; 3] = ["off", "keys", "values"];

    /// Returns the name at every front-end.
    pub fn name(self) -> &'static str {
        FeedMode::NAMES[self as usize]
    }

    /// Parses that name. `None`: it is another text.
    pub fn parse(text: &str) -> Option<FeedMode> {
        FeedMode::ALL.into_iter().find(|mode| mode.name() == text)
    }
}

pub(super) const MODE: Property = Property {
    name: FEED,
    doc: "feed of the bucket's changes: off, keys (of what changed) or values (of every change, \
          too)",
    consistency: None,
    shape: PropertyShape::Word(&FeedMode::NAMES),
    get: |p| p.feed.name().into(),
    set: |p, text| FeedMode::parse(text).map(|feed| p.feed = feed),
};

pub(super) const KEEP_MS: Property = Property {
    name: FEED_KEEP_MS,
    doc: "time for which the feed keeps deletes and replaced changes, in milliseconds",
    consistency: None,
    shape: PropertyShape::Number(0, TTL_MS_MAX),
    get: |p| p.feed_keep_ms.to_string(),
    set: |p, text| number(text, TTL_MS_MAX).map(|ms| p.feed_keep_ms = ms),
};

pub(super) const KEEP_BYTES: Property = Property {
    name: FEED_KEEP_BYTES,
    doc: "maximum bytes of the events that the feed keeps for this time; 0: no maximum",
    consistency: None,
    shape: PropertyShape::Number(0, BYTES_MAX_MOST),
    get: |p| p.feed_keep_bytes.to_string(),
    set: |p, text| number(text, BYTES_MAX_MOST).map(|bytes| p.feed_keep_bytes = bytes),
};

fn number(text: &str, max: u64) -> Option<u64> {
    text.parse().ok().filter(|number| *number <= max)
}

#[cfg(test)]
mod tests {
    use super::FeedMode;
    use crate::Properties;

    fn with(properties: &Properties, name: &str, text: &str) -> crate::Result<Properties> {
        properties.with(&vec![(name.into(), text.into())])
    }

    #[test]
    fn feed_is_a_property_of_all_buckets_and_stored_only_if_set() {
        let names = ["feed", "feed_keep_ms", "feed_keep_bytes"];
        for plain in [Properties::default(), Properties::available()] {
            assert_eq!(plain.feed, FeedMode::Off);
            assert!(plain.stored_texts().iter().all(|(name, _)| !names.contains(name)));
            for name in names {
                assert!(plain.texts().iter().any(|(shown, _)| *shown == name), "it is shown");
            }
            for (name, text) in [
                ("feed", "keys"),
                ("feed", "values"),
                ("feed_keep_ms", "0"),
                ("feed_keep_ms", "1500"),
                ("feed_keep_bytes", "0"),
            ] {
                let fed = with(&plain, name, text).expect("a value of it");
                assert!(fed.texts().contains(&(name, text.to_string())));
                let stored = fed.stored_texts().into_iter();
                let stored: Vec<_> = stored.map(|(name, text)| (name.into(), text)).collect();
                assert_eq!(Properties::default().with(&stored), Ok(fed), "{name}={text}");
            }
            for (name, text) in
                [("feed", "on"), ("feed_keep_ms", "-1"), ("feed_keep_bytes", "9007199254740993")]
            {
                assert!(with(&plain, name, text).is_err(), "{name}={text}");
            }
        }
    }
}
