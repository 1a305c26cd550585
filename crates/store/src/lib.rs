//! Keep: the transaction log and the ordered trees behind it.
//!
//! Promises: what `Log::commit` with a sync returned is found again after any crash; damage is
//! named, never cut silently.
//! Never: knows a node's peers or a bucket's consistency; opens a socket; is async.
//! Read next: `log/mod.rs`, then `trees/mod.rs`.

pub mod check;
mod datadir;
pub mod disk;
pub mod error;
pub mod failpoint;
pub mod log;
pub mod mutants;
pub mod panics;
pub mod trees;

pub use check::{Damage, TreeReport, check_trees};
pub use datadir::{
    DataDir, Joiner, Opening, Rejoin, StagingFolder, StoredCheckpoint, checkpoints,
    remove_checkpoint,
};
pub use disk::{Disk, DiskCall, FileDisk, Honesty, MemoryDisk};
pub use error::StoreError;
pub use log::{
    Hole, Log, LogReader, LogRecords, LogReport, LogSettings, OwnedRecord, Owner, Position,
    ReadError, Record, RecordKind, RecoverySummary, Replay, SpareWorker,
};
pub use trees::{
    Chunk, Ingest, LsmTrees, MemoryTrees, PAUSE_MAX, PAUSE_PER_MIB_MAX, Pressure, RowChange,
    Snapshot, TreeRow, TreeSettings, Trees,
};
