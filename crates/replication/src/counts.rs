//! Counts of a group's counted buckets: the numbers of keys and bytes, kept by the group's master.
//!
//! A count is a row of the group's own bookkeeping (bucket 0). The master changes it with every
//! update that writes or removes a row of the bucket, and writes it into the entry that holds those
//! effects, once per entry. So a replica applies a count together with the rows that it covers, and
//! computes nothing.
//!
//! ```text
//! c | bucket u32 BE -> format u8 (1) | complete u8 | begun u64 | keys u64 | bytes u64
//! ```
//! A count begins *incomplete*, since its bucket may have rows: it covers the changes since it
//! began. `count_scan.rs` finds what it lacks. `begun` is the version of the update that began it.
//!
//! Invariant: as long as a count stands, rows minus count is the same number after every entry; it
//! is 0 if the count is complete. An expired row counts until it is swept.
//! Never: reads a row (`row_counting.rs` does).

use super::seals::BOOKKEEPING_BUCKET;
use base::codec::{Malformed, Reader};
use base::error::corrupt;
use base::{BucketId, GroupId, Result, Version};
use bytes::Bytes;
use replica_state::layout::{self, StoredRow};
use replica_state::pending_entry::PendingEntry;
use runtime::log_writer::store_error;
use runtime::mutants::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use store::{Chunk, Trees};

const COUNT: u8 = b'c';
const FORMAT: u8 = 1;

/// Count of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketCount {
    /// True if it covers all rows of the bucket, false if only changes since it began.
    pub is_complete: bool,
    /// Version of the update that began it. A count that is removed and begun again has another.
    pub begun: u64,
    /// Number of keys. Of an incomplete count, how much it changed, and below 0 wraps.
    pub keys: u64,
    /// Number of bytes of keys and values, likewise.
    pub bytes: u64,
}

/// Returns the key of a count in the bookkeeping bucket.
pub(super) fn count_key(bucket: BucketId) -> Bytes {
    let mut key = vec![COUNT];
    key.extend_from_slice(&bucket.0.to_be_bytes());
    key.into()
}

/// Writes the tree key of a count into `key`.
pub fn count_tree_key(group: GroupId, bucket: BucketId, key: &mut Vec<u8>) {
    layout::row_key(group, BOOKKEEPING_BUCKET, &[COUNT], key);
    key.extend_from_slice(&bucket.0.to_be_bytes());
}

impl BucketCount {
    /// Encodes it for the store.
    pub fn write(self) -> Vec<u8> {
        let mut bytes = vec![FORMAT, u8::from(self.is_complete)];
        for number in [self.begun, self.keys, self.bytes] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Decodes what the store holds.
    pub(super) fn read(value: &[u8]) -> std::result::Result<BucketCount, Malformed> {
        let mut reader = Reader::new(value);
        if reader.u8("count")? != FORMAT {
            return Err(Malformed("count"));
        }
        let is_complete = reader.u8("count")? != 0;
        let mut number = || reader.u64("count");
        let (begun, keys, bytes) = (number()?, number()?, number()?);
        reader.end("count")?;
        Ok(BucketCount { is_complete, begun, keys, bytes })
    }

    /// Decodes the row of a count.
    pub fn read_row(row: &Bytes) -> Result<BucketCount> {
        let row = StoredRow::read(row).map_err(corrupt)?;
        BucketCount::read(&row.value).map_err(corrupt)
    }

    fn change(&mut self, keys: i64, bytes: i64) {
        self.keys = self.keys.wrapping_add_signed(keys);
        self.bytes = self.bytes.wrapping_add_signed(bytes);
    }
}

/// Counts of a group as of all accepted updates, at its master.
#[derive(Default)]
pub struct BucketCounts {
    counts: BTreeMap<BucketId, BucketCount>,
    /// Buckets whose count differs from its last row.
    changed: BTreeSet<BucketId>,
    /// Changes of the current update, in order.
    journal: Vec<CountChange>,
    /// Length of the journal at the last savepoint: changes behind it may be merged.
    floor: usize,
    lookup: LastLookup,
}

struct CountChange {
    bucket: BucketId,
    keys: i64,
    bytes: i64,
}

/// Row that the current update looked up or wrote last, so that no row is read twice.
#[derive(Default)]
struct LastLookup {
    /// Tree key. Empty: there is none.
    key: Vec<u8>,
    /// Bytes of the value. `None`: there is no row.
    value_bytes: Option<usize>,
}

impl BucketCounts {
    /// Loads the counts from the applied rows of a group.
    pub(super) fn load(group: GroupId, trees: &dyn Trees) -> Result<BucketCounts> {
        let mut counts = BucketCounts::default();
        if group == GroupId::DIRECTORY {
            return Ok(counts); // It has no buckets of clients.
        }
        let mut prefix = Vec::new();
        layout::row_key(group, BOOKKEEPING_BUCKET, &[COUNT], &mut prefix);
        let all =
            Chunk::read(&*trees.snapshot(), &prefix, None, usize::MAX).map_err(store_error)?;
        for (key, row) in &all.rows {
            let Ok(number) = <[u8; 4]>::try_from(&key[prefix.len()..]) else { continue };
            let bucket = BucketId(u32::from_be_bytes(number));
            counts.counts.insert(bucket, BucketCount::read_row(row)?);
        }
        Ok(counts)
    }

    /// Returns counts for a dry run of an update of this bucket: rows are looked up as if it were
    /// counted.
    pub(super) fn for_dry_run(bucket: BucketId) -> BucketCounts {
        let mut counts = BucketCounts::default();
        let (is_complete, begun, keys, bytes) = (false, 0, 0, 0);
        counts.set(bucket, BucketCount { is_complete, begun, keys, bytes });
        counts
    }

    /// Returns true if no bucket is counted.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Returns true if a bucket is counted.
    #[inline]
    pub(super) fn contains(&self, bucket: BucketId) -> bool {
        self.counts.contains_key(&bucket)
    }

    /// Returns the count of a bucket.
    pub fn get(&self, bucket: BucketId) -> Option<BucketCount> {
        self.counts.get(&bucket).copied()
    }

    /// Returns the counted buckets, by number.
    pub(super) fn all(&self) -> impl Iterator<Item = (BucketId, BucketCount)> {
        self.counts.iter().map(|(bucket, count)| (*bucket, *count))
    }

    /// Replaces the count of a bucket, whose row the caller writes.
    pub(super) fn set(&mut self, bucket: BucketId, count: BucketCount) {
        self.counts.insert(bucket, count);
    }

    /// Removes the count of a bucket, whose row the caller removes.
    pub(super) fn remove(&mut self, bucket: BucketId) {
        self.counts.remove(&bucket);
        self.changed.remove(&bucket);
    }

    /// Begins an update: earlier ones are not undone any more.
    #[inline]
    pub(super) fn begin_update(&mut self) {
        self.journal.clear();
        self.floor = 0;
        self.lookup.key.clear();
    }

    /// Records the change of a row: the bytes of its key, and of its value before and after.
    /// `None`: there is no row.
    pub(super) fn record(
        &mut self,
        bucket: BucketId,
        key_bytes: usize,
        before: Option<usize>,
        after: Option<usize>,
    ) {
        let Some(count) = self.counts.get_mut(&bucket) else { return };
        let row_bytes = |value: Option<usize>| value.map_or(0, |bytes| (key_bytes + bytes) as i64);
        let keys = i64::from(after.is_some()) - i64::from(before.is_some());
        let bytes = row_bytes(after) - row_bytes(before);
        if (keys, bytes) == (0, 0) {
            return;
        }
        count.change(keys, bytes);
        self.changed.insert(bucket);
        match self.journal[self.floor..].last_mut().filter(|last| last.bucket == bucket) {
            Some(last) => {
                last.keys += keys;
                last.bytes += bytes;
            }
            None => self.journal.push(CountChange { bucket, keys, bytes }),
        }
    }

    /// Returns the current state, for [`Self::undo`].
    #[inline]
    pub(super) fn savepoint(&mut self) -> usize {
        self.floor = self.journal.len();
        self.floor
    }

    /// Undoes every change of the current update since the savepoint.
    pub(super) fn undo(&mut self, savepoint: usize) {
        self.lookup.key.clear();
        self.floor = savepoint;
        if Mutant::KeepUndoneCounts.is_active() {
            return;
        }
        for CountChange { bucket, keys, bytes } in self.journal.drain(savepoint..) {
            if let Some(count) = self.counts.get_mut(&bucket) {
                count.change(-keys, -bytes);
            }
        }
    }

    /// Writes the rows of the counts that changed into an entry that is about to be closed.
    pub(super) fn write_changed(&mut self, group: GroupId, entry: &mut PendingEntry) {
        if self.changed.is_empty() {
            return;
        }
        let (mut key, last) = (Vec::new(), Version(entry.version().0.saturating_sub(1)));
        for bucket in std::mem::take(&mut self.changed) {
            let Some(count) = self.counts.get(&bucket) else { continue };
            count_tree_key(group, bucket, &mut key);
            entry.put(&key, last, None, &[&count.write()]);
        }
    }

    /// Notes a row that was looked up or written. `value_bytes`: `None` if there is no row.
    pub(super) fn note_row(&mut self, tree_key: &[u8], value_bytes: Option<usize>) {
        self.lookup.key.clear();
        self.lookup.key.extend_from_slice(tree_key);
        self.lookup.value_bytes = value_bytes;
    }

    /// Returns what is known of a row from the last look-up. `None`: nothing.
    pub(super) fn known_row(&self, tree_key: &[u8]) -> Option<Option<usize>> {
        (self.lookup.key == tree_key).then_some(self.lookup.value_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_count_round_trips_and_keeps_its_format() {
        let count = BucketCount { is_complete: true, begun: 7, keys: 0x0102, bytes: u64::MAX };
        // As version 1 wrote it.
        let kept = b"\x01\x01\x07\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0\
                     \xff\xff\xff\xff\xff\xff\xff\xff";
        assert_eq!((count.write().as_slice(), BucketCount::read(kept)), (&kept[..], Ok(count)));
        for end in 0..kept.len() {
            assert!(BucketCount::read(&kept[..end]).is_err(), "{end} bytes");
        }
        assert!(BucketCount::read(&[&[2], &kept[1..]].concat()).is_err(), "a later format");
        assert!(BucketCount::read(&[kept, &[0][..]].concat()).is_err());
    }

    #[test]
    fn undo_restores_counts_to_the_savepoint_and_merges_none_before_it() {
        let bucket = BucketId(4);
        let mut counts = BucketCounts::for_dry_run(bucket);
        let numbers = |counts: &BucketCounts| {
            counts.get(bucket).map(|count| (count.keys, count.bytes)).expect("it is counted")
        };
        counts.begin_update();
        let outer = counts.savepoint();
        counts.record(bucket, 3, None, Some(10));
        counts.record(bucket, 3, Some(10), Some(4));
        assert_eq!((numbers(&counts), counts.journal.len()), ((1, 7), 1), "merged");
        let inner = counts.savepoint();
        counts.record(bucket, 5, None, Some(0));
        counts.record(bucket, 3, Some(4), None);
        assert_eq!(numbers(&counts), (1, 5));
        counts.undo(inner);
        assert_eq!(numbers(&counts), (1, 7));
        counts.record(bucket, 3, Some(4), Some(5));
        counts.undo(inner);
        counts.undo(outer);
        assert_eq!(numbers(&counts), (0, 0));
        counts.record(bucket, 3, Some(4), None);
        assert_eq!(numbers(&counts), (u64::MAX, 0_u64.wrapping_sub(7)), "it wraps");
        counts.record(BucketId(5), 3, None, Some(1));
        assert!(!counts.contains(BucketId(5)), "that one is not counted");
    }
}
