//! Snapshot that a group's replica needs: its source, and, once it is fetched, the staged state
//! until it is installed.

use super::StagedSnapshot;
use base::{LogIndex, NodeId};
use runtime::log_writer::LoggedRecord;
use store::RecordKind;

/// See the head of this file. One that is fetched is installed only behind a synced record: the log
/// must be on disk up to there first (`catch_up.rs`).
#[derive(Default)]
pub struct PendingSnapshot {
    /// Node that has a snapshot which this one needs.
    pub wanted: Option<NodeId>,
    /// The snapshot that was fetched.
    staged: Option<StagedSnapshot>,
    /// True if everything logged before it came is on disk.
    synced: bool,
}

impl PendingSnapshot {
    /// Takes the wish for one, unless one is here already.
    pub(crate) fn take_wanted(&mut self) -> Option<NodeId> {
        self.wanted.take().filter(|_| self.staged.is_none())
    }

    /// Keeps one that was fetched, until the log is on disk.
    pub fn stage(&mut self, staged: StagedSnapshot) {
        (self.staged, self.synced) = (Some(staged), false);
    }

    /// Notes that a record was written: it may be the one that was waited for.
    pub(crate) fn note_written(&mut self, done: &LoggedRecord) {
        let staged: Option<LogIndex> = self.staged.as_ref().map(StagedSnapshot::upto);
        if done.kind == RecordKind::Decided && Some(done.index) == staged {
            self.synced = true;
        }
    }

    /// Takes the snapshot if it may be installed.
    pub(crate) fn take_synced(&mut self) -> Option<StagedSnapshot> {
        let synced = self.synced;
        self.staged.take_if(|_| synced)
    }

    /// Discards it. Dropping the result removes its files, so that must not happen under the
    /// group's lock.
    pub(crate) fn discard(&mut self) -> Option<StagedSnapshot> {
        self.synced = false;
        self.staged.take()
    }
}
