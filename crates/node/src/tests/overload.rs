//! Exact limit of undecided updates.
//!
//! The driver shares this test's one thread: until the test waits, nothing is decided.

use super::{Place, bytes, get, request, set};
use crate::{Flow, Node, NodeSettings, SubmitResult, Ticket};
use base::limits::{
    UNDECIDED_BYTES_MAX, UNDECIDED_UPDATES_MAX, VALUE_BATCH_BYTES, VALUE_UPDATES_MAX,
};
use base::{Call, Error, GroupId, Reason, Update};
use replication::group::Group;
use std::sync::Arc;

/// Submits without waiting.
fn submit(node: &Node, flow: &mut Flow, update: Update) -> Result<Ticket, Error> {
    match node.submit(flow, request(Call::Update(update))) {
        SubmitResult::Pending(ticket, reply) => reply.map(|_| ticket),
        SubmitResult::Ready(Err(error)) => Err(error),
        _ => panic!("an update waits for a ticket"),
    }
}

fn group(node: &Node) -> Arc<Group> {
    node.router.locator.groups.find(GroupId::DEFAULT).expect("it is there")
}

fn undecided(node: &Node) -> (u64, usize) {
    group(node).state().queue.undecided()
}

/// Bytes of the longest value that waits.
fn longest(node: &Node) -> Option<usize> {
    group(node).state().queue.pending().map(|batch| batch.payload_bytes()).max()
}

#[tokio::test]
async fn update_beyond_undecided_count_limit_is_refused() {
    let place = Place::new();
    let node = place.start().await;
    let (mut flow, mut last) = (Flow::of(base::Principal::Node), None);
    let limit = UNDECIDED_UPDATES_MAX as u64;
    for n in 0..limit {
        assert_eq!(undecided(&node).0, n);
        last = Some(submit(&node, &mut flow, set("k", &n.to_string())).expect("there is room"));
    }
    assert_eq!(undecided(&node).0, limit);
    let full = group(&node).state().queue.pending().map(|batch| batch.updates).max();
    assert_eq!(full, Some(VALUE_UPDATES_MAX as u32), "a value is closed when it holds that many");
    for _ in 0..2 {
        let error = submit(&node, &mut flow, set("k", "more")).expect_err("one too many");
        assert_eq!(error.reason, Reason::Overloaded);
        assert!(error.text().contains("200000 updates"), "{error}");
        assert_eq!(undecided(&node).0, limit, "what is refused waits nowhere");
    }
    node.wait_decided(last.expect("many")).await.expect("all are decided");
    assert_eq!(get(&node, "k").await, Some(bytes(&(limit - 1).to_string())));
    let ticket = submit(&node, &mut flow, set("k", "after")).expect("there is room again");
    node.wait_decided(ticket).await.expect("decided");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn update_beyond_undecided_bytes_limit_is_refused() {
    for (memory, limit) in
        [(4 * UNDECIDED_BYTES_MAX as u64, UNDECIDED_BYTES_MAX), (16 << 20, 4 << 20)]
    {
        let place = Place::new();
        let settings = NodeSettings { memory_bytes_max: memory, ..place.settings() };
        let node = Node::start(settings).await.expect("it starts");
        let (mut flow, value) = (Flow::of(base::Principal::Node), "v".repeat(300_000));
        let mut last = None;
        let refused = loop {
            let before = undecided(&node).1;
            match submit(&node, &mut flow, set("k", &value)) {
                Ok(_) => assert!(before < limit, "taken with {before} bytes waiting"),
                Err(error) => break error,
            }
            last = flow.last;
        };
        let waiting = undecided(&node).1;
        assert!(waiting >= limit && waiting < limit + 2 * value.len(), "{waiting} of {limit}");
        assert_eq!(refused.reason, Reason::Overloaded);
        let longest = longest(&node);
        assert!(longest.is_some_and(|bytes| bytes < VALUE_BATCH_BYTES + 2 * value.len()));
        node.wait_decided(last.expect("some")).await.expect("all are decided");
        submit(&node, &mut flow, set("k", "after")).expect("there is room again");
        node.stop().await.expect("it stops");
    }
}
