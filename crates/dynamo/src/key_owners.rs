//! Owners of a key on the ring, with fallbacks and former owners.

use super::Available;
use super::vnode_ops::KeyRef;
use base::{BucketName, Error, Key, NodeId, Partition, Reason, Result};
use logic::quorum::Replicas;
use runtime::mutants::Mutant;
use std::collections::BTreeSet;

/// Target of a request, with the epoch of the ring by which it was chosen. The ring may have
/// changed by the time it is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingTarget {
    /// The node.
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
    /// Number of nodes in the ring.
    pub nodes: usize,
    /// Owners, fallbacks, and those of them that are down.
    pub replicas: Replicas,
    /// Next owners, which are sent every write.
    pub receivers: Vec<NodeId>,
    /// Former owners, which may not know of the change yet.
    pub former_owners: Vec<NodeId>,
    /// Epoch of the ring.
    pub epoch: u64,
}

impl Available {
    /// Returns the owners of a key with `n` copies.
    pub fn key_owners(&self, bucket: &BucketName, key: &Key, n: u8) -> Result<KeyOwners> {
        let ring = self.schema.ring().ok_or_else(no_ring)?;
        let key_ref = KeyRef::new(bucket.clone(), key.clone());
        let partition = key_ref.partition(&ring);
        let mut primaries = ring.preference_list(partition, n.into());
        if Mutant::ReadFromFutureOwners.is_active()
            && let Some(pending) = ring.pending()
        {
            primaries = pending.layout().preference_list(partition, n.into());
        }
        let copies = ring.owners(partition, n.into()).len();
        let mut fallbacks = primaries.split_off(copies);
        // The coordinator is the first fallback if it is no owner.
        if let Some(at) = fallbacks.iter().position(|node| *node == self.node) {
            fallbacks[..=at].rotate_right(1);
        }
        let all = primaries.iter().chain(&fallbacks);
        let down: BTreeSet<_> = all.filter(|node| !self.reaches(**node)).copied().collect();
        let nodes = ring.layout().nodes().len();
        let receivers = ring.receivers(partition, n.into());
        let mut former_owners: Vec<_> = ring.leftovers(partition).collect();
        former_owners.retain(|node| !primaries.contains(node) && !receivers.contains(node));
        let replicas = Replicas { primaries, fallbacks, down };
        let epoch = ring.epoch();
        Ok(KeyOwners { key_ref, partition, nodes, replicas, receivers, former_owners, epoch })
    }

    /// Returns true if a node can be asked now: this one, or one with a connection.
    pub fn reaches(&self, node: NodeId) -> bool {
        let is_linked = || self.peers.get().is_some_and(|peers| peers.is_linked(node));
        node == self.node || (is_linked() && !self.failure_detector.is_suspected(node))
    }
}

/// Returns the error for a missing ring.
pub fn no_ring() -> Error {
    let text = "the cluster has no ring yet: `credenza cluster ring init`";
    Error::new(Reason::NotSupported, text)
}
