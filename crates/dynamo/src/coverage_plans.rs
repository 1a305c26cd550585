//! Coverage plans by one ring, kept for the reads that follow: a plan looks at the owners of every
//! partition, and the next read most likely needs the same one.
//!
//! Promises: a plan equals a new one for the same needs and nodes; at most [`PLANS_MAX`] are kept.
//! Never: asks which nodes are reachable.

use base::NodeId;
use logic::coverage::{CoveragePlan, CoverageRequest};
use logic::ring::Ring;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// Maximum number of plans of a ring. One more replaces all: other nodes are down than before.
const PLANS_MAX: usize = 16;

/// Replicas that a read of all partitions asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CoverageNeeds {
    /// Number of copies of the rows: the owners of this many copies keep them.
    pub(super) copies: usize,
    /// Number of replicas that answer for each partition (R).
    pub(super) replicas: usize,
    /// True if fallbacks answer in place of owners that are down.
    pub(super) use_fallbacks: bool,
}

impl CoverageNeeds {
    /// Returns the request for a plan.
    pub(super) fn request(self, ring: &Ring, local: NodeId) -> CoverageRequest<'_> {
        let CoverageNeeds { copies, replicas, use_fallbacks } = self;
        CoverageRequest { ring, copies, replicas, local, use_fallbacks }
    }
}

/// Needs of a read, and the nodes that are down.
type PlanKey = (CoverageNeeds, BTreeSet<NodeId>);

/// Plans of one node by one ring; see the head of this file.
#[derive(Default)]
pub(super) struct CoveragePlans(Mutex<BTreeMap<PlanKey, Arc<CoveragePlan>>>);

impl CoveragePlans {
    /// Returns the plan of the local node, by the ring of which these plans are.
    pub(super) fn plan(
        &self,
        needs: CoverageNeeds,
        ring: &Ring,
        local: NodeId,
        down: BTreeSet<NodeId>,
    ) -> Arc<CoveragePlan> {
        let plans = || self.0.lock().expect("no one panics while holding it");
        let key = (needs, down);
        if let Some(plan) = plans().get(&key) {
            return plan.clone();
        }
        // Without the lock: the first reads by a new ring may each make a plan.
        let plan = Arc::new(needs.request(ring, local).plan(|node| key.1.contains(&node)));
        let mut plans = plans();
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.insert(key, plan.clone());
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::ring_of;

    #[test]
    fn kept_plan_equals_a_new_one_and_their_number_is_bounded() {
        let (ring, plans) = (ring_of(6), CoveragePlans::default());
        let mut kept = 0;
        for (replicas, set) in
            (1..=3).flat_map(|replicas| (0..16_u64).map(move |it| (replicas, it)))
        {
            let needs = CoverageNeeds { copies: 3, replicas, use_fallbacks: set % 3 == 0 };
            let down = (2..6).filter(|node| set >> (node - 2) & 1 == 1).map(NodeId);
            let down: BTreeSet<_> = down.collect();
            let new = needs.request(&ring, NodeId(1)).plan(|node| down.contains(&node));
            let plan = || plans.plan(needs, &ring, NodeId(1), down.clone());
            let first = plan();
            assert_eq!(*first, new);
            assert!(Arc::ptr_eq(&first, &plan()), "it is kept");
            kept = kept.max(plans.0.lock().expect("one thread").len());
        }
        assert_eq!(kept, PLANS_MAX);
    }
}
