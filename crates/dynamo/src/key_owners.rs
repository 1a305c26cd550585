//! Owners of a key on the ring, and the nodes that stand beside them.

use super::Available;
use super::vnode_ops::KeyRef;
use base::{BucketName, Error, Key, NodeId, Partition, Reason, Result};
use logic::quorum::Replicas;
use runtime::mutants::{Flaw, flawed};
use std::collections::BTreeSet;

/// A node, and the epoch of the ring by which it was chosen to be asked. That ring may be an older
/// one by the time it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingTarget {
    /// Node that coordinates.
    pub node: NodeId,
    /// Epoch of the ring it was chosen from.
    pub epoch: u64,
}

/// Nodes that keep a key, by the ring of one epoch.
pub struct KeyOwners {
    /// Slot, bucket and key.
    pub key_ref: KeyRef,
    /// Partition of the slot.
    pub partition: Partition,
    /// Number of nodes that keep anything.
    pub nodes: usize,
    /// Owners, fallbacks, and those of them that are down.
    pub replicas: Replicas,
    /// Nodes that are to have copies soon, and are sent every write.
    pub receivers: Vec<NodeId>,
    /// Nodes that kept it a moment ago, and may not have heard that they do not any more.
    pub former: Vec<NodeId>,
    /// Epoch of the ring.
    pub epoch: u64,
}

impl Available {
    /// Finds the nodes that keep a key of which there are `n` copies.
    pub fn key_owners(&self, bucket: &BucketName, key: &Key, n: u8) -> Result<KeyOwners> {
        let ring = self.schema.ring().ok_or_else(no_ring)?;
        let key_ref = KeyRef::new(bucket.clone(), key.clone());
        let partition = key_ref.partition(&ring);
        let mut primaries = ring.preference(partition, n.into());
        if flawed(Flaw::AsksReceivers)
            && let Some(pending) = ring.pending()
        {
            primaries = pending.layout().preference(partition, n.into());
        }
        let copies = ring.owners(partition, n.into()).len();
        let mut fallbacks = primaries.split_off(copies);
        // Whoever coordinates and is no owner stands in first.
        if let Some(at) = fallbacks.iter().position(|node| *node == self.node) {
            fallbacks[..=at].rotate_right(1);
        }
        let all = primaries.iter().chain(&fallbacks);
        let down: BTreeSet<_> = all.filter(|node| !self.reaches(**node)).copied().collect();
        let nodes = ring.layout().nodes().len();
        let receivers = ring.receivers(partition, n.into());
        let mut former: Vec<_> = ring.leftovers(partition).collect();
        former.retain(|node| !primaries.contains(node) && !receivers.contains(node));
        let replicas = Replicas { primaries, fallbacks, down };
        let epoch = ring.epoch();
        Ok(KeyOwners { key_ref, partition, nodes, replicas, receivers, former, epoch })
    }

    /// Says whether a node can be asked now: this one, or one with a connection.
    pub fn reaches(&self, node: NodeId) -> bool {
        let linked = || self.peers.get().is_some_and(|peers| peers.linked(node));
        node == self.node || (linked() && !self.failure_detector.doubts(node))
    }
}

/// Refusal where there is no ring.
pub fn no_ring() -> Error {
    let text = "the cluster has no ring yet: `credenza cluster ring init`";
    Error::new(Reason::NotSupported, text)
}
