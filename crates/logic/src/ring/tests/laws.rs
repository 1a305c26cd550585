//! Laws of every ring: all numbers of nodes 1..=16, of partitions, and of copies 1..=5, as founded,
//! and as nodes join one after the other, leave, and are replaced.

use super::{RingChangeRequest, apply_changes, join, joins, no_rack, ring_of};
use crate::ring::{PARTITIONS_MAX, Plan, Ring, plan};
use base::{NodeId, Partition};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the difference between the most and the fewest copies that a node keeps.
fn spread(ring: &Ring, n: usize) -> usize {
    let copies = ring.layout().copies(n);
    copies.values().max().unwrap_or(&0) - copies.values().min().unwrap_or(&0)
}

/// Checks that the ring is even, complete, and never has two copies of a key on one node while
/// there are nodes enough.
fn check(ring: &Ring, n: usize) {
    let loads = ring.layout().loads();
    let (most, least) = (loads.values().max(), loads.values().min());
    assert!(most.zip(least).is_some_and(|(most, least)| most - least <= 1), "{loads:?}");
    let nodes = loads.len();
    for partition in (0..ring.partitions()).map(Partition) {
        let list = ring.preference_list(partition, n);
        let distinct: BTreeSet<_> = list.iter().collect();
        assert_eq!(distinct.len(), nodes, "each node once, none left out: {list:?}");
        assert_eq!(ring.owners(partition, n), list[..n.min(nodes)], "the owners stand first");
        assert_eq!(list[0], ring.layout().owner(partition), "the owner before all");
    }
}

/// Returns the fewest moves that lead to an even ring: a node above the rounded-up share sends the
/// surplus, and a node below the rounded-down share receives it.
fn fewest_moves(before: &BTreeMap<NodeId, usize>, after: &BTreeMap<NodeId, usize>) -> usize {
    let partitions: usize = after.values().sum();
    let (floor, mut rest) = (partitions / after.len(), partitions % after.len());
    let mut loads_before: Vec<_> =
        after.keys().map(|node| before.get(node).copied().unwrap_or(0)).collect();
    loads_before.sort_unstable_by(|one, other| other.cmp(one));
    let mut moved = 0;
    for (node, load) in before {
        moved += if after.contains_key(node) { 0 } else { *load };
    }
    for load in loads_before {
        let share = if rest > 0 { floor + 1 } else { floor };
        rest = rest.saturating_sub(1);
        moved += load.saturating_sub(share);
    }
    moved
}

fn planned(ring: &Ring, changes: &[RingChangeRequest]) -> Plan {
    let plan = plan(ring, changes, ring.n(), &BTreeSet::new()).expect("a safe plan");
    let fewest = fewest_moves(&ring.layout().loads(), &plan.next_layout().loads());
    assert_eq!(plan.moves.len(), fewest, "not one move too many");
    plan
}

#[test]
fn new_ring_is_balanced_with_distinct_owners() {
    for partitions in [8, 16, 32, 64, 128, 256] {
        for n in 1..=5 {
            for nodes in 1..=16.min(u64::from(partitions)) {
                let ring = ring_of(nodes, partitions, n);
                check(&ring, n);
            }
        }
    }
}

/// Checks that the copies of a new ring are as even as its partitions wherever N apart is possible.
#[test]
fn new_ring_balances_replicas_across_nodes() {
    for partitions in [32, 64, 128, 256] {
        for n in 1..=5 {
            for nodes in n as u64 + 1..=16 {
                let possible = u64::from(partitions).div_ceil(nodes) * n as u64;
                if possible <= u64::from(partitions) {
                    let ring = ring_of(nodes, partitions, n);
                    assert!(spread(&ring, n) <= n, "{nodes} nodes, {partitions}, n {n}");
                }
            }
        }
    }
}

#[test]
fn ring_stays_balanced_with_fewest_moves_as_nodes_join_and_leave() {
    for partitions in [8, 32, 64, 256] {
        for n in 1..=5 {
            let mut ring = ring_of(1, partitions, n);
            let most = 16.min(u64::from(partitions));
            for node in 2..=most {
                let next = apply_planned(&ring, &[join(node)]);
                check(&next, n);
                ring = next;
            }
            for node in (n as u64 + 1..=most).rev() {
                // Not the last node that joined: that would only reverse the join.
                let leaving = NodeId(if node % 2 == 0 { node / 2 + 1 } else { node });
                let leaving = if ring.layout().nodes().contains_key(&leaving) {
                    leaving
                } else {
                    *ring.layout().nodes().keys().next().expect("never empty")
                };
                let next = apply_planned(&ring, &[RingChangeRequest::Leave { node: leaving }]);
                check(&next, n);
                ring = next;
            }
        }
    }
}

fn apply_planned(ring: &Ring, changes: &[RingChangeRequest]) -> Ring {
    planned(ring, changes);
    apply_changes(ring, changes)
}

#[test]
fn largest_ring_stays_balanced_with_fewest_moves() {
    let ring = ring_of(15, PARTITIONS_MAX, 3);
    let next = apply_planned(&ring, &[join(16)]);
    check(&next, 3);
    assert!(spread(&next, 3) <= 6);
}

fn arbitrary_change() -> impl Strategy<Value = (u8, u64, u64, u8)> {
    (0..10_u8, 1..12_u64, 1..12_u64, 0..4_u8)
}

fn cases() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) }
}

proptest! {
    #![proptest_config(cases())]

    /// Any changes in any order, racks among them: an accepted one keeps every promise, and a
    /// refused one changes nothing.
    #[test]
    fn arbitrary_ring_changes_keep_balance_and_distinct_owners(
        changes in proptest::collection::vec(arbitrary_change(), 1..14),
        n in 1..=5_usize,
    ) {
        let mut ring = Ring::initial(NodeId(1), no_rack(), 16, n);
        for (kind, node, other, place) in changes {
            let (node, other) = (NodeId(node), NodeId(other));
            let rack = match place {
                0 => no_rack(),
                place => super::rack(&format!("r{place}")),
            };
            let change = match kind {
                0..=3 => RingChangeRequest::Join { node, rack },
                4..=5 => RingChangeRequest::Leave { node },
                6 => RingChangeRequest::Replace { old: node, new: other, rack },
                7 => RingChangeRequest::Rack { node, rack },
                8 => RingChangeRequest::Double,
                _ => RingChangeRequest::Halve,
            };
            let is_resize = matches!(change, RingChangeRequest::Double | RingChangeRequest::Halve);
            let Ok(plan) = plan(&ring, &[change], n, &BTreeSet::new()) else { continue };
            ring = super::completed(ring.commit(&plan).expect("made for this ring"));
            let loads = ring.layout().loads();
            let most = loads.values().max().expect("never empty");
            let least = loads.values().min().expect("never empty");
            prop_assert_eq!(Ring::decode(&ring.encode()), Ok(ring.clone()), "marks are in it");
            // Each node owns twice as many partitions: even again with the next change.
            prop_assert!(is_resize || most - least <= 1, "{loads:?}");
            for partition in (0..ring.partitions()).map(Partition) {
                let owners = ring.owners(partition, n);
                let distinct: BTreeSet<_> = owners.iter().collect();
                prop_assert_eq!(distinct.len(), n.min(loads.len()));
                check_rack_shares(&ring, &owners, n)?;
            }
        }
    }
}

/// Checks that no rack keeps more than its share while another one could take more.
fn check_rack_shares(ring: &Ring, owners: &[NodeId], n: usize) -> Result<(), TestCaseError> {
    let name = |node: &NodeId| match ring.layout().nodes()[node].0.as_str() {
        "" => format!("alone {node}"),
        rack => rack.to_string(),
    };
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    let mut used: BTreeMap<String, usize> = BTreeMap::new();
    ring.layout().nodes().keys().for_each(|node| *sizes.entry(name(node)).or_default() += 1);
    owners.iter().for_each(|node| *used.entry(name(node)).or_default() += 1);
    let share = n.div_ceil(sizes.len());
    for (rack, count) in &used {
        let has_capacity = |(other, size): (&String, &usize)| {
            other != rack && used.get(other).copied().unwrap_or(0) < share.min(*size)
        };
        let overfull = *count > share && sizes.iter().any(has_capacity);
        prop_assert!(!overfull, "{rack} keeps {count} of {n} while others have room");
    }
    Ok(())
}

#[test]
fn fallbacks_of_down_node_are_spread_over_several_nodes() {
    let ring = ring_of(8, 256, 3);
    let mut stands_in: BTreeMap<NodeId, usize> = BTreeMap::new();
    for partition in (0..256).map(Partition) {
        let list = ring.preference_list(partition, 3);
        if list[..3].contains(&NodeId(4)) {
            *stands_in.entry(list[3]).or_default() += 1;
        }
    }
    assert!(stands_in.len() >= 3, "{stands_in:?}");
    let several = joins(9..=12);
    assert!(
        apply_changes(&ring, &several)
            .layout()
            .loads()
            .values()
            .all(|load| [21, 22].contains(load))
    );
}
