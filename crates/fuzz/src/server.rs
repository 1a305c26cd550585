//! Node under attack: a real one with its front-ends, in this process, on loopback, with files in
//! memory.
//!
//! It lives as long as it answers: an input may be a valid order of an operator, after which it
//! serves no more, and the next input gets a new one.

use crate::scratch;
use base::{
    Body, BucketName, Call, ClusterCall, DirectoryCall, FeatureLevel, MemberDescription,
    Membership, Part, Request,
};
use base::{ClusterId, ClusterSecret, NodeId};
use node::{Node, NodeSettings, PeerAddresses};
use server::{FrontEnds, ServerSettings};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Longest wait for the end of a connection whose client has sent all: above what any request
/// waits for.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Inputs that one node gets: so few that what they leave behind stays small.
const INPUTS_MAX: usize = 2_000;
/// A request whose answer takes longer shows that the node does not lead its groups any more.
const SLOW: Duration = Duration::from_secs(1);
/// Time without a change after which a start counts as complete.
const SETTLED: Duration = Duration::from_millis(300);
/// Name of the cluster of Arakoon's clients.
pub const ARAKOON_CLUSTER: &str = "ricky";

/// A running node.
pub struct ServedNode {
    runtime: Runtime,
    node: Option<Node>,
    front_ends: Option<FrontEnds>,
    folder: TempDir,
    inputs: usize,
    /// Address of the clients' listener.
    pub clients: SocketAddr,
    /// Address of the peers' listener.
    pub peers: SocketAddr,
}

/// Answer of the node on one connection.
pub struct ConnectionAnswer {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// True if it ended in order, and not by a reset, which may take bytes with it.
    pub is_complete: bool,
}

/// Membership of a node that was added to the cluster.
pub struct Joined {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its secret.
    pub secret: ClusterSecret,
    /// The node that admitted it.
    pub founder: NodeId,
}

impl ServedNode {
    /// Starts a node.
    pub fn start() -> ServedNode {
        let (runtime, folder) = (multi_threaded(), scratch::folder());
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let free = TcpListener::bind(any).and_then(|listener| listener.local_addr());
        let peers = free.expect("a free port");
        let data = NodeSettings {
            data_dir: folder.path().join("data"),
            name: "arakoon_0".into(),
            segment_bytes: 1 << 20,
            log_bytes_max: 32 << 20,
            memory_bytes_max: 16 << 20,
            disk_reserve_bytes: 0,
            peers: Some(PeerAddresses { listen: peers, advertise: peers.to_string() }),
            ..NodeSettings::default()
        };
        let settings = ServerSettings {
            listen: any,
            arakoon_clusters: vec![ARAKOON_CLUSTER.into()],
            buffer_bytes_max: 32 << 20,
            shutdown_timeout_ms: 1_000,
            ..ServerSettings::default()
        };
        let (node, front_ends) = runtime.block_on(async {
            let node = Node::start(data).await.expect("a node");
            let front_ends = FrontEnds::open(node.clone(), settings).await.expect("a free port");
            (node, front_ends)
        });
        let clients = front_ends.addresses()[0];
        let (node, front_ends) = (Some(node), Some(front_ends));
        ServedNode { runtime, node, front_ends, folder, inputs: 0, clients, peers }
    }

    /// Sends bytes to an address on a connection of their own, and returns what was answered. The
    /// connection must end: with an answer, or without.
    pub fn exchange(&self, to: SocketAddr, bytes: &[u8]) -> ConnectionAnswer {
        let exchange = async { timeout(END_TIMEOUT, exchange(to, bytes)).await };
        let answer = self.runtime.block_on(exchange);
        answer.unwrap_or_else(|_| panic!("neither answered nor closed: {}", bytes.escape_ascii()))
    }

    /// Runs a future on the node's threads.
    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// Checks after an input that the next client is served. Returns false if the node should be
    /// replaced.
    pub fn serves(&mut self) -> bool {
        let started = std::time::Instant::now();
        let requests = b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$9\r\nbystander\r\n$1\r\n1\r\n";
        let answer = self.exchange(self.clients, requests).bytes;
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(text.starts_with("+PONG\r\n") && text.ends_with("\r\n"), "the next client: {text}");
        self.inputs += 1;
        text == "+PONG\r\n+OK\r\n" && started.elapsed() < SLOW && self.inputs < INPUTS_MAX
    }

    /// Returns the small files of the data directory that say who the node is.
    pub fn identity(&self) -> Vec<(String, Vec<u8>)> {
        let names = ["IDENTITY", "MEMBERS", "SECRET", "INCARNATION", "LIVES", "OUTDATED", "JOINER"];
        let read = |name: &str| {
            let path = self.folder.path().join("data").join(Path::new(name));
            (name.to_string(), std::fs::read(path).unwrap_or_default())
        };
        names.into_iter().map(read).collect()
    }

    /// Waits until the node has written all of these files that a start writes.
    pub fn settle(&self) {
        let mut known = Vec::new();
        while known != self.identity() {
            known = self.identity();
            std::thread::sleep(SETTLED);
        }
    }

    /// Adds a node to the cluster, as a learner.
    pub fn add_member(&self, id: NodeId, name: &str) -> Joined {
        let member = MemberDescription {
            node: id,
            name: name.into(),
            peer: "127.0.0.1:1".into(),
            client: "127.0.0.1:1".into(),
            incarnation: 0,
            membership: Membership::Member,
        };
        let (part, level) = (Part::Learner, FeatureLevel::HIGHEST);
        let call = ClusterCall::AddMember { member, part, lease_ms: 600, level };
        let call = Call::Directory(DirectoryCall::Cluster(call));
        let request = Request { bucket: BucketName::default(), call, retry: None };
        let node = self.node.as_ref().expect("it runs until it is dropped");
        let reply = self
            .block_on(node.handle(&base::Principal::Node, request))
            .expect("the node leads its cluster");
        match reply.body {
            Body::Joined(cluster, secret) => {
                Joined { cluster: cluster.cluster, secret, founder: cluster.founder }
            }
            other => panic!("a node that joins is told the secret: {other:?}"),
        }
    }
}

impl Drop for ServedNode {
    fn drop(&mut self) {
        let (front_ends, node) = (self.front_ends.take(), self.node.take());
        self.runtime.block_on(async {
            if let Some(front_ends) = front_ends {
                front_ends.close().await;
            }
            if let Some(node) = node {
                let _ = node.stop().await;
            }
        });
    }
}

fn multi_threaded() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().expect("a runtime")
}

/// Exchanges bytes on a new connection. Each comes from another address of this machine: the ports
/// of one would run out.
async fn exchange(to: SocketAddr, bytes: &[u8]) -> ConnectionAnswer {
    static NEXT: AtomicU8 = AtomicU8::new(0);
    let last = 1 + NEXT.fetch_add(1, Ordering::Relaxed) % 250;
    let from = SocketAddr::from(([127, 0, 0, last], 0));
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(from).expect("an address of this machine");
    let mut stream = socket.connect(to).await.expect("it listens");
    let (mut reader, mut writer) = stream.split();
    let sending = async {
        // The node may close the connection before it has read all.
        let _ = writer.write_all(bytes).await;
        let _ = writer.shutdown().await;
    };
    let mut answer = Vec::new();
    let receiving = reader.read_to_end(&mut answer);
    let ((), end) = tokio::join!(sending, receiving);
    ConnectionAnswer { bytes: answer, is_complete: end.is_ok() }
}
