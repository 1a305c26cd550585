//! Nodes in one process, connected by a link that can lose and corrupt parts, and be cut.

use crate::layout::{self, Mark};
use crate::snapshot::{Snapshots, TransferTimeouts};
use base::limits::PEER_BULK_WINDOW_BYTES;
use base::{BucketId, ConfigurationId, GroupId, LogIndex, NodeId};
use bytes::Bytes;
use logic::consensus::Configuration;
use runtime::file_tasks::FileTasks;
use runtime::metrics::Metrics;
use runtime::{DiskSpace, TaskScope};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use store::{Chunk, RowChange, TreeRow, Trees};
use tokio::sync::Notify;
use transport::{
    Boxed, Broken, Credit, CreditSource, Incarnation, IncomingCall, IncomingMessage, Lane, Member,
    Message, Network, PeerStatus, Peers, Receiver, SendOutcome, Sink,
};

pub(super) const GROUP: GroupId = GroupId(7);
pub(super) const ONE: NodeId = NodeId(1);
pub(super) const TWO: NodeId = NodeId(2);

/// Delivery of a part, by its number since the link was created: the messages that arrive in its
/// place.
type Fate = dyn Fn(u64, Message) -> Vec<Message> + Send + Sync;

/// Link that connects all nodes of a test.
#[derive(Default)]
pub(super) struct TestLink {
    sinks: Mutex<BTreeMap<NodeId, Arc<dyn Sink>>>,
    fate: Mutex<Option<Box<Fate>>>,
    pub parts: AtomicU64,
    cut: AtomicBool,
    in_flight: Arc<Window>,
}

/// Bytes of the bulk lane that were not consumed.
#[derive(Default)]
struct Window(AtomicU64, Notify);

impl CreditSource for Window {
    fn consumed(&self, bytes: u64) {
        self.0.fetch_sub(bytes, SeqCst);
        self.1.notify_waiters();
    }
}

impl TestLink {
    /// Sets the delivery of later parts.
    pub fn fate(&self, fate: impl Fn(u64, Message) -> Vec<Message> + Send + Sync + 'static) {
        *self.fate.lock().unwrap() = Some(Box::new(fate));
    }

    /// Breaks every connection and reports it to every node. No message passes until `heal`.
    pub fn cut(&self) {
        self.cut.store(true, SeqCst);
        let sinks = self.sinks.lock().unwrap().clone();
        for (node, sink) in &sinks {
            sinks.keys().filter(|other| *other != node).for_each(|other| {
                sink.broken(*other, &Broken::Ended);
            });
        }
        self.in_flight.1.notify_waiters();
    }

    pub fn heal(&self) {
        self.cut.store(false, SeqCst);
    }

    fn deliver(&self, from: NodeId, to: NodeId, message: Message) {
        let credit = match message.lane {
            Lane::Bulk => {
                self.in_flight.0.fetch_add(message.size() as u64, SeqCst);
                Credit::new(self.in_flight.clone(), message.size() as u64)
            }
            _ => Credit::none(),
        };
        let payload = Bytes::from([message.head.bytes(), &message.body].concat());
        let (lane, group) = (message.lane, message.group);
        let sink = self.sinks.lock().unwrap().get(&to).cloned();
        let incarnation = Incarnation(1);
        let delivered = IncomingMessage { from, incarnation, lane, group, payload, credit };
        if let Some(sink) = sink {
            sink.deliver(delivered);
        }
    }
}

/// One end of the link.
struct TestNetwork(NodeId, Arc<TestLink>);

impl Network for TestNetwork {
    fn send(&self, to: NodeId, message: Message) -> SendOutcome {
        let link = &self.1;
        if link.cut.load(SeqCst) {
            return SendOutcome::NoLink;
        }
        if message.receipt.as_ref().is_some_and(|receipt| !receipt.mark_leaving()) {
            return SendOutcome::Sent;
        }
        if message.lane != Lane::Bulk {
            link.deliver(self.0, to, message);
            return SendOutcome::Sent;
        }
        if link.in_flight.0.load(SeqCst) >= PEER_BULK_WINDOW_BYTES as u64 {
            return SendOutcome::Full;
        }
        let number = link.parts.fetch_add(1, SeqCst);
        let delivered = match &*link.fate.lock().unwrap() {
            Some(fate) => fate(number, message),
            None => vec![message],
        };
        delivered.into_iter().for_each(|message| link.deliver(self.0, to, message));
        SendOutcome::Sent
    }

    fn wait_bulk_space(&self, _: NodeId) -> Boxed<'_, SendOutcome> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if self.1.cut.load(SeqCst) { SendOutcome::NoLink } else { SendOutcome::Sent }
        })
    }

    fn is_linked(&self, _: NodeId) -> bool {
        !self.1.cut.load(SeqCst)
    }

    fn set_members(&self, _: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Passes received messages to a node's snapshots.
struct SnapshotReceiver {
    snapshots: Arc<Snapshots>,
    peers: OnceLock<Peers>,
}

impl Sink for SnapshotReceiver {
    fn deliver(&self, message: IncomingMessage) {
        self.snapshots.on_part(message);
    }

    fn connected(&self, _: NodeId, _: Incarnation) {}

    fn broken(&self, node: NodeId, _: &Broken) {
        self.snapshots.on_broken(node);
    }
}

impl Receiver for SnapshotReceiver {
    fn deliver_call(&self, call: IncomingCall) {
        self.snapshots.on_call(self.peers.get().unwrap(), call, Some(initial()));
    }
}

/// The parts of a node that snapshots need.
pub(super) struct TestNode<T> {
    pub trees: Arc<T>,
    pub snapshots: Arc<Snapshots>,
    pub metrics: Arc<Metrics>,
    pub file_tasks: Arc<FileTasks>,
    pub space: Arc<DiskSpace>,
    pub peers: Peers,
}

impl<T: Trees + 'static> TestNode<T> {
    /// Creates a node on the link. It replaces an earlier one with this id.
    pub fn new(link: &Arc<TestLink>, id: NodeId, trees: T) -> TestNode<T> {
        let (trees, metrics) = (Arc::new(trees), Arc::<Metrics>::default());
        let pace = TransferTimeouts {
            part: Duration::from_millis(300),
            retry: Duration::from_millis(5),
            idle: Duration::from_millis(1_500),
            unused: Duration::from_millis(500),
        };
        let (file_tasks, space) = (Arc::<FileTasks>::default(), Arc::<DiskSpace>::default());
        let handles = (metrics.clone(), file_tasks.clone(), space.clone());
        let snapshots = Snapshots::new(trees.clone(), handles, pace, TaskScope::new("test"));
        let receiver =
            Arc::new(SnapshotReceiver { snapshots: snapshots.clone(), peers: OnceLock::new() });
        let network = |sink| {
            link.sinks.lock().unwrap().insert(id, sink);
            Arc::new(TestNetwork(id, link.clone())) as Arc<dyn Network>
        };
        let peers = Peers::with_network(network, receiver.clone(), 1);
        assert!(receiver.peers.set(peers.clone()).is_ok());
        TestNode { trees, snapshots, metrics, file_tasks, space, peers }
    }

    /// Applies an entry, as the driver does: rows and the mark in one batch.
    pub fn apply(&self, index: u64, rows: impl IntoIterator<Item = (u32, Option<Bytes>)>) {
        let mut key = Vec::new();
        layout::mark_key(GROUP, &mut key);
        let mark = RowChange::Put(Bytes::copy_from_slice(&key), mark(index).write());
        let rows = rows.into_iter().map(|(number, value)| match value {
            Some(value) => RowChange::Put(row_key(number), value),
            None => RowChange::Remove(row_key(number)),
        });
        self.trees.apply(&mut rows.chain([mark])).unwrap();
    }

    /// Returns all rows of the group.
    pub fn content(&self) -> Vec<TreeRow> {
        let prefix = GROUP.0.to_be_bytes();
        Chunk::read(&*self.trees.snapshot(), &prefix, None, usize::MAX).unwrap().rows
    }
}

pub(super) fn mark(index: u64) -> Mark {
    Mark { applied: index, time: index * 10, next_version: index + 1 }
}

pub(super) fn row_key(number: u32) -> Bytes {
    let mut key = Vec::new();
    layout::row_key(GROUP, BucketId(3), &number.to_be_bytes(), &mut key);
    key.into()
}

/// Returns a value that does not compress, and differs for each row and `seed`.
pub(super) fn value(number: u32, seed: u64, bytes: usize) -> Bytes {
    let mut state = u64::from(number) + seed * 1_000_003 + 1;
    let mut next_bytes = || {
        state = (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (state >> 27);
        state.to_le_bytes()
    };
    (0..bytes.div_ceil(8)).flat_map(|_| next_bytes()).take(bytes).collect()
}

/// Returns the configuration with which the group began.
pub(super) fn initial() -> Configuration {
    Configuration::single_member(ConfigurationId(0), ONE).unwrap()
}

/// Stores another configuration, as a stop-sign does, and returns it.
pub(super) fn second(trees: &dyn Trees, base: u64) -> Configuration {
    let mut key = Vec::new();
    layout::configuration_key(GROUP, &mut key);
    let configuration = Configuration::single_member(ConfigurationId(1), TWO).unwrap();
    let row = layout::write_configuration(LogIndex(base), &configuration);
    trees.apply(&mut [RowChange::Put(key.into(), row)].into_iter()).unwrap();
    configuration
}

/// Waits until the condition is met.
pub(super) async fn wait_until(what: &str, is_met: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if is_met() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came true that {what}");
}
