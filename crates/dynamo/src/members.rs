//! Members of the cluster, as this node knows them.

use base::{ClusterDescription, MemberDescription, NodeId};
use std::sync::Arc;
use tokio::sync::watch;

/// The newest description of the cluster, and this node's own name.
pub struct Members {
    own: NodeId,
    own_name: String,
    cluster: watch::Receiver<Arc<ClusterDescription>>,
}

impl Members {
    /// Follows the description; a node's own name is in its settings before it is a member.
    pub fn new(
        (own, own_name): (NodeId, String),
        cluster: watch::Receiver<Arc<ClusterDescription>>,
    ) -> Members {
        Members { own, own_name, cluster }
    }

    /// Returns members and placement.
    pub fn cluster(&self) -> Arc<ClusterDescription> {
        self.cluster.borrow().clone()
    }

    /// Returns the member of this id.
    pub fn member(&self, node: NodeId) -> Option<MemberDescription> {
        self.cluster.borrow().member(node).cloned()
    }

    /// Returns a node's name; of one that is no member, its id.
    pub fn name_of(&self, node: NodeId) -> String {
        if node == self.own {
            return self.own_name.clone();
        }
        self.member(node).map_or_else(|| format!("{:016x}", node.0), |member| member.name)
    }
}
