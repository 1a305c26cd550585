//! Links to the other nodes, and the names of all nodes.
//!
//! Never: says who is a member of the cluster or master of a group.

use base::{Error, NodeId, Reason};
use dynamo::Members;
use metadata::catalog::Catalog;
use replication::group::Group;
use std::sync::{Arc, OnceLock};
use transport::{PeerStatus, Peers};

/// Links of this node to the other nodes.
pub struct PeerLinks {
    /// Id of this node.
    pub node: NodeId,
    /// The other nodes. A node that accepts none never has any.
    pub peers: Arc<OnceLock<Peers>>,
    members: Members,
}

impl PeerLinks {
    /// Creates the links. `own`: this node's id and configured name.
    pub fn new(own: (NodeId, String), peers: Arc<OnceLock<Peers>>, catalog: &Catalog) -> PeerLinks {
        PeerLinks { node: own.0, peers, members: Members::new(own, catalog.watch_cluster()) }
    }

    /// Returns true if there is a connection to this other node.
    pub fn is_linked(&self, node: NodeId) -> bool {
        self.peers.get().is_some_and(|peers| peers.is_linked(node))
    }

    /// Returns the state of the connections to the other nodes.
    pub fn status(&self) -> Vec<PeerStatus> {
        self.peers.get().map(|peers| peers.status()).unwrap_or_default()
    }

    /// Returns a node's name: the configured one of this node, the directory's of others.
    pub fn name_of(&self, node: NodeId) -> String {
        self.members.name_of(node)
    }

    /// Returns the member of this name.
    pub fn node_of(&self, name: &str) -> Option<NodeId> {
        self.members.cluster().member_named(name).map(|member| member.node)
    }

    /// Returns `NotMaster` with the name of the group's master, which clients parse.
    pub fn master_of(&self, group: &Group) -> Error {
        let master = group.leadership.subscribe().borrow().master;
        self.not_master(master)
    }

    /// Returns `NotMaster` with the name of this master.
    pub fn not_master(&self, master: Option<NodeId>) -> Error {
        let name = master.map_or_else(|| "None".into(), |node| self.name_of(node));
        Error::new(Reason::NotMaster, name)
    }
}
