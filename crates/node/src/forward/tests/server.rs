//! The master's side, on a real node.

use super::fakes::{Nobody, bridge};
use crate::Node;
use crate::forward::{answer, message};
use crate::route::Router;
use crate::tests::{Place, bytes, get, request, set};
use base::limits::{FORWARDED_BYTES_MAX, FORWARDED_MAX};
use base::{
    Body, Call, DirectoryCall, GroupId, LogIndex, NodeId, Outcome, Read, ReadLevel, Reason, Reply,
    Request, Result, Update,
};
use bytes::Bytes;
use std::sync::{Arc, Weak};
use std::time::Duration;
use transport::CallKind;
use transport::{
    Broken, CallError, Incarnation, IncomingCall, IncomingMessage, Peers, Receiver, Sink,
};

const MASTER: NodeId = NodeId(2);
const LONG: Duration = Duration::from_secs(60);

/// Network that hands requests to a node's server side.
struct ToDesk(Weak<Router>);

impl Sink for ToDesk {
    fn deliver(&self, _: IncomingMessage) {}
    fn connected(&self, _: NodeId, _: Incarnation) {}
    fn broken(&self, _: NodeId, _: &Broken) {}
}

impl Receiver for ToDesk {
    fn asked(&self, asked: IncomingCall) {
        answer(&self.0.upgrade().expect("the node is there"), asked);
    }
}

/// Starts a node, and returns it with another node's link to it.
async fn node_and_asker(place: &Place) -> (Node, Peers) {
    let node = place.start().await;
    let desk = Arc::new(ToDesk(Arc::downgrade(&node.router)));
    let (asker, master) = bridge(Arc::new(Nobody), desk);
    assert!(node.cluster.links.peers.set(master).is_ok(), "it had none");
    (node, asker)
}

async fn ask(asker: &Peers, request: &Request) -> Result<Reply> {
    let sent = message::write(LogIndex(0), request).expect("small");
    let answer = asker.ask(MASTER, GroupId(1), sent.clone(), LONG).await.expect("it is answered");
    message::read_answer_to(&sent, answer).expect("it is an answer")
}

#[tokio::test]
async fn a_request_passed_on_is_answered_as_if_it_were_asked_here() {
    let place = Place::new();
    let (node, asker) = node_and_asker(&place).await;
    let written = ask(&asker, &request(Call::Update(set("k", "1")))).await.expect("written");
    assert_eq!(written.body, Body::Updated(Outcome::Done));
    assert_eq!(get(&node, "k").await, Some(bytes("1")), "it was decided before it was answered");
    let look = Call::Read(Read::Get(bytes("k")), ReadLevel::Consistent);
    let seen = ask(&asker, &request(look)).await.expect("read");
    let Body::Row(Some(row)) = seen.body else { panic!("{:?}", seen.body) };
    assert_eq!((row.value, Some(row.version)), (bytes("1"), written.version));
    let count = Call::Read(Read::KeyCount, ReadLevel::Consistent);
    assert_eq!(ask(&asker, &request(count)).await.expect("read").body, Body::Count(1));
    let wrong = Update::Assert { key: bytes("k"), expected: None };
    let told = ask(&asker, &request(Call::Update(wrong))).await.expect_err("it fails there, too");
    assert_eq!((told.reason, told.detail), (Reason::AssertionFailed, bytes("k")));
    let buckets = request(Call::Directory(DirectoryCall::DescribeBucket));
    let Body::Buckets(found) = ask(&asker, &buckets).await.expect("described").body else {
        panic!("a description is wanted")
    };
    assert_eq!(found.len(), 1);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn bytes_that_are_no_request_are_declined_and_harm_nobody() {
    let place = Place::new();
    let (node, asker) = node_and_asker(&place).await;
    let good = message::write(LogIndex(0), &request(Call::Update(set("k", "v")))).expect("small");
    let mut hostile: Vec<Bytes> =
        vec![Bytes::new(), Bytes::copy_from_slice(&[CallKind::Request.byte()])];
    hostile.extend((0..good.len()).map(|end| good.slice(..end)));
    // A list that claims more than there is.
    let mut claims = good.to_vec();
    let end = claims.len();
    claims[end - 6..end - 2].fill(0xff);
    hostile.push(claims.into());
    for payload in hostile {
        let shown = format!("{payload:?}");
        let answer = asker.ask(MASTER, GroupId(1), payload, LONG).await;
        assert_eq!(answer, Err(CallError::Declined(MASTER)), "{shown}");
    }
    assert_eq!(get(&node, "k").await, None);
    ask(&asker, &request(Call::Update(set("k", "v")))).await.expect("it still serves");
    node.stop().await.expect("it stops");
}

/// Sends a request as a node of the version before does.
#[tokio::test]
async fn an_older_node_s_request_is_answered_in_the_bytes_that_it_knows() {
    let place = Place::new();
    let (node, asker) = node_and_asker(&place).await;
    let letter = message::write(LogIndex(0), &request(Call::Update(set("k", "v")))).expect("small");
    let plain = message::without_version(&letter);
    let answer = asker.ask(MASTER, GroupId(1), plain, LONG).await.expect("it is answered");
    let reply = base::wire::read_answer(&answer).expect("an answer").expect("written");
    assert_eq!((reply.body, reply.version), (Body::Updated(Outcome::Done), None));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn a_node_that_is_not_master_says_so_and_passes_nothing_on() {
    let place = Place::new();
    let (node, asker) = node_and_asker(&place).await;
    node.router.locator.groups.find(GroupId(1)).expect("it is there").leadership.overrule(false);
    let told = ask(&asker, &request(Call::Update(set("k", "1")))).await.expect_err("it is not");
    assert_eq!(told.reason, Reason::NotMaster);
    // The asking side is not asked: it has no connection to answer on, so that would take for ever.
    let look = Call::Read(Read::KeyCount, ReadLevel::Consistent);
    let told = ask(&asker, &request(look)).await.expect_err("it is not");
    assert_eq!(told.reason, Reason::NotMaster);
    let dirty = Call::Read(Read::KeyCount, ReadLevel::Dirty);
    assert_eq!(ask(&asker, &request(dirty)).await.expect("it may").body, Body::Count(0));
    node.router.locator.groups.find(GroupId(1)).expect("it is there").leadership.overrule(true);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn a_request_waits_until_the_directory_is_as_its_sender_saw_it() {
    let place = Place::new();
    let (node, asker) = node_and_asker(&place).await;
    let directory = &node.router.directory.group.applied;
    // Behind whatever a node writes into its directory when it starts.
    let ahead = LogIndex(directory.index().0 + 10);
    let letter = message::write(ahead, &request(Call::Update(set("k", "1")))).expect("small");
    let asking = asker.ask(MASTER, GroupId(1), letter, LONG);
    tokio::pin!(asking);
    for _ in 0..100 {
        tokio::select! {
            biased;
            _ = &mut asking => panic!("the directory is behind"),
            () = tokio::task::yield_now() => {}
        }
    }
    while directory.index() < ahead {
        let clear = request(Call::Directory(DirectoryCall::ClearBucket));
        node.handle(clear).await.expect("cleared");
    }
    assert!(asking.await.is_ok());
    assert_eq!(get(&node, "k").await, Some(bytes("1")), "it went into the cleared bucket");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn foreign_requests_in_progress_end_exactly_at_their_limits() {
    let place = Place::new();
    let (node, asker) = node_and_asker(&place).await;
    let incoming = &node.router.incoming;
    let look = request(Call::Read(Read::KeyCount, ReadLevel::Consistent));
    let letter = message::write(LogIndex(0), &look).expect("small");
    let mut permits: Vec<_> =
        (0..FORWARDED_MAX).map(|_| incoming.admit(1).expect("a permit")).collect();
    let answer = asker.ask(MASTER, GroupId(1), letter, LONG).await;
    assert_eq!(answer, Err(CallError::Declined(MASTER)));
    permits.pop();
    ask(&asker, &look).await.expect("one is free");
    drop(permits);
    let all = incoming.admit(FORWARDED_BYTES_MAX).expect("all the room");
    assert!(incoming.admit(1).is_none(), "there is no more");
    drop(all);
    ask(&asker, &look).await.expect("there is room again");
    node.stop().await.expect("it stops");
}

/// As at a master with a hung disk: it never applies the directory that the sender knows.
#[tokio::test]
async fn request_ahead_of_a_former_masters_directory_is_refused_as_not_master() {
    let place = Place::new();
    let (node, asker) = node_and_asker(&place).await;
    let far_ahead = LogIndex(1_000_000);
    let sent = message::write(far_ahead, &request(Call::Update(set("k", "v")))).expect("small");
    let answer = asker.ask(MASTER, GroupId(1), sent.clone(), LONG);
    let successor = async {
        tokio::task::yield_now().await;
        node.cluster.groups.find(GroupId(1)).expect("it is here").leadership.follows(NodeId(3));
    };
    let within = Duration::from_secs(10);
    let both = async { tokio::join!(answer, successor).0 };
    let answer = tokio::time::timeout(within, both).await.expect("not held until the disk answers");
    let reply = message::read_answer_to(&sent, answer.expect("it is answered")).expect("readable");
    assert_eq!(reply.map_err(|error| error.reason), Err(Reason::NotMaster));
    node.stop().await.expect("it stops");
}
