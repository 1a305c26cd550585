//! Which buckets exist: the node's copy of what the directory (group 0) has decided.

use base::{BucketDescription, BucketId, BucketName, GroupId, Properties};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, RwLock};

/// A bucket as the data path needs it. Immutable: a change makes a new one and retires this.
#[derive(Debug)]
pub(crate) struct Bucket {
    pub id: BucketId,
    pub group: GroupId,
    pub properties: Properties,
    retired: AtomicBool,
}

impl Bucket {
    /// A bucket that is in force.
    pub(crate) fn new(id: BucketId, group: GroupId, properties: Properties) -> Bucket {
        Bucket { id, group, properties, retired: AtomicBool::new(false) }
    }

    /// Whether it was altered, cleared or dropped since it was looked up: look it up again.
    pub(crate) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }
}

/// Buckets by name.
#[derive(Default)]
pub(crate) struct Catalog {
    buckets: RwLock<BTreeMap<BucketName, Arc<Bucket>>>,
}

impl Catalog {
    /// The bucket of this name.
    #[inline]
    pub(crate) fn find(&self, name: &BucketName) -> Option<Arc<Bucket>> {
        self.buckets.read().expect("no one panics while holding it").get(name).cloned()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.buckets.read().expect("no one panics while holding it").len()
    }

    /// Puts a bucket in force, or none; what was in force is retired.
    pub(crate) fn replace(&self, name: &BucketName, bucket: Option<BucketDescription>) {
        let mut buckets = self.buckets.write().expect("no one panics while holding it");
        let before = match bucket {
            Some(BucketDescription { id, group, properties, .. }) => {
                buckets.insert(name.clone(), Arc::new(Bucket::new(id, group, properties)))
            }
            None => buckets.remove(name),
        };
        if let Some(before) = before {
            before.retired.store(true, Ordering::Release);
        }
    }

    /// Names of buckets whose updates are acknowledged before they are synced, at most `max`, in
    /// order.
    pub(crate) fn interval_buckets(&self, max: usize) -> Vec<String> {
        let buckets = self.buckets.read().expect("no one panics while holding it");
        let interval = |bucket: &Arc<Bucket>| bucket.properties.sync == base::SyncPolicy::Interval;
        let names = buckets.iter().filter(|(_, bucket)| interval(bucket));
        names.take(max).map(|(name, _)| name.full().to_string()).collect()
    }
}
