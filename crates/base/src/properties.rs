//! The properties of buckets and bucket types, and how they are changed.
//!
//! One table feeds the parser, the descriptions and the docs. What only available buckets have
//! stands in `Replication`; a consistent bucket refuses it in words.

use crate::quorum::Quorum;
use crate::{Error, Reason, Result, limits};

/// Consistency mode of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
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
    /// Acknowledged when written; synced within `sync_interval_ms`. A power cut may lose that much;
    /// status says so.
    Interval,
}

/// What the values of an available bucket are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Any bytes; concurrent writes become siblings.
    #[default]
    None,
    /// A number that many add to.
    Counter,
    /// A set.
    Set,
    /// A set that only grows.
    Gset,
    /// Fields, each of a type of its own.
    Map,
    /// A count of distinct values, about.
    Hll,
}

impl DataType {
    /// All of them.
    pub const ALL: [DataType; 6] = {
        use DataType::*;
        [None, Counter, Set, Gset, Map, Hll]
    };

    /// Its word at every front-end.
    pub fn word(self) -> &'static str {
        ["none", "counter", "set", "gset", "map", "hll"][self as usize]
    }

    fn parse(text: &str) -> Option<DataType> {
        DataType::ALL.into_iter().find(|kind| kind.word() == text)
    }
}

/// How an available bucket is replicated; nothing of it speaks of consistent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Replication {
    /// Replicas of a key.
    pub n_val: u8,
    /// Replicas that answer a read.
    pub r: Quorum,
    /// Of them primaries.
    pub pr: Quorum,
    /// Replicas that take a write.
    pub w: Quorum,
    /// Replicas that sync it.
    pub dw: Quorum,
    /// Of them primaries.
    pub pw: Quorum,
    /// What a delete takes for `r` and `w`, where it is not said.
    pub rw: Quorum,
    /// Nodes that must answer, or take a write.
    pub node_confirms: u8,
    /// Whether a read gives up as soon as more than half have nothing.
    pub basic_quorum: bool,
    /// Whether a replica that has nothing counts towards `r`.
    pub notfound_ok: bool,
    /// Whether concurrent writes are all kept.
    pub allow_mult: bool,
    /// Whether the newest write replaces all others, whatever it has seen.
    pub last_write_wins: bool,
    /// Most siblings.
    pub siblings_max: u16,
    /// What the values are.
    pub datatype: DataType,
    /// How exact `hll` is.
    pub hll_precision: u8,
    /// Whether keys are meant to be written once: there are never siblings. Fixed with the type.
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
    /// Whether they hold together.
    pub fn check(&self) -> Result<()> {
        let malformed = |text: String| Err(Error::new(Reason::Malformed, text));
        let shares = [
            ("r", self.r),
            ("pr", self.pr),
            ("w", self.w),
            ("dw", self.dw),
            ("pw", self.pw),
            ("rw", self.rw),
            ("node_confirms", Quorum::Number(self.node_confirms)),
        ];
        let n = self.n_val;
        if let Some((name, quorum)) = shares.iter().find(|(_, quorum)| quorum.of(n) > n) {
            return malformed(format!("`{name}` is {quorum}, and there are {n} replicas (n_val)"));
        }
        let typed = self.datatype != DataType::None;
        if self.write_once && (typed || self.allow_mult) {
            let text = "buckets whose keys are written once (`write_once`) keep one plain value of \
                        a key: `allow_mult` is false there, and `datatype` none";
            return malformed(text.into());
        }
        if typed && (!self.allow_mult || self.last_write_wins) {
            let text = "buckets of a data type merge what is concurrent: `allow_mult` is true \
                        there, and `last_write_wins` false";
            return malformed(text.into());
        }
        Ok(())
    }
}

/// A bucket's properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Properties {
    /// Its consistency mode; fixed when it is made.
    pub consistency: Consistency,
    /// When an update counts as written.
    pub sync: SyncPolicy,
    /// Largest key in bytes, at most the house's limit.
    pub key_bytes_max: usize,
    /// Largest value in bytes, at most the house's limit.
    pub value_bytes_max: usize,
    /// Time to live of rows written without one, in milliseconds; 0: for ever.
    pub ttl_ms: u64,
    /// How it is replicated, if it is available; else as it comes.
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
            replication: Replication::default(),
        }
    }
}

/// Name of the property that holds a bucket's consistency mode.
pub const CONSISTENCY: &str = "consistency";
/// Another spelling of `consistency`: read like it, and kept in rows of the directory.
pub const PROMISE: &str = "promise";

/// Returns the name in force of a property that may be spelt otherwise.
fn canonical(name: &str) -> &str {
    if name == PROMISE { CONSISTENCY } else { name }
}

/// Changes to properties as name and text, in order, as clients send them.
pub type Changes = Vec<(String, String)>;

impl Properties {
    /// Of an available bucket, as they come.
    pub fn available() -> Properties {
        Properties { consistency: Consistency::Available, ..Properties::default() }
    }

    /// With these changes; an unknown name or a bad text is `malformed`, in words, and so is a
    /// property that buckets of this consistency do not have.
    pub fn with(&self, changes: &Changes) -> Result<Properties> {
        let mut changed = self.clone();
        // Whether a property may be changed depends on the consistency, so that comes first.
        let (first, others): (Vec<_>, Vec<_>) =
            changes.iter().partition(|(name, _)| canonical(name) == CONSISTENCY);
        let is_set = |spelling: &str| first.iter().any(|(name, _)| name == spelling);
        if is_set(CONSISTENCY) && is_set(PROMISE) {
            let text = "`promise` and `consistency` are one property: set one of them";
            return Err(Error::new(Reason::Malformed, text));
        }
        for (name, text) in first.into_iter().chain(others) {
            let property = changed.property(canonical(name))?;
            (property.set)(&mut changed, text).ok_or_else(|| {
                Error::new(
                    Reason::Malformed,
                    format!("`{text}` is no value for `{name}`: {}", property.doc),
                )
            })?;
        }
        // What keeps no siblings need not say so.
        if changed.replication.write_once && !changes.iter().any(|(name, _)| name == "allow_mult") {
            changed.replication.allow_mult = false;
        }
        match changed.consistency {
            Consistency::Consistent => changed.replication = Replication::default(),
            Consistency::Available => changed.replication.check()?,
        }
        Ok(changed)
    }

    fn property(&self, name: &str) -> Result<&'static Property> {
        let Some(property) = PROPERTIES.iter().find(|property| property.name == name) else {
            let names: Vec<_> = self.shown().map(|property| property.name).collect();
            return Err(Error::new(
                Reason::Malformed,
                format!("no bucket property `{name}`; there are {}", names.join(", ")),
            ));
        };
        if property.is_of(self.consistency) {
            return Ok(property);
        }
        let text = format!(
            "`{name}` is a property of available buckets, and this one is consistent: leave it \
             out, or make a bucket of a type whose `consistency` is available"
        );
        Err(Error::new(Reason::NotSupported, text))
    }

    /// The properties that buckets of this consistency have, in the table's order.
    pub fn shown(&self) -> impl Iterator<Item = &'static Property> + use<> {
        let consistency = self.consistency;
        PROPERTIES.iter().filter(move |property| property.is_of(consistency))
    }

    /// All of them as name and text.
    pub fn texts(&self) -> Vec<(&'static str, String)> {
        self.shown().map(|property| (property.name, (property.get)(self))).collect()
    }
}

/// One property: name, what it is, how it is shown, how it is changed.
pub struct Property {
    /// Its name at every front-end.
    pub name: &'static str,
    /// One line for help and docs.
    pub doc: &'static str,
    /// Which buckets have it; none: all.
    pub of: Option<Consistency>,
    /// What its values are.
    pub shape: PropertyShape,
    /// Its present text.
    pub get: fn(&Properties) -> String,
    set: fn(&mut Properties, &str) -> Option<()>,
}

impl Property {
    fn is_of(&self, consistency: Consistency) -> bool {
        self.of.is_none_or(|of| of == consistency)
    }
}

/// What the values of a property are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PropertyShape {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number from, to.
    Number(u64, u64),
    /// `one`, `quorum`, `all`, or a number.
    Quorum,
    /// `true` or `false`.
    Flag,
}

mod table;

pub use table::PROPERTIES;
