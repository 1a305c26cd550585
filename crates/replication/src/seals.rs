//! Seals of buckets that have left this group, or are about to: from the *seal* on, this group
//! neither reads nor writes them.
//!
//! A seal is a row of the group's own bookkeeping (bucket 0), written by an entry like any other,
//! so every replica and every later master has it. Evaluation honours it from the moment it is in
//! the open entry, because later updates stand behind it in the log. A read checks once more after
//! it has read the rows, because a bucket is served elsewhere only when its seal is applied here.
//!
//! ```text
//! s | bucket u32 BE -> format u8 (1) | group time u64 | version u64    the bucket is sealed
//! i | bucket u32 BE -> format u8 (1) | see bucket_moves/intake.rs  the bucket is copied in
//! c | bucket u32 BE -> see counts.rs                               the bucket is counted
//! x | bucket u32 BE | number u32 BE -> replica_state/replicated_index.rs   the bucket has an index
//! ```

use super::shared::Observer;
use base::codec::{Malformed, Reader};
use base::{BucketId, Error, GroupId, Reason, Result, Value};
use bytes::Bytes;
use replica_state::layout;
use runtime::log_writer::store_error;
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use store::{Chunk, Trees};

/// Bucket of a group's own bookkeeping.
pub const BOOKKEEPING_BUCKET: BucketId = layout::BOOKKEEPING_BUCKET;
pub(super) const SEALED: u8 = b's';
const INTAKE: u8 = b'i';
const VERSION: u8 = 1;

/// Buckets that leave or join a group, by its applied rows.
#[derive(Default)]
pub struct Seals {
    /// True if some bucket is sealed. Most groups have none, and check only this flag.
    any_sealed: AtomicBool,
    marks: Mutex<BucketMarks>,
}

/// Sets of marked buckets, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketMarks {
    /// Buckets whose rows are sealed for a copy.
    pub sealed: BTreeSet<BucketId>,
    /// Buckets that are being copied in.
    pub intakes: BTreeSet<BucketId>,
}

/// Content of a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Group time of the seal: rows that had expired by then were never visible afterwards.
    pub time: u64,
    /// Exclusive upper bound of the versions of the bucket's rows.
    pub version: u64,
}

/// Returns the key of a seal's row.
pub fn seal_key(bucket: BucketId) -> Bytes {
    own_key(SEALED, bucket)
}

/// Key of the row with the progress of an intake.
pub fn intake_key(bucket: BucketId) -> Bytes {
    own_key(INTAKE, bucket)
}

fn own_key(kind: u8, bucket: BucketId) -> Bytes {
    let mut key = vec![kind];
    key.extend_from_slice(&bucket.0.to_be_bytes());
    Bytes::from(key)
}

impl Seal {
    /// Encodes it for the store.
    pub fn write(self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.time.to_le_bytes());
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// Decodes what the store holds.
    pub fn read(bytes: &Value) -> std::result::Result<Seal, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("seal")? != VERSION {
            return Err(Malformed("seal"));
        }
        Ok(Seal { time: reader.u64("seal")?, version: reader.u64("seal")? })
    }
}

impl Seals {
    /// Loads the seals and intakes from the rows of a group.
    pub fn load(group: GroupId, trees: &dyn Trees) -> Result<Seals> {
        let seals = Seals::default();
        let mut prefix = Vec::new();
        layout::row_key(group, BOOKKEEPING_BUCKET, &[], &mut prefix);
        let all =
            Chunk::read(&*trees.snapshot(), &prefix, None, usize::MAX).map_err(store_error)?;
        for (key, row) in &all.rows {
            seals.changed(&key[prefix.len()..], Some(row));
        }
        Ok(seals)
    }

    /// Returns true if this bucket is sealed here.
    #[inline]
    pub fn is_sealed(&self, bucket: BucketId) -> bool {
        self.any_sealed.load(Ordering::Acquire) && self.marks().sealed.contains(&bucket)
    }

    /// Returns all marks.
    pub fn all(&self) -> BucketMarks {
        self.marks().clone()
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, BucketMarks> {
        self.marks.lock().expect("no one panics while holding it")
    }
}

impl Observer for Seals {
    fn changed(&self, key: &[u8], row: Option<&Bytes>) {
        let Some((kind, number)) = key.split_first() else { return };
        let Ok(number) = <[u8; 4]>::try_from(number) else { return };
        // Most entries of a group with counted buckets change a count and no mark.
        if !matches!(*kind, SEALED | INTAKE) {
            return;
        }
        let bucket = BucketId(u32::from_be_bytes(number));
        let mut marks = self.marks();
        let set = match *kind {
            SEALED => &mut marks.sealed,
            _ => &mut marks.intakes,
        };
        match row {
            Some(_) => set.insert(bucket),
            None => set.remove(&bucket),
        };
        let any_sealed = !marks.sealed.is_empty();
        self.any_sealed.store(any_sealed, Ordering::Release);
    }
}

/// Returns the error of a request for a bucket that has left this group.
pub fn bucket_moved_error() -> Error {
    Error::new(Reason::Moved, "the bucket is moving to another group: try again")
}
