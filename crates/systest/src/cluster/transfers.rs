//! Monitor of ring transfers that uses `credenza cluster ring transfers`, as an operator does.

use super::Cluster;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Interval between two queries.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Transfer of a node's part of the ring to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartTransfer {
    /// Bytes of rows that it fetched.
    pub bytes: u64,
    /// Time until the last partition was transferred.
    pub duration: Duration,
    /// Number of queries that showed the transfer in progress with the amount left and the time
    /// left.
    pub estimates: usize,
    /// Output of each query.
    pub estimate_texts: Vec<String>,
}

impl Cluster {
    /// Returns a node's answer to `cluster ring transfers`. `None`: the command failed.
    pub fn transfers(&self, queried: usize) -> Option<Value> {
        let output = self.tool(queried, &["cluster", "ring", "transfers", "--json"]);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok())?
    }

    /// Queries until a node has its partitions and no transfer is in progress; rows that former
    /// owners have still to delete are not awaited. `on_report` is called at every query with the
    /// time since the start.
    pub fn watch_transfers(
        &mut self,
        (queried, node): (usize, usize),
        timeout: Duration,
        mut on_report: impl FnMut(&mut Cluster, Duration, &Value),
    ) -> PartTransfer {
        let started = Instant::now();
        let (mut transfer, mut incarnation_bytes, mut earlier_bytes) =
            (PartTransfer::default(), 0, 0);
        loop {
            assert!(
                started.elapsed() < timeout,
                "the ring does not get on: {:?}",
                self.transfers(queried)
            );
            std::thread::sleep(POLL_INTERVAL);
            let Some(report) = self.transfers(queried) else { continue };
            let status = self.status(node);
            let id = status.and_then(|status| Some(status["node"].as_str()?.to_string()));
            on_report(self, started.elapsed(), &report);
            let mut nodes = report["nodes"].as_array().into_iter().flatten();
            let Some(entry) = nodes.find(|entry| entry["node"].as_str() == id.as_deref()) else {
                continue;
            };
            // The counter restarts from zero when the node was killed.
            let bytes = entry["bytes"].as_u64().unwrap_or(0);
            if bytes < incarnation_bytes {
                earlier_bytes += incarnation_bytes;
            }
            incarnation_bytes = bytes;
            transfer.bytes = earlier_bytes + incarnation_bytes;
            let left = entry["bytes_left"].as_u64().filter(|left| *left > 0);
            if let (Some(left), Some(eta)) = (left, entry["eta_ms"].as_u64()) {
                transfer.estimates += 1;
                transfer.estimate_texts.push(format!("{left}B in {eta}ms"));
            }
            let has_part = self.metric(node, "credenza_ring_partitions") > 0.0;
            if report["remaining"] == 0 && entry["receiving"] == 0 && has_part {
                transfer.duration = started.elapsed();
                return transfer;
            }
        }
    }
}
