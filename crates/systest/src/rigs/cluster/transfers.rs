//! Monitor of ring transfers that uses `credenza cluster ring transfers`, as an operator does.

use super::Cluster;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Interval between two queries.
const LOOK: Duration = Duration::from_millis(100);

/// Transfer of a node's part of the ring to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartTransfer {
    /// Bytes of rows that it fetched.
    pub bytes: u64,
    /// Time until the last partition was transferred.
    pub took: Duration,
    /// Number of queries that showed the transfer in progress with the amount left and the time
    /// left.
    pub foreseen: usize,
    /// Output of each query.
    pub words: Vec<String>,
}

impl Cluster {
    /// Returns a node's answer to `cluster ring transfers`. `None`: the command failed.
    pub fn transfers(&self, asked: usize) -> Option<Value> {
        let output = self.tool(asked, &["cluster", "ring", "transfers", "--json"]);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok())?
    }

    /// Queries until a node has the part that it was to get and no transfer is in progress; rows
    /// that others have still to delete are not waited for. `each` is called at every query with
    /// the time since the start.
    pub fn watch_transfers(
        &mut self,
        (asked, node): (usize, usize),
        within: Duration,
        mut each: impl FnMut(&mut Cluster, Duration, &Value),
    ) -> PartTransfer {
        let begun = Instant::now();
        let (mut going, mut of_this_life, mut of_others) = (PartTransfer::default(), 0, 0);
        loop {
            assert!(
                begun.elapsed() < within,
                "the ring does not get on: {:?}",
                self.transfers(asked)
            );
            std::thread::sleep(LOOK);
            let Some(told) = self.transfers(asked) else { continue };
            let status = self.status(node);
            let id = status.and_then(|status| Some(status["node"].as_str()?.to_string()));
            each(self, begun.elapsed(), &told);
            let mut nodes = told["nodes"].as_array().into_iter().flatten();
            let Some(about) = nodes.find(|about| about["node"].as_str() == id.as_deref()) else {
                continue;
            };
            // A node that was killed counts from zero again.
            let bytes = about["bytes"].as_u64().unwrap_or(0);
            if bytes < of_this_life {
                of_others += of_this_life;
            }
            of_this_life = bytes;
            going.bytes = of_others + of_this_life;
            let left = about["bytes_left"].as_u64().filter(|left| *left > 0);
            if let (Some(left), Some(eta)) = (left, about["eta_ms"].as_u64()) {
                going.foreseen += 1;
                going.words.push(format!("{left}B in {eta}ms"));
            }
            let has_part = self.metric(node, "credenza_ring_partitions") > 0.0;
            if told["remaining"] == 0 && about["receiving"] == 0 && has_part {
                going.took = begun.elapsed();
                return going;
            }
        }
    }
}
