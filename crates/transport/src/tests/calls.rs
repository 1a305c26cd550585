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
    let homes = (TestPeer::start(settings(1, 1)).await, TestPeer::start(settings(2, 1)).await);
    introduce(&[&homes.0, &homes.1]).await;
    homes
}

fn kind(why: CallError) -> Kind {
    Error::from(why).kind()
}

#[tokio::test]
async fn every_caller_gets_its_own_answer_in_whatever_order_they_come() {
    let (one, two) = two().await;
    let mut callers = JoinSet::new();
    for number in 0..500 {
        let peers = one.peers.clone();
        callers.spawn(async move {
            let question = text(&format!("question {number}"));
            (number, peers.ask(TWO, GROUP, question, LONG).await)
        });
    }
    until("all are asked", || {
        callers.len() == 500 && two.post.questions.lock().expect("plain data").len() == 500
    })
    .await;
    let questions = std::mem::take(&mut *two.post.questions.lock().expect("plain data"));
    for asked in questions.iter().rev() {
        assert_eq!((asked.from, asked.group), (ONE, GROUP));
        assert!(asked.within <= LONG);
        let number = &asked.payload["question ".len()..];
        let answer = [b"answer ", number].concat().into();
        two.peers.answer(asked, answer).expect("it is not too large");
    }
    while let Some(caller) = callers.join_next().await {
        let (number, answer) = caller.expect("no caller panics");
        assert_eq!(answer, Ok(text(&format!("answer {number}"))));
    }
}

#[tokio::test]
async fn without_a_link_nothing_happened() {
    let one = TestPeer::start(settings(1, 1)).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    for to in [TWO, NodeId(9)] {
        let answer = one.peers.ask(to, GROUP, text("x"), LONG).await;
        assert_eq!(answer, Err(CallError::NoLink(to)));
        assert_eq!(kind(CallError::NoLink(to)), Kind::Unavailable);
    }
}

#[tokio::test]
async fn a_request_that_was_sent_and_not_answered_may_have_happened() {
    let (one, two, relay) = through_a_relay(settings(1, 1), settings(2, 1)).await;
    let late = one.peers.ask(TWO, GROUP, text("x"), Duration::from_millis(50)).await;
    assert_eq!(late, Err(CallError::Late(TWO)));
    assert_eq!(kind(CallError::Late(TWO)), Kind::Unknown);
    // The answer comes too late, and is ignored.
    let first = two.post.questions.lock().expect("plain data").remove(0);
    two.peers.answer(&first, text("late")).expect("small");
    let peers = one.peers.clone();
    let asking = tokio::spawn(async move { peers.ask(TWO, GROUP, text("y"), LONG).await });
    until("it arrived", || two.post.questions.lock().expect("plain data").len() == 1).await;
    relay.cut();
    assert_eq!(asking.await.expect("no panic"), Err(CallError::Broken(TWO)));
    assert_eq!(kind(CallError::Broken(TWO)), Kind::Unknown);
    // The answer goes to the new link, where no caller waits for it.
    until("they are back", || one.connected(TWO) && two.connected(ONE)).await;
    let second = two.post.questions.lock().expect("plain data").remove(0);
    two.peers.answer(&second, text("late")).expect("small");
    let peers = one.peers.clone();
    let asking = tokio::spawn(async move { peers.ask(TWO, GROUP, text("z"), LONG).await });
    until("it arrived", || two.post.questions.lock().expect("plain data").len() == 1).await;
    let third = two.post.questions.lock().expect("plain data").remove(0);
    two.peers.answer(&third, text("in time")).expect("small");
    assert_eq!(asking.await.expect("no panic"), Ok(text("in time")));
}

/// Settings with a lane for one request; a large one occupies it.
fn narrow() -> PeerSettings {
    let mut settings = settings(1, 1);
    settings.lanes[2].messages = 2;
    settings
}

#[tokio::test]
async fn a_request_that_never_left_did_not_happen() {
    let (one, two, relay) = through_a_relay(narrow(), settings(2, 1)).await;
    // The other end reads nothing, so the large request stays on its way.
    relay.hold(0);
    let peers = one.peers.clone();
    let large = Bytes::from(vec![0; 40 << 20]);
    let first = tokio::spawn(async move { peers.ask(TWO, GROUP, large, LONG).await });
    until("it has begun", || one.status(TWO).lanes[2].waiting_messages == 1).await;
    // The second waits behind it until its deadline, and is taken back.
    let second = one.peers.ask(TWO, GROUP, text("2"), Duration::from_millis(30)).await;
    assert_eq!(second, Err(CallError::NotSent(TWO)));
    assert_eq!(kind(CallError::NotSent(TWO)), Kind::Unavailable);
    // It still occupies the lane until its turn comes, so a third is refused.
    let third = one.peers.ask(TWO, GROUP, text("3"), LONG).await;
    assert_eq!(third, Err(CallError::Full));
    assert_eq!(kind(CallError::Full), Kind::Unavailable);
    relay.cut();
    assert_eq!(first.await.expect("no panic"), Err(CallError::Broken(TWO)));
    assert!(two.post.questions.lock().expect("plain data").is_empty());
}

#[tokio::test]
async fn a_request_that_waits_when_the_link_breaks_did_not_happen() {
    let (one, _two, relay) = through_a_relay(narrow(), settings(2, 1)).await;
    relay.hold(0);
    let ask = |body: Bytes| {
        let peers = one.peers.clone();
        tokio::spawn(async move { peers.ask(TWO, GROUP, body, LONG).await })
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
async fn a_declined_request_did_not_happen_and_a_large_one_is_not_sent() {
    let (one, two) = two().await;
    let peers = one.peers.clone();
    let asking = tokio::spawn(async move { peers.ask(TWO, GROUP, text("x"), LONG).await });
    until("it arrived", || !two.post.questions.lock().expect("plain data").is_empty()).await;
    let asked = two.post.questions.lock().expect("plain data").remove(0);
    let large = Bytes::from(vec![0; PEER_CALL_BYTES_MAX]);
    assert!(two.peers.answer(&asked, large.clone()).is_err());
    two.peers.decline(&asked);
    assert_eq!(asking.await.expect("no panic"), Err(CallError::Declined(TWO)));
    assert_eq!(kind(CallError::Declined(TWO)), Kind::Unavailable);
    assert_eq!(one.peers.ask(TWO, GROUP, large, LONG).await, Err(CallError::TooLarge));
    assert_eq!(kind(CallError::TooLarge), Kind::Invalid);
}

#[tokio::test]
async fn stopping_leaves_no_caller_waiting() {
    let (one, two) = two().await;
    let peers = one.peers.clone();
    let asking = tokio::spawn(async move { peers.ask(TWO, GROUP, text("x"), LONG).await });
    until("it arrived", || !two.post.questions.lock().expect("plain data").is_empty()).await;
    one.peers.stop().await;
    assert_eq!(asking.await.expect("no panic"), Err(CallError::Broken(TWO)));
}
