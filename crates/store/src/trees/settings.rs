//! Settings of the trees: their folder, and the partition of their memory.

use std::path::PathBuf;

use super::merge_policy::MergePolicy;
use super::pressure::ACTIVE_TABLES_MAX;

const MIB: u64 = 1024 * 1024;

/// Maximum size at which the active table is sealed: larger tables make merging cheaper, and
/// flushing slower.
const TABLE_BYTES_MAX: u64 = 64 * MIB;

/// Minimum target size of a merged table.
const MERGED_TABLE_BYTES_MIN: u64 = 4 * MIB;

/// Maximum number of runs before a flush. The threads that merge keep far below it; a caller that
/// flushes and never merges gets here.
const RUNS_LIMIT_MAX: u64 = 128;

/// Minimum of that number, for little memory: five tiers have up to 35 runs, and small tables make
/// more tiers.
const RUNS_LIMIT_MIN: u64 = 48;

/// Minimum number of runs of one merge, for little memory.
const MERGE_RUNS_MIN: u64 = 12;

/// Settings of the trees.
#[derive(Clone, Debug)]
pub struct TreeSettings {
    /// The directory; made when absent.
    pub path: PathBuf,
    /// Memory for active and sealed tables, block cache and row cache together, in bytes. Grows
    /// with use.
    pub memory_bytes_max: u64,
    /// Maximum number of open table files.
    pub open_files_max: usize,
}

impl TreeSettings {
    /// Returns the defaults for a directory: 640 MiB of memory, 512 open files.
    pub fn new(path: impl Into<PathBuf>) -> TreeSettings {
        TreeSettings { path: path.into(), memory_bytes_max: 640 * MIB, open_files_max: 512 }
    }

    /// Size at which the active table is sealed, in bytes. With the sealed ones
    /// (`SEALED_TABLES_MAX`) at most three eighths of the memory.
    pub fn table_bytes_max(&self) -> u64 {
        (self.memory_bytes_max / 8).clamp(MIB, TABLE_BYTES_MAX)
    }

    /// Size of a table in uncompressed bytes. While it is written, the library keeps the last key
    /// of each block, and with the key the block that it was read from: for large rows that is the
    /// whole table.
    pub(super) fn merged_table_bytes(&self) -> u64 {
        (self.memory_bytes_max / 8).clamp(MERGED_TABLE_BYTES_MIN, TABLE_BYTES_MAX)
    }

    /// Returns the sizes by which merges are chosen.
    pub(super) fn merge_policy(&self) -> MergePolicy {
        MergePolicy {
            // The active table grows up to there while a flush lags.
            unmerged_bytes_max: self.table_bytes_max() * ACTIVE_TABLES_MAX,
            table_bytes: self.merged_table_bytes(),
            runs_max: self.runs_for_memory(MERGE_RUNS_MIN),
        }
    }

    /// Number of runs at which a flush merges a few first.
    pub(super) fn runs_limit(&self) -> usize {
        self.runs_for_memory(RUNS_LIMIT_MIN)
    }

    /// Number of runs that the memory allows, at least `min`. A merge holds a block of each run,
    /// and a block is as large as the row in it.
    fn runs_for_memory(&self, min: u64) -> usize {
        let runs = (self.memory_bytes_max / (4 * MIB)).clamp(min, RUNS_LIMIT_MAX);
        usize::try_from(runs).unwrap_or(usize::MAX)
    }

    /// Half of the memory: for cached rows, and as long as these are few for flushed tables.
    pub fn row_cache_bytes_max(&self) -> u64 {
        self.memory_bytes_max / 2
    }

    /// An eighth of the memory, for blocks of table files; the system's page cache backs it.
    pub fn block_cache_bytes_max(&self) -> u64 {
        self.memory_bytes_max / 8
    }
}
