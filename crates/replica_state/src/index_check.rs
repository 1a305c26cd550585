//! Check of indexes: a pure function that says where the entries of a bucket differ from what its
//! rows say, in either direction. It is the judge of tests, and of whoever looks for damage.

use crate::index_row::{self, EntryRow};
use crate::layout::{self, BOOKKEEPING_BUCKET, ROW_PREFIX_BYTES, Space, StoredRow};
use crate::replicated_index::{IndexPhase, ReplicatedIndex, records_prefix};
use crate::tag_record::tag_record_key;
use base::error::corrupt;
use base::range::prefix_end;
use base::{BucketId, GroupId, Key, Result};
use bytes::Bytes;
use indexes::{DefinitionSet, IndexEntry, IndexField, IndexNumber, LivingValue, stored_entries};
use runtime::log_writer::store_error;
use std::collections::BTreeMap;
use std::ops::Bound;
use store::{Chunk, Snapshot, StoreError, TreeRow};

/// Difference between a bucket's rows and the entries of its indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexMismatch {
    /// A row has no such entry in its index, or one with another expiry or key.
    Missing {
        /// The entry.
        entry: IndexEntry,
        /// Key of the record.
        key: Key,
    },
    /// No row says that there is such an entry.
    Surplus {
        /// The entry.
        entry: IndexEntry,
        /// Key of the record.
        key: Key,
    },
    /// The bucket has no index whose entry this is. Tree key of the row.
    Foreign(Bytes),
}

/// Place at which a check continues: first through all rows, then through all entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckCursor {
    /// After the row of this tree key. `None`: at the first.
    Rows(Option<Bytes>),
    /// After the entry of this tree key. `None`: at the first.
    Entries(Option<Bytes>),
}

/// Bounds at which a page of a check ends. The last row or entry may exceed them.
#[derive(Clone, Copy, Debug)]
pub struct CheckBounds {
    /// Number of rows or entries that are read.
    pub keys: usize,
    /// Bytes of these.
    pub bytes: usize,
    /// Number of differences.
    pub mismatches: usize,
}

/// Result of a page of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckPage {
    /// Differences of the page's rows or entries.
    pub mismatches: Vec<IndexMismatch>,
    /// Bytes that were read.
    pub bytes: usize,
    /// Place of the next page. `None`: the check is over.
    pub next: Option<CheckCursor>,
}

/// Index with its definition alone in a set.
struct CheckedIndex {
    record: ReplicatedIndex,
    definitions: DefinitionSet,
}

impl CheckedIndex {
    /// Returns true if the index must have the entries of this record.
    fn covers(&self, key: &[u8]) -> bool {
        let is_passed = self.record.cursor.as_ref().is_some_and(|cursor| key <= &cursor[..]);
        self.record.is_exact() && (self.record.phase == IndexPhase::Ready || is_passed)
    }
}

/// Indexes of a bucket, as of a snapshot of a group's store.
struct IndexCheck<'a> {
    snapshot: &'a dyn Snapshot,
    group: GroupId,
    bucket: BucketId,
    indexes: BTreeMap<IndexNumber, CheckedIndex>,
    /// True if the bucket has a record of tags: without it, no entry of a tag is maintained.
    has_tags: bool,
    mismatches: Vec<IndexMismatch>,
    bounds: CheckBounds,
    /// Number and bytes of the rows or entries that were read.
    keys: usize,
    bytes: usize,
}

/// Returns the differences between a bucket's rows and its indexes, at most so many: none, if every
/// index that is ready has exactly the entries of all rows, expired or not; one that is being built
/// has those of the rows that its builder has passed, and no entry that no row says. Indexes that
/// nothing maintains are left out. Tags of rows have their entries always.
///
/// Errors: those of rows that can't be read or decoded.
pub fn check_indexes(
    snapshot: &dyn Snapshot,
    group: GroupId,
    bucket: BucketId,
    mismatches_max: usize,
) -> Result<Vec<IndexMismatch>> {
    let bounds = CheckBounds { keys: usize::MAX, bytes: usize::MAX, mismatches: mismatches_max };
    let mut check = IndexCheck::new(snapshot, (group, bucket), bounds)?;
    check.rows(None)?;
    check.entries(None)?;
    check.mismatches.truncate(mismatches_max);
    Ok(check.mismatches)
}

/// Checks a page of a bucket's rows or entries as [`check_indexes`] does, as of a snapshot of its
/// own. So a difference that it reports may be mended or made since: whoever mends looks again.
///
/// Errors: see [`check_indexes`].
pub fn check_page(
    snapshot: &dyn Snapshot,
    place: (GroupId, BucketId),
    cursor: &CheckCursor,
    bounds: CheckBounds,
) -> Result<CheckPage> {
    let mut check = IndexCheck::new(snapshot, place, bounds)?;
    let next = match cursor {
        CheckCursor::Rows(after) => {
            let last = check.rows(after.as_ref())?;
            Some(last.map_or(CheckCursor::Entries(None), |last| CheckCursor::Rows(Some(last))))
        }
        CheckCursor::Entries(after) => {
            check.entries(after.as_ref())?.map(|last| CheckCursor::Entries(Some(last)))
        }
    };
    Ok(CheckPage { mismatches: check.mismatches, bytes: check.bytes, next })
}

fn load_indexes(
    snapshot: &dyn Snapshot,
    group: GroupId,
    bucket: BucketId,
) -> Result<BTreeMap<IndexNumber, CheckedIndex>> {
    let (mut prefix, mut indexes) = (Vec::new(), BTreeMap::new());
    layout::row_key(group, BOOKKEEPING_BUCKET, &records_prefix(bucket), &mut prefix);
    let all = Chunk::read(snapshot, &prefix, None, usize::MAX).map_err(store_error)?;
    for (_, row) in &all.rows {
        let (record, mut definitions) = (ReplicatedIndex::read_row(row)?, DefinitionSet::default());
        definitions.insert(record.definition.clone())?;
        indexes.insert(record.definition.number, CheckedIndex { record, definitions });
    }
    Ok(indexes)
}

impl<'a> IndexCheck<'a> {
    fn new(
        snapshot: &'a dyn Snapshot,
        (group, bucket): (GroupId, BucketId),
        bounds: CheckBounds,
    ) -> Result<IndexCheck<'a>> {
        let mut tree_key = Vec::new();
        layout::row_key(group, BOOKKEEPING_BUCKET, &tag_record_key(bucket), &mut tree_key);
        let has_tags = snapshot.get(&tree_key).map_err(store_error)?.is_some();
        let indexes = load_indexes(snapshot, group, bucket)?;
        Ok(IndexCheck {
            snapshot,
            group,
            bucket,
            indexes,
            has_tags,
            mismatches: Vec::new(),
            bounds,
            keys: 0,
            bytes: 0,
        })
    }

    fn range(
        &self,
        space: Space,
        after: Option<&Bytes>,
    ) -> impl Iterator<Item = std::result::Result<TreeRow, StoreError>> + use<'a> {
        let mut low = Vec::new();
        layout::bucket_key(self.group, space, self.bucket, &[], &mut low);
        let high = Bytes::from(prefix_end(&low).expect("a space is not all 0xFF"));
        let low = after.map_or(Bound::Included(low.into()), |key| Bound::Excluded(key.clone()));
        self.snapshot.range(low, Bound::Excluded(high), false)
    }

    /// Counts a row or an entry that was read. Returns true if the page ends with it.
    fn count(&mut self, bytes: usize) -> bool {
        self.keys += 1;
        self.bytes += bytes;
        let CheckBounds { keys, bytes, mismatches } = self.bounds;
        self.keys >= keys || self.bytes >= bytes || self.mismatches.len() >= mismatches
    }

    /// Looks up the entries that the rows behind a tree key say. Returns the last tree key if rows
    /// may follow.
    fn rows(&mut self, after: Option<&Bytes>) -> Result<Option<Bytes>> {
        for found in self.range(Space::Row, after) {
            let (tree_key, bytes) = found.map_err(store_error)?;
            let key = tree_key.slice(ROW_PREFIX_BYTES..);
            let row = StoredRow::read(&bytes).map_err(corrupt)?;
            let covering = self.indexes.values().filter(|index| index.covers(&key));
            let declared = covering.flat_map(|index| {
                let is_unique = index.record.definition.is_unique;
                expected(index, &row).map(move |entry| (is_unique, entry))
            });
            let tagged = expected_of_tags(&row).map(|entry| (false, entry));
            for (is_unique, entry) in declared.chain(tagged).collect::<Vec<_>>() {
                if !self.has_entry(is_unique, &entry, &key, row.expires)? {
                    self.mismatches.push(IndexMismatch::Missing { entry, key: key.clone() });
                }
            }
            if self.count(tree_key.len() + bytes.len()) {
                return Ok(Some(tree_key));
            }
        }
        Ok(None)
    }

    fn has_entry(
        &self,
        is_unique: bool,
        entry: &IndexEntry,
        key: &Key,
        expires: Option<u64>,
    ) -> Result<bool> {
        let mut tree_key = Vec::new();
        index_row::index_key((self.group, self.bucket), is_unique, entry, key, &mut tree_key);
        let found = self.snapshot.get(&tree_key).map_err(store_error)?;
        Ok(found.is_some_and(|row| row[..] == index_row::encode(is_unique, key, expires)))
    }

    /// Looks up the rows of the entries behind a tree key. Returns the last tree key if entries may
    /// follow.
    fn entries(&mut self, after: Option<&Bytes>) -> Result<Option<Bytes>> {
        for found in self.range(Space::Index, after) {
            let (tree_key, bytes) = found.map_err(store_error)?;
            self.entry(&tree_key, &bytes)?;
            if self.count(tree_key.len() + bytes.len()) {
                return Ok(Some(tree_key));
            }
        }
        Ok(None)
    }

    fn entry(&mut self, tree_key: &Bytes, bytes: &Bytes) -> Result<()> {
        let field = IndexField::take(&tree_key[ROW_PREFIX_BYTES..]).map_err(corrupt)?.0;
        let index = match &field {
            IndexField::Declared(number) => self.indexes.get(number),
            IndexField::Tag(_) => None,
        };
        let has_field = index.is_some() || (matches!(field, IndexField::Tag(_)) && self.has_tags);
        if !has_field {
            self.mismatches.push(IndexMismatch::Foreign(tree_key.clone()));
            return Ok(());
        }
        if index.is_some_and(|index| !index.record.is_exact()) {
            return Ok(());
        }
        let is_unique = index.is_some_and(|index| index.record.definition.is_unique);
        let row = EntryRow::decode(is_unique, tree_key, bytes).map_err(corrupt)?;
        if !self.is_said(index, &row)? {
            let EntryRow { entry, key, .. } = row;
            self.mismatches.push(IndexMismatch::Surplus { entry, key });
        }
        Ok(())
    }

    /// Returns true if the record of an entry has it. `index`: `None` for the entry of a tag.
    fn is_said(&self, index: Option<&CheckedIndex>, found: &EntryRow) -> Result<bool> {
        let mut tree_key = Vec::new();
        layout::row_key(self.group, self.bucket, &found.key, &mut tree_key);
        let Some(bytes) = self.snapshot.get(&tree_key).map_err(store_error)? else {
            return Ok(false);
        };
        let row = StoredRow::read(&bytes).map_err(corrupt)?;
        let is_expected = match index {
            Some(index) => expected(index, &row).any(|one| one == found.entry),
            None => expected_of_tags(&row).any(|one| one == found.entry),
        };
        Ok(is_expected && row.expires == found.expires)
    }
}

/// Returns the entries that a row must have in an index.
fn expected(index: &CheckedIndex, row: &StoredRow) -> impl Iterator<Item = IndexEntry> + use<> {
    let value = LivingValue { tags: &[], bytes: &row.value };
    stored_entries(&index.definitions, &[value]).entries.into_iter()
}

/// Returns the entries that the tags of a row must have.
fn expected_of_tags(row: &StoredRow) -> impl Iterator<Item = IndexEntry> + use<> {
    let tags = row.tags.as_ref().map_or(&[][..], |tags| &tags.0);
    let value = LivingValue { tags, bytes: &[] };
    stored_entries(&DefinitionSet::default(), &[value]).entries.into_iter()
}
