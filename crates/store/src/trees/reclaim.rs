//! Reclaiming merges, which dead rows make due where no level is too large: tombstones that occupy
//! space, and dead rows that range reads walk over. `compaction.rs` has the merges by levels.

use std::sync::atomic::Ordering;

use lsm_tree::AbstractTree;
use lsm_tree::compaction::Leveled;

use super::{DEAD_ROWS_WALKED_MIN, LsmTrees, ROWS_WRITTEN_PER_DEAD_ROW};
use crate::StoreError;

/// Number of rows for each tombstone at which tombstones are too many. Their merge then costs at
/// most this many rows for each.
const ROWS_PER_TOMBSTONE: u64 = 4;

/// Rows, tombstones and tables on disk, by the tables' own statistics.
struct DiskStatistics {
    rows: u64,
    tombstones: u64,
    /// Tombstones in the last level, where they hide nothing. The library moves a table there
    /// without a merge if it overlaps none.
    tombstones_at_bottom: u64,
    /// Tables above the last level.
    tables_above: usize,
    /// The newest table; tables of later merges have larger ids.
    newest: Option<lsm_tree::TableId>,
}

impl DiskStatistics {
    fn has_many_tombstones(&self) -> bool {
        self.tombstones > 0 && self.tombstones * ROWS_PER_TOMBSTONE >= self.rows
    }
}

impl LsmTrees {
    /// Runs one round of a reclaiming merge, if it is due. Returns true if the tree changed.
    ///
    /// Tombstones above the rows they hide occupy space, and without writes no merge by levels
    /// removes them. A drain, with levels that may hold almost nothing, pushes them down, a few
    /// tables a round; tombstones already at the bottom need a rewrite. A drain also begins when
    /// range reads have walked over half as many dead rows on disk as there are rows. It runs round
    /// after round, until all rows are at the bottom or twice as many rows are merged as were
    /// walked over.
    pub(super) fn reclaim(&self) -> Result<bool, StoreError> {
        let before = self.disk_statistics();
        let drain_begins = self.begin_drain(before.rows);
        let rows_left = self.rows_to_drain.swap(0, Ordering::Relaxed);
        let (too_many, is_draining) = (before.has_many_tombstones(), rows_left > 0);
        if !too_many && !is_draining {
            return self.free_retired().map(|()| false);
        }
        // No drain reaches the bottom. When one begins, enough rows were walked over to justify a
        // rewrite of all rows.
        let most_at_bottom = before.tombstones_at_bottom > before.tombstones / 2;
        let mut changed = if drain_begins && most_at_bottom {
            self.rewrite().map(|()| true)?
        } else {
            // With a threshold of one the uppermost level keeps the size of one table, in which all
            // the dead rows may be.
            self.merge(self.drain_strategy(1))?
                || (!too_many && self.merge(self.drain_strategy(0))?)
        };
        // A drain can't move a table down that overlaps more of the bottom than the library merges
        // at once.
        if !changed && (too_many || before.tables_above > 0) {
            self.rewrite()?;
            changed = true;
        }
        let rows_left = if changed {
            rows_left.saturating_sub(self.rows_merged_since(&before).max(1))
        } else {
            0
        };
        if is_draining && rows_left == 0 {
            // Rows walked over meanwhile were those that this drain removed.
            self.view().dead_walked_on_disk.store(0, Ordering::Relaxed);
        }
        self.rows_to_drain.store(rows_left, Ordering::Relaxed);
        Ok(changed)
    }

    /// Returns true if range reads have walked over half as many dead rows on disk as there are
    /// rows, and no drain was under way. Begins one then.
    fn begin_drain(&self, rows: u64) -> bool {
        let view = self.view();
        let dead_walked = view.dead_walked_on_disk.load(Ordering::Relaxed);
        let limit = (rows / ROWS_WRITTEN_PER_DEAD_ROW).max(DEAD_ROWS_WALKED_MIN);
        let is_due = self.rows_to_drain.load(Ordering::Relaxed) == 0 && dead_walked > limit;
        if is_due {
            // One round is not enough: it merges the cheapest tables, and concurrent writes may add
            // such tables all the time.
            view.dead_walked_on_disk.store(0, Ordering::Relaxed);
            let rows_max = dead_walked.saturating_mul(ROWS_WRITTEN_PER_DEAD_ROW);
            self.rows_to_drain.store(rows_max, Ordering::Relaxed);
        }
        is_due
    }

    fn disk_statistics(&self) -> DiskStatistics {
        let version = self.tree.current_version();
        let rows = version.iter_tables().map(|table| table.metadata.item_count).sum();
        let newest = version.iter_tables().map(|table| table.id()).max();
        let bottom = version.iter_levels().last();
        let at_bottom = || bottom.iter().flat_map(|level| level.iter()).flat_map(|run| run.iter());
        DiskStatistics {
            rows,
            tombstones: version.iter_tables().map(|table| table.tombstone_count()).sum(),
            tombstones_at_bottom: at_bottom().map(|table| table.tombstone_count()).sum(),
            tables_above: version.table_count() - at_bottom().count(),
            newest,
        }
    }

    /// Returns the number of rows in tables written since.
    fn rows_merged_since(&self, before: &DiskStatistics) -> u64 {
        let version = self.tree.current_version();
        let written = version.iter_tables().filter(|table| Some(table.id()) > before.newest);
        written.map(|table| table.metadata.item_count).sum()
    }

    /// Returns the strategy of a drain: merging by levels that may hold almost nothing.
    fn drain_strategy(&self, level0_threshold: u8) -> Leveled {
        self.leveled_strategy()
            .with_l0_threshold(level0_threshold)
            .with_level_ratio_policy(vec![1e-6])
    }
}
