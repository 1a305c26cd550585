//! Indexes in force on a node: a copy in memory of their records, which every change of a row asks.

use super::keys::read_entry_key;
use super::record::{IndexId, IndexPhase, IndexRecord};
use super::row_entries::{RowDeriver, push_difference, row_place};
use crate::batch::KeyChanges;
use base::codec::Malformed;
use base::{BucketName, Result};
use bytes::Bytes;
use indexes::{DefinitionSet, IndexField, IndexNumber};
use std::collections::BTreeMap;

/// See the head of this file.
#[derive(Debug, Default)]
pub struct IndexSet {
    /// Record of the index of tags. `None`: tags have no entries.
    tags: Option<IndexRecord>,
    /// Buckets with declared indexes, by full name: a row's tree key holds it, so that looking it
    /// up allocates nothing.
    buckets: BTreeMap<Box<[u8]>, BucketIndexes>,
    /// Definitions of the buckets without declared indexes.
    no_definitions: DefinitionSet,
}

/// Declared indexes of one bucket.
#[derive(Debug)]
struct BucketIndexes {
    name: BucketName,
    records: BTreeMap<IndexNumber, IndexRecord>,
    /// Definitions of those in force.
    definitions: DefinitionSet,
}

impl IndexSet {
    /// Returns true if no index exists, not even one that is being dropped.
    pub fn is_empty(&self) -> bool {
        self.tags.is_none() && self.buckets.is_empty()
    }

    /// Returns the record of an index. `None`: there is none.
    pub fn get(&self, id: &IndexId) -> Option<&IndexRecord> {
        match id {
            IndexId::Tags => self.tags.as_ref(),
            IndexId::Declared(bucket, number) => {
                self.buckets.get(bucket.full().as_bytes())?.records.get(number)
            }
        }
    }

    /// Returns all indexes.
    pub fn iter(&self) -> impl Iterator<Item = (IndexId, &IndexRecord)> {
        let tags = self.tags.iter().map(|record| (IndexId::Tags, record));
        let declared = self.buckets.values().flat_map(|bucket| {
            let id = move |number: &IndexNumber| IndexId::Declared(bucket.name.clone(), *number);
            bucket.records.iter().map(move |(number, record)| (id(number), record))
        });
        tags.chain(declared)
    }

    /// Sets the record of an index. Errors: those of [`DefinitionSet::insert`].
    pub fn insert(&mut self, id: &IndexId, record: IndexRecord) -> Result<()> {
        match id {
            IndexId::Tags => self.tags = Some(record),
            IndexId::Declared(bucket, number) => {
                let name = bucket.full().as_bytes();
                let mut definitions =
                    self.buckets.get(name).map(|it| it.definitions.clone()).unwrap_or_default();
                definitions.remove(*number);
                if let Some(definition) = record.definition.clone().filter(|_| record.is_in_force())
                {
                    definitions.insert(definition)?;
                }
                let indexes = self.buckets.entry(name.into()).or_insert_with(|| BucketIndexes {
                    name: bucket.clone(),
                    records: BTreeMap::new(),
                    definitions: DefinitionSet::default(),
                });
                indexes.definitions = definitions;
                indexes.records.insert(*number, record);
            }
        }
        Ok(())
    }

    /// Removes the record of an index.
    pub fn remove(&mut self, id: &IndexId) {
        let IndexId::Declared(bucket, number) = id else {
            self.tags = None;
            return;
        };
        let name = bucket.full().as_bytes();
        if let Some(indexes) = self.buckets.get_mut(name) {
            indexes.definitions.remove(*number);
            indexes.records.remove(number);
            if indexes.records.is_empty() {
                self.buckets.remove(name);
            }
        }
    }

    /// Returns the derivation of the entries of a bucket's rows. `None`: they have none.
    pub fn deriver(&self, full_name: &[u8]) -> Option<RowDeriver<'_>> {
        let definitions = self.buckets.get(full_name).map(|indexes| &indexes.definitions);
        let definitions = definitions.filter(|definitions| !definitions.is_empty());
        let has_tags = self.tags.as_ref().is_some_and(IndexRecord::is_in_force);
        if definitions.is_none() && !has_tags {
            return None;
        }
        Some(RowDeriver { definitions: definitions.unwrap_or(&self.no_definitions), has_tags })
    }

    /// Returns the declared indexes of a bucket whose build has read a row of this tree key, and
    /// true if that of tags has.
    pub fn complete_at(&self, full_name: &[u8], tree_key: &[u8]) -> (DefinitionSet, bool) {
        let has_tags = self.tags.as_ref().is_some_and(|record| record.has_read(tree_key));
        let Some(indexes) = self.buckets.get(full_name) else {
            return (DefinitionSet::default(), has_tags);
        };
        let mut definitions = indexes.definitions.clone();
        for (number, record) in &indexes.records {
            if !record.has_read(tree_key) {
                definitions.remove(*number);
            }
        }
        (definitions, has_tags)
    }

    /// Returns true if an entry, by tree key, belongs to an index that is being dropped.
    pub fn is_dropped(&self, entry_key: &[u8]) -> bool {
        let Ok((bucket, entry, _)) = read_entry_key(entry_key) else { return false };
        let IndexField::Declared(number) = entry.field else { return false };
        let record = self.get(&IndexId::Declared(bucket, number));
        record.is_some_and(|record| record.phase == IndexPhase::Dropping)
    }

    /// Adds what follows from the change of a row to the changes of its batch. `may_be_tagged`:
    /// false if the caller knows that neither version has tags.
    pub fn push_entry_changes(
        &self,
        tree_key: &Bytes,
        (before, after): (Option<&Bytes>, Option<&Bytes>),
        may_be_tagged: bool,
        changes: &mut KeyChanges,
    ) {
        let name = bucket_name_in(tree_key).unwrap_or_default();
        let Some(deriver) = self.deriver(name) else { return };
        if deriver.definitions.is_empty() && !may_be_tagged {
            return;
        }
        let (before, after) = (deriver.entries(before), deriver.entries(after));
        if before == after {
            return;
        }
        // A row's key was made of a bucket and a key.
        let Some((slot, bucket, key)) = row_place(tree_key) else { return };
        push_difference((&bucket, &key, slot), &before, &after, changes);
    }

    /// Returns an index in this phase: the tags, or the first declared one.
    pub fn first_in(&self, phase: IndexPhase) -> Option<IndexId> {
        self.iter().find(|(_, record)| record.phase == phase).map(|(id, _)| id)
    }
}

/// Returns the full name of the bucket in a row's tree key, without decoding it.
pub fn bucket_name_in(tree_key: &[u8]) -> std::result::Result<&[u8], Malformed> {
    const NAME: Malformed = Malformed("the bucket of a row's key");
    let tail = tree_key.get(5..).ok_or(NAME)?;
    let (length, rest) = tail.split_first_chunk().ok_or(NAME)?;
    rest.get(..usize::from(u16::from_be_bytes(*length))).ok_or(NAME)
}
