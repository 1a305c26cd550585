//! The transaction log: one stream of all records that must survive a crash of this node.
//!
//! Records of all owners (groups and vnodes) go into one stream and become durable by one sync. The
//! stream is cut into segments, files of fixed length whose bytes were all written before, so that
//! a sync has no metadata to write. A segment that no owner needs any longer is recycled.
//! `docs/inside/file-format.md` draws every byte.
//!
//! After a crash the log ends with the last whole record of an unbroken sequence. The cut tail was
//! never acknowledged: every commit states up to where the log was durable before it. So a bad
//! frame below a stated position is damage, not a torn tail, and damage is never cut. An operator
//! can have it skipped if the node needs none of its records.
//!
//! Promises: `start <= durable <= end`; what `commit(true)` returned is found again after any
//! crash, in order, with nothing between left out; what was cut never reappears; damage is reported
//! with file, offset and owners.
//! Never: interprets a record; repeats a sync; allocates by a length that is not verified; has more
//! than one writer.
//! Read next: `writer.rs` (the hot path), `walk.rs` (reading), `recover.rs` (torn tail or damage).

mod active_segment;
mod damage;
mod frame;
mod reader;
mod record;
mod recover;
mod replay;
mod segment;
mod segment_pool;
#[cfg(test)]
mod tests;
mod verify;
mod walk;
mod writer;

pub use reader::{LogReader, LogRecords, ReadError};
pub use record::{OwnedRecord, Owner, OwnerRange, Record, RecordKind};
pub use replay::{Hole, RecoverySummary, Replay};
pub use segment_pool::SpareWorker;
pub use verify::{BadFrame, LogReport, SegmentReport, VerifyProgress, verify};
pub use writer::Log;

/// A byte offset in the endless stream; it goes up across segments and never goes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// Settings of a log.
#[derive(Clone, Copy, Debug)]
pub struct LogSettings {
    /// Length of a full-grown segment's file in bytes, at least [`SEGMENT_BYTES_MIN`].
    pub segment_bytes: u64,
    /// The log's id (the node's): segments of another log are refused.
    pub log_id: u64,
    /// Thread that prepares the next segment.
    pub spare_worker: SpareWorker,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings { segment_bytes: 64 << 20, log_id: 0, spare_worker: SpareWorker::Thread }
    }
}

/// Minimum segment size in the settings.
pub const SEGMENT_BYTES_MIN: u64 = 8 * 1024;
