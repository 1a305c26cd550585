//! Owners table: the owners, fallbacks and receivers of each partition by one ring, looked up once
//! per ring and not once per request.
//!
//! A preference list is a walk over the ring. It is the same for all keys of a partition until the
//! ring changes, and a list is made when a request first needs it. A new ring has a new table.
//!
//! Promises: a list equals what the ring says; all lists of a table take at most a few hundred
//! bytes for each partition and number of copies.
//! Never: asks which nodes are reachable.

use super::coverage_plans::{CoverageNeeds, CoveragePlans};
use base::{NodeId, Partition};
use logic::coverage::CoveragePlan;
use logic::ring::{REPLICAS_MAX, Ring};
use runtime::mutants::Mutant;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// Owners of a partition with one number of copies.
#[derive(Debug, PartialEq, Eq)]
pub struct PartitionOwners {
    /// The partition.
    pub partition: Partition,
    /// Owners, in order of preference.
    pub primaries: Arc<[NodeId]>,
    /// All other nodes, in order of preference.
    pub fallbacks: Arc<[NodeId]>,
    /// Next owners, which are sent every write.
    pub receivers: Vec<NodeId>,
    /// Former owners, which may not know of the change yet.
    pub former_owners: Vec<NodeId>,
}

impl PartitionOwners {
    fn new(ring: &Ring, partition: Partition, n: usize) -> PartitionOwners {
        let mut primaries = ring.preference_list(partition, n);
        if Mutant::ReadFromFutureOwners.is_active()
            && let Some(pending) = ring.pending()
        {
            primaries = pending.layout().preference_list(partition, n);
        }
        let fallbacks = primaries.split_off(ring.owners(partition, n).len());
        let receivers = ring.receivers(partition, n);
        let mut former_owners: Vec<_> = ring.leftovers(partition).collect();
        former_owners.retain(|node| !primaries.contains(node) && !receivers.contains(node));
        let (primaries, fallbacks) = (primaries.into(), fallbacks.into());
        PartitionOwners { partition, primaries, fallbacks, receivers, former_owners }
    }

    /// Returns true if a node keeps the partition's rows: it is one of the current or next owners.
    pub fn is_keeper(&self, node: NodeId) -> bool {
        self.primaries.contains(&node) || self.receivers.contains(&node)
    }

    /// Returns the current and next owners.
    pub fn keepers(&self) -> Vec<NodeId> {
        [&self.primaries[..], &self.receivers].concat()
    }
}

/// Lists of all partitions for one number of copies.
type PartitionLists = Box<[OnceLock<Arc<PartitionOwners>>]>;

/// See the head of this file.
pub struct OwnersTable {
    ring: Arc<Ring>,
    /// Epoch of the last known change of each partition's owners or receivers.
    change_epochs: Vec<u64>,
    /// By number of copies, then by partition.
    lists: [OnceLock<PartitionLists>; REPLICAS_MAX + 1],
    coverage_plans: CoveragePlans,
}

impl OwnersTable {
    /// Creates the table of a ring. `change_epochs`: see [`OwnersTable::change_epochs`].
    pub fn new(ring: Ring, change_epochs: Vec<u64>) -> OwnersTable {
        let lists = std::array::from_fn(|_| OnceLock::new());
        let (ring, coverage_plans) = (Arc::new(ring), CoveragePlans::default());
        OwnersTable { ring, change_epochs, lists, coverage_plans }
    }

    /// Returns the ring.
    pub fn ring(&self) -> &Arc<Ring> {
        &self.ring
    }

    /// Returns the epoch of the last known change of owners or receivers, by partition.
    pub fn change_epochs(&self) -> &[u64] {
        &self.change_epochs
    }

    /// Returns the plan of this node for reads of all partitions, without the nodes that are down.
    pub(super) fn coverage_plan(
        &self,
        needs: CoverageNeeds,
        local: NodeId,
        down: BTreeSet<NodeId>,
    ) -> Arc<CoveragePlan> {
        self.coverage_plans.plan(needs, &self.ring, local, down)
    }

    /// Returns the owners of a partition for buckets with `n` copies.
    pub fn owners(&self, partition: Partition, n: u8) -> Arc<PartitionOwners> {
        let new = || Arc::new(PartitionOwners::new(&self.ring, partition, n.into()));
        let Some(lists) = self.lists.get(usize::from(n)) else { return new() };
        let lists =
            lists.get_or_init(|| (0..self.ring.partitions()).map(|_| OnceLock::new()).collect());
        match lists.get(partition.0 as usize) {
            Some(list) => list.get_or_init(new).clone(),
            None => new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logic::ring::{Rack, RingChangeRequest, plan};
    use proptest::prelude::*;

    /// Random change of a ring, or a part of the change in progress.
    #[derive(Clone, Debug)]
    enum RingStep {
        Join(u64),
        Leave(u64),
        Arrive(u32),
        Cancel,
        Clear(u32, u64),
    }

    fn step() -> impl Strategy<Value = RingStep> {
        prop_oneof![
            4 => (2..9_u64).prop_map(RingStep::Join),
            2 => (1..9_u64).prop_map(RingStep::Leave),
            8 => (0..8_u32).prop_map(RingStep::Arrive),
            1 => Just(RingStep::Cancel),
            2 => (0..8_u32, 1..9_u64).prop_map(|(part, node)| RingStep::Clear(part, node)),
        ]
    }

    /// Returns the ring after a step. `None`: the step is not possible.
    fn next(ring: &Ring, step: &RingStep) -> Option<Ring> {
        let change = match step {
            RingStep::Join(node) => {
                RingChangeRequest::Join { node: NodeId(*node), rack: Rack::default() }
            }
            RingStep::Leave(node) => RingChangeRequest::Leave { node: NodeId(*node) },
            RingStep::Arrive(partition) => return ring.arrive(Partition(*partition), &[1, 3]),
            RingStep::Cancel => return ring.cancel(&[1, 3]),
            RingStep::Clear(partition, node) => {
                return ring.clear_leftovers((Partition(*partition), 0), NodeId(*node));
            }
        };
        let plan = plan(ring, &[change], ring.n(), &BTreeSet::new()).ok()?;
        ring.commit(&plan).ok()
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(200)
        })]

        #[test]
        fn owners_table_equals_the_ring_in_every_state_of_a_change(
            steps in proptest::collection::vec(step(), 0..40),
        ) {
            let mut ring = Ring::initial(NodeId(1), Rack::default(), 8, 3);
            for step in &steps {
                ring = next(&ring, step).unwrap_or(ring);
            }
            let table = OwnersTable::new(ring.clone(), Vec::new());
            for n in [1_u8, 2, 3, 5, 16, 17, 200] {
                for partition in (0..8).map(Partition) {
                    // Asked twice: made, then found.
                    let (first, found) = (table.owners(partition, n), table.owners(partition, n));
                    prop_assert_eq!(&first, &found);
                    let copies = usize::from(n);
                    prop_assert_eq!(&found.primaries[..], ring.owners(partition, copies));
                    prop_assert_eq!(
                        [&found.primaries[..], &found.fallbacks].concat(),
                        ring.preference_list(partition, copies)
                    );
                    prop_assert_eq!(&found.receivers, &ring.receivers(partition, copies));
                    let former: BTreeSet<_> = ring.leftovers(partition).collect();
                    let keepers: BTreeSet<_> = found.keepers().into_iter().collect();
                    prop_assert!(found.former_owners.iter().all(|it| former.contains(it)));
                    let all: BTreeSet<_> = found.former_owners.iter().copied().collect();
                    prop_assert!(all.is_disjoint(&keepers));
                    prop_assert!(former.iter().all(|it| all.contains(it) || keepers.contains(it)));
                    for node in (1..9).map(NodeId) {
                        prop_assert_eq!(found.is_keeper(node), keepers.contains(&node));
                    }
                }
            }
        }
    }
}
