//! Set cover: the fewest nodes, by a greedy choice, of which each partition has enough.
//!
//! The fewest nodes at all can't be found in bounded time (set cover is NP-hard). The greedy choice
//! of the node that meets most open demands is at most a logarithm worse (Chvatal, *A greedy
//! heuristic for the set-covering problem*, 1979), and on rings rarely by one node (measured in
//! `tests/cover.rs`).
//!
//! Guarantees: the same demands and the same local node give the same nodes; without any one of the
//! nodes a demand is unmet; the number of steps is bounded by the number of candidates and the
//! square of the number of nodes.

use base::{NodeId, Partition};
use std::collections::BTreeMap;

/// Demand of a partition for answers of some of its candidates.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    /// The partition.
    pub(super) partition: Partition,
    /// Number of candidates to ask, at most all.
    pub(super) count: usize,
    /// Nodes that may be asked, each once.
    pub(super) candidates: Vec<NodeId>,
    /// True if the candidates are fallbacks and not owners.
    pub(super) is_fallback: bool,
}

/// Nodes that meet all demands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    /// Nodes in order of preference: a demand is asked of the first of its candidates.
    pub(super) nodes: Vec<NodeId>,
    /// Number of steps that the search took.
    pub(super) steps: usize,
}

/// Returns the fewest nodes, by a greedy choice, that meet all demands.
///
/// Prefers the cover with the local node if two have the same size; and, of nodes that meet the
/// same number of demands, the first after the local node in cyclic order of ids, so that different
/// coordinators do not all ask one node.
pub(super) fn cover(demands: &[Demand], local: NodeId) -> Cover {
    let mut search = CoverSearch::new(demands, local);
    let forced = search.forced();
    let mut chosen = search.complete(forced.clone());
    // A greedy choice does not look ahead: a cover that begins with the local node is often as
    // small, though another node met more demands at first.
    if search.nodes.first() == Some(&local) && chosen.first() != Some(&0) {
        let begin = std::iter::once(0).chain(forced.into_iter().filter(|node| *node != 0));
        let with_local = search.complete(begin.collect());
        if with_local.len() <= chosen.len() {
            chosen = with_local;
        }
    }
    // The local node answers without a request, so it answers for all that it can.
    chosen.sort_by_key(|node| *node != 0 || search.nodes[0] != local);
    let nodes = chosen.into_iter().map(|node| search.nodes[node]).collect();
    Cover { nodes, steps: search.steps }
}

/// Search for a cover. Nodes are numbers: positions in `nodes`.
struct CoverSearch<'a> {
    demands: &'a [Demand],
    /// All candidates, the local node first, then in cyclic order of ids.
    nodes: Vec<NodeId>,
    /// Candidates of each demand.
    candidates: Vec<Vec<usize>>,
    /// Demands of which each node is a candidate.
    memberships: Vec<Vec<usize>>,
    steps: usize,
}

impl CoverSearch<'_> {
    fn new(demands: &[Demand], local: NodeId) -> CoverSearch<'_> {
        let all = demands.iter().flat_map(|demand| demand.candidates.iter());
        let order = |node: &NodeId| node.0.wrapping_sub(local.0);
        let by_order: BTreeMap<u64, NodeId> = all.map(|node| (order(node), *node)).collect();
        let numbers: BTreeMap<NodeId, usize> = by_order.values().copied().zip(0..).collect();
        let to_numbers = |demand: &Demand| demand.candidates.iter().map(|it| numbers[it]).collect();
        let candidates: Vec<Vec<usize>> = demands.iter().map(to_numbers).collect();
        let mut memberships = vec![Vec::new(); numbers.len()];
        for (demand, candidates) in candidates.iter().enumerate() {
            candidates.iter().for_each(|node| memberships[*node].push(demand));
        }
        let nodes = by_order.into_values().collect();
        CoverSearch { demands, nodes, candidates, memberships, steps: 0 }
    }

    /// Returns the nodes that every cover has: all candidates of a demand for all of them.
    fn forced(&mut self) -> Vec<usize> {
        let mut is_forced = vec![false; self.nodes.len()];
        for (demand, candidates) in self.demands.iter().zip(&self.candidates) {
            self.steps += candidates.len();
            if demand.count >= candidates.len() {
                candidates.iter().for_each(|node| is_forced[*node] = true);
            }
        }
        (0..self.nodes.len()).filter(|node| is_forced[*node]).collect()
    }

    /// Returns a cover of these nodes and others, without those that it does not need.
    fn complete(&mut self, begin: Vec<usize>) -> Vec<usize> {
        let mut open: Vec<usize> = self.demands.iter().map(|demand| demand.count).collect();
        let mut gains: Vec<usize> = self.memberships.iter().map(Vec::len).collect();
        let mut chosen = Vec::new();
        for node in begin {
            self.choose(node, &mut open, &mut gains);
            chosen.push(node);
        }
        loop {
            self.steps += gains.len();
            // Of equal gains the first in `nodes`.
            let best = (0..gains.len()).rev().max_by_key(|node| gains[*node]);
            let Some(node) = best.filter(|node| gains[*node] > 0) else { break };
            self.choose(node, &mut open, &mut gains);
            chosen.push(node);
        }
        self.prune(chosen)
    }

    /// Counts a node for its open demands. `gains`: number of open demands that each node would
    /// meet; zero for chosen nodes.
    fn choose(&mut self, node: usize, open: &mut [usize], gains: &mut [usize]) {
        for demand in &self.memberships[node] {
            self.steps += 1;
            if open[*demand] == 0 {
                continue;
            }
            open[*demand] -= 1;
            // Once for each demand, so all choices together look at each candidate once here.
            if open[*demand] == 0 {
                self.steps += self.candidates[*demand].len();
                for other in &self.candidates[*demand] {
                    gains[*other] = gains[*other].saturating_sub(1);
                }
            }
        }
        gains[node] = 0;
    }

    /// Removes nodes without which all demands are still met, the last one first: an early choice
    /// may have become superfluous by later ones.
    fn prune(&mut self, chosen: Vec<usize>) -> Vec<usize> {
        let mut spare: Vec<usize> = vec![0; self.demands.len()];
        for node in &chosen {
            self.memberships[*node].iter().for_each(|demand| spare[*demand] += 1);
        }
        for (spare, demand) in spare.iter_mut().zip(self.demands) {
            *spare = spare.saturating_sub(demand.count);
        }
        let mut needed = Vec::with_capacity(chosen.len());
        for node in chosen.into_iter().rev() {
            let demands = &self.memberships[node];
            self.steps += 2 * demands.len();
            if demands.iter().any(|demand| spare[*demand] == 0) {
                needed.push(node);
            } else {
                demands.iter().for_each(|demand| spare[*demand] -= 1);
            }
        }
        needed.reverse();
        needed
    }
}
