//! Choice of merges: which neighbouring runs on disk are merged next. Pure: numbers go in,
//! positions come out.
//!
//! Runs are merged by *tiers*, as in RocksDB's universal compaction: a tier has runs of similar
//! size, and `FAN_IN` neighbouring runs of a tier become one run of the next. So a row is rewritten
//! once for each tier above it, log of `FAN_IN` of the store's size, and not ten times for each
//! level as with merging by levels. In exchange a read asks the filters of more runs, and
//! superseded rows take more space. Three rules bound that: the runs above the last may hold at
//! most `SPACE_FACTOR` times its bytes; tombstones and rows that range reads walk over cause a
//! merge down to the oldest run; and a store without writes is merged until each run is
//! `IDLE_FACTOR` times larger than all newer ones together.
//!
//! A *small* merge has a bounded size. It has its own thread, so that the runs of flushes never
//! wait for a large merge.
//!
//! A merge needs space for its output before it frees that of its input. So a merge that does not
//! fit into the space for merges is not chosen, and smaller ones that are due go first.
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
            debt_bytes: total(windows.map(|window| bytes(&runs[window]))),
        }
    }
}

/// Kind of merge that a caller asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MergeRequest {
    /// True for the thread of small merges.
    pub only_small: bool,
    /// True if range reads have walked over so many dead rows that a merge down to the oldest run
    /// pays.
    pub has_many_dead_rows: bool,
    /// True if nothing was written or merged for a while.
    pub is_idle: bool,
    /// Maximum size of the merge: the space for its output.
    pub bytes_max: u64,
}

/// Choice of a merge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MergeChoice {
    /// Positions of the runs to merge. `None`: no merge is due, or none that fits.
    pub runs: Option<Range<usize>>,
    /// True if a merge is due that does not fit into the space for merges.
    pub lacks_space: bool,
}

/// Sizes by which merges are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MergePolicy {
    /// Maximum size of a run of the first tier: as large as a flush writes.
    pub unmerged_bytes_max: u64,
    /// Size of a merged table.
    pub table_bytes: u64,
    /// Maximum number of runs of one merge, which holds a block of each in memory.
    pub runs_max: usize,
}

impl MergePolicy {
    /// Maximum size of a small merge.
    pub fn small_bytes_max(&self) -> u64 {
        self.unmerged_bytes_max.saturating_mul(FAN_IN as u64)
    }

    /// Chooses the runs to merge next; `runs` has the newest first.
    pub fn choose(&self, runs: &[RunFigures], request: MergeRequest) -> MergeChoice {
        let mut due = self.due(runs, request);
        if request.only_small {
            // Flushes add to the first tier: its merge is the most urgent of the small ones.
            due.reverse();
            due.retain(|window| bytes(&runs[window.clone()]) <= self.small_bytes_max());
        }
        let fits = |window: &Range<usize>| bytes(&runs[window.clone()]) <= request.bytes_max;
        let lacks_space = !due.iter().all(fits);
        let is_idle = due.is_empty() && request.is_idle && !runs.iter().any(|run| run.is_busy);
        let idle = is_idle.then(|| idle_window(runs)).flatten().map(|window| self.cut(window));
        MergeChoice { runs: due.into_iter().chain(idle).find(fits), lacks_space }
    }

    /// Returns the merge that lowers the number of runs at the least cost, whether it is due or
    /// not. `None`: none fits.
    pub fn choose_cheapest(&self, runs: &[RunFigures], bytes_max: u64) -> Option<Range<usize>> {
        let is_unmerged = |run: &&RunFigures| !run.is_busy && run.bytes <= self.unmerged_bytes_max;
        let unmerged = runs.iter().take_while(is_unmerged).count().min(FAN_IN);
        let pairs = (1..runs.len()).map(|second| second - 1..second + 1);
        let free_pairs = pairs.filter(|pair| runs[pair.clone()].iter().all(|run| !run.is_busy));
        let window = match unmerged {
            0 | 1 => free_pairs.min_by_key(|pair| bytes(&runs[pair.clone()])),
            _ => Some(0..unmerged),
        };
        window.filter(|window| bytes(&runs[window.clone()]) <= bytes_max)
    }

    /// Returns every merge that is due, the largest kinds first.
    fn due(&self, runs: &[RunFigures], request: MergeRequest) -> Vec<Range<usize>> {
        let mut due = Vec::new();
        due.extend(reclaim_window(runs, request.has_many_dead_rows));
        due.extend(space_window(runs));
        let highest = highest_tier(runs, self.unmerged_bytes_max);
        let windows = (0..=highest).rev();
        due.extend(windows.filter_map(|t| window_of_tier(runs, t, self.unmerged_bytes_max)));
        due.extend(
            (0..runs.len()).find(|at| self.has_small_tables(&runs[*at])).map(|at| at..at + 1),
        );
        due.into_iter().map(|window| self.cut(window)).collect()
    }

    /// Returns the newest runs of a merge of too many: so many that the others fit into the next.
    fn cut(&self, window: Range<usize>) -> Range<usize> {
        match window.len().saturating_sub(self.runs_max) {
            0 => window,
            surplus => window.start..window.start + (surplus + 1).min(self.runs_max),
        }
    }

    fn has_small_tables(&self, run: &RunFigures) -> bool {
        let average = run.bytes / run.tables.max(1) as u64;
        !run.is_busy
            && run.tables >= TABLES_JOINED
            && average < self.table_bytes / SMALL_TABLE_DIVISOR
    }
}

fn bytes(runs: &[RunFigures]) -> u64 {
    total(runs.iter().map(|run| run.bytes))
}

/// Adds numbers of tables. A damaged table may claim any.
pub(super) fn total(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
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

/// Returns the oldest runs, up to the first that a merge reads.
fn free_oldest(runs: &[RunFigures]) -> Range<usize> {
    runs.iter().rposition(|run| run.is_busy).map_or(0, |busy| busy + 1)..runs.len()
}

/// Returns the oldest runs that are not busy if a merge of them removes many dead rows. Those above
/// a merge under way are left out: under a sustained load there always is one.
fn reclaim_window(runs: &[RunFigures], has_many_dead_rows: bool) -> Option<Range<usize>> {
    let window = free_oldest(runs);
    let free = &runs[window.clone()];
    // A single run has no superseded rows.
    let has_dead_rows = free.len() > 1 || free.iter().any(|run| run.tombstones > 0);
    let is_due = has_many_dead_rows && has_dead_rows || has_many_tombstones(free);
    is_due.then_some(window)
}

/// Returns the oldest runs that are not busy if those above the last hold too many bytes.
fn space_window(runs: &[RunFigures]) -> Option<Range<usize>> {
    let window = free_oldest(runs);
    let (last, above) = runs[window.clone()].split_last()?;
    let is_due = !above.is_empty() && bytes(above) >= last.bytes.saturating_mul(SPACE_FACTOR);
    is_due.then_some(window)
}

fn has_many_tombstones(runs: &[RunFigures]) -> bool {
    let tombstones = total(runs.iter().map(|run| run.tombstones));
    let rows = total(runs.iter().map(|run| run.rows));
    tombstones > 0 && tombstones.saturating_mul(ROWS_PER_TOMBSTONE) >= rows
}

/// Returns the newest runs up to the first that is much larger than all before it.
fn idle_window(runs: &[RunFigures]) -> Option<Range<usize>> {
    let mut newer = runs.first()?.bytes;
    let mut end = 1;
    let is_similar = |run: &&RunFigures, newer: u64| run.bytes < newer.saturating_mul(IDLE_FACTOR);
    while let Some(run) = runs.get(end).filter(|run| is_similar(run, newer)) {
        newer = newer.saturating_add(run.bytes);
        end += 1;
    }
    (end > 1).then_some(0..end)
}

#[cfg(test)]
mod tests;
