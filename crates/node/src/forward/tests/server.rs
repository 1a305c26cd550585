//! The master's side, on a real node.

use super::fakes::{NullReceiver, bridge};
use crate::Node;
use crate::forward::{message, on_forwarded_request};
use crate::route::Router;
use crate::tests::access::{change, check_matrix, role, with_access};
use crate::tests::{Place, bytes, get, request, set};
use base::access::UserQuota;
use base::limits::{FORWARD_MS_MAX, FORWARDED_BYTES_MAX, FORWARDED_MAX, KEY_BYTES_MAX};
use base::request::OnMissing;
use base::{
    AccessCall, Body, Call, DirectoryCall, GroupId, KeyVersion, LogIndex, NodeId, Outcome,
    Principal, Read, ReadLevel, Reason, Reply, Request, Result, Update,
};
use bytes::Bytes;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use transport::CallKind;
use transport::{
    Broken, CallError, Incarnation, IncomingCall, IncomingMessage, Peers, Receiver, Sink,
};

pub(super) const MASTER: NodeId = NodeId(2);
const LONG: Duration = Duration::from_secs(60);

/// Receiver that passes calls to a node's router.
struct ToRouter(Weak<Router>);

impl Sink for ToRouter {
    fn deliver(&self, _: IncomingMessage) {}
    fn connected(&self, _: NodeId, _: Incarnation) {}
    fn broken(&self, _: NodeId, _: &Broken) {}
}

impl Receiver for ToRouter {
    fn deliver_call(&self, call: IncomingCall) {
        on_forwarded_request(&self.0.upgrade().expect("the node is there"), call);
    }
}

/// Starts a node, and returns it with another node's connection to it.
pub(super) async fn node_and_peers(place: &Place) -> (Node, Peers) {
    let node = place.start().await;
    let peers = peers_of(&node);
    (node, peers)
}

/// Returns another node's connection to a node.
fn peers_of(node: &Node) -> Peers {
    let receiver = Arc::new(ToRouter(Arc::downgrade(&node.router)));
    let (peers, master) = bridge(Arc::new(NullReceiver), receiver);
    assert!(node.cluster.links.peers.set(master).is_ok(), "it had none");
    peers
}

async fn ask(peers: &Peers, request: &Request) -> Result<Reply> {
    ask_for(peers, None, request).await
}

async fn ask_for(peers: &Peers, principal: Option<&Principal>, request: &Request) -> Result<Reply> {
    let sent = message::write(LogIndex(0), principal, request).expect("small");
    let answer = peers.call(MASTER, GroupId(1), sent.clone(), LONG).await.expect("it is answered");
    message::read_answer_to(&sent, answer).expect("it is an answer")
}

/// Sets whether a node takes itself for the master of the default bucket's group.
fn set_master(node: &Node, is_master: bool) {
    let group = node.router.locator.groups.find(GroupId(1)).expect("it is there");
    group.leadership.set_master_for_test(is_master);
}

#[tokio::test]
async fn forwarded_request_gets_the_same_answer_as_a_local_request() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    let written = ask(&peers, &request(Call::Update(set("k", "1")))).await.expect("written");
    assert_eq!(written.body, Body::Updated(Outcome::Done));
    assert_eq!(get(&node, "k").await, Some(bytes("1")), "it was decided before it was answered");
    let read = Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent);
    let seen = ask(&peers, &request(read)).await.expect("read");
    let Body::Row(Some(row)) = seen.body else { panic!("{:?}", seen.body) };
    assert_eq!((row.value, Some(row.version)), (bytes("1"), written.version));
    let count = Call::Read(Read::KeyCount, ReadLevel::Consistent);
    assert_eq!(ask(&peers, &request(count)).await.expect("read").body, Body::Count(1));
    let failing = Update::Assert { key: bytes("k"), expected: None };
    let error =
        ask(&peers, &request(Call::Update(failing))).await.expect_err("it fails there, too");
    assert_eq!((error.reason, error.detail), (Reason::AssertionFailed, bytes("k")));
    let buckets = request(Call::Directory(DirectoryCall::DescribeBucket));
    let Body::Buckets(found) = ask(&peers, &buckets).await.expect("described").body else {
        panic!("a description is wanted")
    };
    assert_eq!(found.len(), 1);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn forwarded_assertion_notices_a_key_that_came_and_went() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    let update = async |update| ask(&peers, &request(Call::Update(update))).await;
    let written = update(set("k", "1")).await.expect("written");
    let read = Read::KeyVersions(vec![bytes("k"), bytes("gone"), bytes("never")]);
    let read = request(Call::Read(read, ReadLevel::Consistent));
    let Body::KeyVersions(found) = ask(&peers, &read).await.expect("read").body else {
        panic!("versions are asked for")
    };
    assert_eq!(found.first().copied(), written.version.map(KeyVersion::Present));
    update(set("gone", "1")).await.expect("written");
    let delete = Update::Delete { key: bytes("gone"), missing: OnMissing::Fail };
    update(delete).await.expect("deleted");
    let mut outcomes = Vec::new();
    for (key, version) in [("gone", found[1]), ("never", found[2])] {
        let KeyVersion::Absent(absence) = version else { panic!("`{key}` was absent") };
        let assertion = Update::AssertAbsentSince { key: bytes(key), absence };
        outcomes.push(update(assertion).await.map_err(|error| error.reason).map(|_| ()));
    }
    assert_eq!(outcomes, [Err(Reason::Changed), Ok(())]);
    node.stop().await.expect("it stops");
}

/// Polls a call once: no other task has run by then.
fn poll_once<T>(call: impl Future<Output = T>) -> Poll<T> {
    pin!(call).as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn forwarded_get_of_a_row_in_memory_is_answered_at_once() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    ask(&peers, &request(Call::Update(set("k", "1")))).await.expect("written");
    let large = "v".repeat(5_000);
    ask(&peers, &request(Call::Update(set("large", &large)))).await.expect("written");
    let get = |key: &str| request(Call::Read(Read::Get(bytes(key)), ReadLevel::Consistent));
    let forwarded = || node.router.metrics.forwarded_in.load(Ordering::Relaxed);
    let before = forwarded();
    for _ in 0..3 {
        let Poll::Ready(Ok(reply)) = poll_once(ask(&peers, &get("k"))) else {
            panic!("it is answered without another task")
        };
        assert!(matches!(&reply.body, Body::Row(Some(row)) if row.value == bytes("1")));
        assert_eq!(reply, ask(&peers, &get("k")).await.expect("read"));
    }
    assert_eq!(forwarded() - before, 6);
    // These go on in tasks of their own, and have the same answers.
    let exists = request(Call::Read(Read::Exists(vec![bytes("k")]), ReadLevel::Consistent));
    let dirty = request(Call::Read(Read::Get(bytes("k")), ReadLevel::Dirty));
    let long = "x".repeat(KEY_BYTES_MAX);
    for request in [exists, dirty, get("large"), get(&long)] {
        assert!(poll_once(ask(&peers, &request)).is_pending(), "{request:?}");
        ask(&peers, &request).await.expect("it is answered");
    }
    let missing = ask(&peers, &get("missing")).await.expect("read");
    assert_eq!(missing.body, Body::Row(None));
    set_master(&node, false);
    let error = ask(&peers, &get("k")).await.expect_err("another node must answer");
    assert_eq!(error.reason, Reason::NotMaster);
    set_master(&node, true);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn forwarded_get_at_once_waits_for_directory_and_counts_against_the_bound() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    ask(&peers, &request(Call::Update(set("k", "1")))).await.expect("written");
    let get = request(Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent));
    let ahead = LogIndex(node.router.directory.group.applied.index().0 + 10);
    let sent = message::write(ahead, None, &get).expect("small");
    assert!(poll_once(peers.call(MASTER, GroupId(1), sent, LONG)).is_pending());
    let elsewhere = message::write(LogIndex(0), None, &get).expect("small");
    let answer = peers.call(MASTER, GroupId(7), elsewhere.clone(), LONG).await.expect("answered");
    let reply = message::read_answer_to(&elsewhere, answer).expect("readable");
    assert_eq!(reply.map_err(|error| error.reason), Err(Reason::Moved));
    let incoming = &node.router.incoming;
    let permits: Vec<_> =
        (0..FORWARDED_MAX - 1).map(|_| incoming.admit(1).expect("a permit")).collect();
    let answer = peers.call(MASTER, GroupId(1), elsewhere, LONG).await;
    assert_eq!(answer, Err(CallError::Declined(MASTER)), "one waits for the directory");
    drop(permits);
    // Ends that wait.
    node.cluster.groups.find(GroupId(1)).expect("it is here").leadership.set_master(NodeId(3));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn malformed_forwarded_request_is_declined_without_effect() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    let good =
        message::write(LogIndex(0), None, &request(Call::Update(set("k", "v")))).expect("small");
    let mut hostile: Vec<Bytes> =
        vec![Bytes::new(), Bytes::copy_from_slice(&[CallKind::Request.byte()])];
    hostile.extend((0..good.len()).map(|end| good.slice(..end)));
    // A list that claims more elements than follow.
    let mut overlong = good.to_vec();
    let end = overlong.len();
    overlong[end - 6..end - 2].fill(0xff);
    hostile.push(overlong.into());
    for payload in hostile {
        let shown = format!("{payload:?}");
        let answer = peers.call(MASTER, GroupId(1), payload, LONG).await;
        assert_eq!(answer, Err(CallError::Declined(MASTER)), "{shown}");
    }
    assert_eq!(get(&node, "k").await, None);
    ask(&peers, &request(Call::Update(set("k", "v")))).await.expect("it still serves");
    node.stop().await.expect("it stops");
}

/// Sends a request as an older node does.
#[tokio::test]
async fn request_from_older_node_is_answered_without_version() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    let message_bytes =
        message::write(LogIndex(0), None, &request(Call::Update(set("k", "v")))).expect("small");
    let plain = message::without_version(&message_bytes);
    let answer = peers.call(MASTER, GroupId(1), plain, LONG).await.expect("it is answered");
    let reply = base::wire::read_answer(&answer).expect("an answer").expect("written");
    assert_eq!((reply.body, reply.version), (Body::Updated(Outcome::Done), None));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn non_master_refuses_forwarded_request_without_forwarding_again() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    set_master(&node, false);
    let error = ask(&peers, &request(Call::Update(set("k", "1")))).await.expect_err("it is not");
    assert_eq!(error.reason, Reason::NotMaster);
    // The caller is not asked: it has no connection to answer on, so that would never end.
    let read = Call::Read(Read::KeyCount, ReadLevel::Consistent);
    let error = ask(&peers, &request(read)).await.expect_err("it is not");
    assert_eq!(error.reason, Reason::NotMaster);
    let dirty = Call::Read(Read::KeyCount, ReadLevel::Dirty);
    assert_eq!(ask(&peers, &request(dirty)).await.expect("it may").body, Body::Count(0));
    set_master(&node, true);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn forwarded_request_waits_for_directory_index_of_its_sender() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    let directory = &node.router.directory.group.applied;
    // Beyond all entries that a node writes into its directory when it starts.
    let needed_index = LogIndex(directory.index().0 + 10);
    let message_bytes =
        message::write(needed_index, None, &request(Call::Update(set("k", "1")))).expect("small");
    let answer = peers.call(MASTER, GroupId(1), message_bytes, LONG);
    tokio::pin!(answer);
    for _ in 0..100 {
        tokio::select! {
            biased;
            _ = &mut answer => panic!("the directory is behind"),
            () = tokio::task::yield_now() => {}
        }
    }
    while directory.index() < needed_index {
        let clear = request(Call::Directory(DirectoryCall::ClearBucket));
        node.handle(&base::Principal::Node, clear).await.expect("cleared");
    }
    assert!(answer.await.is_ok());
    assert_eq!(get(&node, "k").await, Some(bytes("1")), "it went into the cleared bucket");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn forwarded_requests_in_progress_are_bounded_by_count_and_bytes() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    let incoming = &node.router.incoming;
    let read = request(Call::Read(Read::KeyCount, ReadLevel::Consistent));
    let message_bytes = message::write(LogIndex(0), None, &read).expect("small");
    let mut permits: Vec<_> =
        (0..FORWARDED_MAX).map(|_| incoming.admit(1).expect("a permit")).collect();
    let answer = peers.call(MASTER, GroupId(1), message_bytes, LONG).await;
    assert_eq!(answer, Err(CallError::Declined(MASTER)));
    permits.pop();
    ask(&peers, &read).await.expect("one is free");
    drop(permits);
    let all = incoming.admit(FORWARDED_BYTES_MAX).expect("all the room");
    assert!(incoming.admit(1).is_none(), "there is no more");
    drop(all);
    ask(&peers, &read).await.expect("there is room again");
    node.stop().await.expect("it stops");
}

/// As at a master with a hung disk: it never applies the sender's directory.
#[tokio::test]
async fn request_ahead_of_a_former_masters_directory_is_refused_as_not_master() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    let unreached_index = LogIndex(1_000_000);
    let sent = message::write(unreached_index, None, &request(Call::Update(set("k", "v"))))
        .expect("small");
    let answer = peers.call(MASTER, GroupId(1), sent.clone(), LONG);
    let successor = async {
        tokio::task::yield_now().await;
        node.cluster.groups.find(GroupId(1)).expect("it is here").leadership.set_master(NodeId(3));
    };
    let within = Duration::from_secs(10);
    let both = async { tokio::join!(answer, successor).0 };
    let answer = tokio::time::timeout(within, both).await.expect("not held until the disk answers");
    let reply = message::read_answer_to(&sent, answer.expect("it is answered")).expect("readable");
    assert_eq!(reply.map_err(|error| error.reason), Err(Reason::NotMaster));
    node.stop().await.expect("it stops");
}

/// A dirty read is not master's work: a node that does not lead waits for the directory, too.
#[tokio::test]
async fn dirty_read_ahead_of_the_directory_is_refused_while_its_sender_waits() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    set_master(&node, false);
    let dirty = request(Call::Read(Read::KeyCount, ReadLevel::Dirty));
    let sent = message::write(LogIndex(1_000_000), None, &dirty).expect("small");
    let sender_waits = Duration::from_millis(FORWARD_MS_MAX);
    let answer = peers.call(MASTER, GroupId(1), sent.clone(), sender_waits).await;
    let reply = message::read_answer_to(&sent, answer.expect("it is answered")).expect("readable");
    assert_eq!(reply.map_err(|error| error.reason), Err(Reason::NoQuorum));
    set_master(&node, true);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn forwarded_request_counts_against_no_quota_where_it_is_opened() {
    let place = Place::new();
    let (node, user) = with_access(&place).await;
    change(&node, role("tried", &["read,write:cluster"])).await.expect("changed");
    let quota = UserQuota { operations: Some(1), ..UserQuota::default() };
    change(&node, AccessCall::SetQuota { user: "ada".into(), quota }).await.expect("set");
    let peers = peers_of(&node);
    let read = request(Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent));
    for number in 0..5 {
        ask_for(&peers, Some(&user), &read).await.expect("it was counted at its sender");
        let update = request(Call::Update(set("k", &number.to_string())));
        ask_for(&peers, Some(&user), &update).await.expect("it was counted at its sender");
    }
    assert_eq!(node.user_quota("ada"), Some((quota, None)), "nothing is counted here");
    node.handle(&user, read).await.expect("the quota is unused");
    let used = node.user_quota("ada").and_then(|(_, used)| used);
    assert_eq!(used.map(|used| used.operations), Some(1));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn forwarded_request_is_decided_again_for_its_principal() {
    let place = Place::new();
    let (node, user) = with_access(&place).await;
    let peers = peers_of(&node);
    // A sender that does not know yet that access is on names nobody.
    let read = request(Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent));
    let refused = ask(&peers, &read).await.expect_err("nobody asks");
    assert_eq!(refused.reason, Reason::StaleReplica);
    let answer = ask_for(&peers, Some(&Principal::Node), &read).await;
    answer.expect("a node may ask for itself");
    check_matrix(&node, async |request| ask_for(&peers, Some(&user), request).await).await;
    node.stop().await.expect("it stops");
}
