//! A consistent bucket, as requests use it.

use base::{BucketDescription, BucketDigest, BucketId, GroupId, MoveDestination, Properties};
use std::sync::atomic::{AtomicBool, Ordering};

/// A bucket as the data path needs it. Immutable: a change creates a new one and retires this one.
#[derive(Debug)]
pub struct Bucket {
    /// Number of the bucket.
    pub id: BucketId,
    /// Group that keeps its rows.
    pub group: GroupId,
    /// Properties of the bucket.
    pub properties: Properties,
    /// Digest of its name. 0: a bucket of the database's own rows, not of clients.
    pub digest: BucketDigest,
    /// Group to which it moves.
    pub moving: Option<MoveDestination>,
    retired: AtomicBool,
}

impl Bucket {
    /// Creates a bucket that is in force, without a name.
    pub fn new(id: BucketId, group: GroupId, properties: Properties) -> Bucket {
        let (digest, retired) = (BucketDigest(0), AtomicBool::new(false));
        Bucket { id, group, properties, digest, moving: None, retired }
    }

    /// Returns true if it was altered, cleared or dropped since it was looked up: the caller must
    /// look it up again.
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Returns true if the description matches this bucket.
    pub fn matches(&self, described: &BucketDescription) -> bool {
        let BucketDescription { id, group, properties, moving, name: _ } = described;
        (self.id, self.group, &self.properties, self.moving) == (*id, *group, properties, *moving)
    }

    /// Returns the bucket with the digest of its name and its move. `moving` is `None` for a bucket
    /// that stays.
    pub fn with_digest(self, digest: BucketDigest, moving: Option<MoveDestination>) -> Bucket {
        Bucket { digest, moving, ..self }
    }

    /// Marks it as altered, cleared or dropped: requests that hold it must look it up again.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}
