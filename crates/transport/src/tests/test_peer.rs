//! Test harness: nodes in one process over real sockets, the events they received, and a relay that
//! corrupts traffic.

use crate::counters::PeerStatus;
use crate::{
    Broken, Credit, Incarnation, IncomingCall, IncomingMessage, Lane, Member, PeerSettings, Peers,
    Receiver, Sink,
};
use base::{ClusterId, NodeId};
use bytes::Bytes;
use runtime::TaskScope;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub(super) const CLUSTER: ClusterId = ClusterId(0xC1);
/// Longest wait of a test; one that waits so long has failed.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Event that a node's receiver got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PeerEvent {
    Connected(NodeId, Incarnation),
    Broken(NodeId, Broken),
    Message(NodeId, Lane, u32, Bytes),
}

/// Receiver that records events, and can keep credits and requests.
#[derive(Default)]
pub(super) struct Post {
    told: Mutex<Vec<PeerEvent>>,
    pub(super) keep: std::sync::atomic::AtomicBool,
    pub(super) credits: Mutex<Vec<Credit>>,
    pub(super) questions: Mutex<Vec<IncomingCall>>,
}

impl Post {
    pub(super) fn told(&self) -> Vec<PeerEvent> {
        self.told.lock().expect("plain data").clone()
    }

    pub(super) fn count(&self, which: impl Fn(&PeerEvent) -> bool) -> usize {
        self.told.lock().expect("plain data").iter().filter(|told| which(told)).count()
    }

    pub(super) fn messages(&self) -> usize {
        self.count(|told| matches!(told, PeerEvent::Message(..)))
    }

    pub(super) fn breaks(&self) -> Vec<Broken> {
        let broken = |told| match told {
            PeerEvent::Broken(_, broken) => Some(broken),
            _ => None,
        };
        self.told().into_iter().filter_map(broken).collect()
    }
}

impl Sink for Post {
    fn deliver(&self, message: IncomingMessage) {
        let IncomingMessage { from, lane, group, payload, credit, .. } = message;
        if self.keep.load(SeqCst) {
            self.credits.lock().expect("plain data").push(credit);
        }
        self.told
            .lock()
            .expect("plain data")
            .push(PeerEvent::Message(from, lane, group.0, payload));
    }

    fn connected(&self, node: NodeId, incarnation: Incarnation) {
        self.told.lock().expect("plain data").push(PeerEvent::Connected(node, incarnation));
    }

    fn broken(&self, node: NodeId, reason: &Broken) {
        self.told.lock().expect("plain data").push(PeerEvent::Broken(node, reason.clone()));
    }
}

impl Receiver for Post {
    fn asked(&self, asked: IncomingCall) {
        self.questions.lock().expect("plain data").push(asked);
    }
}

/// Waits until the condition holds.
pub(super) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(timeout(PATIENCE, waiting).await.is_ok(), "it never came true that {what}");
}

/// Settings with long timeouts: a busy machine breaks no link.
pub(super) fn settings(node: u64, incarnation: u64) -> PeerSettings {
    let mut settings = PeerSettings::new(CLUSTER, NodeId(node), Incarnation(incarnation));
    settings.name = format!("n{node}");
    settings.ping = Duration::from_millis(20);
    settings.silence = Duration::from_secs(20);
    settings.unanswered = Duration::from_secs(20);
    settings.dial = Duration::from_secs(2);
    settings.pause = (Duration::from_millis(5), Duration::from_millis(50));
    settings.bulk_bytes_per_second = 0;
    settings
}

/// One node.
pub(super) struct TestPeer {
    pub(super) id: NodeId,
    pub(super) peers: Peers,
    pub(super) post: Arc<Post>,
    pub(super) address: SocketAddr,
}

impl TestPeer {
    pub(super) async fn start(settings: PeerSettings) -> TestPeer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        TestPeer::at(settings, listener)
    }

    pub(super) fn at(settings: PeerSettings, listener: TcpListener) -> TestPeer {
        let address = listener.local_addr().expect("it is bound");
        let (id, post) = (settings.node, Arc::<Post>::default());
        let peers = Peers::start(settings, Some(listener), post.clone(), TaskScope::new("peers"));
        TestPeer { id, peers, post, address }
    }

    pub(super) fn member(&self) -> Member {
        member(self.id.0, self.address.to_string())
    }

    /// Returns the node's status of a peer.
    pub(super) fn status(&self, of: NodeId) -> PeerStatus {
        let all = self.peers.status();
        all.into_iter().find(|status| status.node == of).expect("it is a member")
    }

    pub(super) fn connected(&self, to: NodeId) -> bool {
        self.peers.status().iter().any(|status| status.node == to && status.connected.is_some())
    }
}

pub(super) fn member(node: u64, address: String) -> Member {
    let (node, name, incarnation) = (NodeId(node), format!("n{node}"), Incarnation(0));
    Member { node, name, address, incarnation, incarnation_id: None }
}

/// Returns an address at which nothing listens.
pub(super) fn nowhere() -> String {
    // Port 1 of loopback: nothing of ours is there, and a dial is refused at once.
    "127.0.0.1:1".into()
}

/// Makes nodes known to each other.
pub(super) async fn introduce(homes: &[&TestPeer]) {
    let members: Vec<_> = homes.iter().map(|home| home.member()).collect();
    homes.iter().for_each(|home| home.peers.set_members(members.clone()));
    for (one, other) in homes.iter().flat_map(|one| homes.iter().map(move |other| (one, other))) {
        if one.id != other.id {
            until("all are connected", || one.connected(other.id)).await;
        }
    }
}

/// Starts two nodes of which only the first can dial, through a relay.
pub(super) async fn through_a_relay(
    one: PeerSettings,
    other: PeerSettings,
) -> (TestPeer, TestPeer, Relay) {
    let (one, other) = (TestPeer::start(one).await, TestPeer::start(other).await);
    let relay = Relay::start(other.address).await;
    one.peers.set_members(vec![member(other.id.0, relay.address.to_string())]);
    other.peers.set_members(vec![member(one.id.0, nowhere())]);
    until("both are connected", || one.connected(other.id) && other.connected(one.id)).await;
    (one, other, relay)
}

const PASS: u8 = 0;
const SWALLOW: u8 = 1;
const SPOIL: u8 = 2;
const HOLD: u8 = 3;

/// Relay of bytes between two nodes that can cut, swallow and corrupt them.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    /// Fault in each direction: there, and back.
    ways: [Arc<AtomicU8>; 2],
    cut: watch::Sender<u64>,
    _tasks: JoinSet<()>,
}

impl Relay {
    async fn start(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let ways = [Arc::new(AtomicU8::new(PASS)), Arc::new(AtomicU8::new(PASS))];
        let (cut, mut tasks) = (watch::Sender::new(0), JoinSet::new());
        let (there, back) = (ways[0].clone(), ways[1].clone());
        let cuts = cut.subscribe();
        tasks.spawn(async move {
            let mut carried = JoinSet::new();
            while let Ok((from, _)) = listener.accept().await {
                carried.spawn(carry(from, target, there.clone(), back.clone(), cuts.clone()));
            }
        });
        Relay { address, ways, cut, _tasks: tasks }
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Discards bytes in one direction without an error.
    pub(super) fn swallow(&self, way: usize) {
        self.ways[way].store(SWALLOW, SeqCst);
    }

    /// Flips one bit of the next bytes.
    pub(super) fn spoil(&self, way: usize) {
        self.ways[way].store(SPOIL, SeqCst);
    }

    /// Stops reading in one direction, so that the sender blocks.
    pub(super) fn hold(&self, way: usize) {
        self.ways[way].store(HOLD, SeqCst);
    }

    pub(super) fn heal(&self) {
        self.ways.iter().for_each(|way| way.store(PASS, SeqCst));
    }
}

async fn carry(
    mut from: TcpStream,
    target: SocketAddr,
    there: Arc<AtomicU8>,
    back: Arc<AtomicU8>,
    mut cuts: watch::Receiver<u64>,
) {
    let Ok(mut to) = TcpStream::connect(target).await else { return };
    cuts.mark_unchanged();
    let ((from_read, from_write), (to_read, to_write)) = (from.split(), to.split());
    tokio::select! {
        biased;
        _ = cuts.changed() => {}
        () = one_way(from_read, to_write, there) => {}
        () = one_way(to_read, from_write, back) => {}
    }
}

async fn one_way(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    way: Arc<AtomicU8>,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        while way.load(SeqCst) == HOLD {
            sleep(Duration::from_millis(2)).await;
        }
        let Ok(read @ 1..) = from.read(&mut bytes).await else { return };
        match way.load(SeqCst) {
            SWALLOW => continue,
            SPOIL => {
                bytes[read / 2] ^= 0x10;
                way.store(PASS, SeqCst);
            }
            _ => {}
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
