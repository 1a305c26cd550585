//! Cluster of several nodes in one process: real files, real sockets, and members from the start.

use super::Place;
use crate::{Node, PeerAddresses, startup};
use base::request::Expiry;
use base::{
    BucketId, ClusterDescription, ClusterId, ConfigurationId, GroupId, LogIndex, NodeId, Outcome,
    Part, Properties, Reason, Result, Update,
};
use bytes::Bytes;
use logic::consensus::{Configuration, Member};
use replication::bucket::Bucket;
use replication::group::Group;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use store::{DataDir, Opening};
use transport::{Incarnation, Member as Peer};

/// The group the tests write into.
pub(crate) const GROUP: GroupId = GroupId(1);
/// Longest wait for anything that must come about, however much else the machine does.
const PATIENCE: Duration = Duration::from_secs(90);

/// Returns an address that no other process takes before its node listens there, nor while that is
/// down: a port of a loopback address of its own. Free ports of 127.0.0.1 are given to outgoing
/// connections, too.
pub(crate) fn own_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(1);
    let [high, low] = NEXT.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    // Other processes test beside this one.
    let process = std::process::id().to_be_bytes()[3].clamp(1, 254);
    let listener = TcpListener::bind((Ipv4Addr::new(127, process, high, low), 0));
    listener.and_then(|listener| listener.local_addr()).expect("a port")
}

/// Lease that a busy machine makes no master lose, in milliseconds.
const LONG_LEASE_MS: u64 = 10_000;

pub(crate) struct TestCluster {
    pub places: Vec<Place>,
    pub ids: Vec<NodeId>,
    pub nodes: Vec<Option<Node>>,
    addresses: Vec<SocketAddr>,
    founders: usize,
    /// Limit of each node's log, in bytes.
    log_bytes_max: u64,
    lease_ms: u64,
    lease_reads: bool,
}

impl TestCluster {
    /// Starts so many nodes, of which the first `founders` are voters from the start.
    pub(crate) async fn new(count: usize, founders: usize) -> TestCluster {
        TestCluster::empty(count, founders).started().await
    }

    /// Starts nodes with a lease so long that a busy machine makes no master lose it.
    pub(crate) async fn with_long_lease(count: usize, founders: usize) -> TestCluster {
        let cluster = TestCluster::empty(count, founders);
        TestCluster { lease_ms: LONG_LEASE_MS, ..cluster }.started().await
    }

    /// Starts nodes with a long lease and a limit of the log.
    pub(crate) async fn with_long_lease_and_log(
        count: usize,
        founders: usize,
        log_bytes_max: u64,
    ) -> TestCluster {
        let cluster = TestCluster::empty(count, founders);
        TestCluster { lease_ms: LONG_LEASE_MS, log_bytes_max, ..cluster }.started().await
    }

    /// Starts nodes with a limit of the log.
    pub(crate) async fn with_log(count: usize, founders: usize, log_bytes_max: u64) -> TestCluster {
        let cluster = TestCluster::empty(count, founders);
        TestCluster { log_bytes_max, ..cluster }.started().await
    }

    /// Starts nodes with a long lease that allows no reads: `lease_reads = off`.
    pub(crate) async fn without_lease_reads(count: usize, founders: usize) -> TestCluster {
        let cluster = TestCluster::empty(count, founders);
        TestCluster { lease_ms: LONG_LEASE_MS, lease_reads: false, ..cluster }.started().await
    }

    async fn started(mut self) -> TestCluster {
        for nth in 0..self.nodes.len() {
            self.start(nth).await;
        }
        self
    }

    fn empty(count: usize, founders: usize) -> TestCluster {
        let places: Vec<_> = (0..count).map(|_| Place::new()).collect();
        let first = DataDir::open(places[0].path()).expect("a directory");
        let (mut ids, mut addresses) = (Vec::new(), Vec::new());
        for (nth, place) in places.iter().enumerate() {
            if nth > 0 {
                join(place, first.cluster);
            }
            addresses.push(own_address());
        }
        drop(first);
        for place in &places {
            ids.push(NodeId(DataDir::open(place.path()).expect("a directory").node));
        }
        let nodes = (0..count).map(|_| None).collect();
        let settings = crate::NodeSettings::default();
        TestCluster {
            places,
            ids,
            nodes,
            addresses,
            founders,
            log_bytes_max: settings.log_bytes_max,
            lease_ms: settings.lease_ms,
            lease_reads: settings.lease_reads,
        }
    }

    pub(crate) async fn start(&mut self, which: usize) {
        let listen = self.addresses[which];
        let mut settings = self.places[which].settings();
        settings.name = format!("n{which}");
        settings.log_bytes_max = self.log_bytes_max;
        settings.lease_ms = self.lease_ms;
        settings.lease_reads = self.lease_reads;
        settings.peers = Some(PeerAddresses { listen, advertise: listen.to_string() });
        let voters = self.ids[..self.founders].iter();
        let voters = voters.map(|node| Member { node: *node, part: Part::Voter }).collect();
        let first = Configuration::new(ConfigurationId(0), voters).expect("a configuration");
        let node = startup::start(settings, Some(first)).await.expect("it starts");
        let peer = |(place, node): (usize, &NodeId)| Peer {
            node: *node,
            name: format!("n{place}"),
            address: self.addresses[place].to_string(),
            incarnation: Incarnation(0),
            incarnation_id: None,
        };
        let peers = self.ids.iter().enumerate().map(peer).collect();
        node.cluster.links.peers.get().expect("it takes peers").set_members(peers);
        self.nodes[which] = Some(node);
    }

    pub(crate) async fn stop(&mut self, nth: usize) {
        let node = self.nodes[nth].take().expect("it runs");
        node.stop().await.expect("it stops");
    }

    pub(crate) fn group(&self, nth: usize) -> Arc<Group> {
        let node = self.nodes[nth].as_ref().expect("it runs");
        node.router.locator.groups.find(GROUP).expect("it is there")
    }

    /// Waits until one of the running nodes is in office.
    pub(crate) async fn master(&self) -> usize {
        wait("a master", || {
            let running = (0..self.nodes.len()).filter(|nth| self.nodes[*nth].is_some());
            running.into_iter().find(|nth| self.group(*nth).leadership.is_master())
        })
        .await
    }

    /// Waits until a node has applied everything up to an index.
    pub(crate) async fn applied(&self, nth: usize, index: LogIndex) {
        let group = self.group(nth);
        let applied = tokio::time::timeout(PATIENCE, group.applied.wait_reached(index)).await;
        applied.expect("in time").expect("it goes on");
    }

    /// Writes at the present master, and retries if nothing was executed. Returns the outcome.
    pub(crate) async fn write(&self, key: &str, value: &str) -> Result<LogIndex> {
        let until = Instant::now() + PATIENCE;
        loop {
            let written = put(&self.group(self.master().await), key, value).await;
            match written {
                Err(error) if error.reason == Reason::NotMaster && Instant::now() < until => {}
                written => return written,
            }
        }
    }

    pub(crate) fn value(&self, nth: usize, key: &str) -> Option<Bytes> {
        let group = self.group(nth);
        let read = base::Read::Get(super::bytes(key));
        let reply = replication::read::read(&group, &bucket(), &read).expect("a read");
        match reply.body {
            base::Body::Row(row) => row.map(|row| row.value),
            other => panic!("a get is answered with a row, not {other:?}"),
        }
    }
}

/// Makes the directory of another node of the same cluster, which knows no peers.
fn join(place: &Place, cluster: u64) {
    let known = ClusterDescription { cluster: ClusterId(cluster), ..ClusterDescription::default() };
    match DataDir::open_or_join(place.path()).expect("a directory") {
        Opening::Joining(joiner) => joiner.join(&known, None).expect("it joins"),
        Opening::Open(data) => data,
    };
}

pub(crate) fn bucket() -> Bucket {
    Bucket::new(BucketId(77), GROUP, Properties::default())
}

pub(crate) async fn put(group: &Group, key: &str, value: &str) -> Result<LogIndex> {
    let (key, value) = (super::bytes(key), super::bytes(value));
    let update = Update::Set { key, value, expiry: Expiry::Default };
    let (ticket, stamp, outcome) = group.submit(&bucket(), &update, None)?;
    assert!(matches!(outcome?, Outcome::Done));
    group.wait_applied(ticket.expect("a put is a value")).await.map(|()| stamp.index)
}

/// Polls `look` until it gives a result.
pub(crate) async fn wait<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_or_tell(what, look, String::new).await
}

/// Polls `look` until it gives a result. A timeout panics with the words of `told`.
pub(crate) async fn wait_or_tell<T>(
    what: &str,
    mut look: impl FnMut() -> Option<T>,
    told: impl Fn() -> String,
) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "waited in vain for {what}{}", told());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
