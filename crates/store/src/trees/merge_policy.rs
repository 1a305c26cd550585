//! Choice of merges: which neighbouring runs on disk are merged next. Pure: numbers go in,
//! positions come out.
//!
//! Runs are merged by *tiers*, as in RocksDB's universal compaction: a tier has runs of similar
//! size, and `FAN_IN` neighbouring runs of a tier become one run of the next. So a row is rewritten
//! once for each tier above it, log of `FAN_IN` of the store's size, and not ten times for each
//! level as with merging by levels. In exchange a read asks the filters of more runs, and
//! superseded rows take more space. Three rules bound that: the runs above the last may hold at
//! most `SPACE_FACTOR` times its bytes; tombstones and rows that range reads walk over cause a
//! merge of everything; and a store without writes is merged until each run is `IDLE_FACTOR` times
//! larger than all newer ones together.
//!
//! A *small* merge has a bounded size. It has its own thread, so that the runs of flushes never
//! wait for a large merge.
//!
//! Invariants: only neighbouring runs are merged; a run takes part in one merge at a time; the same
//! numbers give the same choice.

use std::ops::Range;

/// Number of runs of a tier that are merged into one.
pub(super) const FAN_IN: usize = 8;
/// Bytes above the last run, for each byte in it, at which all runs are merged.
const SPACE_FACTOR: u64 = 2;
/// A store without writes has runs that are at least this many times larger than all newer ones.
const IDLE_FACTOR: u64 = 4;
/// Number of rows for each tombstone at which tombstones are too many. Their merge then costs at
/// most this many rows for each.
const ROWS_PER_TOMBSTONE: u64 = 4;
/// Number of tables in a run from which on small ones are joined.
const TABLES_JOINED: usize = 64;
/// Average size of a run's tables, as a part of a merged table, below which they are joined.
const SMALL_TABLE_DIVISOR: u64 = 8;

/// Numbers of a run, by which merges are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunFigures {
    pub bytes: u64,
    pub rows: u64,
    pub tombstones: u64,
    pub tables: usize,
    /// True if a merge reads the run.
    pub is_busy: bool,
}

/// Numbers of runs, for the write pressure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RunCounts {
    /// Runs that no merge has written, or that are as small.
    pub unmerged: usize,
    /// All runs.
    pub total: usize,
    /// Bytes of runs whose merge is due.
    pub debt_bytes: u64,
}

impl RunCounts {
    /// Counts runs. `unmerged_bytes_max`: maximum size of a run that counts as unmerged.
    pub fn of(runs: &[RunFigures], unmerged_bytes_max: u64) -> RunCounts {
        let tier_of = |run: &RunFigures| tier(run.bytes, unmerged_bytes_max);
        let windows = (0..=highest_tier(runs, unmerged_bytes_max))
            .filter_map(|tier| window_of_tier(runs, tier, unmerged_bytes_max));
        RunCounts {
            unmerged: runs.iter().filter(|run| tier_of(run) == 0).count(),
            total: runs.len(),
            debt_bytes: windows.map(|window| bytes(&runs[window])).sum(),
        }
    }
}

/// Kind of merge that a caller asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MergeRequest {
    /// True for the thread of small merges.
    pub only_small: bool,
    /// True if range reads have walked over so many dead rows that a merge of everything pays.
    pub has_many_dead_rows: bool,
    /// True if nothing was written or merged for a while.
    pub is_idle: bool,
}

/// Sizes by which merges are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MergePolicy {
    /// Maximum size of a run of the first tier: as large as a flush writes.
    pub unmerged_bytes_max: u64,
    /// Size of a merged table.
    pub table_bytes: u64,
}

impl MergePolicy {
    /// Maximum size of a small merge.
    pub fn small_bytes_max(&self) -> u64 {
        self.unmerged_bytes_max.saturating_mul(FAN_IN as u64)
    }

    /// Returns the runs to merge next, the newest first in `runs`. `None`: nothing is due.
    pub fn choose(&self, runs: &[RunFigures], request: MergeRequest) -> Option<Range<usize>> {
        let mut due = self.due(runs, request);
        if request.only_small {
            // Flushes add to the first tier: its merge is the most urgent of the small ones.
            due.reverse();
            due.retain(|window| bytes(&runs[window.clone()]) <= self.small_bytes_max());
        }
        due.into_iter().next()
    }

    /// Returns every merge that is due, the largest kinds first.
    fn due(&self, runs: &[RunFigures], request: MergeRequest) -> Vec<Range<usize>> {
        let is_any_busy = runs.iter().any(|run| run.is_busy);
        let mut due = Vec::new();
        let is_reclaim_due = request.has_many_dead_rows || has_many_tombstones(runs);
        if is_reclaim_due && !is_any_busy && !runs.is_empty() {
            due.push(0..runs.len());
        }
        due.extend(space_window(runs));
        let highest = highest_tier(runs, self.unmerged_bytes_max);
        let windows = (0..=highest).rev();
        due.extend(windows.filter_map(|t| window_of_tier(runs, t, self.unmerged_bytes_max)));
        due.extend(
            (0..runs.len()).find(|at| self.has_small_tables(&runs[*at])).map(|at| at..at + 1),
        );
        if due.is_empty() && request.is_idle && !is_any_busy {
            due.extend(idle_window(runs));
        }
        due
    }

    fn has_small_tables(&self, run: &RunFigures) -> bool {
        let average = run.bytes / run.tables.max(1) as u64;
        !run.is_busy
            && run.tables >= TABLES_JOINED
            && average < self.table_bytes / SMALL_TABLE_DIVISOR
    }
}

fn bytes(runs: &[RunFigures]) -> u64 {
    runs.iter().map(|run| run.bytes).sum()
}

/// Returns the tier of a run: 0 up to `first_max`, and one more for each factor of `FAN_IN`.
fn tier(bytes: u64, first_max: u64) -> u32 {
    let (mut tier, mut limit) = (0, first_max.max(1));
    while bytes > limit {
        (tier, limit) = (tier + 1, limit.saturating_mul(FAN_IN as u64));
    }
    tier
}

fn highest_tier(runs: &[RunFigures], first_max: u64) -> u32 {
    runs.iter().map(|run| tier(run.bytes, first_max)).max().unwrap_or(0)
}

/// Returns the oldest `FAN_IN` runs of a tier among neighbours that are not busy, with the smaller
/// runs between them. Runs of a higher tier separate neighbours.
fn window_of_tier(runs: &[RunFigures], of_tier: u32, first_max: u64) -> Option<Range<usize>> {
    let mut members = Vec::new();
    for (at, run) in runs.iter().enumerate().rev() {
        match tier(run.bytes, first_max) {
            _ if run.is_busy => members.clear(),
            higher if higher > of_tier => members.clear(),
            same if same == of_tier => members.push(at),
            _ => {}
        }
        if members.len() == FAN_IN {
            return Some(at..members[0] + 1);
        }
    }
    None
}

/// Returns the oldest runs that are not busy if those above the last hold too many bytes.
fn space_window(runs: &[RunFigures]) -> Option<Range<usize>> {
    let first = runs.iter().rposition(|run| run.is_busy).map_or(0, |busy| busy + 1);
    let (last, above) = runs[first..].split_last()?;
    let is_due = !above.is_empty() && bytes(above) >= last.bytes.saturating_mul(SPACE_FACTOR);
    is_due.then_some(first..runs.len())
}

fn has_many_tombstones(runs: &[RunFigures]) -> bool {
    let tombstones: u64 = runs.iter().map(|run| run.tombstones).sum();
    let rows: u64 = runs.iter().map(|run| run.rows).sum();
    tombstones > 0 && tombstones.saturating_mul(ROWS_PER_TOMBSTONE) >= rows
}

/// Returns the newest runs up to the first that is much larger than all before it.
fn idle_window(runs: &[RunFigures]) -> Option<Range<usize>> {
    let mut newer = runs.first()?.bytes;
    let mut end = 1;
    while let Some(run) = runs.get(end).filter(|run| run.bytes < newer * IDLE_FACTOR) {
        newer += run.bytes;
        end += 1;
    }
    (end > 1).then_some(0..end)
}

#[cfg(test)]
mod tests;
