//! Merges of runs on disk: reads neighbouring runs, writes their newest rows as one run.
//!
//! Two threads merge at a time, each another part of the runs: one takes any merge, the other only
//! small ones (`merge_policy.rs`). Writers, readers and flushes go on meanwhile. A merge changes
//! nothing until its output is complete; then one change of the list replaces its input. If a
//! table of the input was dropped meanwhile, the output is discarded: it has rows that must not
//! come back.
//!
//! A merge drops superseded rows: each reader's view keeps the tables that it needs. It also drops
//! a tombstone if no older run may hold the key: runs below the input never get new keys.

use std::cmp::Ordering as KeyOrder;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use lsm_tree::table::Scanner;
use lsm_tree::{InternalValue, Table, TableId};

use super::merge_policy::{MergePolicy, MergeRequest, RunFigures, total};
use super::run_list::{DiskRun, RunList};
use super::table_writer::{NewTables, TableLayout, TableWriter};
use super::{DEAD_ROWS_WALKED_MIN, LsmTrees, ROWS_WRITTEN_PER_DEAD_ROW};
use crate::StoreError;
use crate::failpoint::{Point, reach};

/// Number of rows between two checks whether merges are cancelled.
const ROWS_PER_CHECK: usize = 1_024;
/// Rounds of `compact` in which nothing was due, after which the store counts as idle: ten seconds
/// of a node.
const IDLE_ROUNDS: u64 = 100;

/// Runs that a merge reads. While it exists, no other merge reads them, and no table joins them.
struct MergeInput<'a> {
    trees: &'a LsmTrees,
    list: Arc<RunList>,
    runs: Vec<Arc<DiskRun>>,
    /// Number of the first run below, which is older than all of these.
    below: usize,
    tables: BTreeSet<TableId>,
}

impl MergeInput<'_> {
    /// Returns true if no run is older than the input.
    fn has_oldest(&self) -> bool {
        self.below == self.list.runs.len()
    }
}

impl Drop for MergeInput<'_> {
    fn drop(&mut self) {
        if let Ok(mut busy) = self.trees.busy_tables.lock() {
            busy.retain(|table| !self.tables.contains(table));
        }
    }
}

impl LsmTrees {
    /// Runs one round of merging. Returns true if the list changed.
    pub(super) fn merge_round(&self, only_small: bool) -> Result<bool, StoreError> {
        self.check_usable()?;
        let is_idle = self.idle_rounds.load(Ordering::Relaxed) >= IDLE_ROUNDS;
        let has_many_dead_rows = self.has_many_dead_rows_on_disk();
        let input = self.begin_merge(|policy, runs, bytes_max| {
            let request = MergeRequest { only_small, has_many_dead_rows, is_idle, bytes_max };
            let choice = policy.choose(runs, request);
            if !only_small {
                self.lacks_merge_space.store(choice.lacks_space, Ordering::Relaxed);
            }
            choice.runs
        })?;
        let Some(input) = input else {
            if !only_small {
                self.idle_rounds.fetch_add(1, Ordering::Relaxed);
            }
            return self.free_retired().map(|()| false);
        };
        self.idle_rounds.store(0, Ordering::Relaxed);
        self.merge(&input)
    }

    /// Merges a few runs of a list that has too many, for a caller that never merges. Returns false
    /// if other merges read them, or if the disk has no space for a merge.
    pub(super) fn merge_few_runs(&self) -> Result<bool, StoreError> {
        let input =
            self.begin_merge(|policy, runs, bytes_max| policy.choose_cheapest(runs, bytes_max))?;
        input.map_or(Ok(false), |input| self.merge(&input))
    }

    /// Merges all runs into one. Returns false if another merge reads some of them.
    #[cfg(test)]
    pub(super) fn merge_everything(&self) -> Result<bool, StoreError> {
        self.merge_range(0..self.list().runs.len())
    }

    /// Merges these runs into one. Returns false if there are none, or another merge reads some.
    #[cfg(test)]
    pub(super) fn merge_range(&self, range: Range<usize>) -> Result<bool, StoreError> {
        let input = self.begin_merge(|_, runs, _| {
            let is_free = runs[range.clone()].iter().all(|run| !run.is_busy);
            (is_free && !range.is_empty()).then_some(range)
        })?;
        input.map_or(Ok(false), |input| self.merge(&input))
    }

    /// Returns true if range reads have walked over half as many dead rows on disk as there are
    /// rows, and those are not few.
    fn has_many_dead_rows_on_disk(&self) -> bool {
        let view = self.view();
        let rows = total(view.disk.tables().map(|table| table.metadata.item_count));
        let dead_walked = view.dead_walked_on_disk.load(Ordering::Relaxed);
        dead_walked > (rows / ROWS_WRITTEN_PER_DEAD_ROW).max(DEAD_ROWS_WALKED_MIN)
    }

    /// Takes the runs that `choose` selects. It receives the space for the output, too.
    fn begin_merge(
        &self,
        choose: impl FnOnce(&MergePolicy, &[RunFigures], u64) -> Option<Range<usize>>,
    ) -> Result<Option<MergeInput<'_>>, StoreError> {
        let mut busy = self.busy_tables.lock().map_err(|_| StoreError::Closed)?;
        let list = self.list();
        let is_busy = |run: &DiskRun| run.tables().iter().any(|table| busy.contains(&table.id()));
        let figures: Vec<_> = list.runs.iter().map(|run| run.figures(is_busy(run))).collect();
        // The other merge may still write as much as it reads.
        let taken = total(figures.iter().filter(|run| run.is_busy).map(|run| run.bytes));
        let bytes_max = self.merge_bytes_max.load(Ordering::Relaxed).saturating_sub(taken);
        let Some(chosen) = choose(&self.settings.merge_policy(), &figures, bytes_max) else {
            return Ok(None);
        };
        let (runs, below) = (list.runs[chosen.clone()].to_vec(), chosen.end);
        let tables: BTreeSet<TableId> =
            runs.iter().flat_map(|run| run.tables()).map(Table::id).collect();
        busy.extend(&tables);
        Ok(Some(MergeInput { trees: self, list, runs, below, tables }))
    }

    fn merge(&self, input: &MergeInput<'_>) -> Result<bool, StoreError> {
        let written = self.guarded(|| self.write_merged(input))?;
        let Some(mut output) = written else { return Ok(false) };
        reach(Point::MergeWritten);
        let changed = self
            .change_list(&mut output, |list, _, tables| list.with_merged(&input.tables, tables))?;
        if !changed {
            return Ok(false);
        }
        reach(Point::CompactAfter);
        self.refresh()?;
        if input.has_oldest() {
            // Dead rows that were walked over meanwhile are gone, too. The few in newer runs are
            // counted again by later reads.
            self.view().dead_walked_on_disk.store(0, Ordering::Relaxed);
        }
        Ok(true)
    }

    /// Writes the newest row of each key. `None`: merges are cancelled.
    fn write_merged(&self, input: &MergeInput<'_>) -> lsm_tree::Result<Option<NewTables>> {
        let mut writer = TableWriter::new(self, TableLayout::Merged);
        let mut rows = MergedRows::open(&input.runs)?;
        for number in 0.. {
            if number % ROWS_PER_CHECK == 0 && self.is_closing.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let Some(row) = rows.next()? else { break };
            if !row.is_tombstone() || input.list.may_hold(&row.key.user_key, input.below) {
                writer.write(row)?;
            }
        }
        writer.finish().map(Some)
    }
}

/// Rows of a run, table after table.
struct RunRows {
    run: Arc<DiskRun>,
    next_table: usize,
    table: Option<Scanner>,
}

impl RunRows {
    fn next(&mut self) -> lsm_tree::Result<Option<InternalValue>> {
        loop {
            if let Some(row) = self.table.as_mut().and_then(Scanner::next) {
                return row.map(Some);
            }
            let Some(table) = self.run.tables().get(self.next_table) else { return Ok(None) };
            self.table = Some(table.scan()?);
            self.next_table += 1;
        }
    }
}

/// The next row of a run.
struct RunHead {
    row: InternalValue,
    run: usize,
}

/// The newest row of each key of some runs, in the order of keys.
struct MergedRows {
    runs: Vec<RunRows>,
    heads: BinaryHeap<RunHead>,
}

impl MergedRows {
    fn open(runs: &[Arc<DiskRun>]) -> lsm_tree::Result<MergedRows> {
        let rows = |run: &Arc<DiskRun>| RunRows { run: run.clone(), next_table: 0, table: None };
        let mut merged =
            MergedRows { runs: runs.iter().map(rows).collect(), heads: BinaryHeap::new() };
        for run in 0..merged.runs.len() {
            let first = merged.runs[run].next()?;
            merged.heads.extend(first.map(|row| RunHead { row, run }));
        }
        Ok(merged)
    }

    fn next(&mut self) -> lsm_tree::Result<Option<InternalValue>> {
        let Some(newest) = self.pop()? else { return Ok(None) };
        let is_superseded = |older: &RunHead| older.row.key.user_key == newest.key.user_key;
        while self.heads.peek().is_some_and(is_superseded) {
            self.pop()?;
        }
        Ok(Some(newest))
    }

    /// Returns the first row, and puts the next of its run in its place.
    fn pop(&mut self) -> lsm_tree::Result<Option<InternalValue>> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        Ok(Some(match self.runs[head.run].next()? {
            Some(next) => std::mem::replace(&mut head.row, next),
            None => PeekMut::pop(head).row,
        }))
    }
}

impl Ord for RunHead {
    /// The heap returns the greatest first: the lowest key, and of one key the newest row. The
    /// library orders keys so that the newest row is the lowest.
    fn cmp(&self, other: &RunHead) -> KeyOrder {
        other.row.key.cmp(&self.row.key).then(other.run.cmp(&self.run))
    }
}

impl PartialOrd for RunHead {
    fn partial_cmp(&self, other: &RunHead) -> Option<KeyOrder> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunHead {
    fn eq(&self, other: &RunHead) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RunHead {}

#[cfg(test)]
mod tests;
