//! Dispatcher of messages and calls from other nodes.

use crate::cluster::{self, MemberCalls, OwnIncarnations};
use crate::route::Router;
use crate::{Node, NodeSettings, forward};
use base::{ConfigurationId, Error, GroupId, NodeId, Reason, Result};
use bucket_moves::BucketMoves;
use replica_host::{Groups, ReplicaAudit};
use replica_state::snapshot::Snapshots;
use replication::group::Group;
use std::sync::{Arc, Weak};
use tokio::net::TcpListener;
use transport::{
    Broken, CallKind, Credential, Incarnation, IncomingCall, IncomingMessage, Lane, PeerSettings,
    Peers, Receiver, Sink,
};

/// Starts to accept peer connections, if the settings have an address for peers.
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
    let credential = cluster::secret::credential(&cluster.data, catalog)?;
    if let Some(Credential { secret, is_required }) = &credential {
        // A node that has just joined has not applied the row of the secret yet.
        catalog.available.set_secret(secret, *is_required);
    }
    let settings = PeerSettings {
        name: name.clone(),
        advertise: place.advertise.clone(),
        tls: cluster.settings.tls.clone(),
        networks: cluster.settings.peer_networks.clone(),
        incarnations: known.clone(),
        credential,
        version_min: router.locator.version_min(),
        ..PeerSettings::new(status.view.cluster, cluster.links.node, incarnation)
    };
    let dispatcher = Arc::new(Dispatcher::new(node));
    let tasks = node.lifecycle.tasks.peers.clone();
    let peers = Peers::start(settings, Some(listener), dispatcher, tasks);
    let _ = cluster.links.peers.set(peers); // No other code sets it.
    Ok(())
}

/// Dispatcher of calls from other nodes. It holds the node's components weakly: they hold the peer
/// connections, which hold the dispatcher, so strong references would be a cycle.
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

    fn on_snapshot_call(&self, peers: &Peers, call: IncomingCall) {
        let Some(snapshots) = self.snapshots.upgrade() else { return };
        let group = self.group(call.group);
        if group.as_ref().is_some_and(|group| group.is_witness_replica()) {
            peers.decline(&call);
            return;
        }
        let configuration = group.map(|group| group.configuration());
        let initial =
            configuration.filter(|configuration| configuration.id() == ConfigurationId(0));
        snapshots.on_call(peers, call, initial);
    }
}

impl Sink for Dispatcher {
    fn deliver(&self, message: IncomingMessage) {
        if message.lane == Lane::Bulk {
            if let Some(snapshots) = self.snapshots.upgrade() {
                snapshots.on_part(message);
            }
            return;
        }
        let IncomingMessage { from, lane, group, payload, .. } = message;
        match (lane, self.group(group)) {
            (Lane::Control | Lane::Data, Some(group)) => Group::on_message(&group, from, payload),
            _ => tracing::debug!(
                target: "peers", %from, %group, "a message has no receiver on this node"
            ),
        }
    }

    fn connected(&self, node: NodeId, incarnation: Incarnation) {
        tracing::info!(target: "peers", %node, %incarnation, "connected");
        if let Some(router) = self.router.upgrade() {
            router.available.vnode_store.mark_acknowledged();
            router.available.failure_detector.note_link_change();
        }
    }

    fn broken(&self, node: NodeId, reason: &Broken) {
        tracing::info!(target: "peers", %node, "disconnected: {reason}");
        if let Some(snapshots) = self.snapshots.upgrade() {
            snapshots.on_broken(node);
        }
        if let Some(router) = self.router.upgrade() {
            router.available.failure_detector.note_link_change();
        }
        if let Some(groups) = self.groups.upgrade() {
            groups.all().iter().for_each(|group| group.on_link_ended(node));
        }
    }
}

impl Receiver for Dispatcher {
    fn deliver_call(&self, call: IncomingCall) {
        let Some(router) = self.router.upgrade() else { return };
        let Some(peers) = router.locator.links.peers.get() else { return };
        match CallKind::from_payload(&call.payload) {
            Some(
                CallKind::Request | CallKind::RequestForVersion | CallKind::RequestOfPrincipal,
            ) => {
                forward::on_forwarded_request(&router, call);
            }
            Some(CallKind::Members) => {
                let Some(calls) = self.calls.upgrade() else { return };
                cluster::on_member_call(&calls, peers, call);
            }
            Some(CallKind::Snapshots) => self.on_snapshot_call(peers, call),
            Some(CallKind::Comparison) => {
                let Some(audit) = self.audit.upgrade() else { return };
                audit.on_comparison_call(peers, call);
            }
            Some(CallKind::Moves) => {
                let Some(moves) = self.moves.upgrade() else { return };
                bucket_moves::on_call(&moves, peers, call);
            }
            Some(CallKind::Vnodes) => dynamo::on_call(&router.available, peers, call),
            None => drop(peers.decline(&call)),
        }
    }
}
