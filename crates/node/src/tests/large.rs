//! Large updates: an entry of their own, and one at a time beside smaller updates.
//!
//! The driver shares the test's one thread: until the test waits, nothing is decided.

use super::{Place, bytes, get, reason, request, set};
use crate::{Flow, Node, SubmitResult, Ticket};
use base::{Body, Call, Error, GroupId, Outcome, Reason, Reply, Result};
use replication::group::Group;
use runtime::log_writer::LARGE_RECORD_BYTES;
use std::sync::Arc;
use std::time::Duration;

fn group(node: &Node) -> Arc<Group> {
    node.router.locator.groups.find(GroupId::DEFAULT).expect("it is there")
}

fn submit(node: &Node, key: &str, value: &str) -> SubmitResult {
    node.submit(&mut Flow::of(base::Principal::Node), request(Call::Update(set(key, value))))
}

/// Submits a set that is evaluated at once.
fn set_at_once(node: &Node, key: &str, value: &str) -> Ticket {
    match submit(node, key, value) {
        SubmitResult::Pending(ticket, Ok(_)) => ticket,
        _ => panic!("{key} is evaluated at once"),
    }
}

/// Submits a set that waits for its turn, in a task of its own.
fn set_later(node: &Node, key: &str, value: &str) -> tokio::task::JoinHandle<Result<Reply>> {
    match submit(node, key, value) {
        SubmitResult::Later(reply) => tokio::spawn(reply),
        _ => panic!("{key} waits for its turn"),
    }
}

fn large(fill: char) -> String {
    fill.to_string().repeat(LARGE_RECORD_BYTES)
}

#[tokio::test]
async fn large_update_has_an_entry_of_its_own() {
    let place = Place::new();
    let node = place.start().await;
    let just_small = "v".repeat(LARGE_RECORD_BYTES - 1);
    let tickets = [
        set_at_once(&node, "a", "1"),
        set_at_once(&node, "large", &large('x')),
        set_at_once(&node, "b", "2"),
        set_at_once(&node, "small", &just_small),
        set_at_once(&node, "c", "3"),
    ];
    let first = tickets[0].index.0;
    assert_eq!(tickets.map(|ticket| ticket.index.0 - first), [0, 1, 2, 2, 2]);
    node.wait_decided(tickets[4]).await.expect("decided");
    assert_eq!(get(&node, "large").await, Some(bytes(&large('x'))));
    assert_eq!(get(&node, "small").await, Some(bytes(&just_small)));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn large_updates_alone_need_no_turns() {
    let place = Place::new();
    let node = place.start().await;
    // Smaller updates of the start may have come before this one.
    let first = set_at_once(&node, "first", &large('x'));
    node.wait_decided(first).await.expect("decided");
    let tickets: Vec<_> =
        (0..8).map(|n| set_at_once(&node, &format!("k{n}"), &large('x'))).collect();
    for pair in tickets.windows(2) {
        assert_eq!(pair[1].index, pair[0].index.next());
    }
    node.wait_decided(tickets[7]).await.expect("decided");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn small_update_waits_for_one_large_update_at_most() {
    let place = Place::new();
    let node = place.start().await;
    set_at_once(&node, "a", "1");
    // The first large one after a small one takes the turn, and the next ones wait before they are
    // evaluated.
    let first = set_at_once(&node, "large", &large('1'));
    let second = set_later(&node, "large", &large('2'));
    let third = set_later(&node, "large", &large('3'));
    let small = set_at_once(&node, "b", "2");
    assert_eq!(small.index, first.index.next());
    node.wait_decided(small).await.expect("decided");
    assert!(!third.is_finished(), "one at a time");
    for later in [second, third] {
        let reply = later.await.expect("it ends").expect("it is done");
        assert_eq!(reply.body, Body::Updated(Outcome::Done));
        assert!(reply.index > small.index);
    }
    assert_eq!(get(&node, "large").await, Some(bytes(&large('3'))), "in order of arrival");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn connection_sees_its_large_updates_in_order() {
    let place = Place::new();
    let node = place.start().await;
    let mut flow = Flow::of(base::Principal::Node);
    for round in ['1', '2', '3'] {
        for value in [round.to_string(), large(round)] {
            let submitted = node.submit(&mut flow, request(Call::Update(set("k", &value))));
            // As a front-end does it: what comes later is waited for with everything before.
            if let SubmitResult::Later(reply) = submitted {
                reply.await.expect("it is done");
            }
        }
        let read = base::Read::Get(bytes("k"));
        let read = Call::Read(read, base::ReadLevel::Consistent);
        let submitted = node.submit(&mut flow, request(read));
        let reply = node.router.wait_reply(submitted).await.expect("a read");
        assert!(matches!(&reply.body, Body::Row(Some(row)) if row.value == bytes(&large(round))));
    }
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn waiting_large_update_fails_with_its_group() {
    let place = Place::new();
    let node = place.start().await;
    set_at_once(&node, "a", "1");
    set_at_once(&node, "large", &large('1'));
    let waiting = set_later(&node, "large", &large('2'));
    group(&node).fail(Error::new(Reason::StoreFailed, "a test"));
    let ended = tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("at once");
    assert_eq!(reason(ended.expect("it ends")), Reason::StoreFailed);
}
