//! Plan of a change of the ring: computed and shown before anything moves.

use super::change::{PlanError, RingChangeRequest};
use super::claim::claim;
use super::layout::{Layout, RACK_BYTES_MAX, Rack};
use super::point::check_partitions;
use super::table::{REPLICAS_MAX, Ring};
use base::{NodeId, Partition};
use std::collections::{BTreeMap, BTreeSet};

/// Change of the ring, computed for one epoch; [`Ring::commit`] takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) made_for: u64,
    pub(super) n: usize,
    pub(super) next: Layout,
    pub(super) doubles: bool,
    pub(super) halves: bool,
    /// Partitions whose owner changes, in order.
    pub moves: Vec<Move>,
    /// Owned partitions and copies of each node, before and after, by node.
    pub loads: Vec<NodeLoad>,
    /// Number of partition copies sent to nodes that have none.
    pub copies_sent: usize,
    /// Number of partition copies after the change.
    pub copies: usize,
    /// Warnings: safe, but worth knowing.
    pub warnings: Vec<String>,
}

/// Change of a partition's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// The partition.
    pub partition: Partition,
    /// Current owner.
    pub from: NodeId,
    /// Future owner.
    pub to: NodeId,
}

/// Load of a node before and after the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLoad {
    /// The node.
    pub node: NodeId,
    /// Number of partitions it owns now. `None`: it is not in the ring yet.
    pub before: Option<usize>,
    /// Number of partitions it will own. `None`: it leaves the ring.
    pub after: Option<usize>,
    /// Number of partitions of which it keeps a copy now.
    pub copies_before: usize,
    /// Number of partitions of which it will keep a copy.
    pub copies_after: usize,
}

impl Plan {
    /// Returns the layout to which the plan leads. A plan to halve leads to one with as many
    /// partitions as before, of which each pair has one owner.
    pub fn next_layout(&self) -> &Layout {
        &self.next
    }

    /// Returns the epoch of the ring that it was made for.
    pub fn base_epoch(&self) -> u64 {
        self.made_for
    }
}

/// Computes the plan for these changes together, for `n` copies of each key; without any change it
/// evens out the ring. `down` are the nodes that can't be reached now. Errors: [`PlanError`].
pub fn plan(
    ring: &Ring,
    changes: &[RingChangeRequest],
    n: usize,
    down: &BTreeSet<NodeId>,
) -> Result<Plan, PlanError> {
    if let Some(pending) = &ring.pending {
        let left = pending.layout.owners.len() - pending.arrived.len();
        return Err(PlanError::InProgress { left });
    }
    let n = n.clamp(1, REPLICAS_MAX);
    let is_resize = |change: &RingChangeRequest| {
        matches!(change, RingChangeRequest::Double | RingChangeRequest::Halve)
    };
    if changes.len() > 1 && changes.iter().any(is_resize) {
        return Err(PlanError::ResizeNotAlone);
    }
    let draft = match changes {
        [RingChangeRequest::Double] => draft_doubling(&ring.layout)?,
        [RingChangeRequest::Halve] => draft_halving(&ring.layout, n)?,
        _ => draft_changes(&ring.layout, changes, n)?,
    };
    let plan = build_plan(ring, draft, n);
    check_nodes(ring, &plan, n)?;
    check_sources(ring, &plan, changes, n, down)?;
    let is_unchanged =
        plan.moves.is_empty() && plan.copies_sent == 0 && !plan.doubles && !plan.halves;
    if is_unchanged && plan.next.nodes == ring.layout.nodes && n == ring.n {
        return Err(PlanError::NoChange);
    }
    Ok(Plan { warnings: warnings(&plan, changes, n, down), ..plan })
}

/// Layout that becomes a plan.
struct Draft {
    next: Layout,
    doubles: bool,
    halves: bool,
}

fn draft_doubling(layout: &Layout) -> Result<Draft, PlanError> {
    let partitions = layout.partitions() * 2;
    if !check_partitions(partitions) {
        return Err(PlanError::Partitions { partitions });
    }
    Ok(Draft { next: paired(layout), doubles: true, halves: false })
}

fn draft_halving(layout: &Layout, n: usize) -> Result<Draft, PlanError> {
    let partitions = layout.partitions() / 2;
    if !check_partitions(partitions) {
        return Err(PlanError::Partitions { partitions });
    }
    if layout.nodes.len() > partitions as usize {
        return Err(PlanError::TooFewPartitions { nodes: layout.nodes.len(), partitions });
    }
    let owners: Vec<_> = layout.owners.iter().copied().step_by(2).collect();
    Ok(Draft { next: paired(&claim(&owners, &layout.nodes, n)), doubles: false, halves: true })
}

/// Doubles each partition; every preference list stays, since a walk takes each node once.
fn paired(layout: &Layout) -> Layout {
    let owners = layout.owners.iter().flat_map(|owner| [*owner, *owner]).collect();
    Layout { nodes: layout.nodes.clone(), owners }
}

fn draft_changes(
    layout: &Layout,
    changes: &[RingChangeRequest],
    n: usize,
) -> Result<Draft, PlanError> {
    let mut nodes = layout.nodes.clone();
    let mut owners = layout.owners.clone();
    for change in changes {
        match change {
            RingChangeRequest::Join { node, rack } => add_node(&mut nodes, *node, rack)?,
            RingChangeRequest::Leave { node } => {
                nodes.remove(node).ok_or(PlanError::NotInRing(*node))?;
            }
            RingChangeRequest::Replace { old, new, rack } => {
                add_node(&mut nodes, *new, rack)?;
                nodes.remove(old).ok_or(PlanError::NotInRing(*old))?;
                owners.iter_mut().filter(|owner| *owner == old).for_each(|owner| *owner = *new);
            }
            RingChangeRequest::Rack { node, rack } => {
                check_rack(rack)?;
                *nodes.get_mut(node).ok_or(PlanError::NotInRing(*node))? = rack.clone();
            }
            RingChangeRequest::Double | RingChangeRequest::Halve => {
                return Err(PlanError::ResizeNotAlone);
            }
        }
    }
    if nodes.is_empty() {
        return Err(PlanError::TooFewNodes { nodes: 0, n });
    }
    if nodes.len() > owners.len() {
        return Err(PlanError::TooFewPartitions {
            nodes: nodes.len(),
            partitions: layout.partitions(),
        });
    }
    Ok(Draft { next: claim(&owners, &nodes, n), doubles: false, halves: false })
}

fn add_node(
    nodes: &mut BTreeMap<NodeId, Rack>,
    node: NodeId,
    rack: &Rack,
) -> Result<(), PlanError> {
    check_rack(rack)?;
    match nodes.insert(node, rack.clone()) {
        None => Ok(()),
        Some(_) => Err(PlanError::AlreadyInRing(node)),
    }
}

fn check_rack(rack: &Rack) -> Result<(), PlanError> {
    let is_valid = rack.0.len() <= RACK_BYTES_MAX && !rack.0.chars().any(char::is_control);
    if is_valid { Ok(()) } else { Err(PlanError::RackName) }
}

fn build_plan(ring: &Ring, draft: Draft, n: usize) -> Plan {
    let Draft { next, doubles, halves } = draft;
    let now = &ring.layout;
    let mut moves = Vec::new();
    let mut copies_sent = 0;
    for partition in (0..now.partitions()).map(Partition).filter(|_| !doubles) {
        let (from, to) = (now.owner(partition), next.owner(partition));
        if from != to {
            moves.push(Move { partition, from, to });
        }
        let holders = now.owners(partition, n);
        let future_owners = next.owners(partition, n).into_iter();
        copies_sent += future_owners.filter(|node| !holders.contains(node)).count();
    }
    let (owned, kept) = (now.loads(), now.copies(n));
    let (will_own, will_keep) = (next.loads(), next.copies(n));
    let all: BTreeSet<_> = owned.keys().chain(will_own.keys()).copied().collect();
    let load = |node: NodeId| NodeLoad {
        node,
        before: owned.get(&node).copied(),
        after: will_own.get(&node).copied(),
        copies_before: kept.get(&node).copied().unwrap_or(0),
        copies_after: will_keep.get(&node).copied().unwrap_or(0),
    };
    let loads = all.into_iter().map(load).collect();
    let copies = will_keep.values().sum();
    let warnings = Vec::new();
    let made_for = ring.epoch;
    Plan { made_for, n, next, doubles, halves, moves, loads, copies_sent, copies, warnings }
}

fn check_nodes(ring: &Ring, plan: &Plan, n: usize) -> Result<(), PlanError> {
    let (before, after) = (ring.layout.nodes.len(), plan.next.nodes.len());
    if after < n && before >= n {
        return Err(PlanError::TooFewNodes { nodes: after, n });
    }
    Ok(())
}

fn check_sources(
    ring: &Ring,
    plan: &Plan,
    changes: &[RingChangeRequest],
    n: usize,
    down: &BTreeSet<NodeId>,
) -> Result<(), PlanError> {
    for change in changes {
        if let RingChangeRequest::Join { node, .. } | RingChangeRequest::Replace { new: node, .. } =
            change
            && down.contains(node)
        {
            return Err(PlanError::DownReceiver(*node));
        }
    }
    for partition in (0..ring.partitions()).map(Partition).filter(|_| !plan.doubles) {
        let holders = ring.layout.owners(partition, n);
        let is_moved = plan.next.owners(partition, n).iter().any(|node| !holders.contains(node));
        if is_moved && holders.iter().all(|node| down.contains(node)) {
            return Err(PlanError::NoSource { partition });
        }
    }
    Ok(())
}

fn warnings(
    plan: &Plan,
    changes: &[RingChangeRequest],
    copies: usize,
    down: &BTreeSet<NodeId>,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let nodes = plan.next.nodes.len();
    if nodes < copies {
        warnings.push(format!(
            "only {nodes} of {copies} copies of each key: there are not enough nodes"
        ));
    }
    let racks = plan.next.rack_count();
    if racks < nodes.min(copies) {
        warnings.push(format!(
            "only {racks} racks for {copies} copies of each key: some copies share a rack"
        ));
    }
    for change in changes {
        if let RingChangeRequest::Leave { node } | RingChangeRequest::Replace { old: node, .. } =
            change
            && down.contains(node)
        {
            warnings.push(format!(
                "node {node} leaves and is down: data that only it has is lost (buckets with n_val \
                 1, its hints)"
            ));
        }
    }
    let gains_copies =
        |load: &&NodeLoad| load.before.is_some() && load.copies_after > load.copies_before;
    for load in plan.loads.iter().filter(gains_copies).filter(|load| down.contains(&load.node)) {
        let node = load.node;
        warnings.push(format!("node {node} is down: it receives its copies when it is back"));
    }
    warnings
}
