//! Counters of a connection's requests, and its entry in the list of connections.

use super::serve::RespConnection;
use crate::counters::{ClientProtocol, OperationKind, Verdict};
use crate::slow::{self, NamedRequest};
use tokio::time::Instant;

impl RespConnection {
    #[inline]
    pub(super) fn record_outcome(&mut self, operation: OperationKind, verdict: Verdict) {
        self.record_outcomes(operation, verdict, 1);
    }

    #[inline]
    pub(super) fn record_outcomes(
        &mut self,
        operation: OperationKind,
        verdict: Verdict,
        count: u64,
    ) {
        match self.verdicts.last_mut() {
            Some(last) if (last.0, last.1) == (operation, verdict) => last.2 += count,
            _ => self.verdicts.push((operation, verdict, count)),
        }
    }

    /// Adds the counts of this connection to the common totals.
    pub(super) fn flush_counts(&mut self) {
        self.registry.counts.add(&std::mem::take(&mut self.client.counts));
    }

    /// Adds the counts and latencies of this batch to the common totals.
    pub(super) fn record_batch(&mut self, began: Instant, requests: usize) {
        if requests == 0 {
            return;
        }
        let elapsed = began.elapsed().saturating_sub(std::mem::take(&mut self.waited));
        let (client, took_us) = (self.client.info.id, elapsed.as_micros() as u64);
        let last = self.client.last_command;
        tracing::debug!(target: "resp", client, requests, last, took_us, "answered");
        for (operation, verdict, count) in self.verdicts.drain(..) {
            self.shared.counters.observe_many(
                ClientProtocol::Resp,
                operation,
                verdict,
                elapsed,
                count,
            );
        }
        let first = self.first_request.take();
        let request = first.unwrap_or(NamedRequest { command: last, key: None });
        let client = (ClientProtocol::Resp, Some(self.client.info.address));
        let target = (Some(&self.client.bucket), request);
        slow::report(&self.shared, client, target, (requests as u64, elapsed), &self.stages);
        self.flush_counts();
        self.client.info.activity.record_request(self.registry.clock.unix_ms());
    }

    /// Shows the last command in `CLIENT LIST`, before its answer is sent.
    pub(super) fn publish_command(&mut self) {
        if self.client.listed_command != self.client.last_command {
            self.client.listed_command = self.client.last_command;
            self.client.info.names().command = self.client.last_command;
        }
    }
}
