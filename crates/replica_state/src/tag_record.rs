//! Record of tags in the group's own bookkeeping (bucket 0): a bucket's rows may have tags, so that
//! every later change of a row looks for entries of the row that it replaces. The first update that
//! writes tags writes it too. It stays until the bucket is dropped.
//!
//! ```text
//! t | bucket u32 BE -> format u8 (1)
//! ```

use base::BucketId;
use bytes::Bytes;
use std::collections::BTreeSet;

/// First byte of the keys of such records.
pub const TAG_RECORD: u8 = b't';
/// Value of a record.
pub const TAG_RECORD_VALUE: &[u8] = &[1];

/// Returns the key of a bucket's record in the bookkeeping bucket.
pub fn tag_record_key(bucket: BucketId) -> Bytes {
    [&[TAG_RECORD][..], &bucket.0.to_be_bytes()].concat().into()
}

/// Decodes the key of a record. `None`: it is the key of another row.
pub fn read_tag_record_key(key: &[u8]) -> Option<BucketId> {
    let number = key.strip_prefix(&[TAG_RECORD])?.try_into().ok()?;
    Some(BucketId(u32::from_be_bytes(number)))
}

/// Set of buckets with a record, from which the latest additions can be taken back.
#[derive(Clone, Debug, Default)]
pub struct TaggedBuckets {
    buckets: BTreeSet<BucketId>,
    /// The same, in the order in which they were added.
    order: Vec<BucketId>,
}

impl TaggedBuckets {
    /// Returns true if there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns all buckets.
    pub fn all(&self) -> &BTreeSet<BucketId> {
        &self.buckets
    }

    /// Returns true if the bucket is among them.
    pub fn contains(&self, bucket: BucketId) -> bool {
        self.buckets.contains(&bucket)
    }

    /// Adds a bucket. Returns false if it was there.
    pub fn insert(&mut self, bucket: BucketId) -> bool {
        let is_new = self.buckets.insert(bucket);
        if is_new {
            self.order.push(bucket);
        }
        is_new
    }

    /// Removes a bucket.
    pub fn remove(&mut self, bucket: BucketId) {
        if self.buckets.remove(&bucket) {
            self.order.retain(|other| *other != bucket);
        }
    }

    /// Returns the current state for [`Self::undo`]: the number of buckets.
    #[inline]
    pub fn savepoint(&self) -> usize {
        self.order.len()
    }

    /// Takes back what was added since the savepoint.
    pub fn undo(&mut self, savepoint: usize) {
        while self.order.len() > savepoint {
            let Some(bucket) = self.order.pop() else { break };
            self.buckets.remove(&bucket);
        }
    }
}

/// Sets are equal whatever the order of additions.
impl PartialEq for TaggedBuckets {
    fn eq(&self, other: &TaggedBuckets) -> bool {
        self.buckets == other.buckets
    }
}

impl Eq for TaggedBuckets {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_tag_records_keep_their_bytes() {
        let key = tag_record_key(BucketId(0x0102));
        assert_eq!(key, &b"t\0\0\x01\x02"[..]);
        assert_eq!(read_tag_record_key(&key), Some(BucketId(0x0102)));
        for other in [&b"x\0\0\x01\x02"[..], b"t\0\0\x01", b"t\0\0\x01\x02\0", b""] {
            assert_eq!(read_tag_record_key(other), None);
        }
    }

    #[test]
    fn additions_since_a_savepoint_are_taken_back() {
        let mut tagged = TaggedBuckets::default();
        let [one, two, three] = [BucketId(9), BucketId(2), BucketId(5)];
        assert!(tagged.is_empty() && tagged.insert(one) && !tagged.insert(one));
        let savepoint = tagged.savepoint();
        assert!(tagged.insert(two) && tagged.insert(three));
        tagged.undo(savepoint);
        assert!(tagged.contains(one) && !tagged.contains(two) && !tagged.contains(three));
        tagged.remove(one);
        tagged.remove(two);
        assert_eq!(tagged, TaggedBuckets::default());
        assert_eq!(tagged.savepoint(), 0);
    }
}
