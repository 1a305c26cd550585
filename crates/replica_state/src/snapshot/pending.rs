//! Snapshot that a group's replica needs: its source and, once it is fetched, the staged state
//! until its installation has ended.

use super::StagedSnapshot;
use base::{LogIndex, NodeId};
use runtime::log_writer::AppendCompletion;
use store::{Position, RecordKind};

/// See the head of this file. A fetched one is installed only behind a synced record: the log must
/// be on disk up to there first (`catch_up.rs`).
#[derive(Default)]
pub struct PendingSnapshot {
    /// Node from which a snapshot is to be fetched.
    pub fetch_source: Option<NodeId>,
    /// Snapshot that was fetched.
    staged: Option<StagedSnapshot>,
    /// Start of the record behind which it is installed, once that record and all before it are on
    /// disk.
    record_start: Option<Position>,
    /// True from the beginning of an installation until the driver has handled its end.
    is_installing: bool,
}

impl PendingSnapshot {
    /// Removes and returns the node to fetch a snapshot from. `None`: no snapshot is needed, or one
    /// is staged or being installed already.
    pub fn take_fetch_source(&mut self) -> Option<NodeId> {
        // Also during an installation: a fetch covers the rows that it finds with tombstones, and
        // would miss those that the installation brings.
        self.fetch_source.take().filter(|_| self.staged.is_none() && !self.is_installing)
    }

    /// Stages a fetched snapshot until the log is on disk.
    pub fn stage(&mut self, staged: StagedSnapshot) {
        (self.staged, self.record_start) = (Some(staged), None);
    }

    /// Notes that a record was written: it may be the one that precedes the staged snapshot.
    pub fn note_written(&mut self, record: &AppendCompletion) {
        let staged: Option<LogIndex> = self.staged.as_ref().map(StagedSnapshot::last_index);
        if record.kind == RecordKind::Decided && Some(record.index) == staged {
            self.record_start = Some(record.start);
        }
    }

    /// Removes and returns the snapshot if it may be installed: its installation begins.
    pub fn begin_install(&mut self) -> Option<StagedSnapshot> {
        let may_begin = self.record_start.is_some() && !self.is_installing;
        let staged = self.staged.take_if(|_| may_begin)?;
        self.is_installing = true;
        Some(staged)
    }

    /// Returns true while a snapshot is being installed: its installation owns the group's rows.
    pub fn is_installing(&self) -> bool {
        self.is_installing
    }

    /// Notes that the driver handled the end of the installation: the record behind it is logged.
    pub fn end_install(&mut self) {
        (self.is_installing, self.record_start) = (false, None);
    }

    /// Returns the position from which the log is needed for an installation. A start that found
    /// the rows of the snapshot and no record of it would take older entries of the log for those
    /// that the snapshot replaced.
    pub fn log_needed_from(&self) -> Option<Position> {
        self.record_start
    }

    /// Discards the snapshot. Dropping the result removes its files, so the caller must not do it
    /// under the group's lock.
    pub fn discard(&mut self) -> Option<StagedSnapshot> {
        // An installation that has begun goes on, and needs the log as before.
        if !self.is_installing {
            self.record_start = None;
        }
        self.staged.take()
    }
}
