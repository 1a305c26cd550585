//! Bound of the lines that callers can provoke without any right: refusals, and logins.
//!
//! The first events of each source within a window have a line each, up to a number of lines for a
//! source and for all sources together. The others are counted; when the window ends, each source
//! with such events has one line with their number, and all sources without a place share one.

use crate::record::AuditRecord;
use base::address_or_network;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Bounds within one window.
#[derive(Clone, Copy, Debug)]
pub struct FloodBounds {
    /// Length of a window in milliseconds.
    pub window_ms: u64,
    /// Lines of one source, besides that with the number of its other events.
    pub source_lines_max: u64,
    /// Lines of all sources together, besides those with numbers. As many sources are counted.
    pub lines_max: u64,
    /// Operation of the lines with numbers.
    pub operation: &'static str,
}

/// Bounds of refusals: denied requests and wrong logins.
pub const REFUSALS: FloodBounds =
    FloodBounds { window_ms: 60_000, source_lines_max: 16, lines_max: 512, operation: "refusals" };

/// Bounds of right logins. HTTP clients log in with each request.
pub const LOGINS: FloodBounds =
    FloodBounds { window_ms: 600_000, source_lines_max: 1, lines_max: 4_096, operation: "logins" };

/// Source of events: who, and the address or network.
type FloodSource = (String, Option<IpAddr>);

/// Events of one source within the window.
struct SourceCount {
    lines: u64,
    /// First event without a line, for what it has in common with the others.
    first: Option<AuditRecord>,
    /// Number of events without a line.
    others: u64,
}

/// See the head of this file.
pub struct FloodLimiter {
    bounds: FloodBounds,
    began_ms: u64,
    lines: u64,
    sources: BTreeMap<FloodSource, SourceCount>,
    /// Number of events of sources without a place.
    others: u64,
    /// True if an event of this window has no line.
    has_numbers: bool,
}

impl FloodLimiter {
    /// Returns a limiter that has seen nothing.
    pub fn new(bounds: FloodBounds) -> FloodLimiter {
        let sources = BTreeMap::new();
        FloodLimiter { bounds, began_ms: 0, lines: 0, sources, others: 0, has_numbers: false }
    }

    /// Returns true if the event has a line. Otherwise it is counted. The caller has taken what
    /// [`FloodLimiter::end_window`] returned before.
    pub fn admit(&mut self, record: &AuditRecord, now_ms: u64) -> bool {
        if self.sources.is_empty() {
            (self.began_ms, self.lines) = (now_ms, 0);
        }
        let source = (record.who.clone(), record.address.map(address_or_network));
        let has_line = self.lines < self.bounds.lines_max;
        if !has_line && !self.sources.contains_key(&source) {
            self.others += 1;
            self.has_numbers = true;
            return false;
        }
        let empty = SourceCount { lines: 0, first: None, others: 0 };
        let count = self.sources.entry(source).or_insert(empty);
        if has_line && count.lines < self.bounds.source_lines_max {
            count.lines += 1;
            self.lines += 1;
            return true;
        }
        count.first.get_or_insert_with(|| record.clone());
        count.others += 1;
        self.has_numbers = true;
        false
    }

    /// Ends the window if its time is over. Returns the records with numbers.
    pub fn end_window(&mut self, now_ms: u64) -> Vec<AuditRecord> {
        if self.sources.is_empty() || now_ms.saturating_sub(self.began_ms) < self.bounds.window_ms {
            return Vec::new();
        }
        self.has_numbers = false;
        let operation = self.bounds.operation;
        let mut records = Vec::new();
        for (_, SourceCount { first, others, .. }) in std::mem::take(&mut self.sources) {
            let Some(AuditRecord { who, protocol, address, outcome, .. }) = first else { continue };
            let count = others;
            let common = AuditRecord { who, protocol, address, outcome, ..AuditRecord::default() };
            records.push(AuditRecord { operation, count, ..common });
        }
        let others = std::mem::take(&mut self.others);
        if others > 0 {
            let who = "(others)".into();
            records.push(AuditRecord { who, operation, count: others, ..AuditRecord::default() });
        }
        records
    }

    /// Returns the time at which a window ends that has numbers to tell.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.has_numbers.then_some(self.began_ms.saturating_add(self.bounds.window_ms))
    }
}
