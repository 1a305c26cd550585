//! Settings of the trees: their folder, and how their memory is split.

use std::path::PathBuf;

const MIB: u64 = 1024 * 1024;

/// Size at which the active table is sealed, when memory is plenty: larger ones make merging
/// cheaper, and flushing slower.
const TABLE_BYTES_MAX: u64 = 64 * MIB;

/// Tables made by merging are never smaller.
const MERGED_TABLE_BYTES_MIN: u64 = 4 * MIB;

/// The crate's list counts the runs of a level in one byte; far below that, flush merges first.
const RUNS_AT_MOST: u64 = 128;

/// With less memory fewer, down to this.
const RUNS_AT_MOST_MIN: u64 = 12;

/// Settings of the trees.
#[derive(Clone, Debug)]
pub struct TreeSettings {
    /// The directory; made when absent.
    pub path: PathBuf,
    /// Memory for active and sealed tables, block cache and row cache together, in bytes. Grows
    /// with use.
    pub memory_bytes_max: u64,
    /// Most table files kept open.
    pub open_files_max: usize,
}

impl TreeSettings {
    /// The defaults for a directory: 640 MiB of memory, 512 open files.
    pub fn new(path: impl Into<PathBuf>) -> TreeSettings {
        TreeSettings { path: path.into(), memory_bytes_max: 640 * MIB, open_files_max: 512 }
    }

    /// Size at which the active table is sealed, in bytes. With the sealed ones
    /// (`SEALED_TABLES_MAX`) at most three eighths of the memory.
    pub fn table_bytes_max(&self) -> u64 {
        (self.memory_bytes_max / 8).clamp(MIB, TABLE_BYTES_MAX)
    }

    /// Size of a table made by merging. While it is written, the last key of each of its blocks is
    /// kept, and with the key the block it was read from: all of it, where rows are large.
    pub(super) fn merged_table_bytes(&self) -> u64 {
        (self.memory_bytes_max / 8).clamp(MERGED_TABLE_BYTES_MIN, TABLE_BYTES_MAX)
    }

    /// More flushed tables that lie over each other are merged before the next is flushed. A merge
    /// holds a block of each, and a block is as large as the row in it.
    pub(super) fn runs_at_most(&self) -> usize {
        let runs = (self.memory_bytes_max / (4 * MIB)).clamp(RUNS_AT_MOST_MIN, RUNS_AT_MOST);
        usize::try_from(runs).unwrap_or(usize::MAX)
    }

    /// Half of it for rows that are read again and again, and as long as these are few for tables
    /// that were flushed.
    pub fn row_cache_bytes_max(&self) -> u64 {
        self.memory_bytes_max / 2
    }

    /// An eighth for blocks of table files; the system's page cache stands behind it.
    pub fn block_cache_bytes_max(&self) -> u64 {
        self.memory_bytes_max / 8
    }
}
