//! Entries of a row: the union over its living siblings. Tombstones and data types have none.

use super::keys::{EntryValue, entry_key};
use crate::batch::KeyChanges;
use crate::layout::{Row, read_row, slot_of};
use crate::slots::Slot;
use base::{BucketName, Key};
use bytes::Bytes;
use indexes::{DefinitionSet, IndexEntry, LivingValue, stored_entries};
use runtime::mutants::Mutant;
use std::collections::BTreeMap;

/// Entries of one row, each with the time in Unix milliseconds from which it is not shown.
pub type RowEntries = BTreeMap<IndexEntry, Option<u64>>;

/// Derivation of the entries of one bucket's rows.
#[derive(Clone, Copy, Debug)]
pub struct RowDeriver<'a> {
    /// Declared indexes.
    pub definitions: &'a DefinitionSet,
    /// True if tags have entries.
    pub has_tags: bool,
}

impl RowDeriver<'_> {
    /// Returns the entries of an encoded row. A row that can't be read has none: what reads it
    /// reports the damage.
    pub fn entries(&self, row: Option<&Bytes>) -> RowEntries {
        if self.definitions.is_empty() && !self.has_tags {
            return RowEntries::new();
        }
        let row = row.and_then(|bytes| read_row(bytes).ok());
        row.map(|row| self.entries_of(&row)).unwrap_or_default()
    }

    /// Returns the entries of a row.
    pub fn entries_of(&self, row: &Row) -> RowEntries {
        let mut entries = RowEntries::new();
        for value in row.values() {
            if value.is_tombstone() || value.is_typed() {
                continue;
            }
            if self.definitions.is_empty() && !value.has_headers() {
                continue;
            }
            let Ok((tags, bytes)) = value.indexed_parts() else { continue };
            let tags = if self.has_tags { &tags[..] } else { &[] };
            let derived = stored_entries(self.definitions, &[LivingValue { tags, bytes }]);
            let expires_ms = value.expires_at();
            for entry in derived.entries {
                // Two siblings may have an entry: it is shown until the last of them expires.
                let latest = |before: Option<u64>| Some(before?.max(expires_ms?));
                entries
                    .entry(entry)
                    .and_modify(|before| *before = latest(*before))
                    .or_insert(expires_ms);
            }
        }
        entries
    }
}

/// Adds the changes of the entries of one row to the changes of a batch.
pub fn push_difference(
    (bucket, key, slot): (&BucketName, &Key, Slot),
    before: &RowEntries,
    after: &RowEntries,
    changes: &mut KeyChanges,
) {
    for entry in before.keys().filter(|entry| !after.contains_key(*entry)) {
        if !Mutant::KeepStaleEntries.is_active() {
            changes.push((entry_key(bucket, entry, key), None));
        }
    }
    for (entry, expires_ms) in after {
        if before.get(entry) == Some(expires_ms) {
            continue;
        }
        let value = EntryValue { slot, expires_ms: *expires_ms };
        changes.push((entry_key(bucket, entry, key), Some(value.write())));
    }
}

/// Returns the slot, bucket and key of a row's tree key.
pub fn row_place(tree_key: &Bytes) -> Option<(Slot, BucketName, Key)> {
    let (bucket, key) = crate::layout::read_row_key(tree_key)?;
    Some((slot_of(tree_key)?, bucket, key))
}
