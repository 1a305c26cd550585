//! Ring: one layout, or two while copies move from one to the other.

use super::change::PlanError;
use super::layout::{Layout, Rack};
use super::plan::Plan;
use super::point::{Point, check_partitions};
use base::{NodeId, Partition};
use std::collections::BTreeSet;

/// Most copies of a key for which a ring is laid out.
pub const REPLICAS_MAX: usize = 16;

/// Ring: the owners of all partitions, as all nodes know them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    pub(super) epoch: u64,
    /// Number of copies for which it is laid out.
    pub(super) n: usize,
    pub(super) layout: Layout,
    pub(super) pending: Option<PendingLayout>,
    /// Nodes that still have rows of a partition which they no longer own.
    pub(super) leftovers: Marks,
}

/// Set of partitions with nodes.
pub(super) type Marks = BTreeSet<(Partition, NodeId)>;

/// Pending layout and the progress towards it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLayout {
    pub(super) layout: Layout,
    /// Partitions whose owners are the new ones already.
    pub(super) arrived: BTreeSet<Partition>,
    /// True if each pair of partitions becomes one when all have arrived.
    pub(super) halves: bool,
    /// Epoch with which the change began; it identifies the change.
    pub(super) since: u64,
    /// Nodes that have received their copy of a partition that has not arrived.
    pub(super) received: Marks,
}

/// Partition copy that a node still has to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingCopy {
    /// The partition.
    pub partition: Partition,
    /// Node that receives it.
    pub to: NodeId,
    /// Nodes that have it, in order of preference.
    pub from: Vec<NodeId>,
}

impl Ring {
    /// Returns the first ring of a cluster: its founder owns all. The number of partitions must
    /// satisfy [`check_partitions`]; the number of copies is 1 to [`REPLICAS_MAX`].
    pub fn initial(node: NodeId, rack: Rack, partitions: u32, n: usize) -> Ring {
        assert!(check_partitions(partitions), "the number of partitions was checked");
        assert!((1..=REPLICAS_MAX).contains(&n), "the number of copies was checked");
        let layout = Layout::of_one(node, rack, partitions);
        Ring { epoch: 1, n, layout, pending: None, leftovers: Marks::new() }
    }

    /// Returns the ring for the single surviving node of a cluster: it owns everything, and nothing
    /// moves.
    pub fn for_sole_survivor(&self, node: NodeId) -> Ring {
        let rack = self.layout.nodes().get(&node).cloned().unwrap_or(Rack(String::new()));
        let layout = Layout::of_one(node, rack, self.partitions());
        let epoch = self.epoch + 1;
        Ring { epoch, n: self.n, layout, pending: None, leftovers: Marks::new() }
    }

    /// Returns the partitions of which a node has a complete copy.
    pub fn copied_partitions(&self, node: NodeId) -> impl Iterator<Item = Partition> {
        let is_owner = move |partition: &Partition| self.owners(*partition, self.n).contains(&node);
        (0..self.partitions()).map(Partition).filter(is_owner)
    }

    /// Returns the epoch; it increases with every change of the ring.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of copies of a key for which it is laid out.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Returns the number of partitions.
    pub fn partitions(&self) -> u32 {
        self.layout.partitions()
    }

    /// Returns the layout in force; for partitions that have arrived at the pending one, their
    /// former layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the pending layout. `None`: nothing moves.
    pub fn pending(&self) -> Option<&PendingLayout> {
        self.pending.as_ref()
    }

    /// Returns the partition of this point.
    pub fn partition(&self, point: &Point) -> Partition {
        point.partition(self.partitions())
    }

    /// Returns the `n` nodes that keep the copies of this partition now, in order of preference;
    /// fewer if there are fewer nodes.
    pub fn owners(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        self.layout_of(partition).owners(partition, n)
    }

    /// Returns the preference list over all nodes: the `n` owners, then the fallbacks.
    pub fn preference_list(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        self.layout_of(partition).preference_list(partition, n)
    }

    /// Returns the fallbacks of this partition with these owners, in order of preference.
    pub fn fallbacks(
        &self,
        partition: Partition,
        owners: &[NodeId],
    ) -> impl Iterator<Item = NodeId> {
        self.layout_of(partition).fallbacks(partition, owners)
    }

    /// Returns the owners of this partition after its hand-off; the current ones if it stays.
    pub fn future_owners(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        let next = self.pending.as_ref().map_or(&self.layout, |pending| &pending.layout);
        next.owners(partition, n)
    }

    /// Returns the nodes that are to get copies of this partition and are not among its owners yet.
    /// They receive every write meanwhile, so that a copy that arrives late misses nothing.
    pub fn receivers(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        let is_moving = |pending: &PendingLayout| !pending.arrived.contains(&partition);
        if !self.pending.as_ref().is_some_and(is_moving) {
            return Vec::new();
        }
        let now = self.owners(partition, n);
        let mut next = self.future_owners(partition, n);
        next.retain(|node| !now.contains(node));
        next
    }

    /// Returns the copies that still have to move, in the order of partitions, for buckets with `n`
    /// copies. A partition of which nothing has to move, whatever the bucket, has arrived.
    pub fn pending_copies(&self, n: usize) -> Vec<PendingCopy> {
        let partitions = (0..self.partitions()).map(Partition);
        let moves = partitions.flat_map(|partition| {
            let from = self.owners(partition, n);
            let receivers = self.receivers(partition, n).into_iter();
            receivers.map(move |to| PendingCopy { partition, to, from: from.clone() })
        });
        moves.collect()
    }

    /// Returns the ring after a plan is committed. Errors: refused if it was made for an earlier
    /// ring.
    pub fn commit(&self, plan: &Plan) -> Result<Ring, PlanError> {
        if plan.made_for != self.epoch {
            return Err(PlanError::Outdated { base_epoch: plan.made_for, epoch: self.epoch });
        }
        let mut ring = Ring { epoch: self.epoch + 1, n: plan.n, ..self.clone() };
        if plan.doubles {
            ring.layout = plan.next.clone();
            let halves = |(partition, node): &(Partition, NodeId)| {
                let (first, node) = (partition.0 * 2, *node);
                [(Partition(first), node), (Partition(first + 1), node)]
            };
            ring.leftovers = self.leftovers.iter().flat_map(halves).collect();
            return Ok(ring);
        }
        ring.pending = Some(PendingLayout::new(plan.next.clone(), plan.halves, ring.epoch));
        let unmoved = |partition: &Partition| {
            (1..=REPLICAS_MAX)
                .all(|n| self.layout.owners(*partition, n) == plan.next.owners(*partition, n))
        };
        let arrived: Vec<_> = (0..self.partitions()).map(Partition).filter(unmoved).collect();
        ring.mark_arrived(arrived, &[]);
        Ok(ring)
    }

    /// Marks partitions as arrived of which nothing has to be copied for these numbers of copies.
    pub fn mark_idle_arrived(mut self, numbers: &[usize]) -> Ring {
        let idle = |partition: &Partition| {
            numbers.iter().all(|n| self.receivers(*partition, *n).is_empty())
        };
        let idle: Vec<_> = (0..self.partitions()).map(Partition).filter(idle).collect();
        self.mark_arrived(idle, numbers);
        self
    }

    /// Returns the ring after all copies of a partition have reached its new owners. `None`: the
    /// partition does not move. `numbers`: numbers of copies that buckets use; former owners by any
    /// of them have leftovers.
    pub fn arrive(&self, partition: Partition, numbers: &[usize]) -> Option<Ring> {
        let pending = self.pending.as_ref()?;
        let exists = partition.0 < self.partitions();
        if !exists || pending.arrived.contains(&partition) {
            return None;
        }
        let mut ring = Ring { epoch: self.epoch + 1, ..self.clone() };
        ring.mark_arrived([partition], numbers);
        Some(ring)
    }

    /// Returns the ring after a node has received its copy of a partition, in the change that began
    /// at `since`; with the last copy, the partition arrives. `None`: the copy is not awaited.
    pub fn receive(
        &self,
        since: u64,
        (partition, node): (Partition, NodeId),
        numbers: &[usize],
    ) -> Option<Ring> {
        let is_receiver = |node: &NodeId, n: &usize| self.receivers(partition, *n).contains(node);
        let is_awaited = numbers.iter().any(|n| is_receiver(&node, n));
        let pending = self.pending.as_ref().filter(|it| it.since == since && is_awaited)?;
        if pending.received.contains(&(partition, node)) {
            return None;
        }
        let mut ring = Ring { epoch: self.epoch + 1, ..self.clone() };
        let received = &mut ring.pending.as_mut()?.received;
        received.insert((partition, node));
        let mut all = numbers.iter().flat_map(|n| self.receivers(partition, *n));
        if all.all(|node| received.contains(&(partition, node))) {
            ring.mark_arrived([partition], numbers);
        }
        Some(ring)
    }

    /// Returns the ring after a node has deleted its leftovers of a partition, numbered in a ring
    /// of `of` partitions (0: of this one). `None`: it had none, or the numbers have changed since.
    pub fn clear_leftovers(&self, (partition, of): (Partition, u32), node: NodeId) -> Option<Ring> {
        if of != 0 && of != self.partitions() {
            return None;
        }
        let mut ring = Ring { epoch: self.epoch + 1, ..self.clone() };
        ring.leftovers.remove(&(partition, node)).then_some(ring)
    }

    /// Removes leftovers of nodes that are gone for good, so that no change waits for them.
    pub fn without_leftovers_of(mut self, is_removed: impl Fn(NodeId) -> bool) -> Ring {
        self.leftovers.retain(|(_, node)| !is_removed(*node));
        self
    }

    /// Ends the wait for receivers that are gone for good: a partition arrives without them, if a
    /// future owner that is left has it, or no former owner is left. `numbers`: numbers of copies
    /// that buckets use.
    pub fn without_receivers_of(
        mut self,
        is_removed: impl Fn(NodeId) -> bool,
        numbers: &[usize],
    ) -> Ring {
        let Some(pending) = &self.pending else { return self };
        let is_complete = |partition: &Partition, n: usize| {
            let now = self.layout.owners(*partition, n);
            let next = pending.layout.owners(*partition, n);
            let has = |node: &NodeId| now.contains(node) || pending.has_received(*partition, *node);
            let (has, lack): (Vec<_>, Vec<_>) = next.into_iter().partition(has);
            let has_source = has.iter().any(|node| !is_removed(*node))
                || now.iter().all(|node| is_removed(*node));
            lack.is_empty() || lack.iter().all(|node| is_removed(*node)) && has_source
        };
        let is_moving = |partition: &Partition| !pending.arrived.contains(partition);
        let complete = (0..self.partitions()).map(Partition).filter(is_moving);
        let complete =
            complete.filter(|partition| numbers.iter().all(|n| is_complete(partition, *n)));
        let complete: Vec<_> = complete.collect();
        self.mark_arrived(complete, numbers);
        self
    }

    /// Returns the same ring, one epoch later.
    pub fn with_next_epoch(self) -> Ring {
        Ring { epoch: self.epoch + 1, ..self }
    }

    /// Returns the nodes that still have rows of this partition which they no longer own. While
    /// there are any, or receivers, tombstones of the partition must not be reaped.
    pub fn leftovers(&self, partition: Partition) -> impl Iterator<Item = NodeId> {
        let range = (partition, NodeId(0))..=(partition, NodeId(u64::MAX));
        self.leftovers.range(range).map(|(_, node)| *node)
    }

    /// Returns the partitions of which this node has leftovers, in order.
    pub fn leftover_partitions(&self, node: NodeId) -> impl Iterator<Item = Partition> {
        self.leftovers.iter().filter(move |(_, at)| *at == node).map(|(partition, _)| *partition)
    }

    /// Returns the ring after the change in progress is cancelled. Partitions that have arrived go
    /// back by a change in the other direction, since their former owners may have missed writes.
    /// `None`: no change is in progress.
    pub fn cancel(&self, numbers: &[usize]) -> Option<Ring> {
        let pending = self.pending.clone()?;
        let epoch = self.epoch + 1;
        let has_arrived = |partition: &Partition| pending.arrived.contains(partition);
        let arrived = (0..self.partitions()).map(Partition).filter(|one| !has_arrived(one));
        let arrived: Vec<_> = arrived.collect();
        let mut leftovers = self.leftovers.clone();
        // A future owner may have received a part of the copy.
        for partition in &arrived {
            let receivers = numbers.iter().flat_map(|n| self.receivers(*partition, *n));
            leftovers.extend(receivers.map(|node| (*partition, node)));
        }
        let reverse = PendingLayout::new(self.layout.clone(), false, epoch);
        let mut ring =
            Ring { epoch, n: self.n, layout: pending.layout, pending: Some(reverse), leftovers };
        ring.mark_arrived(arrived, &[]);
        Some(ring)
    }

    /// Returns the nodes that still have to receive a copy, for these numbers of copies.
    pub fn awaited_receivers(&self, numbers: &[usize]) -> BTreeSet<NodeId> {
        let partitions = (0..self.partitions()).map(Partition);
        let all = partitions.flat_map(|partition| {
            let receivers = numbers.iter().flat_map(move |n| self.receivers(partition, *n));
            receivers.map(move |node| (partition, node))
        });
        let received = |(partition, node): &(Partition, NodeId)| {
            self.pending.as_ref().is_some_and(|it| it.has_received(*partition, *node))
        };
        all.filter(|it| !received(it)).map(|(_, node)| node).collect()
    }

    fn layout_of(&self, partition: Partition) -> &Layout {
        match &self.pending {
            Some(pending) if pending.arrived.contains(&partition) => &pending.layout,
            _ => &self.layout,
        }
    }

    /// Marks partitions as arrived; with the last one, the pending layout replaces the old one.
    fn mark_arrived(&mut self, partitions: impl IntoIterator<Item = Partition>, numbers: &[usize]) {
        let Some(pending) = &mut self.pending else { return };
        for partition in partitions {
            if !pending.arrived.insert(partition) {
                continue;
            }
            pending.received.retain(|(received, _)| *received != partition);
            for n in numbers {
                let mut former = self.layout.owners(partition, *n);
                let owners = pending.layout.owners(partition, *n);
                former.retain(|node| !owners.contains(node));
                self.leftovers.extend(former.into_iter().map(|node| (partition, node)));
            }
        }
        if pending.arrived.len() < pending.layout.owners.len() {
            return;
        }
        self.layout = pending.layout.clone();
        if pending.halves {
            self.layout.owners = self.layout.owners.iter().copied().step_by(2).collect();
            let merged = |(half, node): &(Partition, NodeId)| (Partition(half.0 / 2), *node);
            self.leftovers = self.leftovers.iter().map(merged).collect();
        }
        self.pending = None;
    }
}

impl PendingLayout {
    fn new(layout: Layout, halves: bool, since: u64) -> PendingLayout {
        let (arrived, received) = (BTreeSet::new(), Marks::new());
        PendingLayout { layout, arrived, halves, since, received }
    }

    /// Returns the epoch with which the change began; it identifies the change.
    pub fn start_epoch(&self) -> u64 {
        self.since
    }

    /// Returns true if this node has reported its copy of a partition as received.
    pub fn has_received(&self, partition: Partition, node: NodeId) -> bool {
        self.received.contains(&(partition, node))
    }

    /// Returns the pending layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Returns the number of partitions that have arrived at it.
    pub fn arrived(&self) -> usize {
        self.arrived.len()
    }

    /// Returns true if this partition has arrived.
    pub fn has_arrived(&self, partition: Partition) -> bool {
        self.arrived.contains(&partition)
    }

    /// Returns true if each pair of partitions becomes one at the end.
    pub fn is_halving(&self) -> bool {
        self.halves
    }
}
