//! Description of the ring in the types of `base`, and members by their names.

use base::{
    ClusterDescription, Error, MemberDescription, Membership, NodeId, Partition, Reason, Result,
    RingChange, RingDescription, RingTransfer, RingTransfers,
};
use logic::ring::{Rack, Ring, RingWish, Unsafe};
use std::collections::BTreeSet;

/// Names of the members; nodes of the ring that are no members any more are named by their ids.
pub(super) struct RingNames<'a> {
    pub known: &'a ClusterDescription,
    pub ring: &'a Ring,
}

impl RingNames<'_> {
    pub(super) fn change(&self, change: &RingChange) -> Result<RingWish> {
        Ok(match change {
            RingChange::Join { node, rack } => {
                RingWish::Join { node: self.ring_member(node)?, rack: Rack(rack.clone()) }
            }
            RingChange::Leave { node } => RingWish::Leave { node: self.node(node)? },
            RingChange::Replace { node, by, rack } => RingWish::Replace {
                old: self.node(node)?,
                new: self.ring_member(by)?,
                rack: Rack(rack.clone()),
            },
            RingChange::Rack { node, rack } => {
                RingWish::Rack { node: self.node(node)?, rack: Rack(rack.clone()) }
            }
            RingChange::Double => RingWish::Double,
            RingChange::Halve => RingWish::Halve,
        })
    }

    fn member(&self, name: &str) -> Option<&MemberDescription> {
        self.known.members.iter().find(|member| member.name == name)
    }

    /// Returns a node of the ring, member or not, by its name.
    fn node(&self, name: &str) -> Result<NodeId> {
        if let Some(member) = self.member(name) {
            return Ok(member.node);
        }
        let id = u64::from_str_radix(name, 16).ok().filter(|_| name.len() == 16).map(NodeId);
        let here = |id: &NodeId| self.ring.layout().nodes().contains_key(id);
        id.filter(here).ok_or_else(|| {
            let text = format!("no member `{name}`: `credenza cluster status` lists them");
            Error::new(Reason::NotFound, text)
        })
    }

    /// Returns a member that can keep data, by its name.
    fn ring_member(&self, name: &str) -> Result<NodeId> {
        let node = self.node(name)?;
        let stays =
            self.known.member(node).is_some_and(|member| member.membership == Membership::Member);
        if !stays || self.known.is_witness(node) {
            let text = format!("`{name}` is leaving, or a witness: it keeps no data");
            return Err(Error::new(Reason::Changed, text));
        }
        Ok(node)
    }

    pub(super) fn refused(&self, error: &Unsafe) -> Error {
        let text = format!("the ring can't be changed so: {}", self.named(&error.to_string()));
        Error::new(Reason::Changed, text)
    }

    /// Replaces ids by names in a text.
    pub(super) fn named(&self, text: &str) -> String {
        let id = |member: &MemberDescription| format!("node {}", member.node);
        let members = self.known.members.iter();
        members.fold(text.into(), |text, member| {
            text.replace(&id(member), &format!("`{}`", member.name))
        })
    }
}

/// Describes the ring in the types of `base`.
pub fn described(ring: &Ring) -> RingDescription {
    let owner = |partition| ring.owners(Partition(partition), 1).first().copied();
    let owners = (0..ring.partitions()).map(|partition| owner(partition).unwrap_or_default());
    RingDescription { epoch: ring.epoch(), owners: owners.collect() }
}

/// Returns the transfers of each node for a change, as far as the ring holds them.
pub(super) fn transfers(ring: &Ring, numbers: &[usize]) -> RingTransfers {
    let mut nodes: BTreeSet<NodeId> = ring.layout().nodes().keys().copied().collect();
    nodes.extend(ring.pending().iter().flat_map(|it| it.layout().nodes().keys().copied()));
    let mut all: Vec<RingTransfer> = Vec::new();
    let partitions = || (0..ring.partitions()).map(Partition);
    for partition in partitions() {
        nodes.extend(ring.leftovers(partition));
    }
    for node in nodes {
        let receives = |partition: &Partition| {
            numbers.iter().any(|n| ring.receivers(*partition, *n).contains(&node))
        };
        let has = |partition: &Partition| {
            ring.pending().is_some_and(|it| it.has_received(*partition, node))
        };
        let (received, receiving): (Vec<_>, Vec<_>) = partitions().filter(receives).partition(has);
        all.push(RingTransfer {
            node,
            receiving: receiving.len() as u64,
            received: received.len() as u64,
            clearing: ring.left_at(node).count() as u64,
            ..RingTransfer::default()
        });
    }
    let left = ring.pending().map_or(0, |it| ring.partitions() as usize - it.arrived());
    RingTransfers { epoch: ring.epoch(), left: left as u64, nodes: all }
}
