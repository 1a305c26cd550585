//! Snapshot that a group's replica needs: its source and, once it is fetched, the staged state
//! until it is installed.

use super::StagedSnapshot;
use base::{LogIndex, NodeId};
use runtime::log_writer::AppendCompletion;
use store::RecordKind;

/// See the head of this file. A fetched one is installed only behind a synced record: the log must
/// be on disk up to there first (`catch_up.rs`).
#[derive(Default)]
pub struct PendingSnapshot {
    /// Node from which a snapshot is to be fetched.
    pub fetch_source: Option<NodeId>,
    /// Snapshot that was fetched.
    staged: Option<StagedSnapshot>,
    /// True if all records logged before it was staged are on disk.
    synced: bool,
}

impl PendingSnapshot {
    /// Removes and returns the node to fetch a snapshot from. `None`: no snapshot is needed, or one
    /// is staged already.
    pub fn take_fetch_source(&mut self) -> Option<NodeId> {
        self.fetch_source.take().filter(|_| self.staged.is_none())
    }

    /// Stages a fetched snapshot until the log is on disk.
    pub fn stage(&mut self, staged: StagedSnapshot) {
        (self.staged, self.synced) = (Some(staged), false);
    }

    /// Notes that a record was written: it may be the one that precedes the staged snapshot.
    pub fn note_written(&mut self, record: &AppendCompletion) {
        let staged: Option<LogIndex> = self.staged.as_ref().map(StagedSnapshot::last_index);
        if record.kind == RecordKind::Decided && Some(record.index) == staged {
            self.synced = true;
        }
    }

    /// Removes and returns the snapshot if it may be installed.
    pub fn take_synced(&mut self) -> Option<StagedSnapshot> {
        let synced = self.synced;
        self.staged.take_if(|_| synced)
    }

    /// Discards the snapshot. Dropping the result removes its files, so the caller must not do it
    /// under the group's lock.
    pub fn discard(&mut self) -> Option<StagedSnapshot> {
        self.synced = false;
        self.staged.take()
    }
}
