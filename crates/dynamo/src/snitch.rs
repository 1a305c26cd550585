//! Snitch: chooses the owner that coordinates a write for a node that keeps no copy of the key.
//!
//! A node with a slow disk answers reads and probes as ever, so the failure detector does not
//! notice; and as one of several replicas it delays no write. But a write that it coordinates waits
//! twice. So the first reachable owner coordinates, unless it takes far longer than another to make
//! a row durable: then that other one does.
//!
//! Promises: only answers to writes count; a node that is passed over is still measured, because it
//! still receives its copies, and is chosen again when it is as quick as others.
//! Never: reports a node as down.

use base::NodeId;
use std::collections::BTreeMap;
use std::sync::Mutex;

/// Number of answers before a node is compared with others.
const SAMPLES_MIN: u32 = 8;
/// Factor by which a node must be slower than the quickest to be passed over,
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
    took: Mutex<BTreeMap<NodeId, ResponseTime>>,
}

impl Snitch {
    /// Records the time after which a row was durable at a node, in milliseconds.
    pub(super) fn took(&self, node: NodeId, after_ms: u64) {
        let micros = after_ms.min(3_600_000) * 1_000;
        let mut all = self.took.lock().expect("no one panics while holding it");
        let took = all.entry(node).or_default();
        took.micros = if took.samples == 0 { micros } else { took.micros / 8 * 7 + micros / 8 };
        took.samples = took.samples.saturating_add(1);
    }

    /// Chooses the coordinator of these nodes: the first, unless it is far slower than another.
    pub(super) fn of(&self, nodes: impl Iterator<Item = NodeId>) -> Option<NodeId> {
        let all = self.took.lock().expect("no one panics while holding it");
        let known = |node: &NodeId| all.get(node).filter(|took| took.samples >= SAMPLES_MIN);
        let nodes: Vec<NodeId> = nodes.collect();
        let measured = nodes.iter().filter_map(|node| Some((known(node)?.micros, *node)));
        let Some((least, snitch)) = measured.min() else { return nodes.first().copied() };
        let slow = |node: &&NodeId| {
            let bound = SLOW_MIN_MICROS.max(least.saturating_mul(SLOW_TIMES));
            known(node).is_some_and(|took| took.micros > bound)
        };
        nodes.iter().find(|node| !slow(node)).copied().or(Some(snitch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_takes_far_longer_than_others_is_passed_by_until_it_does_not() {
        let snitch = Snitch::default();
        let nodes = || [1, 2, 3].map(NodeId).into_iter();
        assert_eq!(snitch.of(nodes()), Some(NodeId(1)), "nobody is known");
        for _ in 0..8 {
            snitch.took(NodeId(1), 90);
            snitch.took(NodeId(2), 20);
        }
        assert_eq!(snitch.of(nodes()), Some(NodeId(2)));
        assert_eq!(snitch.of([NodeId(1)].into_iter()), Some(NodeId(1)), "nobody else is there");
        assert_eq!(snitch.of([].into_iter()), None);
        for _ in 0..40 {
            snitch.took(NodeId(1), 10);
        }
        assert_eq!(snitch.of(nodes()), Some(NodeId(1)));
        for _ in 0..40 {
            snitch.took(NodeId(1), 14);
            snitch.took(NodeId(2), 1);
        }
        assert_eq!(snitch.of(nodes()), Some(NodeId(1)), "a few milliseconds are no reason");
    }
}
