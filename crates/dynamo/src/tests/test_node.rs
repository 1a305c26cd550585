//! Test harness: one node of a ring, its disk and its clock in the hands of the test, and a network
//! on which the test plays the other nodes.

use crate::failure_detector::PeerHealth;
use crate::handoff::HandoffTracker;
use crate::message::{VnodeQuestion, read_enveloped};
use crate::multi_key::KeyPermits;
use crate::operation_timers::OperationTimers;
use crate::reply;
use crate::schema_cache::SchemaCache;
use crate::snitch::Snitch;
use crate::vnode_ops::KeyRef;
use crate::vnode_store::VnodeStore;
use crate::warmup::Warmup;
use crate::{Available, Members, Settings};
use base::{
    Actor, Ballot, BucketName, Call, ClusterDescription, ClusterId, Content, Error, GroupId, Key,
    LogIndex, NodeId, Partition, Properties, Reply, Request, Result,
};
use bytes::Bytes;
use logic::causal::Dot;
use logic::ring::{Rack, Ring, RingChangeRequest, plan};
use runtime::log_writer::{AppendCompletion, LogWriterHandle};
use runtime::submit::{LaterReply, SubmitResult};
use runtime::{DiskSpace, Metrics, TaskScope, WritePacer, world};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Waker};
use store::{MemoryTrees, Position, RecordKind};
use tokio::sync::watch;
use transport::incoming::CallAdmission;
use transport::{
    Boxed, Broken, Credit, Incarnation, IncomingCall, IncomingMessage, Lane, Member, Message,
    Network, PeerStatus, Peers, Receiver, SendOutcome, Sink,
};
use vnode_rows::batch::Mark;
use vnode_rows::layout::{Row, StoredValue, write_row};

/// The node under test.
pub(super) const HERE: NodeId = NodeId(1);
/// Time at which each test begins, in milliseconds.
const START_MS: u64 = 1_000_000;

/// Question that the node has sent.
pub(super) struct SentQuestion {
    pub(super) to: NodeId,
    token: Bytes,
    pub(super) epoch: u64,
    pub(super) question: VnodeQuestion,
}

/// Network on which the test plays the other nodes.
#[derive(Default)]
struct TestNetwork {
    sent: Mutex<Vec<SentQuestion>>,
    unlinked: Mutex<BTreeSet<NodeId>>,
}

impl Network for TestNetwork {
    fn send(&self, to: NodeId, message: Message) -> SendOutcome {
        if !self.is_linked(to) {
            return SendOutcome::NoLink;
        }
        assert!(message.receipt.is_none_or(|receipt| receipt.mark_leaving()));
        let token = Bytes::copy_from_slice(&message.head.bytes()[1..9]);
        let (epoch, question) = read_enveloped(&message.body).expect("a question");
        let mut sent = self.sent.lock().expect("one thread");
        sent.push(SentQuestion { to, token, epoch, question });
        SendOutcome::Sent
    }

    fn is_linked(&self, to: NodeId) -> bool {
        !self.unlinked.lock().expect("one thread").contains(&to)
    }

    fn wait_bulk_space(&self, _to: NodeId) -> Boxed<'_, SendOutcome> {
        Box::pin(async { SendOutcome::NoLink })
    }

    fn set_members(&self, _members: Vec<Member>) {}

    fn status(&self) -> Vec<PeerStatus> {
        Vec::new()
    }

    fn stop(&self) -> Boxed<'_, ()> {
        Box::pin(async {})
    }
}

/// Receiver of a node that nobody asks.
struct IdleReceiver;

impl Sink for IdleReceiver {
    fn deliver(&self, _message: IncomingMessage) {}
    fn connected(&self, _node: NodeId, _incarnation: Incarnation) {}
    fn broken(&self, _node: NodeId, _reason: &Broken) {}
}

impl Receiver for IdleReceiver {
    fn deliver_call(&self, _call: IncomingCall) {}
}

/// Node under test.
pub(super) struct TestNode {
    pub(super) available: Arc<Available>,
    network: Arc<TestNetwork>,
    sink: Arc<dyn Sink>,
    now_ms: Mutex<u64>,
}

impl Drop for TestNode {
    fn drop(&mut self) {
        world::set_time(None);
    }
}

/// Returns a ring of nodes 1 to `nodes`, each partition with three owners.
pub(crate) fn ring_of(nodes: u64) -> Ring {
    let mut ring = Ring::initial(HERE, Rack::default(), 8, 3);
    let join = |node| RingChangeRequest::Join { node: NodeId(node), rack: Rack::default() };
    let changes: Vec<_> = (2..=nodes).map(join).collect();
    if changes.is_empty() {
        return ring;
    }
    let planned = plan(&ring, &changes, 3, &BTreeSet::new()).expect("a plan");
    ring = ring.commit(&planned).expect("the ring is as it was");
    for partition in (0..8).map(Partition) {
        ring = ring.arrive(partition, &[]).unwrap_or(ring);
    }
    ring
}

fn vnode_store() -> Arc<VnodeStore> {
    let callbacks = (Box::new(|_: &BucketName| Some(3_u8)) as _, Box::new(|| true) as _);
    let trees = Arc::new(MemoryTrees::new(1 << 20));
    Arc::new(VnodeStore::new(
        HERE,
        (1, Mark::default()),
        trees.clone(),
        LogWriterHandle::new(),
        Arc::new(WritePacer::new(trees)),
        callbacks,
    ))
}

impl TestNode {
    /// Starts a node of a ring of nodes 1 to `nodes`.
    pub(super) fn start(nodes: u64) -> TestNode {
        TestNode::start_on(nodes, vnode_store())
    }

    /// Starts a node of a ring of nodes 1 to `nodes` on this store.
    pub(super) fn start_on(nodes: u64, store: Arc<VnodeStore>) -> TestNode {
        world::set_time(Some(START_MS * 1_000_000));
        let (network, mut sink) = (Arc::<TestNetwork>::default(), None);
        let over = |of_peers| {
            sink = Some(of_peers);
            network.clone() as Arc<dyn Network>
        };
        let peers = Peers::with_network(over, Arc::new(IdleReceiver), 7);
        let (metrics, tasks) = (Arc::<Metrics>::default(), TaskScope::new("available"));
        let schema = Arc::<SchemaCache>::default();
        schema.replace_all(BTreeMap::new(), BTreeMap::new(), Some(ring_of(nodes)));
        let (_, cluster) = watch::channel(Arc::<ClusterDescription>::default());
        tokio::spawn({
            let (store, stop) = (store.clone(), tasks.cancellation_token().clone());
            async move { store.run(stop).await }
        });
        let available = Arc::new(Available {
            node: HERE,
            cluster: ClusterId(1),
            settings: Settings {
                handoff_bytes_per_second: 0,
                ring_grace_ms: 0,
                anti_entropy_interval_ms: 0,
                reap_after_ms: 0,
                memory_bytes_max: 1 << 20,
            },
            schema,
            members: Members::new((HERE, "here".into()), cluster),
            peers: Arc::new(OnceLock::from(peers)),
            incoming: Arc::new(CallAdmission::new(tasks.clone())),
            directory: OnceLock::new(),
            trees: store.trees.clone(),
            vnode_store: store,
            failure_detector: PeerHealth::new(metrics.clone()),
            warmup: Warmup::begin(),
            snitch: Snitch::default(),
            space: Arc::new(DiskSpace::default()),
            key_permits: KeyPermits::new(tasks.clone()),
            operation_timers: OperationTimers::default(),
            handoff_tracker: HandoffTracker::default(),
            feed_signals: Arc::default(),
            metrics,
            tasks,
        });
        let sink = sink.expect("the network is made with its sink");
        TestNode { available, network, sink, now_ms: Mutex::new(START_MS) }
    }

    /// Submits a client's call.
    pub(super) fn submit(&self, call: Call) -> ClientReply {
        let request = Request { bucket: bucket(), call, retry: None };
        let properties = Arc::new(Properties::available());
        match self.available.submit(request, properties) {
            SubmitResult::Later(reply) | SubmitResult::Independent(_, reply) => ClientReply(reply),
            SubmitResult::Ready(_) | SubmitResult::Pending(..) => panic!("nothing runs yet"),
        }
    }

    /// Returns a key that this node owns, the two other owners, and their fallbacks.
    pub(super) fn owned_key(&self) -> (Key, [u64; 2], Vec<u64>) {
        let numbers = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect::<Vec<_>>();
        let owners = |key: Key| {
            let found = self.available.key_owners(&bucket(), &key, 3).expect("a ring");
            let mut others = numbers(&found.replicas.primaries);
            others.retain(|node| *node != HERE.0);
            Some((key, others.try_into().ok()?, numbers(&found.replicas.fallbacks)))
        };
        let keys = (0..1_000).map(|number| Key::from(format!("k{number}")));
        keys.filter_map(owners).next().expect("one")
    }

    /// Returns the first key of which these nodes are the owners, in any order.
    pub(super) fn key_of(&self, owners: &[u64]) -> Key {
        let expected: BTreeSet<_> = owners.iter().copied().map(NodeId).collect();
        let is_owned = |key: &Key| {
            let found = self.available.key_owners(&bucket(), key, 3).expect("a ring");
            found.replicas.primaries.iter().copied().collect::<BTreeSet<_>>() == expected
        };
        (0..1_000).map(|number| Key::from(format!("k{number}"))).find(is_owned).expect("one")
    }

    /// Returns a key that this node does not own.
    pub(super) fn foreign_key(&self) -> Key {
        let is_foreign = |key: &Key| {
            let found = self.available.key_owners(&bucket(), key, 3).expect("a ring");
            !found.replicas.primaries.contains(&HERE)
        };
        (0..1_000).map(|number| Key::from(format!("k{number}"))).find(is_foreign).expect("one")
    }

    /// Returns the stored row of a key. `None`: there is none.
    pub(super) fn stored_row(&self, key: &Key) -> Option<Bytes> {
        let key_ref = KeyRef::new(bucket(), key.clone());
        self.available.vnode_store.read(&key_ref).expect("memory")
    }

    /// Takes the questions that were sent since the last call, by receiver.
    pub(super) fn take_questions(&self) -> Vec<SentQuestion> {
        let mut sent = std::mem::take(&mut *self.network.sent.lock().expect("one thread"));
        sent.sort_by_key(|sent| sent.to);
        sent
    }

    fn deliver(&self, kind: u8, to: &SentQuestion, body: &[u8]) {
        let payload = [&[kind][..], &to.token, &[0; 4], body].concat().into();
        let (incarnation, credit) = (Incarnation(1), Credit::none());
        let (lane, group) = (Lane::Call, GroupId(0));
        let message = IncomingMessage { from: to.to, incarnation, lane, group, payload, credit };
        self.sink.deliver(message);
    }

    /// Answers a store: the node has stored the row.
    pub(super) fn answer_stored(&self, to: &SentQuestion) {
        self.deliver(2, to, &reply::stored(true));
    }

    /// Answers a question with these fields.
    pub(super) fn answer(&self, to: &SentQuestion, fields: &[u8]) {
        self.deliver(2, to, &reply::success(|out| out.extend_from_slice(fields)));
    }

    /// Answers a fetch with a row. `None`: the node has none.
    pub(super) fn answer_row(&self, to: &SentQuestion, row: Option<&Row>) {
        let mut fields = vec![u8::from(row.is_some())];
        fields.extend(row.into_iter().flat_map(write_row));
        self.answer(to, &fields);
    }

    /// Answers a question with an error.
    pub(super) fn answer_error(&self, to: &SentQuestion, error: &Error) {
        self.deliver(2, to, &reply::failure(error));
    }

    /// Declines a question: the node did nothing.
    pub(super) fn decline(&self, to: &SentQuestion) {
        self.deliver(3, to, &[]);
    }

    /// Cuts the link to a node: what was sent to it stays without an answer.
    pub(super) fn cut(&self, node: u64) {
        self.network.unlinked.lock().expect("one thread").insert(NodeId(node));
        self.sink.broken(NodeId(node), &Broken::Ended);
    }

    /// Marks a node as without a link from the start.
    pub(super) fn unlink(&self, node: u64) {
        self.network.unlinked.lock().expect("one thread").insert(NodeId(node));
    }

    /// Lets this much time pass, and calls the operations whose time is up.
    pub(super) fn pass_ms(&self, milliseconds: u64) {
        let mut now_ms = self.now_ms.lock().expect("one thread");
        *now_ms += milliseconds;
        world::set_time(Some(*now_ms * 1_000_000));
        self.available.operation_timers.call_due(&self.available);
    }

    /// Lets tasks run until they wait.
    pub(super) async fn run_tasks(&self) {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    /// Makes everything durable that was written here, and applies it.
    pub(super) async fn sync(&self) {
        self.run_tasks().await;
        self.available.vnode_store.on_completions(&[AppendCompletion {
            kind: RecordKind::Vnode,
            group: vnode_rows::layout::VNODES,
            ballot: Ballot::default(),
            index: LogIndex(u64::MAX),
            decided: LogIndex(0),
            start: Position(0),
        }]);
        self.run_tasks().await;
    }

    /// Writes a row here, as another coordinator would.
    pub(super) async fn put_row(&self, key: &Key, row: &Row) {
        let properties = Properties::available();
        let policy = crate::vnode_ops::WritePolicy::from_properties(&properties);
        let key_ref = KeyRef::new(bucket(), key.clone());
        let ticket = self.available.vnode_store.merge(&key_ref, row.clone(), policy, None);
        ticket.expect("it is taken");
        self.sync().await;
    }

    /// Returns true if no get or put is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.available.operation_timers.count() == 0
    }
}

/// Reply that a client awaits.
pub(super) struct ClientReply(LaterReply);

impl ClientReply {
    /// Asks for the reply. `None`: there is none yet.
    pub(super) fn poll(&mut self) -> Option<Result<Reply>> {
        match self.0.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => Some(reply),
            Poll::Pending => None,
        }
    }
}

pub(super) fn bucket() -> BucketName {
    BucketName::new(BucketName::AVAILABLE, "b").expect("a name")
}

/// Returns a row with one value, written by a node as its `count`th write.
pub(super) fn row(node: u64, count: u64, value: &str) -> Row {
    let mut row = Row::empty();
    let id = Actor { node: NodeId(node), vnode: 7, incarnation: 1 };
    let value = StoredValue::new(Some(&Content::plain(value.to_string().into())), count);
    row.event(Dot { id, count }, value);
    row
}
