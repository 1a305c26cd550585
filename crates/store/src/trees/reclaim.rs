//! Reclaiming merges, which dead rows make due where levels are not too large: tombstones that keep
//! space, and dead rows that range reads pass. `compaction.rs` has the merges by levels.

use std::sync::atomic::Ordering;

use lsm_tree::AbstractTree;
use lsm_tree::compaction::Leveled;

use super::{LsmTrees, ROWS_IN_VAIN_MIN, ROWS_WRITTEN_PER_ROW_IN_VAIN};
use crate::StoreError;

/// Number of rows for each tombstone above which there are not too many. Merging them away then
/// costs at most this many rows for each.
const ROWS_PER_TOMBSTONE: u64 = 4;

/// Rows, tombstones and tables on disk, by the tables' own figures.
struct OnDisk {
    rows: u64,
    tombstones: u64,
    /// Tombstones in the last level, below which they hide nothing. Tables are moved there without
    /// a merge where they overlap none.
    tombstones_at_bottom: u64,
    /// Tables above the last level.
    tables_above: usize,
    /// The table that was made last; those of later merges have larger numbers.
    newest: Option<lsm_tree::TableId>,
}

impl OnDisk {
    fn has_many_tombstones(&self) -> bool {
        self.tombstones > 0 && self.tombstones * ROWS_PER_TOMBSTONE >= self.rows
    }
}

impl LsmTrees {
    /// Tombstones above rows they hide keep space, and nothing merges them while nothing is
    /// written. Levels that may hold next to nothing push them down, a few tables a round; those
    /// already at the bottom need it rewritten. Levels are drained also where range reads have
    /// walked over half as many dead rows on disk as there are rows: round after round, until the
    /// bottom has all or twice as many rows are merged as were walked over.
    pub(super) fn reclaim(&self) -> Result<bool, StoreError> {
        let before = self.on_disk();
        let drain_begins = self.begin_drain(before.rows);
        let left = self.rows_to_drain.swap(0, Ordering::Relaxed);
        let (many, drains) = (before.has_many_tombstones(), left > 0);
        if !many && !drains {
            return self.free_retired().map(|()| false);
        }
        // No drain reaches what lies at the bottom. When one begins, enough was walked over to
        // write all rows anew.
        let most_at_bottom = before.tombstones_at_bottom > before.tombstones / 2;
        let mut changed = if drain_begins && most_at_bottom {
            self.rewrite().map(|()| true)?
        } else {
            // With a threshold of one the uppermost level that has tables keeps one's size of them,
            // in which all the dead rows may be.
            self.merge(self.draining(1))? || (!many && self.merge(self.draining(0))?)
        };
        // A drain finds no way down for a table above more of the bottom than the crate merges at
        // once.
        if !changed && (many || before.tables_above > 0) {
            self.rewrite()?;
            changed = true;
        }
        let left = if changed { left.saturating_sub(self.rows_since(&before).max(1)) } else { 0 };
        if drains && left == 0 {
            // What was walked over meanwhile is what this drain was for.
            self.view().in_vain_on_disk.store(0, Ordering::Relaxed);
        }
        self.rows_to_drain.store(left, Ordering::Relaxed);
        Ok(changed)
    }

    /// True if range reads have walked over half as many dead rows on disk as there are rows, and
    /// no drain was under way.
    fn begin_drain(&self, rows: u64) -> bool {
        let view = self.view();
        let in_vain = view.in_vain_on_disk.load(Ordering::Relaxed);
        let enough = (rows / ROWS_WRITTEN_PER_ROW_IN_VAIN).max(ROWS_IN_VAIN_MIN);
        let begins = self.rows_to_drain.load(Ordering::Relaxed) == 0 && in_vain > enough;
        if begins {
            // One round would not do: it takes the tables whose merge costs least, and others may
            // write such all the time.
            view.in_vain_on_disk.store(0, Ordering::Relaxed);
            let most = in_vain.saturating_mul(ROWS_WRITTEN_PER_ROW_IN_VAIN);
            self.rows_to_drain.store(most, Ordering::Relaxed);
        }
        begins
    }

    fn on_disk(&self) -> OnDisk {
        let version = self.tree.current_version();
        let rows = version.iter_tables().map(|table| table.metadata.item_count).sum();
        let newest = version.iter_tables().map(|table| table.id()).max();
        let bottom = version.iter_levels().last();
        let at_bottom = || bottom.iter().flat_map(|level| level.iter()).flat_map(|run| run.iter());
        OnDisk {
            rows,
            tombstones: version.iter_tables().map(|table| table.tombstone_count()).sum(),
            tombstones_at_bottom: at_bottom().map(|table| table.tombstone_count()).sum(),
            tables_above: version.table_count() - at_bottom().count(),
            newest,
        }
    }

    /// Rows that were merged since.
    fn rows_since(&self, before: &OnDisk) -> u64 {
        let version = self.tree.current_version();
        let written = version.iter_tables().filter(|table| Some(table.id()) > before.newest);
        written.map(|table| table.metadata.item_count).sum()
    }

    /// Returns the strategy of merging by levels that may hold next to nothing.
    fn draining(&self, level0_threshold: u8) -> Leveled {
        self.leveled().with_l0_threshold(level0_threshold).with_level_ratio_policy(vec![1e-6])
    }
}
