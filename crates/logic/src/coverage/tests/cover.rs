//! Covers against brute force, and the bound on the steps of the search.

use super::ring_of;
use crate::coverage::cover::{Cover, Demand, cover};
use crate::ring::Ring;
use base::{NodeId, Partition};
use proptest::prelude::*;
use std::collections::BTreeSet;

fn demand((number, count, candidates): (u32, usize, Vec<u64>)) -> Demand {
    let candidates: Vec<_> = candidates.into_iter().map(NodeId).collect();
    let count = count.min(candidates.len());
    Demand { partition: Partition(number), count, candidates, is_fallback: false }
}

fn random_demands() -> impl Strategy<Value = Vec<Demand>> {
    let candidates = proptest::collection::btree_set(1..9_u64, 1..6);
    let one = (1..4_usize, candidates.prop_map(Vec::from_iter)).prop_shuffle_candidates();
    proptest::collection::vec(one, 0..16).prop_map(|all| {
        let numbered = all.into_iter().zip(0..);
        numbered.map(|((count, nodes), number)| demand((number, count, nodes))).collect()
    })
}

/// Shuffles the candidates of a demand.
trait ShuffleCandidates {
    fn prop_shuffle_candidates(self) -> BoxedStrategy<(usize, Vec<u64>)>;
}

impl<S: Strategy<Value = (usize, Vec<u64>)> + 'static> ShuffleCandidates for S {
    fn prop_shuffle_candidates(self) -> BoxedStrategy<(usize, Vec<u64>)> {
        self.prop_flat_map(|(count, nodes)| (Just(count), Just(nodes).prop_shuffle())).boxed()
    }
}

fn is_cover(demands: &[Demand], nodes: &BTreeSet<NodeId>) -> bool {
    demands.iter().all(|demand| {
        demand.candidates.iter().filter(|node| nodes.contains(node)).count() >= demand.count
    })
}

/// Returns the size of the smallest cover, found by trying every set of nodes.
fn smallest(demands: &[Demand]) -> usize {
    let all = demands.iter().flat_map(|demand| demand.candidates.iter().copied());
    let nodes: Vec<_> = all.collect::<BTreeSet<_>>().into_iter().collect();
    let sets = (0..1_u32 << nodes.len()).filter(|set| {
        let is_in = |node: &NodeId| nodes.binary_search(node).is_ok_and(|at| set & (1 << at) != 0);
        demands.iter().all(|demand| {
            demand.candidates.iter().filter(|node| is_in(node)).count() >= demand.count
        })
    });
    sets.map(u32::count_ones).min().expect("all nodes are a cover") as usize
}

/// Returns the demands of all partitions for `r` of their `n` owners.
fn demands_of(ring: &Ring, n: usize, r: usize) -> Vec<Demand> {
    let one = |number| {
        let owners = ring.owners(Partition(number), n).iter().map(|node| node.0).collect();
        demand((number, r, owners))
    };
    (0..ring.partitions()).map(one).collect()
}

/// Largest number of steps for these demands.
fn steps_max(demands: &[Demand]) -> usize {
    let candidates: usize = demands.iter().map(|demand| demand.candidates.len()).sum();
    let all = demands.iter().flat_map(|demand| demand.candidates.iter());
    let nodes = all.collect::<BTreeSet<_>>().len();
    9 * candidates + 2 * nodes * (nodes + 1)
}

#[test]
fn covers_of_small_rings_are_nearly_as_small_as_the_smallest() {
    let (mut all, mut equal) = (0, 0);
    for partitions in [8, 16, 32, 64] {
        for (nodes, n) in (1..=8).flat_map(|nodes| (1..=5).map(move |n| (nodes, n))) {
            for racks in [0, 3] {
                let ring = ring_of(nodes, partitions, n, racks);
                for r in 1..=n {
                    let demands = demands_of(&ring, n, r);
                    let fewest = smallest(&demands);
                    for local in 1..=nodes {
                        let found = cover(&demands, NodeId(local)).nodes.len();
                        assert!(
                            2 * found <= 3 * fewest,
                            "{nodes} nodes, {partitions} partitions, {r} of {n}: {found}, {fewest}"
                        );
                        (all, equal) = (all + 1, equal + usize::from(found == fewest));
                    }
                }
            }
        }
    }
    assert!(equal * 100 >= all * 95, "{equal} of {all} covers are the smallest");
}

#[test]
fn steps_on_the_largest_ring_are_bounded() {
    let ring = ring_of(64, 1_024, 3, 0);
    for (n, r) in [(3, 1), (3, 2), (5, 3), (16, 1), (16, 9), (16, 16)] {
        let demands = demands_of(&ring, n, r);
        let Cover { steps, nodes } = cover(&demands, NodeId(7));
        assert!(is_cover(&demands, &nodes.into_iter().collect()));
        assert!(steps <= steps_max(&demands), "{r} of {n}: {steps} of {}", steps_max(&demands));
        assert!(steps <= 200_000, "{r} of {n}: {steps}");
    }
}

#[test]
fn local_node_is_preferred_to_another_of_equal_use() {
    let demands = [(0, 1, vec![1, 2, 3]), (1, 1, vec![2, 3, 4])].map(demand);
    for (local, expected) in [(2, vec![2]), (3, vec![3]), (1, vec![2]), (4, vec![2])] {
        let expected: Vec<_> = expected.into_iter().map(NodeId).collect();
        assert_eq!(cover(&demands, NodeId(local)).nodes, expected, "at node {local}");
    }
    // Node 2 meets more demands than the local node 1, but each cover has two nodes.
    let demands = [(0, 1, vec![1, 2]), (1, 1, vec![2, 3]), (2, 1, vec![2, 3]), (3, 1, vec![1])];
    let demands = demands.map(demand);
    assert_eq!(cover(&demands, NodeId(1)).nodes, [NodeId(1), NodeId(2)]);
    let demands = [(0, 1, vec![1, 2]), (1, 1, vec![2, 3]), (2, 1, vec![2, 3]), (3, 1, vec![1, 3])];
    let demands = demands.map(demand);
    assert_eq!(cover(&demands, NodeId(1)).nodes, [NodeId(1), NodeId(2)]);
}

#[test]
fn coordinators_do_not_all_choose_one_node_of_equal_use() {
    let demands = [(0, 1, vec![10, 20, 30])].map(demand);
    let chosen: Vec<_> =
        [5, 15, 25, 35].map(|local| cover(&demands, NodeId(local)).nodes[0].0).into();
    assert_eq!(chosen, [10, 20, 30, 10]);
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(500)
    })]

    #[test]
    fn cover_meets_all_demands_and_needs_each_node(
        demands in random_demands(),
        local in 1..10_u64,
    ) {
        let found = cover(&demands, NodeId(local));
        let nodes: BTreeSet<_> = found.nodes.iter().copied().collect();
        prop_assert_eq!(nodes.len(), found.nodes.len());
        prop_assert!(is_cover(&demands, &nodes));
        for node in &nodes {
            let mut fewer = nodes.clone();
            fewer.remove(node);
            prop_assert!(!is_cover(&demands, &fewer), "{node} is needed");
        }
        prop_assert!(found.nodes.iter().skip(1).all(|node| node.0 != local));
        prop_assert!(found.steps <= steps_max(&demands));
        prop_assert!(found.nodes.len() <= smallest(&demands) + 1);
    }

    #[test]
    fn cover_does_not_depend_on_the_order_of_demands_and_candidates(
        demands in random_demands(),
        local in 1..10_u64,
    ) {
        let mut other = demands.clone();
        other.reverse();
        other.iter_mut().for_each(|demand| demand.candidates.sort_unstable());
        prop_assert_eq!(cover(&demands, NodeId(local)).nodes, cover(&other, NodeId(local)).nodes);
    }
}
