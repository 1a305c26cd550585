//! Queue of an audit trail: records that wait to be written, bounded.

use crate::flood::{FloodLimiter, LOGINS, REFUSALS};
use crate::record::{AuditEntry, AuditOutcome, AuditRecord};
use base::Reason;
use runtime::world;

/// Maximum number of entries that wait to be written. One more is lost, and counted.
pub const ENTRIES_MAX: usize = 8_192;
/// Maximum for what anybody can provoke, and for operations on keys: they leave the rest to acts.
pub const COMMON_ENTRIES_MAX: usize = ENTRIES_MAX / 2;

/// State that those who record share with the thread.
pub struct TrailState {
    pub queue: Vec<AuditEntry>,
    /// Number of entries that were ever queued. The line that opens the log is the first one: a
    /// sync waits for it, too.
    pub queued: u64,
    /// Number of records without a place since the last line that says so.
    pub lost: u64,
    pub refusals: FloodLimiter,
    pub logins: FloodLimiter,
    /// True if somebody waits for a sync.
    pub is_urgent: bool,
    pub is_closed: bool,
}

/// Entries that the thread takes in one turn.
pub struct TrailTurn {
    /// Entries, and the number of the last one. `None`: there is a failed turn to repeat first.
    pub taken: Option<(Vec<AuditEntry>, u64)>,
    pub is_urgent: bool,
    pub is_closed: bool,
}

impl Default for TrailState {
    fn default() -> TrailState {
        TrailState {
            queue: Vec::new(),
            queued: 1,
            lost: 0,
            refusals: FloodLimiter::new(REFUSALS),
            logins: FloodLimiter::new(LOGINS),
            is_urgent: false,
            is_closed: false,
        }
    }
}

impl TrailState {
    /// Queues a record, if fewer than `places` wait. Returns false, and counts it, otherwise.
    pub fn queue(&mut self, record: AuditRecord, at_ms: u64, places: usize) -> bool {
        let has_place = self.queue.len() < places && !self.is_closed;
        match has_place {
            true => {
                self.queue.push(AuditEntry { at_ms, record });
                self.queued += 1;
            }
            false => self.lost += 1,
        }
        has_place
    }

    /// Returns true if nothing waits to be written.
    pub fn is_drained(&self) -> bool {
        self.queue.is_empty() && self.lost == 0
    }

    /// Queues the numbers of the windows that are over.
    pub fn end_windows(&mut self, now_ms: u64, at_ms: u64) {
        let records = [self.refusals.end_window(now_ms), self.logins.end_window(now_ms)];
        for record in records.into_iter().flatten() {
            self.queue(record, at_ms, ENTRIES_MAX);
        }
    }

    /// Queues the number of the records that found no place, once there is place again.
    pub fn report_lost(&mut self) {
        if self.lost == 0 || self.queue.len() >= COMMON_ENTRIES_MAX {
            return;
        }
        let (count, outcome) = (self.lost, AuditOutcome::Failed(Reason::Overloaded));
        let (who, operation) = ("(node)".into(), "lost_records");
        let record = AuditRecord { who, operation, outcome, count, ..AuditRecord::default() };
        self.queue.push(AuditEntry { at_ms: world::unix_ms(), record });
        self.queued += 1;
        self.lost = 0;
    }

    /// Takes what waits, unless a failed turn comes first.
    pub fn take(&mut self, is_free: bool) -> TrailTurn {
        let taken = is_free.then(|| (std::mem::take(&mut self.queue), self.queued));
        let is_urgent = self.is_urgent;
        if is_free {
            self.is_urgent = false;
        }
        TrailTurn { taken, is_urgent, is_closed: self.is_closed }
    }
}
