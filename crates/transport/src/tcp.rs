//! Network over sockets: the peers by id, and their tasks.

use super::accept::accept;
use super::counters::PeerStatus;
use super::credential::Credential;
use super::endpoint::Endpoint;
use super::message::{Message, SendOutcome};
use super::migration;
use super::network::{Boxed, Broken, Member, Network, Sink};
use super::peer::{Peer, PeerTask};
use super::peer_table::PeerTable;
use super::rotation;
use super::settings::PeerSettings;
use base::NodeId;
use base::limits::PEERS_MAX;
use runtime::{TaskScope, Watch};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tls::PeerMode;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Maximum number of calls of one peer that wait for its task.
const CALLS_WAITING_MAX: usize = 4;

/// Watch over the loops of connections: longer than the limits of all steps of a handshake
/// together.
const CONNECTION_WATCH: Watch = Watch::Round(Duration::from_secs(60));

/// Longest wait of a stop for the tasks of all peers.
const STOP_WAIT: Duration = Duration::from_secs(5);

/// Tasks of peers, also of removed ones: the task of a peer that is added again waits for its
/// former task, so that `broken` is reported before `connected`.
#[derive(Default)]
struct PeerTasks {
    running: BTreeMap<NodeId, JoinHandle<()>>,
    stopping: bool,
}

/// Network over TCP.
pub struct TcpNetwork {
    table: Arc<PeerTable>,
    tasks: Mutex<PeerTasks>,
    scope: TaskScope,
    runtime: Handle,
}

impl TcpNetwork {
    /// Starts to listen (a single node needs no listener); no node is dialled before
    /// [`Network::set_members`]. Must be called within a Tokio runtime. The scope is the parent of
    /// its tasks.
    pub fn start(
        settings: PeerSettings,
        listener: Option<TcpListener>,
        sink: Arc<dyn Sink>,
        scope: TaskScope,
    ) -> TcpNetwork {
        let table = Arc::new(PeerTable::new(Endpoint::new(settings, sink)));
        if let Some(listener) = listener {
            let stop = scope.cancellation_token().clone();
            scope.spawn("listener", CONNECTION_WATCH, accept(table.clone(), listener, stop));
        }
        if let Some(tls) = table.endpoint.settings.tls_in_use() {
            let stop = scope.cancellation_token().clone();
            let rotating = rotation::run(table.clone(), tls.watch_generation(), stop);
            scope.spawn("rotation", CONNECTION_WATCH, rotating);
            // Where encryption is required no connection is plain.
            if tls.peer_mode() == PeerMode::Accept {
                let stop = scope.cancellation_token().clone();
                scope.spawn("migration", CONNECTION_WATCH, migration::run(table.clone(), stop));
            }
        }
        TcpNetwork { table, tasks: Mutex::default(), scope, runtime: Handle::current() }
    }

    fn start_peer(&self, tasks: &mut PeerTasks, member: Member) -> Arc<Peer> {
        let (sender, calls) = mpsc::channel(CALLS_WAITING_MAX);
        let (node, name) = (member.node, format!("peer {}", member.name));
        let peer = Arc::new(Peer::new(member, sender));
        let stop = peer.stop.subscribe();
        let endpoint = self.table.endpoint.clone();
        let peer_task = PeerTask { endpoint, peer: peer.clone(), calls, stop };
        let former = tasks.running.remove(&node);
        let task = self.scope.track(&name, CONNECTION_WATCH, async move {
            if let Some(former) = former {
                // Only its end matters here, not its result.
                let _ = former.await;
            }
            peer_task.run().await;
        });
        tasks.running.insert(node, self.runtime.spawn(task));
        peer
    }

    async fn stop_all(&self) {
        {
            let mut tasks = self.tasks.lock().expect("no one panics while holding it");
            tasks.stopping = true;
            let mut peers = self.table.peers.write().expect("no one panics while holding it");
            for peer in std::mem::take(&mut *peers).into_values() {
                peer.stop.send_replace(Some(Broken::Stopping));
            }
        }
        let unfinished = self.scope.cancel_and_wait(STOP_WAIT).await;
        if !unfinished.is_empty() {
            let tasks = unfinished.join(", ");
            tracing::warn!(target: "peers", tasks, "tasks of connections have not ended");
        }
    }
}

impl Drop for TcpNetwork {
    fn drop(&mut self) {
        self.scope.cancel();
    }
}

impl Network for TcpNetwork {
    fn send(&self, to: NodeId, message: Message) -> SendOutcome {
        let (size, lane) = (message.size(), message.lane);
        assert!(size <= lane.bytes_max(), "{size} bytes are too many for {}", lane.name());
        match self.table.peer(to).and_then(|peer| peer.link()) {
            Some(link) => link.send(message),
            None => SendOutcome::NoLink,
        }
    }

    fn is_linked(&self, to: NodeId) -> bool {
        self.table.peer(to).is_some_and(|peer| peer.link().is_some())
    }

    fn silent_ms(&self, to: NodeId) -> Option<u64> {
        let link = self.table.peer(to)?.link()?;
        Some(link.silent_ms())
    }

    fn version(&self, to: NodeId) -> Option<u16> {
        Some(self.table.peer(to)?.link()?.terms.version)
    }

    fn wait_bulk_space(&self, to: NodeId) -> Boxed<'_, SendOutcome> {
        Box::pin(async move {
            match self.table.peer(to).and_then(|peer| peer.link()) {
                Some(link) => link.bulk_room().await,
                None => SendOutcome::NoLink,
            }
        })
    }

    fn set_members(&self, members: Vec<Member>) {
        assert!(members.len() <= PEERS_MAX, "a cluster has at most {PEERS_MAX} members");
        let own = self.table.endpoint.settings.node;
        let mut tasks = self.tasks.lock().expect("no one panics while holding it");
        if tasks.stopping {
            return;
        }
        let mut peers = self.table.peers.write().expect("no one panics while holding it");
        let mut before = std::mem::take(&mut *peers);
        for member in members {
            let node = member.node;
            if node == own || peers.contains_key(&node) {
                continue;
            }
            let peer = match before.remove(&node) {
                Some(peer) => {
                    peer.update(member);
                    peer
                }
                None => self.start_peer(&mut tasks, member),
            };
            peers.insert(node, peer);
        }
        for peer in before.into_values() {
            peer.stop.send_replace(Some(Broken::Removed));
        }
        tasks.running.retain(|node, task| peers.contains_key(node) || !task.is_finished());
    }

    fn set_credential(&self, credential: Credential) {
        // Set before any peer re-checks its connection, which must find it.
        self.table.endpoint.set_credential(credential);
        self.table.peers().iter().for_each(|peer| peer.recheck());
    }

    fn require_version(&self, lowest: u16) {
        if lowest == self.table.endpoint.versions().lowest {
            return;
        }
        // Set before any peer re-checks its connection, which must find it.
        self.table.endpoint.set_version_min(lowest);
        self.table.peers().iter().for_each(|peer| peer.recheck());
    }

    fn credential(&self) -> Option<Credential> {
        self.table.endpoint.credential()
    }

    fn status(&self) -> Vec<PeerStatus> {
        self.table.peers().iter().map(|peer| peer.status()).collect()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(self.stop_all())
    }
}
