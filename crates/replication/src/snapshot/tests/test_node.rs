//! Nodes in one process, joined by a cable that can lose, spoil and be cut.

use crate::layout::{self, Mark};
use crate::snapshot::{Pace, Snapshots};
use base::limits::PEER_BULK_WINDOW_BYTES;
use base::{BucketId, ConfigurationId, GroupId, LogIndex, NodeId};
use bytes::Bytes;
use logic::consensus::Configuration;
use runtime::TaskScope;
use runtime::file_tasks::FileTasks;
use runtime::metrics::Metrics;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use store::{Chunk, RowChange, TreeRow, Trees};
use tokio::sync::Notify;
use transport::{
    Boxed, Broken, Credit, Creditor, Incarnation, IncomingCall, IncomingMessage, Lane, Member,
    Message, Network, PeerStatus, Peers, Receiver, Sending, Sink,
};

pub(super) const GROUP: GroupId = GroupId(7);
pub(super) const ONE: NodeId = NodeId(1);
pub(super) const TWO: NodeId = NodeId(2);

/// Delivery of a part, by its number since the cable was laid: the messages that arrive instead.
type Fate = dyn Fn(u64, Message) -> Vec<Message> + Send + Sync;

/// Joins all nodes of a test.
#[derive(Default)]
pub(super) struct TestLink {
    sinks: Mutex<BTreeMap<NodeId, Arc<dyn Sink>>>,
    fate: Mutex<Option<Box<Fate>>>,
    pub parts: AtomicU64,
    cut: AtomicBool,
    under_way: Arc<Window>,
}

/// Bytes of bulk that were not used up.
#[derive(Default)]
struct Window(AtomicU64, Notify);

impl Creditor for Window {
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
        self.under_way.1.notify_waiters();
    }

    pub fn heal(&self) {
        self.cut.store(false, SeqCst);
    }

    fn deliver(&self, from: NodeId, to: NodeId, message: Message) {
        let credit = match message.lane {
            Lane::Bulk => {
                self.under_way.0.fetch_add(message.size() as u64, SeqCst);
                Credit::of(self.under_way.clone(), message.size() as u64)
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

/// One end of the cable.
struct Plug(NodeId, Arc<TestLink>);

impl Network for Plug {
    fn send(&self, to: NodeId, message: Message) -> Sending {
        let cable = &self.1;
        if cable.cut.load(SeqCst) {
            return Sending::NoLink;
        }
        if message.receipt.as_ref().is_some_and(|receipt| !receipt.leave()) {
            return Sending::Sent;
        }
        if message.lane != Lane::Bulk {
            cable.deliver(self.0, to, message);
            return Sending::Sent;
        }
        if cable.under_way.0.load(SeqCst) >= PEER_BULK_WINDOW_BYTES as u64 {
            return Sending::Full;
        }
        let number = cable.parts.fetch_add(1, SeqCst);
        let fated = match &*cable.fate.lock().unwrap() {
            Some(fate) => fate(number, message),
            None => vec![message],
        };
        fated.into_iter().for_each(|message| cable.deliver(self.0, to, message));
        Sending::Sent
    }

    fn bulk_room(&self, _: NodeId) -> Boxed<'_, Sending> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if self.1.cut.load(SeqCst) { Sending::NoLink } else { Sending::Sent }
        })
    }

    fn linked(&self, _: NodeId) -> bool {
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

/// Hands what comes to a node's snapshots.
struct SnapshotReceiver {
    snapshots: Arc<Snapshots>,
    peers: OnceLock<Peers>,
}

impl Sink for SnapshotReceiver {
    fn deliver(&self, message: IncomingMessage) {
        self.snapshots.arrived(message);
    }

    fn connected(&self, _: NodeId, _: Incarnation) {}

    fn broken(&self, node: NodeId, _: &Broken) {
        self.snapshots.broken(node);
    }
}

impl Receiver for SnapshotReceiver {
    fn asked(&self, asked: IncomingCall) {
        self.snapshots.asked(self.peers.get().unwrap(), asked, Some(first()));
    }
}

/// A node as far as snapshots need one.
pub(super) struct TestNode<T> {
    pub trees: Arc<T>,
    pub snapshots: Arc<Snapshots>,
    pub metrics: Arc<Metrics>,
    pub file_tasks: Arc<FileTasks>,
    pub peers: Peers,
}

impl<T: Trees + 'static> TestNode<T> {
    /// A node at the cable; one that was there before under this id is gone.
    pub fn at(cable: &Arc<TestLink>, id: NodeId, trees: T) -> TestNode<T> {
        let (trees, metrics) = (Arc::new(trees), Arc::<Metrics>::default());
        let pace = Pace {
            quiet: Duration::from_millis(300),
            pause: Duration::from_millis(5),
            idle: Duration::from_millis(1_500),
        };
        let file_tasks = Arc::<FileTasks>::default();
        let around = (metrics.clone(), file_tasks.clone());
        let snapshots = Snapshots::new(trees.clone(), around, pace, TaskScope::new("test"));
        let receiver =
            Arc::new(SnapshotReceiver { snapshots: snapshots.clone(), peers: OnceLock::new() });
        let plug = |sink| {
            cable.sinks.lock().unwrap().insert(id, sink);
            Arc::new(Plug(id, cable.clone())) as Arc<dyn Network>
        };
        let peers = Peers::over(plug, receiver.clone(), 1);
        assert!(receiver.peers.set(peers.clone()).is_ok());
        TestNode { trees, snapshots, metrics, file_tasks, peers }
    }

    /// Applies a value, as the driver does: rows and the mark in one batch.
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

    /// All of the group.
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

/// Returns a value that does not compress, and differs from row to row and from `life` to `life`.
pub(super) fn value(number: u32, life: u64, bytes: usize) -> Bytes {
    let mut state = u64::from(number) + life * 1_000_003 + 1;
    let mut word = || {
        state = (state ^ (state >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (state >> 27);
        state.to_le_bytes()
    };
    (0..bytes.div_ceil(8)).flat_map(|_| word()).take(bytes).collect()
}

/// The configuration the group began with.
pub(super) fn first() -> Configuration {
    Configuration::alone(ConfigurationId(0), ONE).unwrap()
}

/// Another, as a stop-sign leaves it in the store.
pub(super) fn second(trees: &dyn Trees, base: u64) -> Configuration {
    let mut key = Vec::new();
    layout::configuration_key(GROUP, &mut key);
    let configuration = Configuration::alone(ConfigurationId(1), TWO).unwrap();
    let row = layout::write_configuration(LogIndex(base), &configuration);
    trees.apply(&mut [RowChange::Put(key.into(), row)].into_iter()).unwrap();
    configuration
}

/// Waits until it holds.
pub(super) async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..20_000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came true that {what}");
}
