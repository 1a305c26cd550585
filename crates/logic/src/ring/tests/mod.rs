//! Examples and laws of the ring.

use super::{Rack, Ring, RingChangeRequest, plan};
use base::NodeId;
use std::collections::BTreeSet;

mod changing;
mod coding;
mod examples;
mod laws;

fn no_rack() -> Rack {
    Rack::default()
}

fn rack(name: &str) -> Rack {
    Rack(name.to_string())
}

fn join(node: u64) -> RingChangeRequest {
    RingChangeRequest::Join { node: NodeId(node), rack: no_rack() }
}

fn joins(nodes: std::ops::RangeInclusive<u64>) -> Vec<RingChangeRequest> {
    nodes.map(join).collect()
}

/// Commits the plan for these changes and completes all its hand-offs.
fn apply_changes(ring: &Ring, changes: &[RingChangeRequest]) -> Ring {
    let plan = plan(ring, changes, ring.n(), &BTreeSet::new()).expect("a safe plan");
    completed(ring.commit(&plan).expect("made for this ring"))
}

/// Returns the ring after every partition has arrived.
fn completed(mut ring: Ring) -> Ring {
    for partition in (0..ring.partitions()).map(base::Partition) {
        if let Some(next) = ring.arrive(partition, &[3]) {
            ring = next;
        }
    }
    assert!(ring.pending().is_none(), "nothing is left to arrive");
    ring
}

/// Builds a ring of nodes 1 to `nodes`, without racks.
fn ring_of(nodes: u64, partitions: u32, n: usize) -> Ring {
    let ring = Ring::initial(NodeId(1), no_rack(), partitions, n);
    if nodes == 1 { ring } else { apply_changes(&ring, &joins(2..=nodes)) }
}
