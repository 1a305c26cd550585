//! Counters of a connection's requests.

use super::commands::ArakoonCommand;
use super::serve::{ArakoonConnection, RequestOutcome};
use crate::counters::{ClientProtocol, Verdict};
use crate::slow::{self, NamedRequest};
use std::sync::PoisonError;
use tokio::time::Instant;

impl ArakoonConnection {
    pub(super) fn record(&mut self, command: &ArakoonCommand, verdict: Verdict, size: u64) {
        let (operation, class) = (command.operation, command.class);
        self.outcomes.push(RequestOutcome { operation, class, verdict, size });
    }

    /// Adds the counts of this batch to the totals of the node and of the cluster.
    pub(super) fn record_batch(&mut self, started: Instant) {
        if self.outcomes.is_empty() {
            return;
        }
        let elapsed = started.elapsed();
        let now = self.shared.clock.unix_time().as_secs_f64();
        self.activity.record_request(self.shared.clock.unix_ms());
        let (requests, last, took_us) =
            (self.outcomes.len(), self.last_command, elapsed.as_micros() as u64);
        tracing::debug!(target: "arakoon", requests, last, took_us, "answered");
        let request = NamedRequest { command: last, key: self.slow_key.take() };
        let target = (Some(&self.bucket), request);
        let protocol = (ClientProtocol::Arakoon, None);
        slow::report(&self.shared, protocol, target, (requests as u64, elapsed), &self.stages);
        let mut statistics = self.statistics.lock().unwrap_or_else(PoisonError::into_inner);
        for outcome in self.outcomes.drain(..) {
            self.shared.counters.observe(
                ClientProtocol::Arakoon,
                outcome.operation,
                outcome.verdict,
                elapsed,
            );
            statistics.add(now, outcome.class, elapsed.as_secs_f64(), outcome.size);
        }
    }
}
