//! Requests whose answer goes to a handler: every outcome is passed once, and none after the
//! request was cancelled.

use super::test_peer::{TestPeer, introduce, member, nowhere, settings, through_a_relay, until};
use crate::{AnswerHandler, CallError, PeerSettings, StartedCall};
use base::limits::PEER_CALL_BYTES_MAX;
use base::{GroupId, NodeId};
use bytes::Bytes;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const TWO: NodeId = NodeId(2);
const LONG: Duration = Duration::from_secs(60);
const GROUP: GroupId = GroupId(3);

type HandledAnswer = (NodeId, Result<Bytes, CallError>);

/// Handler that records what it is passed.
#[derive(Default)]
struct AnswerLog(Mutex<Vec<HandledAnswer>>);

impl AnswerHandler for AnswerLog {
    fn on_answer(self: Arc<AnswerLog>, from: NodeId, answer: Result<Bytes, CallError>) {
        self.0.lock().expect("plain data").push((from, answer));
    }
}

impl AnswerLog {
    fn answers(&self) -> Vec<HandledAnswer> {
        self.0.lock().expect("plain data").clone()
    }
}

fn text(text: &str) -> Bytes {
    Bytes::from(text.to_string())
}

fn start(one: &TestPeer, body: Bytes, log: &Arc<AnswerLog>) -> Result<StartedCall, CallError> {
    one.peers.start_call(TWO, GROUP, body, LONG, log.clone())
}

/// Sends a request that occupies the lane, and waits until its first piece has left.
async fn start_large(one: &TestPeer, log: &Arc<AnswerLog>) {
    start(one, vec![0; 40 << 20].into(), log).expect("the lane is empty");
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(one.status(TWO).lanes[2].waiting_messages, 1);
}

fn calls(node: &TestPeer) -> usize {
    node.log.calls.lock().expect("plain data").len()
}

#[tokio::test]
async fn handler_gets_the_answer_of_its_own_request_and_the_refusal() {
    let nodes = (TestPeer::start(settings(1, 1)).await, TestPeer::start(settings(2, 1)).await);
    introduce(&[&nodes.0, &nodes.1]).await;
    let (one, two) = &nodes;
    let logs: Vec<Arc<AnswerLog>> = (0..100).map(|_| Arc::default()).collect();
    for (number, log) in logs.iter().enumerate() {
        start(one, text(&number.to_string()), log).expect("there is a link");
    }
    until("all are asked", || calls(two) == logs.len()).await;
    let arrived = std::mem::take(&mut *two.log.calls.lock().expect("plain data"));
    for call in arrived.iter().rev() {
        if call.payload == "7" {
            two.peers.decline(call);
        } else {
            two.peers.answer(call, call.payload.clone()).expect("it is not too large");
        }
    }
    until("all are answered", || logs.iter().all(|log| !log.answers().is_empty())).await;
    for (number, log) in logs.iter().enumerate() {
        let answer =
            if number == 7 { Err(CallError::Declined(TWO)) } else { Ok(text(&number.to_string())) };
        assert_eq!(log.answers(), [(TWO, answer)]);
    }
}

#[tokio::test]
async fn cancelled_request_reports_its_outcome_and_calls_no_handler() {
    let nodes = (TestPeer::start(settings(1, 1)).await, TestPeer::start(settings(2, 1)).await);
    introduce(&[&nodes.0, &nodes.1]).await;
    let ((one, two), log) = (&nodes, Arc::<AnswerLog>::default());
    let call = start(one, text("late"), &log).expect("there is a link");
    until("it arrived", || calls(two) == 1).await;
    assert_eq!(one.peers.cancel_call(call), Some(CallError::TimedOut(TWO)));
    let late = two.log.calls.lock().expect("plain data").remove(0);
    two.peers.answer(&late, text("too late")).expect("small");
    // The answer to a later request comes behind the ignored one.
    let call = start(one, text("next"), &log).expect("there is a link");
    until("it arrived", || calls(two) == 1).await;
    let next = two.log.calls.lock().expect("plain data").remove(0);
    two.peers.answer(&next, text("in time")).expect("small");
    until("it is answered", || !log.answers().is_empty()).await;
    assert_eq!(log.answers(), [(TWO, Ok(text("in time")))]);
    assert_eq!(one.peers.cancel_call(call), None, "it was answered");
}

/// Settings with a lane for two requests; a large one occupies it.
fn narrow() -> PeerSettings {
    let mut settings = settings(1, 1);
    settings.lanes[2].messages = 2;
    settings
}

#[tokio::test]
async fn queued_request_can_be_cancelled_and_a_full_lane_refuses_one() {
    let (one, two, relay) = through_a_relay(narrow(), settings(2, 1)).await;
    // The other end reads nothing, so the large request stays in flight.
    relay.stall(0);
    let [first, second, third] = [(); 3].map(|()| Arc::<AnswerLog>::default());
    start_large(&one, &first).await;
    let queued = start(&one, text("2"), &second).expect("the lane has room for one more");
    assert_eq!(start(&one, text("3"), &third).expect_err("full"), CallError::Full);
    assert_eq!(one.peers.cancel_call(queued), Some(CallError::NotSent(TWO)));
    relay.cut();
    until("the loss is passed on", || !first.answers().is_empty()).await;
    assert_eq!(first.answers(), [(TWO, Err(CallError::Broken(TWO)))]);
    assert_eq!((second.answers(), third.answers()), (vec![], vec![]));
    assert_eq!(calls(&two), 0);
}

#[tokio::test]
async fn lost_link_is_passed_to_each_handler_by_whether_its_request_left() {
    let (one, two, relay) = through_a_relay(narrow(), settings(2, 1)).await;
    let [answered, queued] = [(); 2].map(|()| Arc::<AnswerLog>::default());
    start(&one, text("1"), &answered).expect("there is a link");
    until("it arrived", || calls(&two) == 1).await;
    relay.stall(0);
    start_large(&one, &answered).await;
    start(&one, text("3"), &queued).expect("the lane has room for one more");
    relay.cut();
    until("the loss is passed on", || !queued.answers().is_empty()).await;
    let broken = (TWO, Err(CallError::Broken(TWO)));
    assert_eq!(answered.answers(), [broken.clone(), broken]);
    assert_eq!(queued.answers(), [(TWO, Err(CallError::NotSent(TWO)))]);
}

#[tokio::test]
async fn request_without_a_link_or_too_large_is_refused_at_once() {
    let (one, log) = (TestPeer::start(settings(1, 1)).await, Arc::<AnswerLog>::default());
    one.peers.set_members(vec![member(2, nowhere())]);
    assert_eq!(start(&one, text("x"), &log).expect_err("no link"), CallError::NoLink(TWO));
    let large = Bytes::from(vec![0; PEER_CALL_BYTES_MAX]);
    assert_eq!(start(&one, large, &log).expect_err("too large"), CallError::TooLarge);
    assert_eq!(log.answers(), []);
    assert_eq!(Arc::strong_count(&log), 1, "nothing holds the handler");
}
