//! Peers by their id.

use super::endpoint::Endpoint;
use super::peer::Peer;
use base::NodeId;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, RwLock};

/// All peers, and the local end of their connections.
pub(super) struct PeerTable {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) peers: RwLock<BTreeMap<NodeId, Arc<Peer>>>,
}

impl PeerTable {
    /// Builds a table without peers.
    pub(super) fn new(endpoint: Endpoint) -> PeerTable {
        PeerTable { endpoint: Arc::new(endpoint), peers: RwLock::default() }
    }

    /// Returns the peer with this id. `None`: it is not a member.
    pub(super) fn peer(&self, node: NodeId) -> Option<Arc<Peer>> {
        self.peers.read().expect("no one panics while holding it").get(&node).cloned()
    }

    /// Returns all peers, in order of their ids.
    pub(super) fn peers(&self) -> Vec<Arc<Peer>> {
        let peers = self.peers.read().expect("no one panics while holding it");
        peers.values().cloned().collect()
    }

    /// Returns true if a member is known to call from this address.
    pub(super) fn is_member_address(&self, address: IpAddr) -> bool {
        let peers = self.peers.read().expect("no one panics while holding it");
        peers.values().any(|peer| peer.has_address(address))
    }
}
