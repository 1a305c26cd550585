//! Rights of one principal, compiled from its grants: a look-up for each need, however many grants
//! there are.

use super::need::{KeySet, Need};
use crate::access::{Grant, Scope, Verb, Verbs};
use crate::{Bound, BucketName, Key};
use std::collections::{BTreeMap, BTreeSet};

/// Rights compiled from grants. They allow what any one of the grants allows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rights {
    cluster: Verbs,
    types: BTreeMap<String, Verbs>,
    buckets: BTreeMap<BucketName, BucketRights>,
}

/// Rights in one bucket.
#[derive(Clone, Debug, Default, PartialEq)]
struct BucketRights {
    whole: Verbs,
    prefixes: BTreeMap<Key, Verbs>,
    /// Lengths of the prefixes: a key is looked up once for each.
    lengths: BTreeSet<usize>,
    /// All verbs of this bucket's grants.
    any: Verbs,
}

impl Rights {
    /// Compiles grants.
    pub fn new<'a>(grants: impl IntoIterator<Item = &'a Grant>) -> Rights {
        let mut rights = Rights::default();
        for Grant { scope, verbs } in grants {
            match scope {
                Scope::Cluster => rights.cluster = rights.cluster.union(*verbs),
                Scope::Type(kind) => {
                    let entry = rights.types.entry(kind.clone()).or_default();
                    *entry = entry.union(*verbs);
                }
                Scope::Bucket(bucket) => {
                    let entry = rights.buckets.entry(bucket.clone()).or_default();
                    (entry.whole, entry.any) = (entry.whole.union(*verbs), entry.any.union(*verbs));
                }
                Scope::Prefix(bucket, prefix) => {
                    let entry = rights.buckets.entry(bucket.clone()).or_default();
                    let granted = entry.prefixes.entry(prefix.clone()).or_default();
                    *granted = granted.union(*verbs);
                    entry.lengths.insert(prefix.len());
                    entry.any = entry.any.union(*verbs);
                }
            }
        }
        rights
    }

    /// Returns the verbs on the whole of a bucket.
    pub fn on_bucket(&self, bucket: &BucketName) -> Verbs {
        let on_type = self.types.get(bucket.kind()).copied().unwrap_or_default();
        let whole = self.buckets.get(bucket).map_or(Verbs::NONE, |rights| rights.whole);
        self.cluster.union(on_type).union(whole)
    }

    /// Returns true if any verb is granted on any part of a bucket.
    pub fn include_bucket(&self, bucket: &BucketName) -> bool {
        let of_buckets = |verbs: Verbs| verbs.iter().any(|verb| !verb.is_of_cluster());
        let in_bucket = self.buckets.get(bucket).is_some_and(|rights| !rights.any.is_empty());
        in_bucket || of_buckets(self.on_bucket(bucket))
    }

    /// Returns true if the rights allow what is needed.
    pub fn cover(&self, need: &Need<'_>) -> bool {
        match need {
            Need::Member => false,
            Need::Cluster(verb) => self.cluster.contains(*verb),
            Need::Type(verb, kind) => {
                let on_type = self.types.get(*kind).copied().unwrap_or_default();
                self.cluster.union(on_type).contains(*verb)
            }
            Need::Keys(verb, bucket, keys) => {
                let in_parts = |rights: &BucketRights| rights.cover(*verb, keys);
                self.on_bucket(bucket).contains(*verb)
                    || self.buckets.get(*bucket).is_some_and(in_parts)
            }
        }
    }
}

impl BucketRights {
    /// Returns true if a prefix with this verb covers the keys.
    fn cover(&self, verb: Verb, keys: &KeySet<'_>) -> bool {
        // A prefix of all keys between two bounds is one of the first of them.
        let (first, has_zero_behind): (&[u8], bool) = match keys {
            KeySet::Part => return self.any.contains(verb),
            KeySet::All | KeySet::Between(Bound::Open, _) => return false,
            KeySet::One(key) | KeySet::Prefix(key) => (*key, false),
            KeySet::Between(Bound::Included(key), _) => (&key[..], false),
            KeySet::Between(Bound::Excluded(key), _) => (&key[..], true),
        };
        let allows = |prefix: &[u8]| {
            let granted = self.prefixes.get(prefix);
            granted.is_some_and(|verbs| verbs.contains(verb)) && keys.has_prefix(prefix)
        };
        let mut lengths = self.lengths.range(..=first.len());
        lengths.any(|length| allows(&first[..*length]))
            || has_zero_behind
                && self.lengths.contains(&(first.len() + 1))
                && allows(&[first, &[0]].concat())
    }
}
