//! Output of an audit trail's thread: the writer, opened again after each failure.

use crate::record::AuditEntry;
use crate::trail_queue::TrailTurn;
use crate::writer::{AuditLimits, AuditWriter};
use std::io;
use std::path::Path;

/// Time within which lines are synced, in milliseconds.
const SYNC_MS: u64 = 1_000;
/// Pause after a failure before the log is opened again, in milliseconds.
const RETRY_MS: u64 = 1_000;

/// Output of the thread.
pub struct TrailOutput<'a> {
    pub folder: &'a Path,
    pub limits: AuditLimits,
    pub writer: Option<AuditWriter>,
    /// Entries that are not written.
    pub pending: Vec<AuditEntry>,
    /// Number of the last entry that was taken.
    pub taken: u64,
    /// Last line before the pending entries were tried.
    pub seq_before: Option<u64>,
    /// Time at which the oldest line without a sync was written.
    pub unsynced_ms: Option<u64>,
    /// Time of the next attempt after a failure.
    pub retry_ms: Option<u64>,
}

impl<'a> TrailOutput<'a> {
    pub fn new(folder: &'a Path, limits: AuditLimits) -> TrailOutput<'a> {
        TrailOutput {
            folder,
            limits,
            writer: None,
            pending: Vec::new(),
            taken: 0,
            seq_before: None,
            unsynced_ms: None,
            retry_ms: None,
        }
    }

    pub fn sync_due(&self, now_ms: u64) -> bool {
        self.unsynced_ms.is_some_and(|since_ms| now_ms.saturating_sub(since_ms) >= SYNC_MS)
    }

    /// Returns the time at which something is to be done although nothing comes.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.retry_ms.or(self.unsynced_ms.map(|since_ms| since_ms + SYNC_MS))
    }

    /// Writes what was taken, and syncs it if that is due.
    pub fn turn(&mut self, turn: TrailTurn, now_ms: u64, at_ms: u64) -> io::Result<()> {
        if let Some((entries, taken)) = turn.taken {
            (self.pending, self.taken) = (entries, taken);
        }
        let is_sync_due = turn.is_urgent || turn.is_closed || self.sync_due(now_ms);
        let result = self.write(now_ms, at_ms).and_then(|()| match &mut self.writer {
            Some(writer) if is_sync_due && self.unsynced_ms.is_some() => {
                writer.sync()?;
                self.unsynced_ms = None;
                Ok(())
            }
            _ => Ok(()),
        });
        self.retry_ms = result.is_err().then_some(now_ms + RETRY_MS);
        if result.is_err() {
            self.writer = None;
        }
        result
    }

    fn write(&mut self, now_ms: u64, at_ms: u64) -> io::Result<()> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let writer = AuditWriter::open(self.folder, self.limits, at_ms)?;
                // Entries that the failed attempt wrote whole are not written again.
                let before = self.seq_before.take().unwrap_or(writer.recovered_seq());
                let written = writer.recovered_seq().saturating_sub(before);
                let written = usize::try_from(written).unwrap_or(usize::MAX);
                self.pending.drain(..written.min(self.pending.len()));
                // The line that says that the log was opened.
                self.unsynced_ms.get_or_insert(now_ms);
                self.writer.insert(writer)
            }
        };
        if self.pending.is_empty() {
            return Ok(());
        }
        self.seq_before = Some(writer.seq());
        self.unsynced_ms.get_or_insert(now_ms);
        writer.append(&self.pending)?;
        self.pending.clear();
        self.seq_before = None;
        Ok(())
    }
}
