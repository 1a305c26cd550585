//! Needs: a verb, and what it must be granted on.

use crate::access::{Grant, Scope, Verb};
use crate::range::prefix_end;
use crate::{Bound, BucketName, Result};
use std::fmt;

/// Right that a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need<'a> {
    /// A verb on the cluster; a verb of buckets there means: on every bucket.
    Cluster(Verb),
    /// A verb on all buckets of this type.
    Type(Verb, &'a str),
    /// A verb on keys of this bucket.
    Keys(Verb, &'a BucketName, KeySet<'a>),
    /// Membership: only members of the cluster ask for this.
    Member,
}

/// Keys of a bucket that a need is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySet<'a> {
    /// No key in particular: a grant on any part of the bucket suffices.
    Part,
    /// One key.
    One(&'a [u8]),
    /// All keys with this prefix.
    Prefix(&'a [u8]),
    /// All keys from the first bound to the second.
    Between(&'a Bound, &'a Bound),
    /// All keys.
    All,
}

/// Function that a request passes its needs to. An error ends the visit, and is its result.
pub type NeedVisitor<'v> = dyn FnMut(Need<'_>) -> Result<()> + 'v;

impl Need<'_> {
    /// Returns the verb. `None`: no verb allows it.
    pub fn verb(&self) -> Option<Verb> {
        match self {
            Need::Cluster(verb) | Need::Type(verb, _) | Need::Keys(verb, ..) => Some(*verb),
            Need::Member => None,
        }
    }

    /// Returns the scope that the need is about, as grants have it, without its keys.
    pub fn scope(&self) -> String {
        match self {
            Need::Cluster(_) | Need::Member => "cluster".into(),
            Need::Type(_, kind) => format!("{kind}/*"),
            Need::Keys(_, bucket, _) => bucket.full().into(),
        }
    }

    /// Returns true if the need concerns the cluster, not buckets.
    pub fn is_of_cluster(&self) -> bool {
        self.verb().is_none_or(Verb::is_of_cluster)
    }
}

/// Writes the verb and the bucket, without keys: a refusal must not repeat them in logs.
impl fmt::Display for Need<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Cluster(verb) => write!(f, "`{}` on `cluster`", verb.name()),
            Need::Type(verb, kind) => write!(f, "`{}` on `{kind}/*`", verb.name()),
            Need::Keys(verb, bucket, KeySet::All) => {
                write!(f, "`{}` on all of `{bucket}`", verb.name())
            }
            Need::Keys(verb, bucket, KeySet::Part | KeySet::One(_)) => {
                write!(f, "`{}` in `{bucket}`", verb.name())
            }
            Need::Keys(verb, bucket, KeySet::Prefix(_) | KeySet::Between(..)) => {
                write!(f, "`{}` on the whole range in `{bucket}`", verb.name())
            }
            Need::Member => f.write_str("a member of the cluster"),
        }
    }
}

impl Scope {
    /// Returns true if the scope covers what the need is about, whatever its verb. A range that
    /// leaves a prefix is not covered: it is refused, not clipped.
    pub fn covers(&self, need: &Need<'_>) -> bool {
        match (self, need) {
            (_, Need::Member) => false,
            (Scope::Cluster, _) => true,
            (_, Need::Cluster(_)) => false,
            (Scope::Type(kind), Need::Type(_, needed)) => kind == needed,
            (Scope::Type(kind), Need::Keys(_, bucket, _)) => kind == bucket.kind(),
            (Scope::Bucket(_) | Scope::Prefix(..), Need::Type(..)) => false,
            (Scope::Bucket(bucket), Need::Keys(_, needed, _)) => bucket == *needed,
            (Scope::Prefix(bucket, prefix), Need::Keys(_, needed, keys)) => {
                bucket == *needed && keys.has_prefix(prefix)
            }
        }
    }
}

impl Grant {
    /// Returns true if the grant allows what is needed.
    pub fn covers(&self, need: &Need<'_>) -> bool {
        need.verb().is_some_and(|verb| self.verbs.contains(verb)) && self.scope.covers(need)
    }
}

impl KeySet<'_> {
    /// Returns true if all of these keys begin with the prefix; [`KeySet::Part`] always fits.
    pub(super) fn has_prefix(&self, prefix: &[u8]) -> bool {
        match self {
            KeySet::Part => true,
            KeySet::One(key) => key.starts_with(prefix),
            KeySet::Prefix(needed) => needed.starts_with(prefix),
            KeySet::Between(low, high) => begins_within(low, prefix) && ends_within(high, prefix),
            KeySet::All => prefix.is_empty(),
        }
    }
}

/// Returns true if no key at or after this lower bound is before all keys with the prefix.
fn begins_within(low: &Bound, prefix: &[u8]) -> bool {
    match low {
        Bound::Open => prefix.is_empty(),
        Bound::Included(key) => &key[..] >= prefix,
        // The first key after another one is that one with a zero byte behind it.
        Bound::Excluded(key) => &key[..] >= prefix || prefix.split_last() == Some((&0, &key[..])),
    }
}

/// Returns true if no key at or before this upper bound is behind all keys with the prefix.
fn ends_within(high: &Bound, prefix: &[u8]) -> bool {
    let Some(end) = prefix_end(prefix) else { return true };
    match high {
        Bound::Open => false,
        Bound::Included(key) => key[..] < end[..],
        Bound::Excluded(key) => key[..] <= end[..],
    }
}
