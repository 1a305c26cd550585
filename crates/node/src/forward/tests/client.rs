//! Retries of a forwarded request: which errors are retried, and which the client gets.

use super::fakes::{Reaction, Script};
use crate::forward::client::{ForwardedRequest, RetryKind};
use crate::forward::message;
use base::{Body, Error, GroupId, Kind, LogIndex, NodeId, Reason, Reply, Result};
use bytes::Bytes;
use logic::consensus::Role;
use replication::group::Leadership;
use runtime::world;
use tokio::sync::watch;

const ME: u64 = 1;
const LONG_MS: u64 = 60_000;

fn forwarded(retry_kind: RetryKind) -> ForwardedRequest {
    ForwardedRequest {
        node: NodeId(ME),
        group: GroupId(1),
        payload: Bytes::from_static(b"letter"),
        retry_kind,
        began_ms: world::milliseconds(),
        timeout_ms: LONG_MS,
        master_wait_ms: LONG_MS,
    }
}

fn leadership(master: u64) -> Leadership {
    let master = (master > 0).then_some(NodeId(master));
    Leadership { role: Some(Role::Follower), master, since_ms: 0, is_removed: false }
}

fn done() -> Reply {
    Reply::new(LogIndex(9), Body::Done)
}

fn failure(reason: Reason) -> Reaction {
    Reaction::Answer(Err(Error::new(reason, "words")))
}

fn no_other_node(_: NodeId, _: &Error) -> Option<NodeId> {
    None
}

async fn not_master() -> Result<Reply> {
    panic!("this node is not master")
}

/// Sends a request to node 2, with this script.
async fn send_once(forwarded: ForwardedRequest, script: &std::sync::Arc<Script>) -> Result<Reply> {
    let group = watch::Sender::new(leadership(2));
    forwarded.run(Some(&script.peers()), || group.subscribe(), not_master, no_other_node).await
}

#[tokio::test]
async fn forwarded_request_returns_master_answer_without_retry() {
    for reason in [Reason::AssertionFailed, Reason::Overloaded, Reason::NoSuchBucket] {
        let script = Script::of([(2, failure(reason)), (2, Reaction::Answer(Ok(done())))]);
        let error = send_once(forwarded(RetryKind::WithId), &script).await.expect_err("it is told");
        assert_eq!((error.reason, script.asked().len()), (reason, 1));
    }
    let script = Script::of([(2, Reaction::Answer(Ok(done())))]);
    assert_eq!(send_once(forwarded(RetryKind::Never), &script).await, Ok(done()));
    // Declined because it is busy: the client may retry as well as this node.
    let script = Script::of([(2, Reaction::Decline), (2, Reaction::Answer(Ok(done())))]);
    let error = send_once(forwarded(RetryKind::Never), &script).await.expect_err("it is told");
    assert_eq!((error.reason, script.asked().len()), (Reason::Overloaded, 1));
}

/// An older node declines a message of an unknown kind.
#[tokio::test]
async fn forward_declined_by_older_master_is_resent_without_version() {
    let update = crate::tests::request(base::Call::Update(crate::tests::set("k", "v")));
    let unversioned = || {
        let payload = message::write(LogIndex(1), None, &update).expect("small");
        ForwardedRequest { payload, ..forwarded(RetryKind::Never) }
    };
    let script = Script::of([(2, Reaction::Decline), (2, Reaction::Answer(Ok(done())))]);
    assert_eq!(send_once(unversioned(), &script).await, Ok(done()));
    assert_eq!(script.asked(), [2, 2]);
    // A busy node declines both, and gets no third message.
    let script = Script::of([(2, Reaction::Decline), (2, Reaction::Decline)]);
    let error = send_once(unversioned(), &script).await.expect_err("it is told");
    assert_eq!((error.reason, script.asked().len()), (Reason::Overloaded, 2));
}

#[tokio::test]
async fn forward_that_did_not_execute_is_retried_at_next_master() {
    let script = Script::of([
        (2, failure(Reason::NotMaster)),
        (3, failure(Reason::ShuttingDown)),
        (4, Reaction::NoLink),
        (4, Reaction::Answer(Ok(done()))),
    ]);
    let group = watch::Sender::new(leadership(0));
    let peers = script.peers();
    let forwarded = forwarded(RetryKind::Never);
    let forwarding = forwarded.run(Some(&peers), || group.subscribe(), not_master, no_other_node);
    let change_master = async {
        for master in [2, 3, 4] {
            let before = script.asked().len();
            group.send_replace(leadership(master));
            while script.asked().len() == before {
                tokio::task::yield_now().await;
            }
        }
    };
    let (answer, ()) = tokio::join!(forwarding, change_master);
    assert_eq!(answer, Ok(done()));
    let mut asked = script.asked();
    asked.dedup();
    assert_eq!(asked, [2, 3, 4]);
}

#[tokio::test]
async fn forward_executes_locally_once_this_node_is_master() {
    let script = Script::of([(2, failure(Reason::NotMaster))]);
    let group = watch::Sender::new(leadership(2));
    let answer_locally = || {
        assert_eq!(script.asked(), [2], "the other was asked before");
        async { Ok(done()) }
    };
    let peers = script.peers();
    let forwarded = forwarded(RetryKind::Never);
    let forwarding =
        forwarded.run(Some(&peers), || group.subscribe(), answer_locally, no_other_node);
    let change_master = async {
        while script.asked().is_empty() {
            tokio::task::yield_now().await;
        }
        group.send_replace(leadership(ME));
    };
    let (answer, ()) = tokio::join!(forwarding, change_master);
    assert_eq!(answer, Ok(done()));
}

#[tokio::test]
async fn request_waiting_in_dismissed_replica_is_forwarded_to_member() {
    let script = Script::of([(3, Reaction::Answer(Ok(done())))]);
    let (own, others) = (watch::Sender::new(leadership(0)), watch::Sender::new(leadership(3)));
    let group = || if own.borrow().is_removed { others.subscribe() } else { own.subscribe() };
    let (peers, forwarded) = (script.peers(), forwarded(RetryKind::Never));
    let forwarding = forwarded.run(Some(&peers), group, not_master, no_other_node);
    let dismiss = async {
        own.send_modify(|leadership| leadership.is_removed = true);
    };
    let (answer, ()) = tokio::join!(forwarding, dismiss);
    assert_eq!((answer, script.asked()), (Ok(done()), vec![3]));
}

#[tokio::test]
async fn unrepeatable_forward_in_doubt_fails_as_unknown_without_retry() {
    for reaction in [Reaction::Break, Reaction::Bytes(b"\xff"), failure(Reason::DeadlinePassed)] {
        let script = Script::of([(2, reaction), (2, Reaction::Answer(Ok(done())))]);
        let told = send_once(forwarded(RetryKind::Never), &script).await.expect_err("in doubt");
        assert_eq!((told.kind(), script.asked().len()), (Kind::Unknown, 1), "{told}");
    }
    let short = ForwardedRequest { timeout_ms: 30, ..forwarded(RetryKind::Never) };
    let told = send_once(short, &Script::of([(2, Reaction::Silence)])).await.expect_err("in doubt");
    assert_eq!(told.reason, Reason::DeadlinePassed);
}

#[tokio::test]
async fn forward_with_retry_id_is_retried_until_answered() {
    let script = Script::of([
        (2, Reaction::Break),
        (2, Reaction::NoLink),
        (2, failure(Reason::NoLongerMaster)),
        (2, Reaction::Answer(Ok(done()))),
    ]);
    // Even without a maximum wait, a request in doubt is retried.
    let forwarded = ForwardedRequest { master_wait_ms: 0, ..forwarded(RetryKind::WithId) };
    assert_eq!(send_once(forwarded, &script).await, Ok(done()));
    assert_eq!(script.asked().len(), 4);
}

#[tokio::test]
async fn forward_in_doubt_stays_unknown_until_a_definite_answer() {
    let script = Script::of([(2, Reaction::Break), (2, failure(Reason::Overloaded))]);
    let told = send_once(forwarded(RetryKind::WithId), &script).await.expect_err("in doubt");
    assert_eq!(told.kind(), Kind::Unknown, "the first attempt may have happened: {told}");
    let short = ForwardedRequest { timeout_ms: 120, ..forwarded(RetryKind::WithId) };
    let told = send_once(short, &Script::of([(2, Reaction::Break)])).await.expect_err("in doubt");
    assert_eq!(told.kind(), Kind::Unknown, "then nobody was reached: {told}");
    // But a definite answer ends the doubt.
    let script = Script::of([(2, Reaction::Break), (2, failure(Reason::AssertionFailed))]);
    let told = send_once(forwarded(RetryKind::WithId), &script).await.expect_err("it is told");
    assert_eq!(told.reason, Reason::AssertionFailed);
}

#[tokio::test]
async fn forwarded_read_is_retried_and_never_fails_as_unknown() {
    let script = Script::of([(2, Reaction::Break), (2, Reaction::Answer(Ok(done())))]);
    assert_eq!(send_once(forwarded(RetryKind::ReadOnly), &script).await, Ok(done()));
    let short = ForwardedRequest { timeout_ms: 30, ..forwarded(RetryKind::ReadOnly) };
    let error = send_once(short, &Script::of([(2, Reaction::Silence)])).await.expect_err("late");
    assert_eq!(error.reason, Reason::NoQuorum);
}

#[tokio::test]
async fn forward_without_master_fails_with_no_quorum_after_patience() {
    let script = Script::of([]);
    let group = watch::Sender::new(leadership(0));
    let forwarded = ForwardedRequest { master_wait_ms: 120, ..forwarded(RetryKind::Never) };
    let told =
        forwarded.run(Some(&script.peers()), || group.subscribe(), not_master, no_other_node).await;
    let told = told.expect_err("there is none");
    assert_eq!((told.reason, told.kind()), (Reason::NoQuorum, Kind::Unavailable));
    assert!(told.text().contains("majority"), "{told}");
    // A client is not sent to a master that reports to be none.
    let script = Script::of((0..1_000).map(|_| (2, failure(Reason::NotMaster))));
    let forwarded = ForwardedRequest { master_wait_ms: 120, ..forwarded };
    let told = send_once(forwarded, &script).await.expect_err("there is none");
    assert_eq!(told.reason, Reason::NoQuorum);
}
