//! Gets: when the client is answered and with what, and which replicas are repaired.

use super::test_node::{ClientReply, SentQuestion, TestNode, ring_of, row};
use crate::message::VnodeQuestion;
use base::{Body, Call, Error, Key, NodeId, Read, ReadLevel, Reason, Reply, Request};
use bytes::Bytes;
use std::sync::Arc;

fn get(key: &Key) -> Call {
    Call::Read(Read::Get(key.clone()), ReadLevel::Consistent)
}

/// Returns the value of a read. `None`: there is none.
fn value(reply: Option<base::Result<Reply>>) -> Option<Bytes> {
    match reply.expect("it is answered").expect("it succeeds").body {
        Body::Row(row) => row.map(|row| row.value),
        other => panic!("a get answers a row, not {other:?}"),
    }
}

/// Begins a get at the first of so many nodes, of a key that the nodes 1 to 3 own. Returns the
/// questions to the other two, too.
fn begin_get(nodes: u64) -> (TestNode, ClientReply, Vec<SentQuestion>) {
    let node = TestNode::start(nodes);
    let mut reply = node.submit(get(&node.key_of(&[1, 2, 3])));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    (node, reply, sent)
}

fn moved() -> Error {
    Error::new(Reason::Changed, "the partition has moved")
}

#[tokio::test]
async fn read_of_a_single_node_is_answered_at_once() {
    let node = TestNode::start(1);
    let key = Key::from("k");
    assert_eq!(value(node.submit(get(&key)).poll()), None);
    node.put_row(&key, &row(1, 1, "here")).await;
    assert_eq!(value(node.submit(get(&key)).poll()), Some("here".into()));
    assert!(node.is_idle() && node.take_questions().is_empty());
}

#[tokio::test]
async fn equal_answers_are_the_reply_at_the_quorum_and_repair_nothing() {
    let node = TestNode::start(3);
    let (key, both) = (node.key_of(&[1, 2, 3]), row(2, 1, "v"));
    node.put_row(&key, &both).await;
    let mut reply = node.submit(get(&key));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    assert!(sent.iter().all(|sent| matches!(sent.question, VnodeQuestion::Fetch(_))));
    assert_eq!(sent.iter().map(|sent| sent.to.0).collect::<Vec<_>>(), [2, 3]);
    node.answer_row(&sent[1], Some(&both));
    assert_eq!(value(reply.poll()), Some("v".into()));
    assert!(!node.is_idle(), "the last one may be stale");
    node.answer_row(&sent[0], Some(&both));
    node.run_tasks().await;
    assert!(node.is_idle() && node.take_questions().is_empty());
}

#[tokio::test]
async fn stale_replicas_are_repaired_also_for_a_client_that_is_gone() {
    for is_dropped in [false, true] {
        let node = TestNode::start(3);
        let (key, old, new) = (node.key_of(&[1, 2, 3]), row(2, 1, "old"), row(2, 2, "new"));
        let newest = old.clone().sync(new).discard(&old.join());
        node.put_row(&key, &old).await;
        let mut reply = node.submit(get(&key));
        assert!(reply.poll().is_none());
        let sent = node.take_questions();
        node.answer_row(&sent[0], Some(&newest));
        if is_dropped {
            drop(reply);
        } else {
            assert_eq!(value(reply.poll()), Some("new".into()));
        }
        node.answer_row(&sent[1], None);
        assert!(node.is_idle());
        node.run_tasks().await;
        let repairs = node.take_questions();
        let [SentQuestion { to: NodeId(3), question, .. }] = &repairs[..] else {
            panic!("the replica without the row is repaired")
        };
        let expected = vnode_rows::layout::write_row(&newest);
        assert!(
            matches!(question, VnodeQuestion::Store { hint: None, row, .. } if *row == expected)
        );
        node.sync().await;
        let key_ref = crate::vnode_ops::KeyRef::new(super::test_node::bucket(), key);
        assert_eq!(node.available.vnode_store.read(&key_ref), Ok(Some(expected)), "so is this one");
    }
}

#[tokio::test]
async fn different_answers_are_merged_to_siblings() {
    let node = TestNode::start(3);
    let (key, one, other) = (node.key_of(&[1, 2, 3]), row(2, 1, "one"), row(3, 1, "other"));
    node.put_row(&key, &one).await;
    let mut reply = node.submit(get(&key));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    node.answer_row(&sent[0], Some(&other));
    let error = reply.poll().expect("two have answered").expect_err("two values");
    assert_eq!(error.reason, Reason::Siblings, "{error}");
    node.answer_row(&sent[1], Some(&one));
    node.run_tasks().await;
    let repaired: Vec<_> = node.take_questions().iter().map(|sent| sent.to.0).collect();
    assert_eq!(repaired, [2, 3], "all lack a part of it");
}

#[tokio::test]
async fn get_fails_as_soon_as_too_few_replicas_are_left() {
    let (node, mut reply, sent) = begin_get(3);
    node.cut(2);
    assert!(reply.poll().is_none(), "the third may answer");
    node.answer_error(&sent[1], &Error::new(Reason::Overloaded, "busy"));
    let error = reply.poll().expect("too few are left").expect_err("one of two");
    assert_eq!(error.reason, Reason::ReadQuorumUnmet, "{error}");
    assert!(node.is_idle());
}

#[tokio::test]
async fn damaged_answer_counts_as_a_failure_of_its_replica() {
    let (node, mut reply, sent) = begin_get(3);
    node.answer(&sent[0], b"\x01no row");
    assert!(reply.poll().is_none());
    node.answer(&sent[1], b"\x07");
    let error = reply.poll().expect("nobody is left").expect_err("one of two");
    assert_eq!(error.reason, Reason::ReadQuorumUnmet, "{error}");
    assert!(node.is_idle());
}

#[tokio::test]
async fn silent_replicas_end_the_get_at_its_deadline() {
    let (node, mut reply, sent) = begin_get(4);
    node.pass_ms(500);
    let more = node.take_questions();
    assert!(matches!(more[..], [SentQuestion { to: NodeId(4), .. }]), "a fallback beside them");
    node.pass_ms(9_500);
    let error = reply.poll().expect("its time is up").expect_err("one of two");
    assert_eq!(error.reason, Reason::ReadQuorumUnmet, "{error}");
    node.pass_ms(1_001);
    assert!(node.is_idle());
    sent.iter().chain(&more).for_each(|sent| node.answer_row(sent, None));
    assert!(node.is_idle() && node.take_questions().is_empty());
}

#[tokio::test]
async fn get_by_an_outdated_ring_is_repeated_with_the_newer_one() {
    let node = TestNode::start(3);
    let (key, newer) = (node.key_of(&[1, 2, 3]), ring_of(3).with_next_epoch());
    let mut reply = node.submit(get(&key));
    assert!(reply.poll().is_none());
    let sent = node.take_questions();
    node.answer_error(&sent[0], &moved());
    node.run_tasks().await;
    let asked = node.take_questions();
    assert!(matches!(
        asked[..],
        [SentQuestion { to: NodeId(2), question: VnodeQuestion::Ring, .. }]
    ));
    // A former owner's answer is not counted meanwhile.
    node.answer_row(&sent[1], Some(&row(3, 1, "former")));
    assert!(reply.poll().is_none());
    node.answer(&asked[0], &newer.encode());
    node.run_tasks().await;
    assert!(reply.poll().is_none());
    let again = node.take_questions();
    assert!(again.len() == 2 && again.iter().all(|sent| sent.epoch == newer.epoch()));
    again.iter().for_each(|sent| node.answer_row(sent, Some(&row(3, 2, "newer"))));
    assert_eq!(value(reply.poll()), Some("newer".into()));
}

#[tokio::test]
async fn refusal_without_a_newer_ring_is_a_failure_and_held_answers_count() {
    let (node, mut reply, sent) = begin_get(3);
    node.answer_error(&sent[0], &moved());
    node.run_tasks().await;
    let asked = node.take_questions();
    node.answer_row(&sent[1], Some(&row(3, 1, "held")));
    assert!(reply.poll().is_none());
    node.answer(&asked[0], &ring_of(3).encode());
    node.run_tasks().await;
    assert_eq!(value(reply.poll()), Some("held".into()));
    assert!(node.is_idle());
}

#[tokio::test]
async fn future_of_a_frequent_request_is_small() {
    let node = TestNode::start(3);
    let properties = base::Properties::available();
    let call = get(&Key::from("k"));
    let mut request = Request { bucket: super::test_node::bucket(), call, retry: None };
    let available: &Arc<_> = &node.available;
    let bytes = size_of_val(&available.answer(&mut request, &properties));
    assert!(bytes <= 1_024, "{bytes} bytes");
}
