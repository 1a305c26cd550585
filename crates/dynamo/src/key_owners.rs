//! Owners of a key on the ring, with fallbacks and former owners.

use super::Available;
use super::owners_table::PartitionOwners;
use super::vnode_ops::KeyRef;
use base::{BucketName, Error, Key, NodeId, Reason, Result};
use logic::quorum::Replicas;
use std::sync::Arc;

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
    /// Number of nodes in the ring.
    pub nodes: usize,
    /// Owners, fallbacks, and those of them that are down.
    pub replicas: Replicas,
    /// Owners of its partition, with next and former ones.
    pub owners: Arc<PartitionOwners>,
    /// Epoch of the ring.
    pub epoch: u64,
}

impl Available {
    /// Returns the owners of a key with `n` copies.
    pub fn key_owners(&self, bucket: &BucketName, key: &Key, n: u8) -> Result<KeyOwners> {
        let table = self.schema.owners().ok_or_else(no_ring)?;
        let key_ref = KeyRef::new(bucket.clone(), key.clone());
        let owners = table.owners(key_ref.partition(table.ring()), n);
        let mut fallbacks = owners.fallbacks.clone();
        // The coordinator is the first fallback if it is no owner.
        if let Some(at @ 1..) = fallbacks.iter().position(|node| *node == self.node) {
            let mut own_first = fallbacks.to_vec();
            own_first[..=at].rotate_right(1);
            fallbacks = own_first.into();
        }
        let mut replicas = Replicas::new(owners.primaries.clone(), fallbacks);
        replicas.mark_down(|node| !self.reaches(node));
        let (nodes, epoch) = (table.ring().layout().nodes().len(), table.ring().epoch());
        Ok(KeyOwners { key_ref, nodes, replicas, owners, epoch })
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
