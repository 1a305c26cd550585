//! Puts: when the client is answered, and what follows for owners that are slow, lost or refuse.

use super::test_node::{SentQuestion, TestNode, ring_of, row};
use crate::message::VnodeQuestion;
use base::request::Expiry;
use base::{
    AvailableCall, Body, Call, Content, Error, Key, Kind, NodeId, Outcome, Reason, Store,
    StoreOptions, Update,
};
use bytes::Bytes;
use vnode_rows::layout::{Row, read_row, write_row};

fn set(key: &Key) -> Call {
    let (value, expiry) = (Bytes::from_static(b"value"), Expiry::Default);
    Call::Update(Update::Set { key: key.clone(), value, expiry })
}

/// Returns a write that asks for the siblings.
fn store(key: &Key) -> Call {
    let content = Content::plain(Bytes::from_static(b"value"));
    let options = StoreOptions { return_body: true, ..StoreOptions::default() };
    let store = Store { key: key.clone(), content, options, ..Store::default() };
    Call::Available(AvailableCall::Store(Box::new(store)))
}

/// Returns the receiver of a store, and the owner for which it keeps a hint.
fn store_hint(sent: &SentQuestion) -> (u64, Option<u64>) {
    match &sent.question {
        VnodeQuestion::Store { hint, .. } => (sent.to.0, hint.map(|node| node.0)),
        other => panic!("a write is stored, not {other:?}"),
    }
}

fn is_done(reply: Option<base::Result<base::Reply>>) -> bool {
    matches!(reply, Some(Ok(reply)) if reply.body == Body::Updated(Outcome::Done))
}

fn overloaded() -> Error {
    Error::new(Reason::Overloaded, "busy")
}

#[tokio::test]
async fn client_is_answered_at_the_quorum_and_the_put_goes_on() {
    let node = TestNode::start(3);
    let mut reply = node.submit(set(&node.key_of(&[1, 2, 3])));
    assert!(node.take_questions().is_empty(), "nothing runs before the client asks");
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    let hints: Vec<_> = sent.iter().map(store_hint).collect();
    assert_eq!(hints, [(2, None), (3, None)]);
    node.answer_stored(&sent[0]);
    assert!(reply.poll().is_none(), "one of two replicas has it");
    node.sync().await;
    assert!(is_done(reply.poll()));
    assert!(!node.is_idle(), "the third has not answered");
    node.answer_stored(&sent[1]);
    assert!(node.is_idle() && node.take_questions().is_empty());
}

#[tokio::test]
async fn put_on_a_single_node_is_answered_once_it_is_durable() {
    let node = TestNode::start(1);
    let mut reply = node.submit(set(&Key::from("k")));
    assert!(reply.poll().is_none());
    node.run_tasks().await;
    assert!(reply.poll().is_none() && !node.is_idle(), "it is not synced");
    node.sync().await;
    assert!(is_done(reply.poll()) && node.is_idle());
}

#[tokio::test]
async fn put_whose_client_is_dropped_reaches_all_owners() {
    let node = TestNode::start(3);
    let mut reply = node.submit(set(&node.key_of(&[1, 2, 3])));
    assert!(reply.poll().is_none());
    drop(reply);
    let sent = node.take_questions();
    assert_eq!(sent.len(), 2);
    node.answer_error(&sent[0], &overloaded());
    node.answer_stored(&sent[1]);
    assert!(!node.is_idle());
    node.sync().await;
    assert!(node.is_idle());
}

#[tokio::test]
async fn fallback_stores_a_hint_for_an_owner_that_is_down_or_refuses() {
    let node = TestNode::start(5);
    let (key, [down, busy], fallbacks) = node.owned_key();
    node.unlink(down);
    let mut reply = node.submit(set(&key));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    let find = |to: u64| sent.iter().find(|sent| sent.to == NodeId(to)).expect("it was asked");
    assert_eq!(store_hint(find(fallbacks[0])), (fallbacks[0], Some(down)));
    assert_eq!((sent.len(), store_hint(find(busy))), (2, (busy, None)));
    node.answer_error(find(busy), &overloaded());
    let more = node.take_questions();
    let hints: Vec<_> = more.iter().map(store_hint).collect();
    assert_eq!(hints, [(fallbacks[1], Some(busy))]);
    node.answer_stored(&more[0]);
    node.sync().await;
    assert!(is_done(reply.poll()), "a fallback counts");
    node.answer_stored(find(fallbacks[0]));
    assert!(node.is_idle());
}

#[tokio::test]
async fn late_owner_gets_a_fallback_beside_it_and_still_counts() {
    let node = TestNode::start(4);
    let mut reply = node.submit(set(&node.key_of(&[1, 2, 3])));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    node.sync().await;
    node.pass_ms(499);
    assert!(node.take_questions().is_empty());
    node.pass_ms(1);
    let more = node.take_questions();
    let hints: Vec<_> = more.iter().map(store_hint).collect();
    assert!(matches!(hints[..], [(4, Some(2 | 3))]), "one fallback is left: {hints:?}");
    assert!(reply.poll().is_none());
    node.answer_stored(&sent[0]);
    assert!(is_done(reply.poll()), "a late answer counts");
    node.answer_stored(&more[0]);
    node.answer_stored(&sent[1]);
    assert!(node.is_idle());
}

#[tokio::test]
async fn silent_owners_end_the_put_at_its_deadline_and_late_answers_are_ignored() {
    let node = TestNode::start(3);
    let mut reply = node.submit(set(&node.key_of(&[1, 2, 3])));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    node.sync().await;
    node.pass_ms(600);
    node.pass_ms(9_300);
    assert!(reply.poll().is_none());
    node.pass_ms(100);
    let error = reply.poll().expect("its time is up").expect_err("one of two");
    assert_eq!(error.reason, Reason::WriteQuorumUnmet, "{error}");
    assert_eq!(error.kind(), Kind::Unknown, "one has it");
    // What was asked is observed for a moment more, and then given up.
    node.pass_ms(1_001);
    assert!(node.is_idle());
    sent.iter().for_each(|sent| node.answer_stored(sent));
    assert!(node.is_idle() && node.take_questions().is_empty());
}

#[tokio::test]
async fn put_that_loses_all_other_owners_fails_at_once_and_stays_in_doubt() {
    let node = TestNode::start(3);
    let mut reply = node.submit(set(&node.key_of(&[1, 2, 3])));
    assert!(reply.poll().is_none());
    node.sync().await;
    node.cut(2);
    assert!(reply.poll().is_none());
    node.cut(3);
    let error = reply.poll().expect("nobody is left").expect_err("one of two");
    assert_eq!(error.reason, Reason::WriteQuorumUnmet, "{error}");
    assert_eq!(error.kind(), Kind::Unknown, "one has it");
    assert!(node.is_idle());
}

#[tokio::test]
async fn owner_with_a_newer_ring_counts_once_its_ring_is_here_and_next_owners_get_the_write() {
    let node = TestNode::start(3);
    let key = node.key_of(&[1, 2, 3]);
    let mut reply = node.submit(set(&key));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    node.sync().await;
    // By the newer ring a fourth node is to receive some partitions.
    let join = logic::ring::RingChangeRequest::Join {
        node: NodeId(4),
        rack: logic::ring::Rack::default(),
    };
    let ring = ring_of(3);
    let planned = logic::ring::plan(&ring, &[join], 3, &Default::default()).expect("a plan");
    let newer = ring.commit(&planned).expect("made for it");
    let partition =
        vnode_rows::slots::Slot::for_key(&super::test_node::bucket(), &key).partition(&newer);
    let receivers = newer.receivers(partition, 3);
    node.answer(&sent[0], &[1]);
    node.run_tasks().await;
    let asked = node.take_questions();
    assert!(matches!(
        asked[..],
        [SentQuestion { to: NodeId(2), question: VnodeQuestion::Ring, .. }]
    ));
    assert!(reply.poll().is_none(), "its answer counts with the ring");
    node.answer(&asked[0], &newer.encode());
    node.run_tasks().await;
    let more = node.take_questions();
    let to: Vec<_> = more.iter().map(|sent| sent.to).collect();
    assert_eq!(to, receivers);
    assert_eq!(reply.poll().is_none(), !receivers.is_empty(), "next owners are awaited");
    more.iter().for_each(|sent| node.answer_stored(sent));
    assert!(receivers.is_empty() || is_done(reply.poll()));
    node.answer_stored(&sent[1]);
    assert!(node.is_idle());
}

#[tokio::test]
async fn put_in_progress_is_awaited_by_the_stop_and_none_begins_after_it() {
    let node = TestNode::start(3);
    let timers = tokio::spawn(crate::operation_timers::run(node.available.clone()));
    let key = node.key_of(&[1, 2, 3]);
    let mut reply = node.submit(set(&key));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    node.sync().await;
    node.available.tasks.cancel();
    node.run_tasks().await;
    assert!(!timers.is_finished(), "a put is in progress");
    sent.iter().for_each(|sent| node.answer_stored(sent));
    node.run_tasks().await;
    assert!(timers.is_finished() && is_done(reply.poll()));
    let refused = node.submit(set(&key)).poll().expect("at once").expect_err("it stops");
    assert_ne!(refused.kind(), Kind::Invalid, "{refused}");
    assert!(node.take_questions().is_empty() && node.is_idle());
}

/// The node stops between the write into its log and the first question to an owner.
#[tokio::test]
async fn put_that_is_logged_on_a_stopping_node_has_an_unknown_outcome() {
    for call in [set, store] {
        let node = TestNode::start(3);
        node.available.operation_timers.close();
        let key = node.key_of(&[1, 2, 3]);
        let told = node.submit(call(&key)).poll().expect("nothing is awaited");
        let error = told.expect_err("nobody counts the answers of the owners");
        assert_eq!(error.kind(), Kind::Unknown, "a refusal would be false: {error}");
        assert!(node.take_questions().is_empty() && node.is_idle());
        node.sync().await;
        let row = node.stored_row(&key).expect("it was logged");
        assert!(row.windows(5).any(|part| part == b"value"));
    }
}

/// Takes the only question: a write that its receiver coordinates.
fn take_redirected(node: &TestNode) -> SentQuestion {
    let mut sent = node.take_questions();
    let question = sent.pop().expect("an owner is asked");
    assert!(sent.is_empty() && matches!(question.question, VnodeQuestion::Forward(_)));
    question
}

/// The owner may have logged the write before it stopped: another one would write a sibling of it.
#[tokio::test]
async fn redirected_put_is_sent_once_if_its_coordinator_may_have_logged_it() {
    for call in [set, store] {
        let node = TestNode::start(5);
        let key = node.foreign_key();
        let mut reply = node.submit(call(&key));
        assert!(reply.poll().is_none());
        let busy = take_redirected(&node);
        node.decline(&busy);
        assert!(reply.poll().is_none(), "it did nothing: another owner is asked");
        let asked = take_redirected(&node);
        assert_ne!(asked.to, busy.to);
        node.cut(asked.to.0);
        let error = reply.poll().expect("the link is lost").expect_err("nobody knows");
        assert_eq!(error.kind(), Kind::Unknown, "{error}");
        assert!(node.take_questions().is_empty(), "no owner is asked again");
        assert_eq!(node.stored_row(&key), None, "nor does this node write it");
    }
}

#[tokio::test]
async fn redirected_put_passes_on_that_its_outcome_is_unknown() {
    for reason in [Reason::DeadlinePassed, Reason::WriteQuorumUnmet, Reason::InDoubt] {
        let node = TestNode::start(5);
        let mut reply = node.submit(store(&node.foreign_key()));
        assert!(reply.poll().is_none());
        let asked = take_redirected(&node);
        let mut fields = Vec::new();
        base::wire::write_answer(&Err(Error::new(reason, "words")), usize::MAX, &mut fields);
        node.answer(&asked, &fields);
        let error = reply.poll().expect("it is answered").expect_err("it may have happened");
        assert_eq!((error.reason, error.kind()), (reason, Kind::Unknown));
        assert!(node.take_questions().is_empty(), "no other owner is asked");
    }
}

/// Returns a row with a value that can't be decoded: its flags promise headers.
fn undecodable_row() -> Row {
    let mut bytes = write_row(&row(2, 1, "MARK")).to_vec();
    let value = bytes.windows(4).position(|part| part == b"MARK").expect("it is stored as it is");
    bytes[value - 2] = 2; // flags, time of writing, value
    read_row(&bytes.into()).expect("values are not decoded with their row")
}

#[tokio::test]
async fn write_whose_body_cannot_be_built_is_in_doubt_and_stored() {
    let node = TestNode::start(1);
    let key = Key::from("k");
    node.put_row(&key, &undecodable_row()).await;
    let mut reply = node.submit(store(&key));
    assert!(reply.poll().is_none());
    node.sync().await;
    let error = reply.poll().expect("it is durable").expect_err("a sibling is unreadable");
    assert_eq!(error.kind(), Kind::Unknown, "the write is done: {error}");
    let row = node.stored_row(&key).expect("a row");
    assert!(row.windows(5).any(|part| part == b"value"));
    assert!(node.is_idle());
}
