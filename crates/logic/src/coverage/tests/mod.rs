//! Examples and laws of coverage queries.

use crate::ring::{Rack, Ring, RingChangeRequest, plan};
use base::{NodeId, Partition};
use proptest::prelude::*;
use std::collections::BTreeSet;

mod cover;
mod merge;
mod partition_runs;
mod plan;
mod query;

fn join(node: u64, racks: u64) -> RingChangeRequest {
    let rack = if racks == 0 { String::new() } else { format!("r{}", node % racks) };
    RingChangeRequest::Join { node: NodeId(node), rack: Rack(rack) }
}

fn commit(ring: &Ring, changes: &[RingChangeRequest]) -> Ring {
    let planned = plan(ring, changes, ring.n(), &BTreeSet::new()).expect("a safe plan");
    ring.commit(&planned).expect("made for this ring")
}

/// Builds a settled ring of nodes 1 to `nodes`, in so many racks (0: none).
fn ring_of(nodes: u64, partitions: u32, n: usize, racks: u64) -> Ring {
    let rack = if racks == 0 { String::new() } else { format!("r{}", 1 % racks) };
    let mut ring = Ring::initial(NodeId(1), Rack(rack), partitions, n);
    let changes: Vec<_> = (2..=nodes).map(|node| join(node, racks)).collect();
    if !changes.is_empty() {
        ring = commit(&ring, &changes);
    }
    for partition in (0..partitions).map(Partition) {
        ring = ring.arrive(partition, &[]).unwrap_or(ring);
    }
    ring
}

/// Random ring; every other one is in the middle of a change.
fn random_ring() -> impl Strategy<Value = Ring> {
    let sizes = (1..9_u64, 3..6_u32, 1..6_usize, 0..4_u64);
    (sizes, any::<bool>(), proptest::collection::vec(0..32_u32, 0..16)).prop_map(
        |((nodes, power, n, racks), is_changing, arrived)| {
            let mut ring = ring_of(nodes, 1 << power, n, racks);
            if is_changing && nodes < 8 {
                ring = commit(&ring, &[join(nodes + 1, racks)]);
                for partition in arrived {
                    ring = ring.arrive(Partition(partition), &[n]).unwrap_or(ring);
                }
            }
            ring
        },
    )
}

fn random_nodes(most: usize) -> impl Strategy<Value = BTreeSet<NodeId>> {
    proptest::collection::btree_set((1..10_u64).prop_map(NodeId), 0..=most)
}
