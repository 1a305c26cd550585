//! List of runs: the tables on disk at one moment.
//!
//! A *run* is a set of tables whose keys do not overlap, in the order of keys: at most one of them
//! can hold a key. The list has the newest run first: of two rows of a key, the one in the earlier
//! run is the newer. A list never changes. A flush, a merge or a drop creates the next one.
//!
//! Invariants: a merge replaces neighbouring runs by one run in their place, so the order of the
//! others stays; of each key, a run has one row.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use lsm_tree::table::filter::block::FilterBlock;
use lsm_tree::table::filter::standard_bloom::Builder as Bloom;
use lsm_tree::{InternalValue, SeqNo, Table, TableId, UserKey};

use super::heads::KeyHeads;
use super::manifest::{self, damage};
use super::merge_policy::{RunCounts, RunFigures, total};
use super::packed::Packing;
use super::view::{Bounds, DiskRows, Version};
use crate::StoreError;
use crate::failpoint::{Point, reach};
use crate::mutants::StoreMutant;
use crate::panics::catch_panic;

/// A run of tables on disk.
pub(super) struct DiskRun {
    tables: Vec<Table>,
    heads: KeyHeads,
    /// Heads of the last keys of the tables: a search compares these, which lie side by side.
    last_heads: Box<[u64]>,
}

impl DiskRun {
    /// Creates a run of tables that are in the order of keys.
    pub fn new(tables: Vec<Table>) -> DiskRun {
        let last_keys: Vec<Bytes> =
            tables.iter().map(|table| table.metadata.key_range.max().clone().into()).collect();
        let heads = KeyHeads::for_keys(last_keys.iter().collect());
        let last_heads = last_keys.iter().map(|key| heads.head(key)).collect();
        DiskRun { tables, heads, last_heads }
    }

    /// Returns the tables, in the order of keys.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns true if the tables are in the order of keys and do not overlap. Only a list that is
    /// damaged or made up has others.
    pub fn is_ordered(&self) -> bool {
        let is_range = |table: &Table| first_key(table) <= last_key(table);
        let is_before = |pair: &[Table]| last_key(&pair[0]) < first_key(&pair[1]);
        self.tables.iter().all(is_range) && self.tables.windows(2).all(is_before)
    }

    /// Returns the numbers by which merges are chosen. `is_busy`: it is being merged.
    pub fn figures(&self, is_busy: bool) -> RunFigures {
        let sum = |number: fn(&Table) -> u64| total(self.tables.iter().map(number));
        RunFigures {
            bytes: sum(|table| table.metadata.file_size),
            rows: sum(|table| table.metadata.item_count),
            tombstones: sum(Table::tombstone_count),
            tables: self.tables.len(),
            is_busy,
        }
    }

    /// Returns the table that may hold a key.
    fn table_for(&self, key: &[u8]) -> Option<&Table> {
        let head = self.heads.head(key);
        let below = self.last_heads.partition_point(|last| *last < head);
        let equal = self.last_heads[below..].partition_point(|last| *last == head);
        let candidates = &self.tables[below..below + equal];
        let position = below + candidates.partition_point(|table| last_key(table) < key);
        self.tables.get(position).filter(|table| first_key(table) <= key)
    }

    /// Returns true if a table of the run may have keys from `first` to `last`.
    pub fn overlaps_keys(&self, first: &[u8], last: &[u8]) -> bool {
        let at = self.tables.partition_point(|table| last_key(table) < first);
        self.tables.get(at).is_some_and(|table| first_key(table) <= last)
    }

    /// Returns the rows between bounds, tombstones too. `None`: no table has such keys.
    fn range(self: &Arc<DiskRun>, bounds: &Bounds) -> Option<DiskRows> {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let first = match &bounds.0 {
            Included(low) => self.tables.partition_point(|table| last_key(table) < &low[..]),
            Excluded(low) => self.tables.partition_point(|table| last_key(table) <= &low[..]),
            Unbounded => 0,
        };
        let end = match &bounds.1 {
            Included(high) => self.tables.partition_point(|table| first_key(table) <= &high[..]),
            Excluded(high) => self.tables.partition_point(|table| first_key(table) < &high[..]),
            Unbounded => self.tables.len(),
        };
        if first >= end {
            return None;
        }
        let slice = |key: &Bytes| UserKey::from(key.clone());
        let bounds = (bounds.0.as_ref().map(slice), bounds.1.as_ref().map(slice));
        let run = Arc::clone(self);
        let rows = (first..end).flat_map(move |table| run.tables[table].range(bounds.clone()));
        Some(Box::new(rows) as DiskRows)
    }
}

fn first_key(table: &Table) -> &[u8] {
    table.metadata.key_range.min()
}

fn last_key(table: &Table) -> &[u8] {
    table.metadata.key_range.max()
}

/// See the head of this file.
pub(super) struct RunList {
    /// Number of the list: each one is greater than those before it.
    pub id: u64,
    /// The runs, the newest first.
    pub runs: Vec<Arc<DiskRun>>,
    /// Numbers of runs, for the write pressure.
    pub counts: RunCounts,
    /// Switch of the packing of their values.
    pub packing: Packing,
}

impl RunList {
    /// Creates a list. `unmerged_bytes_max`: maximum size of a run that counts as unmerged.
    pub fn new(
        id: u64,
        runs: Vec<Arc<DiskRun>>,
        unmerged_bytes_max: u64,
        packing: &Packing,
    ) -> RunList {
        let figures: Vec<RunFigures> = runs.iter().map(|run| run.figures(false)).collect();
        let (counts, packing) = (RunCounts::of(&figures, unmerged_bytes_max), packing.clone());
        RunList { id, runs, counts, packing }
    }

    /// Returns all tables, the newest run first.
    pub fn tables(&self) -> impl Iterator<Item = &Table> {
        self.runs.iter().flat_map(|run| run.tables())
    }

    /// Returns the runs after new tables, which are disjoint and in the order of keys. They join
    /// the newest run if they do not overlap it and no merge reads it (`busy`). So rows that come
    /// in the order of keys form one run, which needs no merge.
    pub fn with_new(&self, tables: Vec<Table>, busy: &BTreeSet<TableId>) -> Vec<Arc<DiskRun>> {
        let mut runs = self.runs.clone();
        let accepts = |run: &&Arc<DiskRun>| {
            let is_busy = run.tables.iter().any(|table| busy.contains(&table.id()));
            let mut new = tables.iter();
            !is_busy && !new.any(|new| run.overlaps_keys(first_key(new), last_key(new)))
        };
        let Some(joined) = runs.first().filter(accepts).cloned() else {
            runs.insert(0, Arc::new(DiskRun::new(tables)));
            return runs;
        };
        let mut all = [joined.tables(), &tables].concat();
        all.sort_by(|one, other| first_key(one).cmp(first_key(other)));
        runs[0] = Arc::new(DiskRun::new(all));
        runs
    }

    /// Returns the runs after a merge of these tables. `None`: some of them were dropped meanwhile,
    /// so that the output has rows which the list must not have any more.
    pub fn with_merged(
        &self,
        inputs: &BTreeSet<TableId>,
        output: Vec<Table>,
    ) -> Option<Vec<Arc<DiskRun>>> {
        let is_input = |run: &Arc<DiskRun>| run.tables.iter().any(|at| inputs.contains(&at.id()));
        let found: usize =
            self.runs.iter().filter(|run| is_input(run)).map(|run| run.tables.len()).sum();
        let position = self.runs.iter().position(is_input).filter(|_| found == inputs.len())?;
        let mut runs: Vec<_> = self.runs.iter().filter(|run| !is_input(run)).cloned().collect();
        if !output.is_empty() {
            runs.insert(position, Arc::new(DiskRun::new(output)));
        }
        Some(runs)
    }

    /// Returns the runs without the tables whose keys all lie between bounds. `None`: there is no
    /// such table.
    pub fn without_tables_within(&self, bounds: &Bounds) -> Option<Vec<Arc<DiskRun>>> {
        if !self.tables().any(|table| is_within(table, bounds)) {
            return None;
        }
        let kept = self.runs.iter().map(|run| {
            let is_kept = |table: &&Table| !is_within(table, bounds);
            match run.tables.iter().all(|table| is_kept(&table)) {
                true => Arc::clone(run),
                false => {
                    Arc::new(DiskRun::new(run.tables.iter().filter(is_kept).cloned().collect()))
                }
            }
        });
        Some(kept.filter(|run| !run.tables.is_empty()).collect())
    }

    /// Returns the newest row of a key below batch `limit`. `None`: there is none.
    pub fn get(&self, key: &[u8], limit: SeqNo) -> Result<Option<Version>, StoreError> {
        let hash = Bloom::get_hash(key);
        for table in self.runs.iter().filter_map(|run| run.table_for(key)) {
            // A table with valid blocks does not panic; one that panics is damaged.
            let get = || {
                let found = table.get(key, limit, filter_hash(table, hash));
                if matches!(found, Ok(Some(_))) {
                    reach(Point::RowRead);
                }
                found
            };
            let found = catch_panic(get)
                .map_err(|_| damage(&table.path, "the block is malformed"))?
                .map_err(|error| manifest::error(&table.path, error))?;
            if let Some(row) = found {
                return self.read_version(row, table).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns true if one of the runs from `first` on may hold a row or a tombstone of a key. It
    /// reads the filters, which are in memory: for one absent key in a hundred it returns true for
    /// a run.
    pub fn may_hold(&self, key: &[u8], first: usize) -> bool {
        let hash = Bloom::get_hash(key);
        let may_contain = |table: &Table| {
            let hash = filter_hash(table, hash);
            let ask = |filter: &FilterBlock| filter.maybe_contains_hash(hash).unwrap_or(true);
            table.pinned_filter_block.as_ref().is_none_or(ask)
        };
        self.runs[first..].iter().filter_map(|run| run.table_for(key)).any(may_contain)
    }

    /// Returns the rows between bounds of each run that may have some, the newest run first.
    pub fn ranges(&self, bounds: &Bounds) -> Vec<DiskRows> {
        self.runs.iter().filter_map(|run| run.range(bounds)).collect()
    }

    fn read_version(&self, row: InternalValue, table: &Table) -> Result<Version, StoreError> {
        let (sequence, is_dead) = (row.key.seqno, row.is_tombstone());
        let invalid = |_| damage(&table.path, "a packed value is malformed");
        let value = (!is_dead).then(|| self.packing.unpack(row.value.into())).transpose();
        Ok(Version { sequence, value: value.map_err(invalid)? })
    }
}

/// Returns the hash for which the filter of a table is asked: that of the key which is read.
fn filter_hash(table: &Table, hash: u64) -> u64 {
    // The filter never excludes a key of its table, so it is as if it were not asked.
    if StoreMutant::IgnoreFilters.is_active() { Bloom::get_hash(first_key(table)) } else { hash }
}

/// Returns true if all keys of a table lie between bounds.
fn is_within(table: &Table, (low, high): &Bounds) -> bool {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let is_above_low = match low {
        Included(low) => first_key(table) >= &low[..],
        Excluded(low) => first_key(table) > &low[..],
        Unbounded => true,
    };
    is_above_low
        && match high {
            Included(high) => last_key(table) <= &high[..],
            Excluded(high) => last_key(table) < &high[..],
            Unbounded => true,
        }
}
