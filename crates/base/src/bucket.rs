//! Buckets and bucket types: names, properties and their changes.
//!
//! One table of properties feeds the parser, the descriptions and the docs.

use crate::{Error, Reason, Result, limits};
use std::fmt;
use std::sync::Arc;

/// A bucket's full name, `type/bucket`. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BucketName {
    full: Arc<str>,
    slash: usize,
}

impl BucketName {
    /// The type that is meant when none is named, and the bucket every node makes at first start.
    pub const DEFAULT: &'static str = "default";

    /// Reads `type/bucket`, or `bucket` of the type `default`. Names are
    /// `[a-z0-9][a-z0-9_-]{0,62}`.
    pub fn parse(text: &str) -> Result<BucketName> {
        match text.split_once('/') {
            Some((kind, name)) => BucketName::new(kind, name),
            None => BucketName::new(BucketName::DEFAULT, text),
        }
    }

    /// From its two parts.
    pub fn new(kind: &str, name: &str) -> Result<BucketName> {
        check_name(kind)?;
        check_name(name)?;
        Ok(BucketName { full: format!("{kind}/{name}").into(), slash: kind.len() })
    }

    /// From its full name, both parts; what [`BucketName::full`] gave.
    pub fn from_full(full: &str) -> Result<BucketName> {
        let (kind, name) = full.split_once('/').ok_or_else(no_name)?;
        check_name(kind)?;
        check_name(name)?;
        Ok(BucketName { full: full.into(), slash: kind.len() })
    }

    /// The bucket type.
    pub fn kind(&self) -> &str {
        &self.full[..self.slash]
    }

    /// The bucket within its type.
    pub fn name(&self) -> &str {
        &self.full[self.slash + 1..]
    }

    /// `type/bucket`.
    pub fn full(&self) -> &str {
        &self.full
    }
}

impl Default for BucketName {
    /// `default/default`.
    fn default() -> BucketName {
        BucketName { full: "default/default".into(), slash: 7 }
    }
}

impl fmt::Display for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

impl fmt::Debug for BucketName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full)
    }
}

fn check_name(name: &str) -> Result<()> {
    let bytes = name.as_bytes();
    let plain = |&byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let fits = (1..=limits::NAME_BYTES_MAX).contains(&bytes.len())
        && plain(&bytes[0])
        && bytes.iter().all(|byte| plain(byte) || *byte == b'_' || *byte == b'-');
    if fits { Ok(()) } else { Err(no_name()) }
}

fn no_name() -> Error {
    Error::new(
        Reason::Malformed,
        "a bucket name has two parts, type/bucket, each of 1 to 63 of a-z 0-9 _ - and beginning \
         with a letter or digit",
    )
}

/// What a bucket promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Promise {
    /// Never a wrong or stale answer; refuses when it can't be sure.
    Consistent,
    /// Always takes the write; conflicts are kept and shown.
    Available,
}

/// When an update counts as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncPolicy {
    /// Acknowledged after it is synced on a majority.
    Sync,
    /// Acknowledged when written; synced within `interval_ms`. A power cut may lose that much;
    /// status says so.
    Interval,
}

/// A bucket's properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// What the bucket promises; fixed when it is made.
    pub promise: Promise,
    /// When an update counts as written.
    pub sync: SyncPolicy,
    /// Largest key in bytes, at most the house's limit.
    pub key_bytes_max: usize,
    /// Largest value in bytes, at most the house's limit.
    pub value_bytes_max: usize,
    /// Time to live of rows written without one, in milliseconds; 0: for ever.
    pub ttl_ms: u64,
}

impl Default for Properties {
    fn default() -> Properties {
        Properties {
            promise: Promise::Consistent,
            sync: SyncPolicy::Sync,
            key_bytes_max: limits::KEY_BYTES_MAX,
            value_bytes_max: limits::VALUE_BYTES_MAX,
            ttl_ms: 0,
        }
    }
}

/// Changes to properties as name and text, in order, as clients send them.
pub type Changes = Vec<(String, String)>;

/// One property: name, what it is, how it is shown, how it is changed.
pub struct Property {
    /// Its name at every door.
    pub name: &'static str,
    /// One line for help and docs.
    pub doc: &'static str,
    /// Its present text.
    pub get: fn(&Properties) -> String,
    set: fn(&mut Properties, &str) -> Option<()>,
}

/// All properties of a bucket.
pub const PROPERTIES: [Property; 5] = [
    Property {
        name: "promise",
        doc: "`consistent` (never a wrong answer) or `available` (always takes the write); fixed \
              when the bucket is made",
        get: |p| match p.promise {
            Promise::Consistent => "consistent".into(),
            Promise::Available => "available".into(),
        },
        set: |p, text| {
            p.promise = match text {
                "consistent" => Promise::Consistent,
                "available" => Promise::Available,
                _ => return None,
            };
            Some(())
        },
    },
    Property {
        name: "sync",
        doc: "`sync` (acknowledged after fdatasync) or `interval` (acknowledged when written, \
              synced a little later)",
        get: |p| match p.sync {
            SyncPolicy::Sync => "sync".into(),
            SyncPolicy::Interval => "interval".into(),
        },
        set: |p, text| {
            p.sync = match text {
                "sync" => SyncPolicy::Sync,
                "interval" => SyncPolicy::Interval,
                _ => return None,
            };
            Some(())
        },
    },
    Property {
        name: "key_bytes_max",
        doc: "largest key in bytes, 1 to 32768",
        get: |p| p.key_bytes_max.to_string(),
        set: |p, text| {
            p.key_bytes_max = number(text, 1, limits::KEY_BYTES_MAX as u64)? as usize;
            Some(())
        },
    },
    Property {
        name: "value_bytes_max",
        doc: "largest value in bytes, 1 to 8388608",
        get: |p| p.value_bytes_max.to_string(),
        set: |p, text| {
            p.value_bytes_max = number(text, 1, limits::VALUE_BYTES_MAX as u64)? as usize;
            Some(())
        },
    },
    Property {
        name: "ttl_ms",
        doc: "time to live in milliseconds of rows written without one; 0: for ever",
        get: |p| p.ttl_ms.to_string(),
        set: |p, text| {
            p.ttl_ms = number(text, 0, limits::TTL_MS_MAX)?;
            Some(())
        },
    },
];

fn number(text: &str, min: u64, max: u64) -> Option<u64> {
    text.parse().ok().filter(|number| (min..=max).contains(number))
}

impl Properties {
    /// With these changes; an unknown name or a bad text is `malformed`, in words.
    pub fn with(&self, changes: &Changes) -> Result<Properties> {
        let mut changed = self.clone();
        for (name, text) in changes {
            let known = PROPERTIES.iter().find(|property| property.name == name);
            let Some(property) = known else {
                let names: Vec<_> = PROPERTIES.iter().map(|property| property.name).collect();
                return Err(Error::new(
                    Reason::Malformed,
                    format!("no bucket property `{name}`; there are {}", names.join(", ")),
                ));
            };
            (property.set)(&mut changed, text).ok_or_else(|| {
                Error::new(
                    Reason::Malformed,
                    format!("`{text}` is no value for `{name}`: {}", property.doc),
                )
            })?;
        }
        Ok(changed)
    }

    /// All properties as name and text, in the table's order.
    pub fn texts(&self) -> Vec<(&'static str, String)> {
        PROPERTIES.iter().map(|property| (property.name, (property.get)(self))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_small_and_plain() {
        assert_eq!(
            BucketName::parse("users").map(|n| n.full().to_string()),
            Ok("default/users".into())
        );
        let name = BucketName::parse("logs/a-1_b").expect("plain");
        assert_eq!((name.kind(), name.name()), ("logs", "a-1_b"));
        assert_eq!(BucketName::from_full("logs/a-1_b"), Ok(name));
        assert!(BucketName::from_full("users").is_err(), "a full name has both parts");
        let long = "x".repeat(64);
        for bad in
            ["", "/", "a/", "/a", "A", "a b", "../x", "a/b/c", "-a", "é", "a\0", long.as_str()]
        {
            assert!(BucketName::parse(bad).is_err(), "{bad:?}");
            assert!(BucketName::from_full(bad).is_err(), "{bad:?}");
        }
        assert!(BucketName::parse(&"x".repeat(63)).is_ok());
    }

    #[test]
    fn every_property_reads_back_what_it_shows() {
        let properties =
            Properties { ttl_ms: 5, sync: SyncPolicy::Interval, ..Properties::default() };
        let changes = properties.texts().into_iter().map(|(n, t)| (n.to_string(), t)).collect();
        assert_eq!(Properties::default().with(&changes), Ok(properties));
    }

    #[test]
    fn unknown_properties_and_bad_texts_are_refused_in_words() {
        let change = |name: &str, text: &str| {
            Properties::default().with(&vec![(name.into(), text.into())]).map_err(|e| e.text())
        };
        assert!(change("colour", "red").expect_err("unknown").contains("no bucket property"));
        assert!(change("value_bytes_max", "8388609").expect_err("too large").contains("no value"));
        assert!(change("value_bytes_max", "8388608").is_ok());
    }
}
