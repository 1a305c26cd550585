//! Layout of the ring: the owner of each partition, and the preference lists that follow.

use base::{NodeId, Partition};
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of a rack's name.
pub const RACK_BYTES_MAX: usize = 63;

/// Failure domain: nodes of one rack are kept apart where possible. A node without a rack (the
/// empty name) is a domain of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rack(pub String);

/// Rack of a node for comparisons: nodes without a rack are each a rack of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FailureDomain<'a> {
    Rack(&'a str),
    Alone(NodeId),
}

/// Nodes of the ring, and the owner of each partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub(super) nodes: BTreeMap<NodeId, Rack>,
    pub(super) owners: Vec<NodeId>,
}

impl Layout {
    /// Returns a layout of this many partitions, all owned by one node.
    pub(super) fn of_one(node: NodeId, rack: Rack, partitions: u32) -> Layout {
        Layout { nodes: [(node, rack)].into(), owners: vec![node; partitions as usize] }
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> u32 {
        self.owners.len() as u32
    }

    /// Returns the nodes and their racks.
    pub fn nodes(&self) -> &BTreeMap<NodeId, Rack> {
        &self.nodes
    }

    /// Returns the owner of this partition.
    pub fn owner(&self, partition: Partition) -> NodeId {
        self.owners[partition.0 as usize % self.owners.len()]
    }

    /// Returns the `n` nodes that keep the copies of this partition, in order of preference; fewer
    /// if there are fewer nodes.
    pub fn owners(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        let rack_count = self.rack_count();
        let mut walk = RingWalk::new(self, partition);
        if rack_count == self.nodes.len() {
            return walk.by_ref().take(n).collect();
        }
        // With s racks at most ceil(n / s) copies lie in one; copies that a small rack can't hold
        // go to nodes that were skipped, in the order of the ring.
        let per_rack = n.div_ceil(rack_count.max(1));
        let mut chosen = Vec::with_capacity(n);
        let mut skipped = Vec::new();
        while chosen.len() < n {
            let Some(node) = walk.next() else { break };
            let same_rack = chosen.iter().filter(|other| self.domain(**other) == self.domain(node));
            if same_rack.count() < per_rack { chosen.push(node) } else { skipped.push(node) }
        }
        let missing = n - chosen.len();
        chosen.extend(skipped.into_iter().take(missing));
        chosen
    }

    /// Returns the preference list of this partition over all nodes: the `n` owners, then the
    /// fallbacks.
    pub fn preference_list(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        let owners = self.owners(partition, n);
        owners.iter().copied().chain(self.fallbacks(partition, &owners)).collect()
    }

    /// Returns the fallbacks of this partition with these owners, in order of preference. The ring
    /// is walked only as far as they are taken.
    pub fn fallbacks(
        &self,
        partition: Partition,
        owners: &[NodeId],
    ) -> impl Iterator<Item = NodeId> {
        RingWalk::new(self, partition).filter(|node| !owners.contains(node))
    }

    /// Returns the number of partitions that each node owns, for all nodes.
    pub fn loads(&self) -> BTreeMap<NodeId, usize> {
        let mut loads: BTreeMap<_, _> = self.nodes.keys().map(|node| (*node, 0)).collect();
        for owner in &self.owners {
            *loads.entry(*owner).or_default() += 1;
        }
        loads
    }

    /// Returns the number of partitions of which each node keeps a copy, with `n` copies.
    pub fn copies(&self, n: usize) -> BTreeMap<NodeId, usize> {
        let mut copies: BTreeMap<_, _> = self.nodes.keys().map(|node| (*node, 0)).collect();
        for partition in 0..self.partitions() {
            for owner in self.owners(Partition(partition), n) {
                *copies.entry(owner).or_default() += 1;
            }
        }
        copies
    }

    /// Returns the number of racks.
    pub(super) fn rack_count(&self) -> usize {
        let mut named = BTreeSet::new();
        let alone = self.nodes.values().filter(|rack| rack.0.is_empty()).count();
        named.extend(self.nodes.values().filter(|rack| !rack.0.is_empty()));
        alone + named.len()
    }

    pub(super) fn domain(&self, node: NodeId) -> FailureDomain<'_> {
        match self.nodes.get(&node) {
            Some(rack) if !rack.0.is_empty() => FailureDomain::Rack(&rack.0),
            _ => FailureDomain::Alone(node),
        }
    }
}

/// Walk of the ring from a partition: returns each node once, in ring order.
struct RingWalk<'a> {
    layout: &'a Layout,
    at: usize,
    remaining: usize,
    visited: Vec<NodeId>,
}

impl RingWalk<'_> {
    fn new(layout: &Layout, from: Partition) -> RingWalk<'_> {
        let count = layout.owners.len();
        RingWalk { layout, at: from.0 as usize % count, remaining: count, visited: Vec::new() }
    }
}

impl Iterator for RingWalk<'_> {
    type Item = NodeId;

    fn next(&mut self) -> Option<NodeId> {
        while self.remaining > 0 && self.visited.len() < self.layout.nodes.len() {
            let node = self.layout.owners[self.at];
            self.at = (self.at + 1) % self.layout.owners.len();
            self.remaining -= 1;
            if !self.visited.contains(&node) {
                self.visited.push(node);
                return Some(node);
            }
        }
        None
    }
}
