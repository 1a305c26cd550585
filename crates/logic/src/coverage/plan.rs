//! Coverage plan: the nodes that answer for all partitions, R for each partition.
//!
//! An owner that is up answers for itself. Only where fewer than R owners are up, fallbacks answer
//! in place of those that are down, as in a read of one key: the first fallbacks that are up, as
//! many as owners are down, because those have the writes that the owners missed.
//!
//! A plan holds for one epoch of the ring. Questions carry it, and a node with a newer ring refuses
//! them: then a new plan is made.

use super::cover::{Demand, cover};
use super::partition_runs::PartitionRuns;
use crate::ring::Ring;
use base::{NodeId, Partition, Share, Shortfall};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Partitions that each node answers for.
pub type CoverageShares = BTreeMap<NodeId, CoverageShare>;

/// Request for a plan.
#[derive(Clone, Copy, Debug)]
pub struct CoverageRequest<'a> {
    /// Ring by which owners are chosen.
    pub ring: &'a Ring,
    /// Number of copies of the bucket's keys.
    pub copies: usize,
    /// Number of replicas that answer for each partition (R). It counts as 1 if it is 0, and as the
    /// number of owners if a partition has fewer.
    pub replicas: usize,
    /// Node that makes the plan: it is first among equals.
    pub local: NodeId,
    /// True if fallbacks answer in the place of owners that are down, beside one that is up.
    pub use_fallbacks: bool,
}

/// Partitions that one node answers for; none is in both sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoverageShare {
    /// Partitions of which it is an owner.
    pub owned: PartitionRuns,
    /// Partitions for which it answers as a fallback.
    pub as_fallback: PartitionRuns,
}

impl CoverageShare {
    /// Returns all partitions of the share, not in order.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> {
        self.owned.iter().chain(self.as_fallback.iter())
    }

    /// Returns true if the node answers for a partition.
    pub fn contains(&self, partition: Partition) -> bool {
        self.owned.contains(partition) || self.as_fallback.contains(partition)
    }
}

/// Plan of a coverage query; see the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveragePlan {
    epoch: u64,
    shares: CoverageShares,
    /// Number of nodes that answer for each partition.
    answers: Vec<u8>,
    /// Number of nodes that should answer for each partition.
    needed: Vec<u8>,
}

/// Error of a plan in which some partitions have fewer than R replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncompleteCoverage {
    /// Partitions with too few replicas.
    pub partitions: PartitionRuns,
    /// Fewest replicas that one of them has, and the number required.
    pub shortfall: Shortfall,
}

impl fmt::Display for IncompleteCoverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.partitions.len() == 1 { "partition" } else { "partitions" };
        write!(f, "too few replicas of {noun} {} are reached", self.partitions)
    }
}

impl CoverageRequest<'_> {
    /// Returns the plan with the fewest nodes, by a greedy choice. Partitions with fewer than R
    /// reachable replicas are asked of those, and are [`CoveragePlan::incomplete`].
    pub fn plan(&self, is_down: impl Fn(NodeId) -> bool) -> CoveragePlan {
        let partitions = self.ring.partitions() as usize;
        let mut plan = CoveragePlan {
            epoch: self.ring.epoch(),
            shares: CoverageShares::new(),
            answers: vec![0; partitions],
            needed: vec![0; partitions],
        };
        let all = (0..self.ring.partitions()).map(|number| (Partition(number), Vec::new()));
        self.add(&mut plan, all, &is_down);
        plan
    }

    /// Adds the nodes that these partitions still need to a plan; with each partition, the nodes
    /// that are asked already. Returns what was added.
    fn add(
        &self,
        plan: &mut CoveragePlan,
        partitions: impl Iterator<Item = (Partition, Vec<NodeId>)>,
        is_down: &impl Fn(NodeId) -> bool,
    ) -> CoverageShares {
        let mut demands = Vec::new();
        for (partition, asked) in partitions {
            let at = partition.0 as usize;
            (plan.answers[at], plan.needed[at]) = (asked.len() as u8, 0);
            self.push_demands(&mut demands, (partition, &asked), &mut plan.needed[at], is_down);
        }
        let nodes = cover(&demands, self.local).nodes;
        let ranks: BTreeMap<NodeId, usize> = nodes.iter().copied().zip(0..).collect();
        let mut assigned: BTreeMap<NodeId, [Vec<Partition>; 2]> = BTreeMap::new();
        for Demand { partition, count, candidates, is_fallback } in demands {
            let mut chosen: Vec<_> =
                candidates.iter().filter_map(|node| Some((ranks.get(node)?, *node))).collect();
            chosen.sort_unstable();
            for (_, node) in chosen.into_iter().take(count) {
                assigned.entry(node).or_default()[usize::from(is_fallback)].push(partition);
                plan.answers[partition.0 as usize] += 1;
            }
        }
        let to_share = |[owned, fallback]: [Vec<Partition>; 2]| CoverageShare {
            owned: owned.into_iter().collect(),
            as_fallback: fallback.into_iter().collect(),
        };
        let added: CoverageShares =
            assigned.into_iter().map(|(node, parts)| (node, to_share(parts))).collect();
        for (node, share) in &added {
            let all = plan.shares.entry(*node).or_default();
            all.owned.extend(&share.owned);
            all.as_fallback.extend(&share.as_fallback);
        }
        added
    }

    /// Appends what a partition needs besides the nodes that are asked already. Sets the number
    /// that should answer for it.
    fn push_demands(
        &self,
        demands: &mut Vec<Demand>,
        (partition, asked): (Partition, &[NodeId]),
        needed: &mut u8,
        is_down: &impl Fn(NodeId) -> bool,
    ) {
        let is_up = |node: &NodeId| !is_down(*node);
        let is_free = |node: &NodeId| !asked.contains(node) && is_up(node);
        let owners = self.ring.owners(partition, self.copies);
        let replicas = self.replicas.clamp(1, owners.len().max(1));
        *needed = replicas as u8;
        let open = replicas.saturating_sub(asked.len());
        let free: Vec<_> = owners.iter().copied().filter(is_free).collect();
        let (count, rest) = (open.min(free.len()), open.saturating_sub(free.len()));
        if count > 0 {
            demands.push(Demand { partition, count, candidates: free, is_fallback: false });
        }
        let has_owner = count > 0 || owners.iter().any(|node| asked.contains(node));
        if rest == 0 || !self.use_fallbacks || !has_owner {
            return;
        }
        // One fallback for each owner that is down: those have its writes, and later ones nothing.
        let down = owners.iter().filter(|node| !asked.contains(node) && !is_up(node)).count();
        let fallbacks = self.ring.fallbacks(partition, &owners).filter(is_up).take(down);
        let candidates: Vec<_> = fallbacks.filter(is_free).collect();
        let count = rest.min(candidates.len());
        if count > 0 {
            demands.push(Demand { partition, count, candidates, is_fallback: true });
        }
    }
}

impl CoveragePlan {
    /// Returns the epoch of the ring that the plan was made from.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of partitions of that ring.
    pub fn partitions(&self) -> u32 {
        self.answers.len() as u32
    }

    /// Returns the nodes to ask, each with its partitions.
    pub fn shares(&self) -> &CoverageShares {
        &self.shares
    }

    /// Returns the number of nodes that answer for a partition: R, or fewer if it is incomplete.
    pub fn answers(&self, partition: Partition) -> usize {
        self.answers.get(partition.0 as usize).copied().map_or(0, usize::from)
    }

    /// Returns the number of owners among the nodes that answer for a partition.
    pub fn owners(&self, partition: Partition) -> usize {
        self.shares.values().filter(|share| share.owned.contains(partition)).count()
    }

    /// Returns the partitions for which fewer than R nodes answer.
    pub fn incomplete(&self) -> PartitionRuns {
        self.incomplete_partitions().collect()
    }

    fn incomplete_partitions(&self) -> impl Iterator<Item = Partition> {
        let numbers = self.answers.iter().zip(&self.needed).zip(0..);
        numbers.filter(|((answers, needed), _)| answers < needed).map(|(_, at)| Partition(at))
    }

    /// Returns an error that names the incomplete partitions, if there are any. A query that may
    /// be answered in part does not call this.
    pub fn check_complete(&self) -> Result<(), IncompleteCoverage> {
        let partitions = self.incomplete();
        let worst = partitions.iter().map(|it| it.0 as usize).min_by_key(|at| self.answers[*at]);
        let Some(worst) = worst else { return Ok(()) };
        let (got, needed) = (self.answers[worst], self.needed[worst]);
        let shortfall = Shortfall { share: Share::R, got, needed };
        Err(IncompleteCoverage { partitions, shortfall })
    }

    /// Replaces a node that was lost before it had answered. Returns the nodes to ask in its place,
    /// each with its partitions; other partitions keep their nodes. Partitions without a
    /// replacement become incomplete. `None`: the ring has changed since the plan was made, so a
    /// new plan is needed.
    pub fn replace(
        &mut self,
        lost: NodeId,
        request: &CoverageRequest,
        is_down: impl Fn(NodeId) -> bool,
    ) -> Option<CoverageShares> {
        if request.ring.epoch() != self.epoch {
            return None;
        }
        let Some(share) = self.shares.remove(&lost) else { return Some(CoverageShares::new()) };
        let partitions: BTreeSet<_> = share.partitions().collect();
        let mut asked: BTreeMap<Partition, Vec<NodeId>> =
            partitions.into_iter().map(|partition| (partition, Vec::new())).collect();
        for (node, share) in &self.shares {
            for partition in share.partitions() {
                if let Some(nodes) = asked.get_mut(&partition) {
                    nodes.push(*node);
                }
            }
        }
        Some(request.add(self, asked.into_iter(), &|node| node == lost || is_down(node)))
    }
}
