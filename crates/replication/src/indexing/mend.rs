//! Mending of index entries that a check found wrong (`replica_state/index_check.rs`).
//!
//! A check reads applied rows, outside the group's lock, and may be out of date. So every
//! difference is looked at again, with the newest row and the newest entry, decided or not. Rows
//! are the truth: none is changed.

use super::write::EntryOwner;
use crate::bucket::Bucket;
use crate::group::Group;
use crate::overlay::Overlay;
use base::error::corrupt;
use base::{BucketId, Key, Result};
use bytes::Bytes;
use indexes::{DefinitionSet, IndexEntry, IndexField};
use replica_state::index_check::IndexMismatch;
use replica_state::index_row;
use replica_state::layout::ROW_PREFIX_BYTES;

impl Overlay<'_> {
    /// Mends entries of a bucket that still are wrong. Returns the number of entries that were
    /// written or removed. A term that two rows of a unique index have keeps its holder.
    pub(super) fn mend_entries(
        &mut self,
        bucket: BucketId,
        mismatches: &[IndexMismatch],
    ) -> Result<u64> {
        let mut mended = 0;
        for mismatch in mismatches {
            let is_mended = match mismatch {
                IndexMismatch::Missing { entry, key } | IndexMismatch::Surplus { entry, key } => {
                    self.mend_entry(bucket, key, entry)?
                }
                IndexMismatch::Foreign(tree_key) => self.remove_foreign(bucket, tree_key)?,
            };
            mended += u64::from(is_mended);
        }
        Ok(mended)
    }

    fn mend_entry(&mut self, bucket: BucketId, key: &Key, entry: &IndexEntry) -> Result<bool> {
        let (mut is_unique, mut alone) = (false, DefinitionSet::default());
        if let IndexField::Declared(number) = entry.field {
            let definitions = self.indexes.of(bucket);
            let definition = definitions.as_ref().and_then(|all| all.get(number));
            // The index may have ended since.
            let Some(definition) = definition else { return Ok(false) };
            is_unique = definition.is_unique;
            alone.insert(definition.clone())?;
        }
        let row = self.stored_row(bucket, key)?;
        let is_said = match &row {
            Some(row) => self.derive(&alone, row.tags.as_deref(), &row.value)?.contains(entry),
            None => false,
        };
        let expires = row.and_then(|row| row.expires);
        index_row::index_key((self.group, bucket), is_unique, entry, key, self.scratch);
        let found = self.get_for_update()?;
        if is_said {
            let owner = EntryOwner { bucket, key, expires };
            let is_right = found
                .as_ref()
                .is_some_and(|row| row[..] == index_row::encode(is_unique, key, expires));
            if is_right || is_unique && self.living_holder(owner, entry)?.is_some() {
                return Ok(false);
            }
            if let IndexField::Tag(_) = entry.field {
                self.note_tags(bucket)?;
            }
            self.put_entry(owner, is_unique, entry)?;
            return Ok(true);
        }
        let Some(found) = found else { return Ok(false) };
        if is_unique && index_row::decode_holder(&found).map_err(corrupt)?.1 != *key {
            return Ok(false);
        }
        self.remove_entry(&alone, (bucket, key), entry, false)?;
        Ok(true)
    }

    /// Removes an entry if the bucket has no index whose entry it is.
    fn remove_foreign(&mut self, bucket: BucketId, tree_key: &Bytes) -> Result<bool> {
        let field = IndexField::take(&tree_key[ROW_PREFIX_BYTES..]).map_err(corrupt)?.0;
        let is_known = match field {
            IndexField::Declared(number) => self.index_record(bucket, number)?.is_some(),
            IndexField::Tag(_) => self.indexes.has_tags(bucket),
        };
        if is_known {
            return Ok(false);
        }
        self.scratch.clear();
        self.scratch.extend_from_slice(tree_key);
        let is_there = self.get_for_update()?.is_some();
        if is_there {
            self.open.remove(self.scratch);
        }
        Ok(is_there)
    }
}

impl Group {
    /// Mends entries that a check of a bucket found wrong, if they still are. Returns their number.
    /// Errors: see [`Self::begin_index`].
    pub fn mend_index(
        &self,
        bucket: &Bucket,
        mismatches: &[IndexMismatch],
        epoch: u64,
    ) -> Result<u64> {
        let mend = |overlay: &mut Overlay| overlay.mend_entries(bucket.id, mismatches);
        self.write_for_bucket(bucket, epoch, mend).map(|(_, mended)| mended)
    }
}
