//! Requests from node to node: every caller gets its own answer, or the right kind of error.

use super::test_peer::{TestPeer, introduce, member, nowhere, settings, through_a_relay, until};
use crate::{CallError, PeerSettings};
use base::limits::PEER_CALL_BYTES_MAX;
use base::{Error, GroupId, Kind, NodeId};
use bytes::Bytes;
use std::time::Duration;
use tokio::task::JoinSet;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const LONG: Duration = Duration::from_secs(60);
const GROUP: GroupId = GroupId(3);

fn text(text: &str) -> Bytes {
    Bytes::from(text.to_string())
}

async fn two() -> (TestPeer, TestPeer) {
    let nodes = (TestPeer::start(settings(1, 1)).await, TestPeer::start(settings(2, 1)).await);
    introduce(&[&nodes.0, &nodes.1]).await;
    nodes
}

fn kind(why: CallError) -> Kind {
    Error::from(why).kind()
}

#[tokio::test]
async fn caller_receives_its_own_answer_regardless_of_answer_order() {
    let (one, two) = two().await;
    let mut callers = JoinSet::new();
    for number in 0..500 {
        let peers = one.peers.clone();
        callers.spawn(async move {
            let question = text(&format!("question {number}"));
            (number, peers.call(TWO, GROUP, question, LONG).await)
        });
    }
    until("all are asked", || {
        callers.len() == 500 && two.log.calls.lock().expect("plain data").len() == 500
    })
    .await;
    let calls = std::mem::take(&mut *two.log.calls.lock().expect("plain data"));
    for call in calls.iter().rev() {
        assert_eq!((call.from, call.group), (ONE, GROUP));
        assert!(call.timeout <= LONG);
        let number = &call.payload["question ".len()..];
        let answer = [b"answer ", number].concat().into();
        two.peers.answer(call, answer).expect("it is not too large");
    }
    while let Some(caller) = callers.join_next().await {
        let (number, answer) = caller.expect("no caller panics");
        assert_eq!(answer, Ok(text(&format!("answer {number}"))));
    }
}

#[tokio::test]
async fn request_without_a_link_fails_as_unavailable() {
    let one = TestPeer::start(settings(1, 1)).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    for to in [TWO, NodeId(9)] {
        let answer = one.peers.call(to, GROUP, text("x"), LONG).await;
        assert_eq!(answer, Err(CallError::NoLink(to)));
        assert_eq!(kind(CallError::NoLink(to)), Kind::Unavailable);
    }
}

#[tokio::test]
async fn sent_request_without_answer_has_unknown_outcome() {
    let (one, two, relay) = through_a_relay(settings(1, 1), settings(2, 1)).await;
    let late = one.peers.call(TWO, GROUP, text("x"), Duration::from_millis(50)).await;
    assert_eq!(late, Err(CallError::TimedOut(TWO)));
    assert_eq!(kind(CallError::TimedOut(TWO)), Kind::Unknown);
    // The answer comes too late, and is ignored.
    let first = two.log.calls.lock().expect("plain data").remove(0);
    two.peers.answer(&first, text("late")).expect("small");
    let peers = one.peers.clone();
    let request = tokio::spawn(async move { peers.call(TWO, GROUP, text("y"), LONG).await });
    until("it arrived", || two.log.calls.lock().expect("plain data").len() == 1).await;
    relay.cut();
    assert_eq!(request.await.expect("no panic"), Err(CallError::Broken(TWO)));
    assert_eq!(kind(CallError::Broken(TWO)), Kind::Unknown);
    // The answer goes to the new link, where no caller waits for it.
    until("they are back", || one.connected(TWO) && two.connected(ONE)).await;
    let second = two.log.calls.lock().expect("plain data").remove(0);
    two.peers.answer(&second, text("late")).expect("small");
    let peers = one.peers.clone();
    let request = tokio::spawn(async move { peers.call(TWO, GROUP, text("z"), LONG).await });
    until("it arrived", || two.log.calls.lock().expect("plain data").len() == 1).await;
    let third = two.log.calls.lock().expect("plain data").remove(0);
    two.peers.answer(&third, text("in time")).expect("small");
    assert_eq!(request.await.expect("no panic"), Ok(text("in time")));
}

/// Settings with a lane for one request; a large one occupies it.
fn narrow() -> PeerSettings {
    let mut settings = settings(1, 1);
    settings.lanes[2].messages = 2;
    settings
}

#[tokio::test]
async fn request_that_was_never_sent_fails_as_unavailable() {
    let (one, two, relay) = through_a_relay(narrow(), settings(2, 1)).await;
    // The other end reads nothing, so the large request stays in flight.
    relay.stall(0);
    let peers = one.peers.clone();
    let large = Bytes::from(vec![0; 40 << 20]);
    let first = tokio::spawn(async move { peers.call(TWO, GROUP, large, LONG).await });
    until("it has begun", || one.status(TWO).lanes[2].waiting_messages == 1).await;
    // The second waits behind it until its deadline, and is taken back.
    let second = one.peers.call(TWO, GROUP, text("2"), Duration::from_millis(30)).await;
    assert_eq!(second, Err(CallError::NotSent(TWO)));
    assert_eq!(kind(CallError::NotSent(TWO)), Kind::Unavailable);
    // It occupies the lane until its turn, so a third is refused.
    let third = one.peers.call(TWO, GROUP, text("3"), LONG).await;
    assert_eq!(third, Err(CallError::Full));
    assert_eq!(kind(CallError::Full), Kind::Unavailable);
    relay.cut();
    assert_eq!(first.await.expect("no panic"), Err(CallError::Broken(TWO)));
    assert!(two.log.calls.lock().expect("plain data").is_empty());
}

#[tokio::test]
async fn request_queued_when_the_link_breaks_fails_as_not_sent() {
    let (one, _two, relay) = through_a_relay(narrow(), settings(2, 1)).await;
    relay.stall(0);
    let ask = |body: Bytes| {
        let peers = one.peers.clone();
        tokio::spawn(async move { peers.call(TWO, GROUP, body, LONG).await })
    };
    let first = ask(vec![0; 40 << 20].into());
    until("it has begun", || one.status(TWO).lanes[2].waiting_messages == 1).await;
    let second = ask(text("2"));
    until("it waits", || one.status(TWO).lanes[2].waiting_messages == 2).await;
    relay.cut();
    assert_eq!(first.await.expect("no panic"), Err(CallError::Broken(TWO)));
    assert_eq!(second.await.expect("no panic"), Err(CallError::NotSent(TWO)));
}

#[tokio::test]
async fn declined_request_is_unavailable_and_too_large_one_is_not_sent() {
    let (one, two) = two().await;
    let peers = one.peers.clone();
    let request = tokio::spawn(async move { peers.call(TWO, GROUP, text("x"), LONG).await });
    until("it arrived", || !two.log.calls.lock().expect("plain data").is_empty()).await;
    let call = two.log.calls.lock().expect("plain data").remove(0);
    let large = Bytes::from(vec![0; PEER_CALL_BYTES_MAX]);
    assert!(two.peers.answer(&call, large.clone()).is_err());
    two.peers.decline(&call);
    assert_eq!(request.await.expect("no panic"), Err(CallError::Declined(TWO)));
    assert_eq!(kind(CallError::Declined(TWO)), Kind::Unavailable);
    assert_eq!(one.peers.call(TWO, GROUP, large, LONG).await, Err(CallError::TooLarge));
    assert_eq!(kind(CallError::TooLarge), Kind::Invalid);
}

#[tokio::test]
async fn pending_request_fails_when_its_caller_stops() {
    let (one, two) = two().await;
    let peers = one.peers.clone();
    let request = tokio::spawn(async move { peers.call(TWO, GROUP, text("x"), LONG).await });
    until("it arrived", || !two.log.calls.lock().expect("plain data").is_empty()).await;
    one.peers.stop().await;
    assert_eq!(request.await.expect("no panic"), Err(CallError::Broken(TWO)));
}
