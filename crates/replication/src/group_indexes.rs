//! Indexes in force in a group's buckets: what a change of a row has to maintain.
//!
//! The master keeps them as of all accepted updates, decided or not, and loads them from the
//! applied records (`replicated_index.rs`) when it becomes master. Applied ones are kept apart, for
//! estimates without the group's lock, and for whoever tends the indexes.

use super::replicated_index::{INDEX, ReplicatedIndex, read_record_key};
use super::seals::BOOKKEEPING_BUCKET;
use super::shared::Observer;
use base::{BucketId, GroupId, Result};
use bytes::Bytes;
use indexes::{DefinitionSet, IndexDefinition, IndexNumber};
use replica_state::layout;
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Chunk, Trees};

/// Definitions in force, by bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupIndexes {
    buckets: BTreeMap<BucketId, Arc<DefinitionSet>>,
}

impl GroupIndexes {
    /// Loads the definitions from the applied records of a group.
    pub(super) fn load(group: GroupId, trees: &dyn Trees) -> Result<GroupIndexes> {
        let mut indexes = GroupIndexes::default();
        for (bucket, _, record) in load_records(group, trees)? {
            if record.phase.is_in_force() {
                indexes.insert(bucket, record.definition)?;
            }
        }
        Ok(indexes)
    }

    /// Returns true if no bucket has an index.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Returns the definitions in force in a bucket. `None`: it has no index.
    pub(super) fn of(&self, bucket: BucketId) -> Option<Arc<DefinitionSet>> {
        self.buckets.get(&bucket).cloned()
    }

    /// Adds a definition to those of a bucket. Errors: see [`DefinitionSet::insert`].
    pub(super) fn insert(&mut self, bucket: BucketId, definition: IndexDefinition) -> Result<()> {
        let mut set = self
            .buckets
            .get(&bucket)
            .map_or_else(DefinitionSet::default, |set| DefinitionSet::clone(set));
        set.insert(definition)?;
        self.buckets.insert(bucket, Arc::new(set));
        Ok(())
    }

    /// Removes a definition from those of a bucket, if it is there.
    pub(super) fn remove(&mut self, bucket: BucketId, number: IndexNumber) {
        let Some(set) = self.buckets.get_mut(&bucket) else { return };
        Arc::make_mut(set).remove(number);
        if set.is_empty() {
            self.buckets.remove(&bucket);
        }
    }

    /// Removes all definitions of a bucket.
    pub(super) fn remove_all(&mut self, bucket: BucketId) {
        self.buckets.remove(&bucket);
    }
}

/// Returns all applied records of a group. The directory has none.
fn load_records(
    group: GroupId,
    trees: &dyn Trees,
) -> Result<Vec<(BucketId, IndexNumber, ReplicatedIndex)>> {
    if group == GroupId::DIRECTORY {
        return Ok(Vec::new());
    }
    let (mut prefix, mut records) = (Vec::new(), Vec::new());
    layout::row_key(group, BOOKKEEPING_BUCKET, &[INDEX], &mut prefix);
    let all = Chunk::read(&*trees.snapshot(), &prefix, None, usize::MAX).map_err(store_error)?;
    for (key, row) in &all.rows {
        if let Some((bucket, number)) = read_record_key(&key[layout::ROW_PREFIX_BYTES..]) {
            records.push((bucket, number, ReplicatedIndex::read_row(row)?));
        }
    }
    Ok(records)
}

/// Indexes of a group by its applied records.
#[derive(Default)]
pub struct AppliedIndexes {
    /// True if there is a record. Most groups have none, and check only this flag.
    has_records: AtomicBool,
    records: Mutex<BTreeMap<(BucketId, IndexNumber), Arc<ReplicatedIndex>>>,
}

impl AppliedIndexes {
    /// Loads the records from the rows of a group.
    pub(super) fn load(group: GroupId, trees: &dyn Trees) -> Result<AppliedIndexes> {
        let records = load_records(group, trees)?.into_iter();
        let records: BTreeMap<_, _> =
            records.map(|(bucket, number, record)| ((bucket, number), Arc::new(record))).collect();
        let has_records = AtomicBool::new(!records.is_empty());
        Ok(AppliedIndexes { has_records, records: Mutex::new(records) })
    }

    /// Returns all records, by bucket and number.
    pub fn all(&self) -> Vec<(BucketId, IndexNumber, Arc<ReplicatedIndex>)> {
        if !self.has_records.load(Ordering::Acquire) {
            return Vec::new();
        }
        let records = self.records();
        let all = records.iter();
        all.map(|((bucket, number), record)| (*bucket, *number, record.clone())).collect()
    }

    /// Returns the indexes in force of one bucket.
    pub(super) fn in_force(&self, bucket: BucketId) -> GroupIndexes {
        let mut indexes = GroupIndexes::default();
        for (of, _, record) in self.all() {
            if of == bucket && record.phase.is_in_force() {
                // The master refused what would not fit.
                let _ = indexes.insert(bucket, record.definition.clone());
            }
        }
        indexes
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<(BucketId, IndexNumber), Arc<ReplicatedIndex>>> {
        self.records.lock().expect("no one panics while holding it")
    }
}

impl Observer for AppliedIndexes {
    fn changed(&self, key: &[u8], row: Option<&Bytes>) {
        let Some(place) = read_record_key(key) else { return };
        let record = row.and_then(|row| ReplicatedIndex::read_row(row).ok());
        let mut records = self.records();
        match record {
            Some(record) => records.insert(place, Arc::new(record)),
            None => records.remove(&place),
        };
        self.has_records.store(!records.is_empty(), Ordering::Release);
    }
}
