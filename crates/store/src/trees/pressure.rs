//! Write pressure: how far flushes and merges lag behind writes, and by how much writers are slowed
//! for it.
//!
//! A store that accepts writes until a limit and then stops them answers nobody for as long as a
//! merge takes. So writers are slowed in proportion to the debt, long before a limit: they pause
//! after each batch, for longer the more bytes it had. At the most, they still write two mebibytes
//! a second, which flushes and merges always keep up with. The only stop left is that of memory: a
//! flush that does not end, because the disk is full or hangs.
//!
//! Never: reads a clock. The caller pauses.

use std::time::Duration;

/// Sealed tables at which writers stop: the memory split counts on it.
pub const SEALED_TABLES_MAX: usize = 2;
/// Multiple of its due size at which writers stop for the active table.
pub const ACTIVE_TABLES_MAX: u64 = 2;
/// Unmerged runs on disk from which on writers are slowed, and at which they are slowed the most.
/// Eight are merged at a time, and about as many more are flushed meanwhile.
pub const UNMERGED_RUNS_SLOW: (usize, usize) = (16, 48);
/// Such numbers of all runs on disk, each of which makes reads slower.
pub const RUNS_SLOW: (usize, usize) = (48, 112);
/// Pause for each mebibyte, at the most.
pub const PAUSE_PER_MIB_MAX: Duration = Duration::from_millis(500);
/// Maximum pause after one batch. Smaller batches keep the pauses shorter than this.
pub const PAUSE_MAX: Duration = Duration::from_millis(100);

const MIB: u64 = 1024 * 1024;
const PERMILLE: u64 = 1_000;

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Bytes in the active table.
    pub active_bytes: u64,
    /// Size at which the active table should be sealed, in bytes.
    pub active_bytes_max: u64,
    /// True if range reads have walked over half as many dead rows in memory as the active table
    /// has rows, and those are not few. The live rows should be flushed.
    pub has_many_dead_rows: bool,
    /// Tables that wait for `flush`.
    pub sealed_tables: usize,
    /// Runs on disk that no merge has written yet.
    pub unmerged_runs: usize,
    /// Runs on disk.
    pub runs: usize,
    /// True if a merge is due for whose output the disk has no space.
    pub lacks_merge_space: bool,
}

impl Pressure {
    /// Returns true if the active table should be sealed: it is large enough, or range reads walk
    /// over many dead rows in it.
    pub fn is_rotation_due(&self) -> bool {
        self.active_bytes >= self.active_bytes_max || self.has_many_dead_rows
    }

    /// Returns true if writers must wait for a flush before the next batch. The active table counts
    /// too: it can't be sealed while too many sealed ones wait, and would grow without a bound.
    pub fn must_wait(&self) -> bool {
        self.sealed_tables >= SEALED_TABLES_MAX
            || self.active_bytes / ACTIVE_TABLES_MAX >= self.active_bytes_max.max(1)
    }

    /// Returns by how much writers are slowed: 0 (not at all) to 1,000 (the most).
    pub fn slowdown_permille(&self) -> u64 {
        let (runs, unmerged) = (self.runs as u64, self.unmerged_runs as u64);
        let (runs_slow, unmerged_slow) = (wide(RUNS_SLOW), wide(UNMERGED_RUNS_SLOW));
        // The active table grows beyond its due size only while a flush lags.
        let due = self.active_bytes_max.max(1);
        let memory_slow = (due + due / 4, due.saturating_mul(ACTIVE_TABLES_MAX));
        let parts = [
            part(runs, runs_slow),
            part(unmerged, unmerged_slow),
            part(self.active_bytes, memory_slow),
        ];
        parts.into_iter().max().unwrap_or(0)
    }

    /// Returns the pause after a batch of this many bytes.
    pub fn pause(&self, bytes: u64) -> Duration {
        let slowdown = self.slowdown_permille();
        let most_ns = PAUSE_PER_MIB_MAX.as_nanos() as u64;
        let per_mib_ns = most_ns / PERMILLE * slowdown;
        let pause_ns = u128::from(per_mib_ns) * u128::from(bytes) / u128::from(MIB);
        PAUSE_MAX.min(Duration::from_nanos(u64::try_from(pause_ns).unwrap_or(u64::MAX)))
    }

    /// Returns the bytes between two pauses, at most `bytes_max`: so many that the pause behind
    /// them is not longer than `PAUSE_MAX`.
    pub fn bytes_per_pause(&self, bytes_max: usize) -> usize {
        let most = PAUSE_MAX.as_nanos() as u64 * MIB * PERMILLE;
        let per_byte = PAUSE_PER_MIB_MAX.as_nanos() as u64 * self.slowdown_permille();
        let paid = most.checked_div(per_byte).and_then(|bytes| usize::try_from(bytes).ok());
        paid.map_or(bytes_max, |paid| paid.min(bytes_max))
    }
}

fn wide((from, to): (usize, usize)) -> (u64, u64) {
    (from as u64, to as u64)
}

/// Returns how far a number is between two others, in permille.
fn part(number: u64, (from, to): (u64, u64)) -> u64 {
    let (above, span) = (number.saturating_sub(from), to.saturating_sub(from).max(1));
    (u128::from(above) * u128::from(PERMILLE) / u128::from(span)).min(PERMILLE.into()) as u64
}

#[cfg(test)]
mod tests;
