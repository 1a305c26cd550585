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
/// Maximum wait of a test before it fails.
pub(super) const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Event at a node's receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PeerEvent {
    Connected(NodeId, Incarnation),
    Broken(NodeId, Broken),
    Message(NodeId, Lane, u32, Bytes),
}

/// Receiver that records events and requests, and can hold credits.
#[derive(Default)]
pub(super) struct EventLog {
    recorded: Mutex<Vec<PeerEvent>>,
    pub(super) holds_credits: std::sync::atomic::AtomicBool,
    pub(super) credits: Mutex<Vec<Credit>>,
    pub(super) calls: Mutex<Vec<IncomingCall>>,
}

impl EventLog {
    pub(super) fn recorded(&self) -> Vec<PeerEvent> {
        self.recorded.lock().expect("plain data").clone()
    }

    pub(super) fn count(&self, matches: impl Fn(&PeerEvent) -> bool) -> usize {
        self.recorded.lock().expect("plain data").iter().filter(|event| matches(event)).count()
    }

    pub(super) fn messages(&self) -> usize {
        self.count(|event| matches!(event, PeerEvent::Message(..)))
    }

    pub(super) fn breaks(&self) -> Vec<Broken> {
        let broken = |event| match event {
            PeerEvent::Broken(_, broken) => Some(broken),
            _ => None,
        };
        self.recorded().into_iter().filter_map(broken).collect()
    }
}

impl Sink for EventLog {
    fn deliver(&self, message: IncomingMessage) {
        let IncomingMessage { from, lane, group, payload, credit, .. } = message;
        if self.holds_credits.load(SeqCst) {
            self.credits.lock().expect("plain data").push(credit);
        }
        self.recorded
            .lock()
            .expect("plain data")
            .push(PeerEvent::Message(from, lane, group.0, payload));
    }

    fn connected(&self, node: NodeId, incarnation: Incarnation) {
        self.recorded.lock().expect("plain data").push(PeerEvent::Connected(node, incarnation));
    }

    fn broken(&self, node: NodeId, reason: &Broken) {
        self.recorded.lock().expect("plain data").push(PeerEvent::Broken(node, reason.clone()));
    }
}

impl Receiver for EventLog {
    fn deliver_call(&self, call: IncomingCall) {
        self.calls.lock().expect("plain data").push(call);
    }
}

/// Waits until the condition holds.
pub(super) async fn until(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(timeout(TEST_TIMEOUT, waiting).await.is_ok(), "it never came true that {what}");
}

/// Settings with long timeouts: a busy machine breaks no link.
pub(super) fn settings(node: u64, incarnation: u64) -> PeerSettings {
    let mut settings = PeerSettings::new(CLUSTER, NodeId(node), Incarnation(incarnation));
    settings.name = format!("n{node}");
    settings.ping_interval = Duration::from_millis(20);
    settings.silence_timeout = Duration::from_secs(20);
    settings.answer_timeout = Duration::from_secs(20);
    settings.dial_timeout = Duration::from_secs(2);
    settings.redial_pause = (Duration::from_millis(5), Duration::from_millis(50));
    settings.bulk_bytes_per_second = 0;
    settings
}

/// One node.
pub(super) struct TestPeer {
    pub(super) id: NodeId,
    pub(super) peers: Peers,
    pub(super) log: Arc<EventLog>,
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Arc<tls::Tls>>,
}

impl TestPeer {
    pub(super) async fn start(settings: PeerSettings) -> TestPeer {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        TestPeer::at(settings, listener)
    }

    pub(super) fn at(settings: PeerSettings, listener: TcpListener) -> TestPeer {
        let address = listener.local_addr().expect("it is bound");
        let (id, tls, log) = (settings.node, settings.tls.clone(), Arc::<EventLog>::default());
        let peers = Peers::start(settings, Some(listener), log.clone(), TaskScope::new("peers"));
        TestPeer { id, peers, log, address, tls }
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
    // Port 1 of loopback: no test listens there, and a dial is refused at once.
    "127.0.0.1:1".into()
}

/// Makes nodes members of one cluster, and waits until all are connected.
pub(super) async fn introduce(nodes: &[&TestPeer]) {
    let members: Vec<_> = nodes.iter().map(|node| node.member()).collect();
    nodes.iter().for_each(|node| node.peers.set_members(members.clone()));
    for (one, other) in nodes.iter().flat_map(|one| nodes.iter().map(move |other| (one, other))) {
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
const DROP: u8 = 1;
const CORRUPT: u8 = 2;
const STALL: u8 = 3;

/// Relay between two nodes that can cut the connection, and drop, corrupt or stall bytes.
pub(super) struct Relay {
    pub(super) address: SocketAddr,
    /// Fault of each direction: outbound, inbound.
    faults: [Arc<AtomicU8>; 2],
    cut: watch::Sender<u64>,
    _tasks: JoinSet<()>,
}

impl Relay {
    async fn start(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let faults = [Arc::new(AtomicU8::new(PASS)), Arc::new(AtomicU8::new(PASS))];
        let (cut, mut tasks) = (watch::Sender::new(0), JoinSet::new());
        let (outbound, inbound) = (faults[0].clone(), faults[1].clone());
        let cuts = cut.subscribe();
        tasks.spawn(async move {
            let mut carried = JoinSet::new();
            while let Ok((from, _)) = listener.accept().await {
                carried.spawn(carry(from, target, outbound.clone(), inbound.clone(), cuts.clone()));
            }
        });
        Relay { address, faults, cut, _tasks: tasks }
    }

    /// Ends all connections.
    pub(super) fn cut(&self) {
        self.cut.send_modify(|cuts| *cuts += 1);
    }

    /// Drops bytes in one direction without an error.
    pub(super) fn drop_bytes(&self, direction: usize) {
        self.faults[direction].store(DROP, SeqCst);
    }

    /// Flips one bit of the next bytes.
    pub(super) fn corrupt(&self, direction: usize) {
        self.faults[direction].store(CORRUPT, SeqCst);
    }

    /// Stops reading in one direction, so that the sender blocks.
    pub(super) fn stall(&self, direction: usize) {
        self.faults[direction].store(STALL, SeqCst);
    }

    pub(super) fn heal(&self) {
        self.faults.iter().for_each(|fault| fault.store(PASS, SeqCst));
    }
}

async fn carry(
    mut from: TcpStream,
    target: SocketAddr,
    outbound: Arc<AtomicU8>,
    inbound: Arc<AtomicU8>,
    mut cuts: watch::Receiver<u64>,
) {
    let Ok(mut to) = TcpStream::connect(target).await else { return };
    cuts.mark_unchanged();
    let ((from_read, from_write), (to_read, to_write)) = (from.split(), to.split());
    tokio::select! {
        biased;
        _ = cuts.changed() => {}
        () = one_way(from_read, to_write, outbound) => {}
        () = one_way(to_read, from_write, inbound) => {}
    }
}

async fn one_way(
    mut from: impl tokio::io::AsyncRead + Unpin,
    mut to: impl tokio::io::AsyncWrite + Unpin,
    fault: Arc<AtomicU8>,
) {
    let mut bytes = vec![0; 64 * 1024];
    loop {
        while fault.load(SeqCst) == STALL {
            sleep(Duration::from_millis(2)).await;
        }
        let Ok(read @ 1..) = from.read(&mut bytes).await else { return };
        match fault.load(SeqCst) {
            DROP => continue,
            CORRUPT => {
                bytes[read / 2] ^= 0x10;
                fault.store(PASS, SeqCst);
            }
            _ => {}
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
