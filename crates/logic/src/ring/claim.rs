//! Claim: the owners of each partition after a change, even by construction, with as few moves as
//! that allows.
//!
//! Each node's share is `partitions / nodes`, rounded down or up; those that already own most get
//! the rounded-up ones. Nodes above their share give, nodes below it take, and nothing else moves.
//! Partitions are assigned so that those of one node lie at least N apart, and those of one rack
//! likewise: then every preference list is N partitions in a row, and the copies are spread as
//! evenly as the partitions. Where N apart is impossible (three nodes can't divide 64 so), lists
//! skip a node that they already contain, and no two copies get onto one node.

use super::layout::{Layout, Rack};
use base::NodeId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Cost of one node twice within a list: more than any number of repeated racks.
const SAME_NODE: u64 = 1_000;
const SAME_RACK: u64 = 1;
/// Number of times that a fresh layout is improved.
const SWEEPS_MAX: usize = 4;

/// Returns the layout in which these nodes own their shares, starting from `owners`. Requires at
/// least one node, and at least as many partitions as nodes.
pub(super) fn claim(owners: &[NodeId], nodes: &BTreeMap<NodeId, Rack>, n: usize) -> Layout {
    assert!(!nodes.is_empty() && nodes.len() <= owners.len(), "each node owns a partition");
    let first = owners[0];
    let mut claim = Claim::new(Layout { nodes: nodes.clone(), owners: owners.to_vec() }, n);
    if owners.iter().all(|owner| *owner == first) {
        claim.build_fresh_layout(first);
        claim.improve_fresh();
        return claim.layout;
    }
    let moved = claim.rebalance();
    claim.improve(owners, &moved);
    claim.layout
}

struct Claim {
    layout: Layout,
    /// Least distance that partitions of one node should have.
    node_distance: usize,
    rack_distance: usize,
}

impl Claim {
    fn new(layout: Layout, n: usize) -> Claim {
        let node_distance = n.min(layout.nodes.len());
        let rack_distance = n.min(layout.rack_count());
        Claim { layout, node_distance, rack_distance }
    }

    /// Returns the cost of assigning this partition to `node`, given its present neighbours.
    fn cost(&self, at: usize, node: NodeId) -> u64 {
        let count = self.layout.owners.len();
        let domain = self.layout.domain(node);
        let mut cost = 0;
        for distance in 1..self.node_distance.min(count) {
            for other in [(at + distance) % count, (at + count - distance) % count] {
                let neighbour = self.layout.owners[other];
                if neighbour == node {
                    cost += SAME_NODE;
                } else if distance < self.rack_distance && self.layout.domain(neighbour) == domain {
                    cost += SAME_RACK;
                }
            }
        }
        cost
    }

    /// Returns the number of partitions that each node is to own.
    fn shares(&self) -> BTreeMap<NodeId, usize> {
        let loads = self.layout.loads();
        let nodes = self.layout.nodes.len();
        let (floor, rest) = (self.layout.owners.len() / nodes, self.layout.owners.len() % nodes);
        let mut order: Vec<_> = self.layout.nodes.keys().copied().collect();
        order.sort_by_key(|node| Reverse(loads[node]));
        let share = |(at, node)| (node, floor + usize::from(at < rest));
        order.into_iter().enumerate().map(share).collect()
    }

    /// Moves surplus partitions to nodes below their share, one at a time: the one of least cost at
    /// its new owner, and of equals the one farthest from that node's other partitions. Returns the
    /// moved partitions.
    fn rebalance(&mut self) -> Vec<usize> {
        let shares = self.shares();
        let mut loads = self.layout.loads();
        let mut moved = Vec::new();
        let share = |node: &NodeId| shares.get(node).copied().unwrap_or(0);
        loop {
            let is_below_share = |node: &&NodeId| loads[*node] < share(node);
            let receivers: Vec<_> = shares.keys().filter(is_below_share).copied().collect();
            let mut best: Option<(u64, Reverse<usize>, usize, NodeId)> = None;
            for (at, owner) in self.layout.owners.iter().enumerate() {
                if loads[owner] <= share(owner) {
                    continue;
                }
                for receiver in &receivers {
                    let found = (
                        self.cost(at, *receiver),
                        Reverse(self.distance_to_nearest(at, *receiver)),
                        at,
                        *receiver,
                    );
                    if best.is_none_or(|best| found < best) {
                        best = Some(found);
                    }
                }
            }
            let Some((_, _, at, receiver)) = best else { return moved };
            let former_owner = std::mem::replace(&mut self.layout.owners[at], receiver);
            *loads.entry(former_owner).or_default() -= 1;
            *loads.entry(receiver).or_default() += 1;
            moved.push(at);
        }
    }

    /// Returns the distance from here to the nearest partition of this node.
    fn distance_to_nearest(&self, at: usize, node: NodeId) -> usize {
        let count = self.layout.owners.len();
        let nearest = (1..=count / 2).find(|distance| {
            let owners = &self.layout.owners;
            owners[(at + distance) % count] == node
                || owners[(at + count - distance) % count] == node
        });
        nearest.unwrap_or(count)
    }

    /// Improves the layout without more moves: two moved partitions exchange their new owners, or
    /// another partition of the same former owner moves instead of one of them.
    fn improve(&mut self, former: &[NodeId], moved: &[usize]) {
        let mut moved = moved.to_vec();
        // Each round lowers the total cost, which is a natural number, so this ends.
        while let Some((one, other)) = self.find_gain(former, &moved) {
            self.layout.owners.swap(one, other);
            if let Some(place) = moved.iter().position(|at| *at == one)
                && !moved.contains(&other)
            {
                moved[place] = other;
            }
        }
    }

    /// Returns the first exchange that lowers the cost.
    fn find_gain(&mut self, former: &[NodeId], moved: &[usize]) -> Option<(usize, usize)> {
        for &one in moved {
            if self.cost(one, self.layout.owners[one]) == 0 {
                continue;
            }
            for other in 0..former.len() {
                let is_alternative = self.layout.owners[other] == former[other]
                    && former[other] == former[one]
                    && !moved.contains(&other);
                let are_both_moved = moved.contains(&other) && other != one;
                let is_former_owner = |at: usize, owner: NodeId| former[at] == owner;
                let returns_owner = is_former_owner(one, self.layout.owners[other])
                    || is_former_owner(other, self.layout.owners[one]);
                if (is_alternative || (are_both_moved && !returns_owner))
                    && self.exchange_gains(one, other)
                {
                    return Some((one, other));
                }
            }
        }
        None
    }

    /// Improves a fresh layout: any two partitions may exchange their owners. Racks of different
    /// sizes may make a perfect layout impossible, so it gives up after a few rounds.
    fn improve_fresh(&mut self) {
        let count = self.layout.owners.len();
        for _ in 0..SWEEPS_MAX {
            let mut improved = false;
            for one in 0..count {
                let is_misplaced = self.cost(one, self.layout.owners[one]) > 0;
                let gains = |claim: &mut Claim, other: &usize| claim.exchange_gains(one, *other);
                if is_misplaced && let Some(other) = (0..count).find(|other| gains(self, other)) {
                    self.layout.owners.swap(one, other);
                    improved = true;
                }
            }
            if !improved {
                return;
            }
        }
    }

    /// Returns true if an exchange of owners lowers the cost of these two partitions.
    fn exchange_gains(&mut self, one: usize, other: usize) -> bool {
        let pair_cost = |claim: &Claim| {
            let owners = &claim.layout.owners;
            claim.cost(one, owners[one]) + claim.cost(other, owners[other])
        };
        let before = pair_cost(self);
        self.layout.owners.swap(one, other);
        let after = pair_cost(self);
        self.layout.owners.swap(one, other);
        after < before
    }

    /// Builds a fresh layout where all partitions are one node's, since nearly all move anyway: a
    /// pattern without a seam. It has as many rounds of all nodes as needed, of which some leave
    /// one node out so that they end where the ring does. Each node is left out at most once, which
    /// keeps the layout even, and in the nodes' order, which keeps two rounds from coming too
    /// close.
    fn build_fresh_layout(&mut self, founder: NodeId) {
        let order = self.rack_spread_order(founder);
        let count = self.layout.owners.len();
        let rounds = count.div_ceil(order.len());
        let left_out = rounds * order.len() - count;
        let mut owners = Vec::with_capacity(count);
        for round in 0..rounds {
            let (from, to) = (round * left_out / rounds, (round + 1) * left_out / rounds);
            // The founder is first in the order and is left out last: its retained partitions stay.
            let rank = |at: usize| (at + order.len() - 1) % order.len();
            let kept = (0..order.len()).filter(|at| !(from..to).contains(&rank(*at)));
            owners.extend(kept.map(|at| order[at]));
        }
        self.layout.owners = owners;
    }

    /// Returns the nodes, those of one rack as far from each other as possible.
    fn rack_spread_order(&self, founder: NodeId) -> Vec<NodeId> {
        let mut racks: BTreeMap<_, Vec<NodeId>> = BTreeMap::new();
        for node in self.layout.nodes.keys() {
            racks.entry(self.layout.domain(*node)).or_default().push(*node);
        }
        // The nodes of a rack of k are spread over the circle at every k-th part of it.
        let mut placed = Vec::new();
        for (number, nodes) in racks.values().enumerate() {
            for (at, node) in nodes.iter().enumerate() {
                let share = (at * 2 + 1) * 1_000_000 / (nodes.len() * 2);
                placed.push((share, number, *node));
            }
        }
        placed.sort_unstable();
        let mut order: Vec<_> = placed.into_iter().map(|(_, _, node)| node).collect();
        if let Some(first) = order.iter().position(|node| *node == founder) {
            order.rotate_left(first);
        }
        order
    }
}
