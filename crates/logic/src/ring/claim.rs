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
        claim.lay_out_afresh(first);
        claim.polish_freely();
        return claim.layout;
    }
    let moved = claim.even_out();
    claim.polish(owners, &moved);
    claim.layout
}

struct Claim {
    layout: Layout,
    /// Least distance that partitions of one node should have.
    apart: usize,
    racks_apart: usize,
}

impl Claim {
    fn new(layout: Layout, n: usize) -> Claim {
        let apart = n.min(layout.nodes.len());
        let racks_apart = n.min(layout.shelves());
        Claim { layout, apart, racks_apart }
    }

    /// Returns the cost of assigning this partition to `node`, given its present neighbours.
    fn cost(&self, at: usize, node: NodeId) -> u64 {
        let count = self.layout.owners.len();
        let shelf = self.layout.shelf(node);
        let mut cost = 0;
        for distance in 1..self.apart.min(count) {
            for other in [(at + distance) % count, (at + count - distance) % count] {
                let neighbour = self.layout.owners[other];
                if neighbour == node {
                    cost += SAME_NODE;
                } else if distance < self.racks_apart && self.layout.shelf(neighbour) == shelf {
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

    /// Moves surplus partitions to nodes that lack some, one at a time: the one of least cost at
    /// its new owner, and of equals the one farthest from what that node already owns. Returns the
    /// moved partitions.
    fn even_out(&mut self) -> Vec<usize> {
        let shares = self.shares();
        let mut loads = self.layout.loads();
        let mut moved = Vec::new();
        let share = |node: &NodeId| shares.get(node).copied().unwrap_or(0);
        loop {
            let takes = |node: &&NodeId| loads[*node] < share(node);
            let takers: Vec<_> = shares.keys().filter(takes).copied().collect();
            let mut best: Option<(u64, Reverse<usize>, usize, NodeId)> = None;
            for (at, owner) in self.layout.owners.iter().enumerate() {
                if loads[owner] <= share(owner) {
                    continue;
                }
                for taker in &takers {
                    let found = (self.cost(at, *taker), Reverse(self.room(at, *taker)), at, *taker);
                    if best.is_none_or(|best| found < best) {
                        best = Some(found);
                    }
                }
            }
            let Some((_, _, at, taker)) = best else { return moved };
            let giver = std::mem::replace(&mut self.layout.owners[at], taker);
            *loads.entry(giver).or_default() -= 1;
            *loads.entry(taker).or_default() += 1;
            moved.push(at);
        }
    }

    /// Returns the distance from here to the nearest partition of this node.
    fn room(&self, at: usize, node: NodeId) -> usize {
        let count = self.layout.owners.len();
        let far = (1..=count / 2).find(|distance| {
            let owners = &self.layout.owners;
            owners[(at + distance) % count] == node
                || owners[(at + count - distance) % count] == node
        });
        far.unwrap_or(count)
    }

    /// Improves the layout without more moves: two moved partitions exchange their new owners, or
    /// another partition of the same former owner moves in place of one that did.
    fn polish(&mut self, former: &[NodeId], moved: &[usize]) {
        let mut moved = moved.to_vec();
        // Each round lowers the total cost, which is a natural number, so this ends.
        while let Some((one, other)) = self.betterment(former, &moved) {
            self.layout.owners.swap(one, other);
            if let Some(place) = moved.iter().position(|at| *at == one)
                && !moved.contains(&other)
            {
                moved[place] = other;
            }
        }
    }

    /// Returns the first exchange that lowers the cost.
    fn betterment(&mut self, former: &[NodeId], moved: &[usize]) -> Option<(usize, usize)> {
        for &one in moved {
            if self.cost(one, self.layout.owners[one]) == 0 {
                continue;
            }
            for other in 0..former.len() {
                let returns = self.layout.owners[other] == former[other]
                    && former[other] == former[one]
                    && !moved.contains(&other);
                let exchanges = moved.contains(&other) && other != one;
                let goes_home = |at: usize, owner: NodeId| former[at] == owner;
                let wasted = goes_home(one, self.layout.owners[other])
                    || goes_home(other, self.layout.owners[one]);
                if (returns || (exchanges && !wasted)) && self.exchange_gains(one, other) {
                    return Some((one, other));
                }
            }
        }
        None
    }

    /// Improves a fresh layout: any two partitions may exchange their owners. Racks of different
    /// sizes may make a perfect layout impossible, so it gives up after a few rounds.
    fn polish_freely(&mut self) {
        let count = self.layout.owners.len();
        for _ in 0..SWEEPS_MAX {
            let mut better = false;
            for one in 0..count {
                let misfit = self.cost(one, self.layout.owners[one]) > 0;
                let gains = |claim: &mut Claim, other: &usize| claim.exchange_gains(one, *other);
                if misfit && let Some(other) = (0..count).find(|other| gains(self, other)) {
                    self.layout.owners.swap(one, other);
                    better = true;
                }
            }
            if !better {
                return;
            }
        }
    }

    /// Returns true if an exchange of owners lowers the cost of these two partitions.
    fn exchange_gains(&mut self, one: usize, other: usize) -> bool {
        let both = |claim: &Claim| {
            let owners = &claim.layout.owners;
            claim.cost(one, owners[one]) + claim.cost(other, owners[other])
        };
        let before = both(self);
        self.layout.owners.swap(one, other);
        let after = both(self);
        self.layout.owners.swap(one, other);
        after < before
    }

    /// Builds a fresh layout where all partitions are one node's, since nearly all move anyway: a
    /// pattern without a seam. It has as many rounds of all nodes as needed, of which some leave
    /// one node out so that they end where the ring does. Each node is left out at most once, which
    /// keeps the layout even, and in the nodes' order, which keeps two rounds from coming too
    /// close.
    fn lay_out_afresh(&mut self, founder: NodeId) {
        let order = self.in_turn(founder);
        let count = self.layout.owners.len();
        let rounds = count.div_ceil(order.len());
        let left_out = rounds * order.len() - count;
        let mut owners = Vec::with_capacity(count);
        for round in 0..rounds {
            let (from, to) = (round * left_out / rounds, (round + 1) * left_out / rounds);
            // The founder is first in the order and is left out last: what it keeps stays.
            let rank = |at: usize| (at + order.len() - 1) % order.len();
            let kept = (0..order.len()).filter(|at| !(from..to).contains(&rank(*at)));
            owners.extend(kept.map(|at| order[at]));
        }
        self.layout.owners = owners;
    }

    /// Returns the nodes, those of one rack as far from each other as possible.
    fn in_turn(&self, founder: NodeId) -> Vec<NodeId> {
        let mut racks: BTreeMap<_, Vec<NodeId>> = BTreeMap::new();
        for node in self.layout.nodes.keys() {
            racks.entry(self.layout.shelf(*node)).or_default().push(*node);
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
