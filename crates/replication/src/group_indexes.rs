//! Indexes in force in a group's buckets, and buckets with tags: what a change of a row has to
//! maintain.
//!
//! The master keeps them as of all accepted updates, decided or not, and loads them from the
//! applied records (`replica_state/replicated_index.rs`) when it becomes master. Applied ones are
//! kept apart, for estimates without the group's lock, and for whoever tends the indexes.

use super::seals::BOOKKEEPING_BUCKET;
use super::shared::Observer;
use base::{BucketId, GroupId, Result};
use bytes::Bytes;
use indexes::{DefinitionSet, IndexDefinition, IndexNumber};
use replica_state::layout;
use replica_state::replicated_index::{INDEX, IndexPhase, ReplicatedIndex, read_record_key};
use replica_state::tag_record::{TAG_RECORD, TaggedBuckets, read_tag_record_key};
use runtime::log_writer::store_error;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use store::{Chunk, Trees};

/// Definitions in force, by bucket, and buckets whose rows may have tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupIndexes {
    buckets: BTreeMap<BucketId, Arc<DefinitionSet>>,
    tagged: TaggedBuckets,
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
        for bucket in load_tagged(group, trees)? {
            indexes.insert_tagged(bucket);
        }
        Ok(indexes)
    }

    /// Returns true if no bucket has an index or tags.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.buckets.is_empty() && self.tagged.is_empty()
    }

    /// Returns the definitions by which a change of a row writes entries, beside those of tags.
    /// `None`: it writes none.
    pub(super) fn maintained(&self, bucket: BucketId) -> Option<Arc<DefinitionSet>> {
        self.of(bucket).or_else(|| self.has_tags(bucket).then(Arc::default))
    }

    /// Returns true if rows of a bucket may have tags.
    pub(super) fn has_tags(&self, bucket: BucketId) -> bool {
        self.tagged.contains(bucket)
    }

    /// Adds a bucket whose rows may have tags. Returns false if it was there.
    pub(super) fn insert_tagged(&mut self, bucket: BucketId) -> bool {
        self.tagged.insert(bucket)
    }

    /// Returns the state of the buckets with tags, for [`Self::undo`].
    #[inline]
    pub(super) fn savepoint(&self) -> usize {
        self.tagged.savepoint()
    }

    /// Takes back the buckets with tags that were added since the savepoint.
    pub(super) fn undo(&mut self, savepoint: usize) {
        self.tagged.undo(savepoint);
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

    /// Removes all definitions of a bucket, and its tags.
    pub(super) fn remove_all(&mut self, bucket: BucketId) {
        self.buckets.remove(&bucket);
        self.tagged.remove(bucket);
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

/// Returns the buckets with applied records of tags.
fn load_tagged(group: GroupId, trees: &dyn Trees) -> Result<Vec<BucketId>> {
    if group == GroupId::DIRECTORY {
        return Ok(Vec::new());
    }
    let mut prefix = Vec::new();
    layout::row_key(group, BOOKKEEPING_BUCKET, &[TAG_RECORD], &mut prefix);
    let all = Chunk::read(&*trees.snapshot(), &prefix, None, usize::MAX).map_err(store_error)?;
    let keys = all.rows.iter().map(|(key, _)| &key[layout::ROW_PREFIX_BYTES..]);
    Ok(keys.filter_map(read_tag_record_key).collect())
}

type IndexRecords = BTreeMap<(BucketId, IndexNumber), Arc<ReplicatedIndex>>;

/// Indexes and tags of a group by its applied records.
#[derive(Default)]
pub struct AppliedIndexes {
    /// Bits of the buckets that have a record ([`bit_of`]). Requests of other buckets check only
    /// this.
    buckets: AtomicU64,
    records: Mutex<(IndexRecords, TaggedBuckets)>,
}

/// Returns the bit of a bucket. Some buckets share one.
fn bit_of(bucket: BucketId) -> u64 {
    1 << (bucket.0 % u64::BITS)
}

/// Returns the places of all records of a bucket.
fn places(bucket: BucketId) -> RangeInclusive<(BucketId, IndexNumber)> {
    (bucket, IndexNumber(0))..=(bucket, IndexNumber(u32::MAX))
}

impl AppliedIndexes {
    /// Loads the records from the rows of a group.
    pub(super) fn load(group: GroupId, trees: &dyn Trees) -> Result<AppliedIndexes> {
        let indexes = AppliedIndexes::default();
        for (bucket, number, record) in load_records(group, trees)? {
            indexes.put((bucket, number), Some(record));
        }
        for bucket in load_tagged(group, trees)? {
            indexes.put_tagged(bucket, true);
        }
        Ok(indexes)
    }

    /// Returns all records, by bucket and number.
    pub fn all(&self) -> Vec<(BucketId, IndexNumber, Arc<ReplicatedIndex>)> {
        if self.buckets.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let records = self.records();
        let all = records.0.iter();
        all.map(|((bucket, number), record)| (*bucket, *number, record.clone())).collect()
    }

    /// Returns true if a bucket has a record of an index or of tags.
    #[inline]
    pub fn has(&self, bucket: BucketId) -> bool {
        let may_have = self.buckets.load(Ordering::Acquire) & bit_of(bucket) != 0;
        may_have && {
            let (records, tagged) = &*self.records();
            records.range(places(bucket)).next().is_some() || tagged.contains(bucket)
        }
    }

    /// Returns the records of a bucket, by number.
    pub fn of(&self, bucket: BucketId) -> Vec<Arc<ReplicatedIndex>> {
        if self.buckets.load(Ordering::Acquire) & bit_of(bucket) == 0 {
            return Vec::new();
        }
        self.records().0.range(places(bucket)).map(|(_, record)| record.clone()).collect()
    }

    /// Returns the records of a bucket's indexes, for the group to which the bucket moves. Those of
    /// indexes that are being removed stay behind, with their entries.
    pub fn sent(&self, bucket: BucketId) -> Vec<ReplicatedIndex> {
        let records = self.of(bucket).into_iter();
        let sent = records.filter(|record| record.phase != IndexPhase::Dropping);
        sent.map(|record| ReplicatedIndex { cursor: None, ..ReplicatedIndex::clone(&record) })
            .collect()
    }

    /// Returns the buckets whose rows may have tags.
    pub fn tagged(&self) -> BTreeSet<BucketId> {
        if self.buckets.load(Ordering::Acquire) == 0 {
            return BTreeSet::new();
        }
        self.records().1.all().clone()
    }

    /// Returns the buckets that have a record of an index.
    pub fn buckets(&self) -> BTreeSet<BucketId> {
        self.all().into_iter().map(|(bucket, ..)| bucket).collect()
    }

    /// Returns the indexes in force of one bucket, and whether it has tags.
    pub(super) fn in_force(&self, bucket: BucketId) -> GroupIndexes {
        let mut indexes = GroupIndexes::default();
        for record in self.of(bucket).into_iter().filter(|record| record.phase.is_in_force()) {
            // The master refused what would not fit.
            let _ = indexes.insert(bucket, record.definition.clone());
        }
        if self.has(bucket) && self.records().1.contains(bucket) {
            indexes.insert_tagged(bucket);
        }
        indexes
    }

    fn put(&self, place: (BucketId, IndexNumber), record: Option<ReplicatedIndex>) {
        let mut records = self.records();
        match record {
            Some(record) => records.0.insert(place, Arc::new(record)),
            None => records.0.remove(&place),
        };
        self.store_bits(&records);
    }

    fn put_tagged(&self, bucket: BucketId, is_tagged: bool) {
        let mut records = self.records();
        match is_tagged {
            true => drop(records.1.insert(bucket)),
            false => records.1.remove(bucket),
        }
        self.store_bits(&records);
    }

    fn store_bits(&self, (records, tagged): &(IndexRecords, TaggedBuckets)) {
        let buckets = records.keys().map(|(bucket, _)| bucket).chain(tagged.all());
        let bits = buckets.fold(0, |bits, bucket| bits | bit_of(*bucket));
        self.buckets.store(bits, Ordering::Release);
    }

    fn records(&self) -> MutexGuard<'_, (IndexRecords, TaggedBuckets)> {
        self.records.lock().expect("no one panics while holding it")
    }
}

impl Observer for AppliedIndexes {
    fn changed(&self, key: &[u8], row: Option<&Bytes>) {
        if let Some(place) = read_record_key(key) {
            self.put(place, row.and_then(|row| ReplicatedIndex::read_row(row).ok()));
        } else if let Some(bucket) = read_tag_record_key(key) {
            self.put_tagged(bucket, row.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Version;
    use indexes::{IndexName, JsonPath, ValueFormat, ValueType};
    use replica_state::layout::StoredRow;
    use replica_state::replicated_index::record_key;
    use replica_state::tag_record::{TAG_RECORD_VALUE, tag_record_key};

    fn definition(number: u32) -> IndexDefinition {
        IndexDefinition {
            number: IndexNumber(number),
            name: IndexName::parse(&format!("i{number}")).expect("a name"),
            path: JsonPath::parse("$.n").expect("a path"),
            value_type: ValueType::Int,
            format: ValueFormat::Json,
            is_unique: false,
            is_strict: false,
        }
    }

    #[test]
    fn applied_tags_follow_the_rows_of_each_bucket() {
        let indexes = AppliedIndexes::default();
        let [one, other] = [BucketId(3), BucketId(67)];
        let (key, row) = (tag_record_key(one), Bytes::from_static(TAG_RECORD_VALUE));
        indexes.changed(&key, Some(&row));
        assert!(indexes.has(one) && !indexes.has(other) && indexes.buckets().is_empty());
        assert_eq!(indexes.tagged(), BTreeSet::from([one]));
        let in_force = indexes.in_force(one);
        assert!(in_force.has_tags(one) && in_force.of(one).is_none());
        assert_eq!(in_force.maintained(one), Some(Arc::default()));
        assert!(indexes.in_force(other).is_empty());
        indexes.changed(&key, None);
        assert!(!indexes.has(one) && indexes.tagged().is_empty());
    }

    #[test]
    fn applied_records_follow_the_rows_of_each_bucket() {
        let indexes = AppliedIndexes::default();
        let change = |bucket, number, phase: Option<IndexPhase>| {
            let key = record_key(BucketId(bucket), IndexNumber(number));
            let row = phase.map(|phase| {
                let mut row = Vec::new();
                StoredRow::write_head(Version(1), None, &mut row);
                row.extend(ReplicatedIndex::new(definition(number), phase).encode());
                Bytes::from(row)
            });
            indexes.changed(&key, row.as_ref());
        };
        // The second has the bit of the first.
        let [one, other] = [BucketId(3), BucketId(67)];
        assert!(!indexes.has(one) && indexes.all().is_empty());
        change(3, 1, Some(IndexPhase::Building));
        change(3, 2, Some(IndexPhase::Failed));
        assert!(indexes.has(one) && !indexes.has(other));
        assert_eq!((indexes.of(one).len(), indexes.of(other).len()), (2, 0));
        let in_force = indexes.in_force(one).of(one).expect("one is");
        assert_eq!(in_force.iter().map(|one| one.number.0).collect::<Vec<_>>(), [1]);
        change(67, 1, Some(IndexPhase::Dropping));
        assert_eq!(indexes.buckets(), BTreeSet::from([one, other]));
        assert!(indexes.in_force(other).is_empty());
        for number in [1, 2] {
            change(3, number, None);
        }
        assert!(!indexes.has(one) && indexes.has(other));
        change(67, 1, None);
        assert!(!indexes.has(other) && indexes.all().is_empty());
    }
}
