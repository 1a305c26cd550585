//! Counters of a connection's requests.

use super::commands::ArakoonCommand;
use super::serve::{ArakoonConnection, Note};
use crate::counters::{ClientProtocol, Verdict};
use std::sync::PoisonError;
use tokio::time::Instant;

impl ArakoonConnection {
    pub(super) fn note(&mut self, command: &ArakoonCommand, verdict: Verdict, size: u64) {
        let (operation, class) = (command.operation, command.class);
        self.notes.push(Note { operation, class, verdict, size });
    }

    /// Adds the counts of this batch to the totals of the node and of the cluster.
    pub(super) fn count(&mut self, began: Instant) {
        if self.notes.is_empty() {
            return;
        }
        let took = began.elapsed();
        let now = self.shared.clock.since_1970().as_secs_f64();
        self.activity.touch(self.shared.clock.unix_ms());
        let (requests, last, took_us) = (self.notes.len(), self.last, took.as_micros() as u64);
        tracing::debug!(target: "arakoon", requests, last, took_us, "answered");
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        for note in self.notes.drain(..) {
            self.shared.counters.observe(
                ClientProtocol::Arakoon,
                note.operation,
                note.verdict,
                took,
            );
            statistics.add(now, note.class, took.as_secs_f64(), note.size);
        }
    }
}
