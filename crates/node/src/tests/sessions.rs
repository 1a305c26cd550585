//! A repeated request applies once.

use super::{Place, bytes, get, reason, request, set};
use crate::Node;
use crate::consistent::clock::Clock;
use base::limits::{SESSION_OUTCOME_BYTES_MAX, SESSION_TTL_MS, SESSION_WINDOW};
use base::request::SessionCall;
use base::{Body, Call, Outcome, Reason, Reply, Request, Result, RetryId, SessionId, Update};

async fn open(node: &Node) -> SessionId {
    let opened = node.handle(request(Call::Session(SessionCall::Open))).await.expect("opens");
    let Body::Session(session) = opened.body else { panic!("a session") };
    session
}

async fn attempt(node: &Node, session: SessionId, number: u64, update: Update) -> Result<Reply> {
    let retry = Some(RetryId { session, number });
    node.handle(Request { retry, ..request(Call::Update(update)) }).await
}

fn add() -> Update {
    Update::Add { key: bytes("n"), delta: 1 }
}

#[tokio::test]
async fn a_retry_gets_the_first_answer_and_applies_nothing_also_after_a_restart() {
    let place = Place::new();
    let mut node = place.start().await;
    let session = open(&node).await;
    let first = attempt(&node, session, 1, add()).await.expect("adds");
    assert_eq!(first.body, Body::Updated(Outcome::Number(1)));
    assert_eq!(attempt(&node, session, 1, add()).await, Ok(first.clone()));
    node.stop().await.expect("it stops");
    node = place.start().await;
    assert_eq!(attempt(&node, session, 1, add()).await, Ok(first));
    let second = attempt(&node, session, 2, add()).await.expect("adds").body;
    assert_eq!(second, Body::Updated(Outcome::Number(2)));
    let other = open(&node).await;
    assert_ne!(other, session, "a session's number is never given twice");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn a_failed_assertion_is_an_outcome_too() {
    let place = Place::new();
    let node = place.start().await;
    let session = open(&node).await;
    let assert = Update::AssertExists { key: bytes("k") };
    let failed = attempt(&node, session, 7, assert.clone()).await;
    super::update(&node, set("k", "v")).await.expect("a set");
    assert_eq!(attempt(&node, session, 7, assert).await, failed, "the same answer again");
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn what_lies_outside_the_window_or_the_session_is_refused_and_not_applied() {
    let place = Place::new();
    let node = place.start().await;
    let session = open(&node).await;
    attempt(&node, session, 5, add()).await.expect("adds");
    attempt(&node, session, 5 + SESSION_WINDOW, add()).await.expect("adds");
    assert_eq!(reason(attempt(&node, session, 5, add()).await), Reason::OutsideWindow);
    attempt(&node, session, 6, add()).await.expect("the oldest number of the window");
    let stranger = SessionId(session.0 + 1_000);
    assert_eq!(reason(attempt(&node, stranger, 1, add()).await), Reason::SessionExpired);
    let close = Call::Session(SessionCall::Close(session));
    node.handle(request(close)).await.expect("closes");
    assert_eq!(reason(attempt(&node, session, 6, add()).await), Reason::SessionExpired);
    assert_eq!(get(&node, "n").await, Some(bytes("3")));
    assert_eq!(node.status().groups[1].sessions, 0);
    node.stop().await.expect("it stops");
}

/// Lets this much group time pass.
fn pass(node: &Node, ms: u64) {
    let group = node.inner.groups.find(base::GroupId(1)).expect("it is there");
    let mut state = group.state();
    let now = state.clock.now();
    state.clock = Clock::from(now + ms);
}

#[tokio::test]
async fn a_session_expires_when_it_was_not_used_for_its_time_and_not_before() {
    let place = Place::new();
    let node = place.start().await;
    let session = open(&node).await;
    // A minute is left for the test itself.
    for number in 1..4 {
        attempt(&node, session, number, add()).await.expect("it was used in time");
        pass(&node, SESSION_TTL_MS - 60_000);
    }
    attempt(&node, session, 4, add()).await.expect("it was used in time");
    pass(&node, SESSION_TTL_MS);
    assert_eq!(reason(attempt(&node, session, 5, add()).await), Reason::SessionExpired);
    assert_eq!(get(&node, "n").await, Some(bytes("4")));
    node.stop().await.expect("it stops");
}

#[tokio::test]
async fn outcomes_up_to_their_limit_are_kept_whole_for_a_retry() {
    let place = Place::new();
    let node = place.start().await;
    let session = open(&node).await;
    let mut kept = Vec::new();
    let lengths = SESSION_OUTCOME_BYTES_MAX - 40..=SESSION_OUTCOME_BYTES_MAX + 1;
    for (number, length) in (1..).zip(lengths) {
        super::update(&node, set("k", &"v".repeat(length))).await.expect("a set");
        let replace = Update::Replace { key: bytes("k"), wanted: Some(bytes("w")) };
        let first = attempt(&node, session, number, replace.clone()).await.expect("replaces");
        let again = attempt(&node, session, number, replace).await.expect("the same again");
        assert_eq!(again.index, first.index);
        if again == first {
            kept.push(length);
        } else {
            assert_eq!(again.body, Body::Updated(Outcome::AppliedAt(first.index)));
        }
    }
    // Beside the value an outcome is its index, its kind and a length: 14 bytes.
    let most = SESSION_OUTCOME_BYTES_MAX - 14;
    assert_eq!((kept.first(), kept.last()), (Some(&(most - 26)), Some(&most)));
    assert_eq!(kept.len(), 27, "none below the limit is left out");
    node.stop().await.expect("it stops");
}
