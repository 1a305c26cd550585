//! Snitch: chooses the owner that coordinates a write for a node that keeps no copy of the key.
//!
//! A node with a slow disk answers reads and probes at normal speed, so the failure detector does
//! not suspect it; and as one of several replicas it delays no write. But a write that it
//! coordinates waits twice. So the first reachable owner coordinates, unless it takes far longer
//! than another to make a row durable: then that other one does.
//!
//! Promises: only answers to writes count; a node that is passed over is still measured, because it
//! still receives its copies, and is chosen again once it is as fast as the others.
//! Never: reports a node as down.

use base::NodeId;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Number of answers before a node is compared with others.
const SAMPLES_MIN: u32 = 8;
/// Factor by which a node must be slower than the fastest to be passed over,
const SLOW_TIMES: u64 = 3;
/// and minimum response time for that, in microseconds.
const SLOW_MIN_MICROS: u64 = 15_000;

/// Moving average of a node's response times: each answer counts an eighth.
#[derive(Clone, Copy, Debug, Default)]
struct ResponseTime {
    micros: u64,
    samples: u32,
}

/// Response times of other nodes: the time until a row is durable.
#[derive(Debug, Default)]
pub struct Snitch {
    response_times: Mutex<BTreeMap<NodeId, ResponseTime>>,
}

impl Snitch {
    /// Records the time after which a row was durable at a node, in milliseconds.
    pub(super) fn record(&self, node: NodeId, after_ms: u64) {
        let micros = after_ms.min(3_600_000) * 1_000;
        let mut times = self.response_times.lock().expect("no one panics while holding it");
        let entry = times.entry(node).or_default();
        entry.micros = if entry.samples == 0 { micros } else { entry.micros / 8 * 7 + micros / 8 };
        entry.samples = entry.samples.saturating_add(1);
    }

    /// Chooses the coordinator of these nodes: the first, unless it is far slower than another.
    pub(super) fn choose(&self, nodes: impl Iterator<Item = NodeId>) -> Option<NodeId> {
        let times = self.response_times.lock().expect("no one panics while holding it");
        let sampled = |node: &NodeId| times.get(node).filter(|time| time.samples >= SAMPLES_MIN);
        let nodes: Vec<NodeId> = nodes.collect();
        let measured = nodes.iter().filter_map(|node| Some((sampled(node)?.micros, *node)));
        let Some((least_micros, quickest)) = measured.min() else { return nodes.first().copied() };
        let slow = |node: &&NodeId| {
            let bound = SLOW_MIN_MICROS.max(least_micros.saturating_mul(SLOW_TIMES));
            sampled(node).is_some_and(|time| time.micros > bound)
        };
        nodes.iter().find(|node| !slow(node)).copied().or(Some(quickest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snitch_avoids_a_much_slower_node_until_it_recovers() {
        let snitch = Snitch::default();
        let nodes = || [1, 2, 3].map(NodeId).into_iter();
        assert_eq!(snitch.choose(nodes()), Some(NodeId(1)), "nobody is known");
        for _ in 0..8 {
            snitch.record(NodeId(1), 90);
            snitch.record(NodeId(2), 20);
        }
        assert_eq!(snitch.choose(nodes()), Some(NodeId(2)));
        assert_eq!(snitch.choose([NodeId(1)].into_iter()), Some(NodeId(1)), "nobody else is there");
        assert_eq!(snitch.choose([].into_iter()), None);
        for _ in 0..40 {
            snitch.record(NodeId(1), 10);
        }
        assert_eq!(snitch.choose(nodes()), Some(NodeId(1)));
        for _ in 0..40 {
            snitch.record(NodeId(1), 14);
            snitch.record(NodeId(2), 1);
        }
        assert_eq!(snitch.choose(nodes()), Some(NodeId(1)), "a few milliseconds are no reason");
    }
}
