//! What other nodes say, brought to whom it concerns.

use crate::cluster;
use crate::forward;
use crate::groups::Groups;
use crate::transfer;
use crate::{Inner, NodeSettings};
use base::{ConfigurationId, Error, GroupId, NodeId, Reason, Result};
use replication::group::Group;
use replication::snapshot::Snapshots;
use std::sync::{Arc, Weak};
use tokio::net::TcpListener;
use transport::{
    Broken, CallKind, Delivered, Incarnation, IncomingCall, Lane, PeerSettings, Peers, Receiver,
    Sink,
};

/// Opens the node to its peers, if it takes any.
pub(crate) async fn begin(inner: &Arc<Inner>) -> Result<()> {
    let NodeSettings { peers: Some(place), name, .. } = &inner.settings else { return Ok(()) };
    let listener = TcpListener::bind(place.listen).await.map_err(|error| {
        let text = format!("can't listen for peers at {}: {error} (peer_listen)", place.listen);
        match error.kind() {
            std::io::ErrorKind::AddrInUse => Error::new(Reason::InUse, text),
            _ => Error::new(Reason::StartFailed, text),
        }
    })?;
    let incarnation = Incarnation(inner.incarnation);
    let settings = PeerSettings {
        name: name.clone(),
        advertise: place.advertise.clone(),
        lives: inner.lives.clone(),
        credential: cluster::secret::credential(inner)?,
        ..PeerSettings::new(inner.cluster, inner.node, incarnation)
    };
    let exchange = Arc::new(Exchange::new(inner));
    let peers = Peers::start(settings, Some(listener), exchange);
    let _ = inner.peers.set(peers); // Nobody else sets it.
    Ok(())
}

/// See the head of this file. It keeps nothing of the node: its groups keep their way to the other
/// nodes, and with it this, so a node that held on to them from here would never go.
pub(crate) struct Exchange {
    inner: Weak<Inner>,
    groups: Weak<Groups>,
    snapshots: Weak<Snapshots>,
}

impl Exchange {
    pub(crate) fn new(inner: &Arc<Inner>) -> Exchange {
        Exchange {
            inner: Arc::downgrade(inner),
            groups: Arc::downgrade(&inner.groups),
            snapshots: Arc::downgrade(&inner.snapshots),
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

impl Sink for Exchange {
    fn deliver(&self, message: Delivered) {
        if message.lane == Lane::Bulk {
            if let Some(snapshots) = self.snapshots.upgrade() {
                snapshots.arrived(message);
            }
            return;
        }
        let Delivered { from, lane, group, payload, .. } = message;
        match (lane, self.group(group)) {
            (Lane::Control | Lane::Data, Some(group)) => Group::arrived(&group, from, payload),
            _ => tracing::debug!(target: "peers", %from, %group, "nobody here takes this"),
        }
    }

    fn connected(&self, node: NodeId, incarnation: Incarnation) {
        tracing::info!(target: "peers", %node, %incarnation, "connected");
        if let Some(inner) = self.inner.upgrade() {
            inner.available.shelf.meet();
        }
    }

    fn broken(&self, node: NodeId, reason: &Broken) {
        tracing::info!(target: "peers", %node, "disconnected: {reason}");
        if let Some(snapshots) = self.snapshots.upgrade() {
            snapshots.broken(node);
        }
    }
}

impl Receiver for Exchange {
    fn asked(&self, asked: IncomingCall) {
        let Some(inner) = self.inner.upgrade() else { return };
        let Some(peers) = inner.peers.get() else { return };
        match CallKind::of(&asked.payload) {
            Some(CallKind::Request | CallKind::RequestForVersion) => forward::answer(&inner, asked),
            Some(CallKind::Members) => cluster::tell(&inner, peers, asked),
            Some(CallKind::Snapshots) => self.asked_for_snapshot(peers, asked),
            Some(CallKind::Comparison) => inner.asked_for_rows(peers, asked),
            Some(CallKind::Moves) => transfer::asked(&inner, peers, asked),
            Some(CallKind::Vnodes) => dynamo::asked(&inner.available, peers, asked),
            None => drop(peers.decline(&asked)),
        }
    }
}
