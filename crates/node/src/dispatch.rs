//! Dispatcher of messages and calls from other nodes.

use crate::audit::ReplicaAudit;
use crate::cluster::{self, MemberCalls, OwnIncarnations};
use crate::groups::Groups;
use crate::route::Router;
use crate::transfer::{self, BucketMoves};
use crate::{Node, NodeSettings, forward};
use base::{ConfigurationId, Error, GroupId, NodeId, Reason, Result};
use replication::group::Group;
use replication::snapshot::Snapshots;
use std::sync::{Arc, Weak};
use tokio::net::TcpListener;
use transport::{
    Broken, CallKind, Incarnation, IncomingCall, IncomingMessage, Lane, PeerSettings, Peers,
    Receiver, Sink,
};

/// Opens the node to its peers, if it takes any.
pub(crate) async fn begin(node: &Node) -> Result<()> {
    let Node { router, cluster, status, .. } = node;
    let NodeSettings { peers: Some(place), name, .. } = &*cluster.settings else { return Ok(()) };
    let listener = TcpListener::bind(place.listen).await.map_err(|error| {
        let text = format!("can't listen for peers at {}: {error} (peer_listen)", place.listen);
        match error.kind() {
            std::io::ErrorKind::AddrInUse => Error::new(Reason::InUse, text),
            _ => Error::new(Reason::StartFailed, text),
        }
    })?;
    let OwnIncarnations { incarnation, known } = &cluster.incarnations;
    let incarnation = Incarnation(*incarnation);
    let catalog = &router.locator.catalog;
    let settings = PeerSettings {
        name: name.clone(),
        advertise: place.advertise.clone(),
        incarnations: known.clone(),
        credential: cluster::secret::credential(&cluster.data, catalog)?,
        ..PeerSettings::new(status.view.cluster, cluster.links.node, incarnation)
    };
    let exchange = Arc::new(Dispatcher::new(node));
    let tasks = node.lifecycle.tasks.peers.clone();
    let peers = Peers::start(settings, Some(listener), exchange, tasks);
    let _ = cluster.links.peers.set(peers); // Nobody else sets it.
    Ok(())
}

/// Dispatcher of calls from other nodes. It holds the node's parts weakly: the groups hold the
/// links to the other nodes, and those hold this, so a strong reference would keep the node for
/// ever.
pub(crate) struct Dispatcher {
    router: Weak<Router>,
    calls: Weak<MemberCalls>,
    audit: Weak<ReplicaAudit>,
    moves: Weak<BucketMoves>,
    groups: Weak<Groups>,
    snapshots: Weak<Snapshots>,
}

impl Dispatcher {
    pub(crate) fn new(node: &Node) -> Dispatcher {
        let calls = &node.cluster.calls;
        Dispatcher {
            router: Arc::downgrade(&node.router),
            calls: Arc::downgrade(calls),
            audit: Arc::downgrade(&calls.audit),
            moves: Arc::downgrade(&node.moves),
            groups: Arc::downgrade(&node.router.locator.groups),
            snapshots: Arc::downgrade(&node.status.snapshots),
        }
    }

    fn group(&self, id: GroupId) -> Option<Arc<Group>> {
        self.groups.upgrade()?.get(id)
    }

    fn asked_for_snapshot(&self, peers: &Peers, asked: IncomingCall) {
        let Some(snapshots) = self.snapshots.upgrade() else { return };
        let group = self.group(asked.group);
        if group.as_ref().is_some_and(|group| group.is_bare()) {
            peers.decline(&asked);
            return;
        }
        let configuration = group.map(|group| group.configuration());
        let first = configuration.filter(|found| found.id() == ConfigurationId(0));
        snapshots.asked(peers, asked, first);
    }
}

impl Sink for Dispatcher {
    fn deliver(&self, message: IncomingMessage) {
        if message.lane == Lane::Bulk {
            if let Some(snapshots) = self.snapshots.upgrade() {
                snapshots.arrived(message);
            }
            return;
        }
        let IncomingMessage { from, lane, group, payload, .. } = message;
        match (lane, self.group(group)) {
            (Lane::Control | Lane::Data, Some(group)) => Group::arrived(&group, from, payload),
            _ => tracing::debug!(target: "peers", %from, %group, "nobody here takes this"),
        }
    }

    fn connected(&self, node: NodeId, incarnation: Incarnation) {
        tracing::info!(target: "peers", %node, %incarnation, "connected");
        if let Some(router) = self.router.upgrade() {
            router.available.vnode_store.meet();
        }
    }

    fn broken(&self, node: NodeId, reason: &Broken) {
        tracing::info!(target: "peers", %node, "disconnected: {reason}");
        if let Some(snapshots) = self.snapshots.upgrade() {
            snapshots.broken(node);
        }
    }
}

impl Receiver for Dispatcher {
    fn asked(&self, asked: IncomingCall) {
        let Some(router) = self.router.upgrade() else { return };
        let Some(peers) = router.locator.links.peers.get() else { return };
        match CallKind::of(&asked.payload) {
            Some(CallKind::Request | CallKind::RequestForVersion) => {
                forward::answer(&router, asked);
            }
            Some(CallKind::Members) => {
                let Some(calls) = self.calls.upgrade() else { return };
                cluster::tell(&calls, peers, asked);
            }
            Some(CallKind::Snapshots) => self.asked_for_snapshot(peers, asked),
            Some(CallKind::Comparison) => {
                let Some(audit) = self.audit.upgrade() else { return };
                audit.asked_for_rows(peers, asked);
            }
            Some(CallKind::Moves) => {
                let Some(moves) = self.moves.upgrade() else { return };
                transfer::asked(&moves, peers, asked);
            }
            Some(CallKind::Vnodes) => dynamo::asked(&router.available, peers, asked),
            None => drop(peers.decline(&asked)),
        }
    }
}
