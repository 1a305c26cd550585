//! A consistent bucket, as requests use it.

use base::{BucketDescription, BucketDigest, BucketId, GroupId, Moving, Properties};
use std::sync::atomic::{AtomicBool, Ordering};

/// A bucket as the data path needs it. Immutable: a change makes a new one and retires this.
#[derive(Debug)]
pub struct Bucket {
    /// Number of the bucket.
    pub id: BucketId,
    /// Group that keeps its rows.
    pub group: GroupId,
    /// Properties it was made or changed with.
    pub properties: Properties,
    /// Digest of its name; 0: rows of the node's own, which are no client's bucket.
    pub digest: BucketDigest,
    /// Group to which it moves.
    pub moving: Option<Moving>,
    retired: AtomicBool,
}

impl Bucket {
    /// A bucket that is in force, without a name.
    pub fn new(id: BucketId, group: GroupId, properties: Properties) -> Bucket {
        let (digest, retired) = (BucketDigest(0), AtomicBool::new(false));
        Bucket { id, group, properties, digest, moving: None, retired }
    }

    /// Returns true if it was altered, cleared or dropped since it was looked up: look it up again.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Returns true if the description matches this bucket.
    pub fn is(&self, described: &BucketDescription) -> bool {
        let BucketDescription { id, group, properties, moving, name: _ } = described;
        (self.id, self.group, &self.properties, self.moving) == (*id, *group, properties, *moving)
    }

    /// Returns the bucket with the digest of its name and its move. `moving` is `None` for a bucket
    /// that stays.
    pub fn known_as(self, digest: BucketDigest, moving: Option<Moving>) -> Bucket {
        Bucket { digest, moving, ..self }
    }

    /// Marks it as altered, cleared or dropped: requests that looked it up look it up again.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}
