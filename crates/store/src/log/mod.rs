//! The transaction log: one stream of records for everything this node must not forget.
//!
//! Records of all owners (groups and vnodes) go into one stream and become durable by one sync. The
//! stream is cut into segments, files of fixed length whose bytes were all written before, so that
//! a sync has no metadata to write; when no owner needs a segment any more, its file is used again.
//! `docs/inside/file-format.md` draws every byte.
//!
//! After a crash the log ends with the last whole record of an unbroken sequence. What was cut was
//! never acknowledged: every commit states what was durable before it. So a bad frame below a
//! stated position is damage, not a torn tail, and damage is never cut. An operator who knows that
//! nothing is needed of it can have it skipped.
//!
//! Promises: `start <= durable <= end`; what `commit(true)` returned is found again after any
//! crash, in order, with nothing between left out; what was cut never comes back; damage is named
//! with file, offset and owners.
//! Never: understands a record; tries a sync again; allocates from a claimed length; has more than
//! one owner.
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
pub use replay::{Hole, Recovered, Replay};
pub use segment_pool::Ahead;
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
    pub id: u64,
    /// Thread that prepares the next segment.
    pub ahead: Ahead,
}

impl Default for LogSettings {
    fn default() -> LogSettings {
        LogSettings { segment_bytes: 64 << 20, id: 0, ahead: Ahead::Thread }
    }
}

/// Smallest segment that settings may ask for.
pub const SEGMENT_BYTES_MIN: u64 = 8 * 1024;
