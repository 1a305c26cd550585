//! Forwarded stores: a write that happened is never told as refused, nor sent twice.

use super::fakes::{Reaction, Script};
use super::server::{MASTER, node_and_peers};
use crate::forward::client::{ForwardedRequest, RetryKind};
use crate::forward::message;
use crate::tests::{Place, bytes, get, request};
use base::{
    AvailableCall, Body, Call, Content, Error, GroupId, Kind, LogIndex, NodeId, Reason, Reply,
    Request, Result, Store, StoreOptions,
};
use logic::consensus::Role;
use replication::group::Leadership;
use runtime::world;
use std::sync::atomic::Ordering;
use tokio::sync::watch;
use transport::Peers;

/// Returns a store of a value of 100,000 bytes, more than an answer may have without memory that is
/// reserved for it.
fn store(letter: &str, return_body: bool) -> Request {
    request(Call::Available(AvailableCall::Store(Box::new(Store {
        key: bytes("k"),
        content: Content::plain(bytes(&letter.repeat(100_000))),
        context: None,
        options: StoreOptions { return_body, ..StoreOptions::default() },
        condition: None,
    }))))
}

/// Forwards a request to the master, as a node without a replica of the group does.
async fn forward(peers: &Peers, request: &Request) -> Result<Reply> {
    let leadership = Leadership {
        role: Some(Role::Follower),
        master: Some(MASTER),
        since_ms: 0,
        is_removed: false,
    };
    let group = watch::Sender::new(leadership);
    let forwarded = ForwardedRequest {
        node: NodeId(1),
        group: GroupId(1),
        payload: message::write(LogIndex(0), None, request).expect("small"),
        retry_kind: RetryKind::of(request),
        began_ms: world::milliseconds(),
        timeout_ms: 60_000,
        master_wait_ms: 60_000,
    };
    forwarded.run(Some(peers), || group.subscribe(), not_master, |_, _| None).await
}

async fn not_master() -> Result<Reply> {
    panic!("this node is not master")
}

#[tokio::test]
async fn store_without_memory_for_its_body_is_in_doubt_and_sent_once() {
    let place = Place::new();
    let (node, peers) = node_and_peers(&place).await;
    let reply = forward(&peers, &store("a", true)).await.expect("there is memory");
    assert!(matches!(&reply.body, Body::Siblings(found) if found.values.len() == 1));
    let mut taken = Vec::new();
    while let Ok(permit) = node.router.answers.try_reserve(64 * 1024) {
        taken.push(permit);
    }
    let forwarded = || node.router.metrics.forwarded_in.load(Ordering::Relaxed);
    let before = forwarded();
    let error = forward(&peers, &store("b", true)).await.expect_err("there is no memory");
    assert_eq!(error.kind(), Kind::Unknown, "a refusal would be false: {error}");
    assert_eq!(forwarded(), before + 1, "it is not sent again");
    assert_eq!(get(&node, "k").await, Some(bytes(&"b".repeat(100_000))), "it was written");
    // Without a body the answer is short.
    let reply = forward(&peers, &store("c", false)).await.expect("it needs no memory");
    assert!(matches!(reply.body, Body::Stored(_)));
    drop(taken);
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn store_whose_answer_is_lost_or_in_doubt_is_sent_once_and_told_unknown() {
    let in_doubt = Error::new(Reason::InDoubt, "the write was applied, but not its answer");
    for return_body in [false, true] {
        let reactions = [
            Reaction::Break,
            Reaction::Bytes(b"\xff"),
            Reaction::Answer(Err(in_doubt.clone())),
            Reaction::Answer(Err(Error::new(Reason::NoLongerMaster, "it may be decided"))),
        ];
        for reaction in reactions {
            let again = Reaction::Answer(Ok(Reply::new(LogIndex(9), Body::Done)));
            let script = Script::of([(MASTER.0, reaction), (MASTER.0, again)]);
            let told = forward(&script.peers(), &store("a", return_body)).await;
            let error = told.expect_err("nobody knows");
            assert_eq!((error.kind(), script.asked().len()), (Kind::Unknown, 1), "{error}");
        }
    }
}
