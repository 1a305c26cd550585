//! The ring itself: one layout, or two while copies move from one to the other.

use super::change::Unsafe;
use super::layout::{Layout, Rack};
use super::plan::Plan;
use super::point::{Point, check_partitions};
use base::{NodeId, Partition};
use std::collections::BTreeSet;

/// A ring is laid out for at most so many copies of a key.
pub const REPLICAS_MAX: usize = 16;

/// Who owns what, as all nodes know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    pub(super) epoch: u64,
    /// For how many copies it is laid out.
    pub(super) n: usize,
    pub(super) layout: Layout,
    pub(super) pending: Option<PendingLayout>,
    /// Who still has rows of a partition that are not its to keep any more.
    pub(super) leftovers: Marks,
}

/// Partitions and nodes of which something is to be known.
pub(super) type Marks = BTreeSet<(Partition, NodeId)>;

/// The layout that comes, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLayout {
    pub(super) layout: Layout,
    /// The partitions whose owners are the new ones already.
    pub(super) arrived: BTreeSet<Partition>,
    /// Whether each two partitions become one when all have arrived.
    pub(super) halves: bool,
    /// The epoch with which the change began: its name.
    pub(super) since: u64,
    /// Of partitions that have not arrived: who has its copy already.
    pub(super) received: Marks,
}

/// A partition's copy that a node is still to receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copying {
    /// The partition.
    pub partition: Partition,
    /// Who receives it.
    pub to: NodeId,
    /// Who has it, the first to be asked first.
    pub from: Vec<NodeId>,
}

impl Ring {
    /// The first ring of a cluster: all is owned by its founder. The number of partitions is one
    /// that [`check_partitions`] allows, the copies are 1 to [`REPLICAS_MAX`].
    pub fn founded(node: NodeId, rack: Rack, partitions: u32, n: usize) -> Ring {
        assert!(check_partitions(partitions), "the number of partitions was checked");
        assert!((1..=REPLICAS_MAX).contains(&n), "the number of copies was checked");
        let layout = Layout::of_one(node, rack, partitions);
        Ring { epoch: 1, n, layout, pending: None, leftovers: Marks::new() }
    }

    /// The ring of the one node that is left of a cluster: it keeps everything, has nothing to give
    /// and gets nothing.
    pub fn of_survivor(&self, node: NodeId) -> Ring {
        let rack = self.layout.nodes().get(&node).cloned().unwrap_or(Rack(String::new()));
        let layout = Layout::of_one(node, rack, self.partitions());
        let epoch = self.epoch + 1;
        Ring { epoch, n: self.n, layout, pending: None, leftovers: Marks::new() }
    }

    /// The partitions of which a node has a whole copy.
    pub fn copied_at(&self, node: NodeId) -> impl Iterator<Item = Partition> {
        let keeps = move |partition: &Partition| self.owners(*partition, self.n).contains(&node);
        (0..self.partitions()).map(Partition).filter(keeps)
    }

    /// Goes up with every change of the ring.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// For how many copies of a key it is laid out.
    pub fn n(&self) -> usize {
        self.n
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> u32 {
        self.layout.partitions()
    }

    /// The layout in force; of partitions that have gone over, the one of before.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The layout that comes.
    pub fn pending(&self) -> Option<&PendingLayout> {
        self.pending.as_ref()
    }

    /// The partition of this point.
    pub fn partition(&self, point: &Point) -> Partition {
        point.partition(self.partitions())
    }

    /// The nodes that keep the `n` copies of what lies in this partition now, the first to be asked
    /// first; fewer where fewer nodes exist.
    pub fn owners(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        self.at(partition).owners(partition, n)
    }

    /// All nodes in the order in which they are asked: the `n` owners, then the fallbacks.
    pub fn preference(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        self.at(partition).preference(partition, n)
    }

    /// Who own this partition once it has gone over; its owners, if it stays where it is.
    pub fn successors(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        let next = self.pending.as_ref().map_or(&self.layout, |pending| &pending.layout);
        next.owners(partition, n)
    }

    /// Who is to have copies of this partition and is not among its owners yet: they are sent every
    /// write, so that a copy that arrives late misses nothing.
    pub fn receivers(&self, partition: Partition, n: usize) -> Vec<NodeId> {
        let moves = |pending: &PendingLayout| !pending.arrived.contains(&partition);
        if !self.pending.as_ref().is_some_and(moves) {
            return Vec::new();
        }
        let now = self.owners(partition, n);
        let mut next = self.successors(partition, n);
        next.retain(|node| !now.contains(node));
        next
    }

    /// The copies that are still to move, in the order of the partitions, for buckets with so many
    /// copies. A partition of which nothing is to move, whatever the bucket, has arrived.
    pub fn copying(&self, n: usize) -> Vec<Copying> {
        let partitions = (0..self.partitions()).map(Partition);
        let moves = partitions.flat_map(|partition| {
            let from = self.owners(partition, n);
            let receivers = self.receivers(partition, n).into_iter();
            receivers.map(move |to| Copying { partition, to, from: from.clone() })
        });
        moves.collect()
    }

    /// The ring after a plan was decided. Refused if it was made for an earlier ring.
    pub fn commit(&self, plan: &Plan) -> Result<Ring, Unsafe> {
        if plan.made_for != self.epoch {
            return Err(Unsafe::Outdated { made_for: plan.made_for, epoch: self.epoch });
        }
        let mut ring = Ring { epoch: self.epoch + 1, n: plan.n, ..self.clone() };
        if plan.doubles {
            ring.layout = plan.next.clone();
            let halves = |(whole, node): &(Partition, NodeId)| {
                let (first, node) = (whole.0 * 2, *node);
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
        ring.arrive_all(arrived, &[]);
        Ok(ring)
    }

    /// The same ring, where partitions of which nothing is to be copied for these numbers of copies
    /// have gone over.
    pub fn without_idle(mut self, numbers: &[usize]) -> Ring {
        let idle = |partition: &Partition| {
            numbers.iter().all(|n| self.receivers(*partition, *n).is_empty())
        };
        let idle: Vec<_> = (0..self.partitions()).map(Partition).filter(idle).collect();
        self.arrive_all(idle, numbers);
        self
    }

    /// The ring after all copies of a partition have come to its new owners; `None` if it is not on
    /// its way. `numbers`: how many copies buckets ask for; who kept one of those and does not any
    /// more has leftovers.
    pub fn arrive(&self, partition: Partition, numbers: &[usize]) -> Option<Ring> {
        let pending = self.pending.as_ref()?;
        let known = partition.0 < self.partitions();
        if !known || pending.arrived.contains(&partition) {
            return None;
        }
        let mut ring = Ring { epoch: self.epoch + 1, ..self.clone() };
        ring.arrive_all([partition], numbers);
        Some(ring)
    }

    /// The ring after a node has received its copy of a partition, in the change of this name; with
    /// the last one, the partition goes over. `None`: nobody waits for it.
    pub fn receive(
        &self,
        since: u64,
        (partition, node): (Partition, NodeId),
        numbers: &[usize],
    ) -> Option<Ring> {
        let waits = |node: &NodeId, n: &usize| self.receivers(partition, *n).contains(node);
        let awaited = numbers.iter().any(|n| waits(&node, n));
        let pending = self.pending.as_ref().filter(|it| it.since == since && awaited)?;
        if pending.received.contains(&(partition, node)) {
            return None;
        }
        let mut ring = Ring { epoch: self.epoch + 1, ..self.clone() };
        let received = &mut ring.pending.as_mut()?.received;
        received.insert((partition, node));
        let mut all = numbers.iter().flat_map(|n| self.receivers(partition, *n));
        if all.all(|node| received.contains(&(partition, node))) {
            ring.arrive_all([partition], numbers);
        }
        Some(ring)
    }

    /// The ring after a node has let go of what it had left of a partition, of a ring of so many
    /// (0: of this one); `None`: it had nothing, or the partition is another one by now.
    pub fn clear(&self, (partition, of): (Partition, u32), node: NodeId) -> Option<Ring> {
        if of != 0 && of != self.partitions() {
            return None;
        }
        let mut ring = Ring { epoch: self.epoch + 1, ..self.clone() };
        ring.leftovers.remove(&(partition, node)).then_some(ring)
    }

    /// The same ring without leftovers of nodes that are gone for good: nobody waits for them.
    pub fn without_leftovers_of(mut self, gone: impl Fn(NodeId) -> bool) -> Ring {
        self.leftovers.retain(|(_, node)| !gone(*node));
        self
    }

    /// The same ring, where nobody waits for what nodes were to receive that are gone for good: a
    /// partition goes over without them, if somebody who is to keep it has it, or nobody is left
    /// who had it. `numbers`: how many copies buckets ask for.
    pub fn without_receivers_of(
        mut self,
        gone: impl Fn(NodeId) -> bool,
        numbers: &[usize],
    ) -> Ring {
        let Some(pending) = &self.pending else { return self };
        let is_over = |partition: &Partition, n: usize| {
            let now = self.layout.owners(*partition, n);
            let next = pending.layout.owners(*partition, n);
            let has = |node: &NodeId| now.contains(node) || pending.has_received(*partition, *node);
            let (has, lack): (Vec<_>, Vec<_>) = next.into_iter().partition(has);
            let is_left = has.iter().any(|node| !gone(*node)) || now.iter().all(|node| gone(*node));
            lack.is_empty() || lack.iter().all(|node| gone(*node)) && is_left
        };
        let moves = |partition: &Partition| !pending.arrived.contains(partition);
        let over = (0..self.partitions()).map(Partition).filter(moves);
        let over = over.filter(|partition| numbers.iter().all(|n| is_over(partition, *n)));
        let over: Vec<_> = over.collect();
        self.arrive_all(over, numbers);
        self
    }

    /// The same ring, one epoch later.
    pub fn renewed(self) -> Ring {
        Ring { epoch: self.epoch + 1, ..self }
    }

    /// Who still has rows of this partition that it is not to keep. As long as somebody does, or
    /// receives it, deleted keys of the partition must not be forgotten.
    pub fn leftovers(&self, partition: Partition) -> impl Iterator<Item = NodeId> {
        let of_it = (partition, NodeId(0))..=(partition, NodeId(u64::MAX));
        self.leftovers.range(of_it).map(|(_, node)| *node)
    }

    /// The partitions of which this node has leftovers, in their order.
    pub fn left_at(&self, node: NodeId) -> impl Iterator<Item = Partition> {
        self.leftovers.iter().filter(move |(_, at)| *at == node).map(|(partition, _)| *partition)
    }

    /// The ring after the change under way was called off: partitions that have gone over go back,
    /// by a change in the other direction, since their former owners may have missed writes. `None`
    /// if nothing is under way.
    pub fn cancel(&self, numbers: &[usize]) -> Option<Ring> {
        let pending = self.pending.clone()?;
        let epoch = self.epoch + 1;
        let went_over = |partition: &Partition| pending.arrived.contains(partition);
        let arrived = (0..self.partitions()).map(Partition).filter(|one| !went_over(one));
        let arrived: Vec<_> = arrived.collect();
        let mut leftovers = self.leftovers.clone();
        // Who was to receive a copy may have part of it.
        for partition in &arrived {
            let receivers = numbers.iter().flat_map(|n| self.receivers(*partition, *n));
            leftovers.extend(receivers.map(|node| (*partition, node)));
        }
        let back = PendingLayout::new(self.layout.clone(), false, epoch);
        let mut ring =
            Ring { epoch, n: self.n, layout: pending.layout, pending: Some(back), leftovers };
        ring.arrive_all(arrived, &[]);
        Some(ring)
    }

    /// Who is still to receive something, for these numbers of copies.
    pub fn awaited(&self, numbers: &[usize]) -> BTreeSet<NodeId> {
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

    fn at(&self, partition: Partition) -> &Layout {
        match &self.pending {
            Some(pending) if pending.arrived.contains(&partition) => &pending.layout,
            _ => &self.layout,
        }
    }

    /// When the last one has arrived, the layout that was coming is the layout.
    fn arrive_all(&mut self, partitions: impl IntoIterator<Item = Partition>, numbers: &[usize]) {
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
            let whole = |(half, node): &(Partition, NodeId)| (Partition(half.0 / 2), *node);
            self.leftovers = self.leftovers.iter().map(whole).collect();
        }
        self.pending = None;
    }
}

impl PendingLayout {
    fn new(layout: Layout, halves: bool, since: u64) -> PendingLayout {
        let (arrived, received) = (BTreeSet::new(), Marks::new());
        PendingLayout { layout, arrived, halves, since, received }
    }

    /// The epoch with which the change began: its name.
    pub fn since(&self) -> u64 {
        self.since
    }

    /// Whether this node has told that it has its copy of a partition.
    pub fn has_received(&self, partition: Partition, node: NodeId) -> bool {
        self.received.contains(&(partition, node))
    }

    /// The layout that comes.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// How many partitions have gone over to it.
    pub fn arrived(&self) -> usize {
        self.arrived.len()
    }

    /// Whether this partition has.
    pub fn has_arrived(&self, partition: Partition) -> bool {
        self.arrived.contains(&partition)
    }

    /// Whether each two partitions become one at the end.
    pub fn halves(&self) -> bool {
        self.halves
    }
}
