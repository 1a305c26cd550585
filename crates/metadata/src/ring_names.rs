//! Description of the ring in the types of `base`, and members by their names.

use base::{
    ClusterDescription, Error, MemberDescription, Membership, NodeId, Partition, Reason, Result,
    RingChange, RingDescription, RingTransfer, RingTransfers,
};
use logic::ring::{PlanError, Rack, Ring, RingChangeRequest};
use std::collections::BTreeSet;

/// Names of the members. Nodes of the ring that are no longer members are named by their ids.
pub(super) struct RingNames<'a> {
    pub cluster: &'a ClusterDescription,
    pub ring: &'a Ring,
}

impl RingNames<'_> {
    pub(super) fn resolve(&self, change: &RingChange) -> Result<RingChangeRequest> {
        Ok(match change {
            RingChange::Join { node, rack } => {
                RingChangeRequest::Join { node: self.ring_member(node)?, rack: Rack(rack.clone()) }
            }
            RingChange::Leave { node } => RingChangeRequest::Leave { node: self.node(node)? },
            RingChange::Replace { node, by, rack } => RingChangeRequest::Replace {
                old: self.node(node)?,
                new: self.ring_member(by)?,
                rack: Rack(rack.clone()),
            },
            RingChange::Rack { node, rack } => {
                RingChangeRequest::Rack { node: self.node(node)?, rack: Rack(rack.clone()) }
            }
            RingChange::Double => RingChangeRequest::Double,
            RingChange::Halve => RingChangeRequest::Halve,
        })
    }

    /// Returns a node of the ring, member or not, by its name.
    fn node(&self, name: &str) -> Result<NodeId> {
        if let Some(member) = self.cluster.member_named(name) {
            return Ok(member.node);
        }
        let id = u64::from_str_radix(name, 16).ok().filter(|_| name.len() == 16).map(NodeId);
        let is_in_ring = |id: &NodeId| self.ring.layout().nodes().contains_key(id);
        id.filter(is_in_ring).ok_or_else(|| {
            let text = format!("no member `{name}`: `credenza cluster status` lists them");
            Error::new(Reason::NotFound, text)
        })
    }

    /// Returns a member that can keep data, by its name.
    fn ring_member(&self, name: &str) -> Result<NodeId> {
        let node = self.node(name)?;
        let is_member =
            self.cluster.member(node).is_some_and(|member| member.membership == Membership::Member);
        if !is_member || self.cluster.is_witness(node) {
            let text =
                format!("`{name}` is leaving, or is a witness: it can't store data of the ring");
            return Err(Error::new(Reason::Changed, text));
        }
        Ok(node)
    }

    pub(super) fn plan_error(&self, error: &PlanError) -> Error {
        let text =
            format!("this ring change is not possible: {}", self.with_names(&error.to_string()));
        Error::new(Reason::Changed, text)
    }

    /// Replaces ids by names in a text.
    pub(super) fn with_names(&self, text: &str) -> String {
        let id = |member: &MemberDescription| format!("node {}", member.node);
        let members = self.cluster.members.iter();
        members.fold(text.into(), |text, member| {
            text.replace(&id(member), &format!("`{}`", member.name))
        })
    }
}

/// Describes the ring in the types of `base`.
pub fn describe_ring(ring: &Ring) -> RingDescription {
    let owner = |partition| ring.owners(Partition(partition), 1).first().copied();
    let owners = (0..ring.partitions()).map(|partition| owner(partition).unwrap_or_default());
    RingDescription { epoch: ring.epoch(), owners: owners.collect() }
}

/// Returns the transfers of each node for a change, as far as the ring holds them.
pub(super) fn transfers(ring: &Ring, n_vals: &[usize]) -> RingTransfers {
    let mut nodes: BTreeSet<NodeId> = ring.layout().nodes().keys().copied().collect();
    nodes
        .extend(ring.pending().iter().flat_map(|pending| pending.layout().nodes().keys().copied()));
    let mut all: Vec<RingTransfer> = Vec::new();
    let partitions = || (0..ring.partitions()).map(Partition);
    for partition in partitions() {
        nodes.extend(ring.leftovers(partition));
    }
    for node in nodes {
        let is_receiver = |partition: &Partition| {
            n_vals.iter().any(|n| ring.receivers(*partition, *n).contains(&node))
        };
        let is_received = |partition: &Partition| {
            ring.pending().is_some_and(|pending| pending.has_received(*partition, node))
        };
        let (received, receiving): (Vec<_>, Vec<_>) =
            partitions().filter(is_receiver).partition(is_received);
        all.push(RingTransfer {
            node,
            receiving: receiving.len() as u64,
            received: received.len() as u64,
            clearing: ring.leftover_partitions(node).count() as u64,
            ..RingTransfer::default()
        });
    }
    let remaining =
        ring.pending().map_or(0, |pending| ring.partitions() as usize - pending.arrived());
    RingTransfers { epoch: ring.epoch(), left: remaining as u64, nodes: all }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_change_of_a_replaced_name_is_of_the_member_that_stays() {
        let member = |(node, membership)| MemberDescription {
            node: NodeId(node),
            name: "n1".into(),
            peer: String::new(),
            client: String::new(),
            incarnation: 0,
            membership,
        };
        let ring = Ring::initial(NodeId(1), Rack(String::new()), 8, 3);
        let resolve = |members: &[(u64, Membership)]| {
            let members = members.iter().copied().map(member).collect();
            let cluster = ClusterDescription { members, ..ClusterDescription::default() };
            let names = RingNames { cluster: &cluster, ring: &ring };
            match names.resolve(&RingChange::Leave { node: "n1".into() }) {
                Ok(RingChangeRequest::Leave { node }) => Some(node.0),
                _ => None,
            }
        };
        assert_eq!(resolve(&[(1, Membership::Leaving), (2, Membership::Member)]), Some(2));
        assert_eq!(resolve(&[(1, Membership::Member), (2, Membership::Leaving)]), Some(1));
        assert_eq!(resolve(&[(1, Membership::Leaving)]), Some(1));
        assert_eq!(resolve(&[]), None);
    }
}
