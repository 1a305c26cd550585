//! The properties of buckets and bucket types, and how they are changed.
//!
//! One table feeds the parser, the descriptions and the docs. `Replication` holds the properties
//! that only available buckets have; a consistent bucket refuses them with an error.

mod audit;
mod feed;
mod table;
#[cfg(test)]
mod tests;

pub use audit::BucketAudit;
pub use feed::FeedMode;
pub use table::PROPERTIES;

use crate::quorum::Quorum;
use crate::{Error, Reason, Result, limits};

/// Consistency mode of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// Linearizable: never a wrong or stale answer; refuses when it cannot be sure.
    Consistent,
    /// Always takes the write; conflicts are kept as siblings.
    Available,
}

/// Durability required before an update is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyncPolicy {
    /// Acknowledged after it is synced on a majority.
    Sync,
    /// Acknowledged when written; synced within `sync_interval_ms`. A power failure may lose the
    /// updates of that interval; the status warns of it.
    Interval,
}

/// Data type of the values of an available bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Any bytes; concurrent writes become siblings.
    #[default]
    None,
    /// A counter that concurrent writers add to.
    Counter,
    /// A set.
    Set,
    /// A grow-only set.
    Gset,
    /// A map; each field has a type of its own.
    Map,
    /// An estimate of the number of distinct values (HyperLogLog).
    Hll,
}

impl DataType {
    /// All of them.
    pub const ALL: [DataType; 6] = {
        use DataType::*;
        [None, Counter, Set, Gset, Map, Hll]
    };

    /// Returns the name of the data type at every front-end.
    pub fn name(self) -> &'static str {
        ["none", "counter", "set", "gset", "map", "hll"][self as usize]
    }

    fn parse(text: &str) -> Option<DataType> {
        DataType::ALL.into_iter().find(|kind| kind.name() == text)
    }
}

/// Replication properties of an available bucket; they do not apply to consistent buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replication {
    /// Number of replicas of a key.
    pub n_val: u8,
    /// Number of replicas that must answer a read.
    pub r: Quorum,
    /// Number of primaries among them.
    pub pr: Quorum,
    /// Number of replicas that must take a write.
    pub w: Quorum,
    /// Number of replicas that must sync a write.
    pub dw: Quorum,
    /// Number of primaries among those that take a write.
    pub pw: Quorum,
    /// Quorum of a delete that names neither `r` nor `w`.
    pub rw: Quorum,
    /// Number of distinct nodes that must answer a read or take a write.
    pub node_confirms: u8,
    /// True if a read ends as soon as more than half of the replicas report that they hold nothing.
    pub basic_quorum: bool,
    /// True if a replica that holds nothing counts towards `r`.
    pub notfound_ok: bool,
    /// True if concurrent writes are all kept, as siblings; false if only the newest is.
    pub allow_mult: bool,
    /// True if a write replaces all that the coordinating replica has, whatever its context has
    /// seen; of concurrent writes the newest stays.
    pub last_write_wins: bool,
    /// Most siblings of a key.
    pub siblings_max: u16,
    /// Data type of the values.
    pub datatype: DataType,
    /// Precision of `hll` values: more is more exact and takes more memory.
    pub hll_precision: u8,
    /// True if each key is written once only, so that siblings never arise. Fixed with the type.
    pub write_once: bool,
}

impl Default for Replication {
    fn default() -> Replication {
        Replication {
            n_val: 3,
            r: Quorum::Quorum,
            pr: Quorum::Number(0),
            w: Quorum::Quorum,
            dw: Quorum::Quorum,
            pw: Quorum::Number(0),
            rw: Quorum::Quorum,
            node_confirms: 0,
            basic_quorum: false,
            notfound_ok: true,
            allow_mult: true,
            last_write_wins: false,
            siblings_max: limits::SIBLINGS_MAX,
            datatype: DataType::None,
            hll_precision: 14,
            write_once: false,
        }
    }
}

impl Replication {
    /// Checks that the properties fit together. Errors: `malformed`.
    pub fn check(&self) -> Result<()> {
        let malformed = |text: String| Err(Error::new(Reason::Malformed, text));
        let quorums = [
            ("r", self.r),
            ("pr", self.pr),
            ("w", self.w),
            ("dw", self.dw),
            ("pw", self.pw),
            ("rw", self.rw),
            ("node_confirms", Quorum::Number(self.node_confirms)),
        ];
        let replicas = self.n_val;
        if let Some((name, quorum)) =
            quorums.iter().find(|(_, quorum)| quorum.size_for(replicas) > replicas)
        {
            return malformed(format!(
                "`{name}` is {quorum}, but there are only {replicas} replicas (n_val)"
            ));
        }
        let has_datatype = self.datatype != DataType::None;
        if self.write_once && (has_datatype || self.allow_mult) {
            let text = "buckets with `write_once` keep one plain value per key: `allow_mult` must \
                        be false, and `datatype` none";
            return malformed(text.into());
        }
        if has_datatype && (!self.allow_mult || self.last_write_wins) {
            let text = "buckets of a data type merge concurrent updates: `allow_mult` must be \
                        true, and `last_write_wins` false";
            return malformed(text.into());
        }
        Ok(())
    }
}

/// A bucket's properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Consistency mode; fixed at creation.
    pub consistency: Consistency,
    /// Durability required before an update is acknowledged.
    pub sync: SyncPolicy,
    /// Largest key in bytes; at most the limit of all buckets.
    pub key_bytes_max: usize,
    /// Largest value in bytes; at most the limit of all buckets.
    pub value_bytes_max: usize,
    /// Default time to live of rows in milliseconds. 0: rows do not expire.
    pub ttl_ms: u64,
    /// True if a consistent bucket keeps counts of its keys and bytes; false in an available one.
    pub counted: bool,
    /// Most bytes of keys and values of a counted bucket. 0: no bound.
    pub bytes_max: u64,
    /// Operations on its keys that the audit log records.
    pub audit: BucketAudit,
    /// Feed of its changes.
    pub feed: FeedMode,
    /// Time for which the feed keeps deletes and replaced changes, in milliseconds.
    pub feed_keep_ms: u64,
    /// Most bytes of the events that the feed keeps for this time. 0: no bound.
    pub feed_keep_bytes: u64,
    /// Replication properties of an available bucket; the defaults in a consistent one.
    pub replication: Replication,
}

impl Default for Properties {
    fn default() -> Properties {
        Properties {
            consistency: Consistency::Consistent,
            sync: SyncPolicy::Sync,
            key_bytes_max: limits::KEY_BYTES_MAX,
            value_bytes_max: limits::VALUE_BYTES_MAX,
            ttl_ms: 0,
            counted: false,
            bytes_max: 0,
            audit: BucketAudit::Off,
            feed: FeedMode::Off,
            feed_keep_ms: limits::FEED_KEEP_MS_DEFAULT,
            feed_keep_bytes: limits::FEED_KEEP_BYTES_DEFAULT,
            replication: Replication::default(),
        }
    }
}

/// Name of the property that holds a bucket's consistency mode.
pub const CONSISTENCY: &str = "consistency";
/// Name of the property by which a bucket keeps counts.
pub const COUNTED: &str = "counted";
/// Name of the property that bounds the bytes of a bucket.
pub const BYTES_MAX: &str = "bytes_max";
/// Name of the property that makes the audit log record operations on a bucket's keys.
pub const AUDIT: &str = "audit";
/// Name of the property by which a bucket has a feed of its changes.
pub const FEED: &str = "feed";
/// Name of the property that bounds the time for which a feed keeps deletes and replaced changes.
pub const FEED_KEEP_MS: &str = "feed_keep_ms";
/// Name of the property that bounds the bytes of what a feed keeps for this time.
pub const FEED_KEEP_BYTES: &str = "feed_keep_bytes";
/// Largest value of `bytes_max`: up to it, JSON's numbers are exact.
pub(crate) const BYTES_MAX_MOST: u64 = 1 << 53;
/// Alias of `consistency`: accepted like it, and the name in the directory's rows.
pub const PROMISE: &str = "promise";

/// Returns the canonical name of a property that may be given by an alias.
fn canonical(name: &str) -> &str {
    if name == PROMISE { CONSISTENCY } else { name }
}

/// Changes to properties as pairs of name and text, in order, as clients send them.
pub type Changes = Vec<(String, String)>;

impl Properties {
    /// Returns the default properties of an available bucket.
    pub fn available() -> Properties {
        Properties { consistency: Consistency::Available, ..Properties::default() }
    }

    /// Returns the properties with these changes. Errors: `malformed` for an unknown name, for a
    /// bad text, and for a property that buckets of this consistency do not have.
    pub fn with(&self, changes: &Changes) -> Result<Properties> {
        let mut changed = self.clone();
        // The consistency comes first: it decides which other properties may be changed.
        let (consistency_changes, other_changes): (Vec<_>, Vec<_>) =
            changes.iter().partition(|(name, _)| canonical(name) == CONSISTENCY);
        let is_set = |spelling: &str| consistency_changes.iter().any(|(name, _)| name == spelling);
        if is_set(CONSISTENCY) && is_set(PROMISE) {
            let text = "`promise` and `consistency` are the same property: set one of them";
            return Err(Error::new(Reason::Malformed, text));
        }
        for (name, text) in consistency_changes.into_iter().chain(other_changes) {
            let property = changed.property(canonical(name))?;
            (property.set)(&mut changed, text).ok_or_else(|| {
                Error::new(
                    Reason::Malformed,
                    format!("`{text}` is not a valid value of `{name}`: {}", property.doc),
                )
            })?;
        }
        // Keys that are written once have no siblings, so `allow_mult` defaults to false.
        if changed.replication.write_once && !changes.iter().any(|(name, _)| name == "allow_mult") {
            changed.replication.allow_mult = false;
        }
        match changed.consistency {
            Consistency::Consistent => changed.replication = Replication::default(),
            Consistency::Available => {
                (changed.counted, changed.bytes_max) = (false, 0);
                changed.replication.check()?;
            }
        }
        if changed.bytes_max > 0 && !changed.counted {
            let text = "`bytes_max` bounds the bytes that a bucket counts: set `counted` true with \
                        it, or `bytes_max` 0";
            return Err(Error::new(Reason::Malformed, text));
        }
        Ok(changed)
    }

    fn property(&self, name: &str) -> Result<&'static Property> {
        let Some(property) = PROPERTIES.iter().find(|property| property.name == name) else {
            let names: Vec<_> = self.applicable().map(|property| property.name).collect();
            return Err(Error::new(
                Reason::Malformed,
                format!(
                    "unknown bucket property `{name}`; the properties are {}",
                    names.join(", ")
                ),
            ));
        };
        if property.applies_to(self.consistency) {
            return Ok(property);
        }
        let text = match self.consistency {
            Consistency::Consistent => format!(
                "`{name}` is a property of available buckets, but this bucket is consistent: omit \
                 it, or use a bucket type with `consistency` available"
            ),
            Consistency::Available => format!(
                "`{name}` is a property of consistent buckets, but this bucket is available: omit \
                 it, or use a bucket type with `consistency` consistent"
            ),
        };
        Err(Error::new(Reason::NotSupported, text))
    }

    /// Returns the properties that buckets of this consistency have, in the table's order.
    pub fn applicable(&self) -> impl Iterator<Item = &'static Property> + use<> {
        let consistency = self.consistency;
        PROPERTIES.iter().filter(move |property| property.applies_to(consistency))
    }

    /// Returns all properties as name and text.
    pub fn texts(&self) -> Vec<(&'static str, String)> {
        self.applicable().map(|property| (property.name, (property.get)(self))).collect()
    }

    /// Returns true if a property about the feed is not the default.
    pub(crate) fn has_feed_properties(&self) -> bool {
        let (ms, bytes) = (limits::FEED_KEEP_MS_DEFAULT, limits::FEED_KEEP_BYTES_DEFAULT);
        (self.feed, self.feed_keep_ms, self.feed_keep_bytes) != (FeedMode::Off, ms, bytes)
    }

    /// Returns the properties that the directory stores, as name and text. `counted` only if it is
    /// true, and `bytes_max`, `audit` and those about the feed only if they are set: an earlier
    /// program refuses a row with a property that it does not know, so it refuses the buckets that
    /// it would miscount, not record or change without events, and no others.
    pub fn stored_texts(&self) -> Vec<(&'static str, String)> {
        let mut texts = self.texts();
        texts.retain(|(name, _)| match *name {
            COUNTED => self.counted,
            BYTES_MAX => self.bytes_max > 0,
            AUDIT => self.audit != BucketAudit::Off,
            FEED | FEED_KEEP_MS | FEED_KEEP_BYTES => self.has_feed_properties(),
            _ => true,
        });
        texts
    }
}

/// One property: its name, its documentation, and how it is shown and changed.
pub struct Property {
    /// Name at every front-end.
    pub name: &'static str,
    /// One line for help and docs.
    pub doc: &'static str,
    /// Consistency of the buckets that have it. `None`: all buckets.
    pub consistency: Option<Consistency>,
    /// Shape of its values.
    pub shape: PropertyShape,
    /// Returns its current text.
    pub get: fn(&Properties) -> String,
    set: fn(&mut Properties, &str) -> Option<()>,
}

impl Property {
    fn applies_to(&self, consistency: Consistency) -> bool {
        self.consistency.is_none_or(|required| required == consistency)
    }
}

/// Shape of the values of a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyShape {
    /// One of these texts.
    Word(&'static [&'static str]),
    /// A number in this range, bounds included.
    Number(u64, u64),
    /// `one`, `quorum`, `all`, or a number.
    Quorum,
    /// `true` or `false`.
    Flag,
}
