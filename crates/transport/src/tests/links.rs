//! Links over real sockets: order, urgency, and every way in which a connection may end.

use super::test_peer::{
    PeerEvent, TestPeer, introduce, member, nowhere, settings, through_a_relay, until,
};
use crate::{Broken, FrameError, Lane, Message, SendOutcome};
use base::{GroupId, NodeId};
use bytes::Bytes;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

fn bytes(number: u32, length: usize) -> Bytes {
    (0..length).map(|at| (at as u32 * 31 + number) as u8).collect::<Vec<_>>().into()
}

fn data(number: u32, length: usize) -> Message {
    Message::new(Lane::Data, GroupId(number), bytes(number, length))
}

async fn two() -> (TestPeer, TestPeer) {
    let nodes = (TestPeer::start(settings(1, 1)).await, TestPeer::start(settings(2, 1)).await);
    introduce(&[&nodes.0, &nodes.1]).await;
    nodes
}

#[tokio::test]
async fn messages_of_a_lane_arrive_in_order_and_unaltered() {
    let (one, two) = two().await;
    let size = |number: u32| (number as usize * 7919) % 100_000 / (1 + number as usize % 9);
    for number in 0..2_000u32 {
        let message = data(number, size(number)).with_head(&number.to_le_bytes());
        while one.peers.send(TWO, message.clone()) == SendOutcome::Full {
            tokio::task::yield_now().await;
        }
    }
    until("all have come", || two.log.messages() == 2_000).await;
    let events = two.log.recorded();
    assert_eq!(events[0], PeerEvent::Connected(ONE, crate::Incarnation(1)));
    for (number, event) in (0u32..).zip(&events[1..]) {
        let body = [&number.to_le_bytes()[..], &bytes(number, size(number))].concat();
        assert_eq!(*event, PeerEvent::Message(ONE, Lane::Data, number, body.into()));
    }
    let (sent, received) = (one.status(TWO).lanes[1], two.status(ONE).lanes[1]);
    assert_eq!((sent.sent_messages, received.received_messages), (2_000, 2_000));
    assert_eq!(sent.sent_bytes, received.received_bytes);
    until("a ping came back", || one.status(TWO).rtt_us > 0).await;
}

/// Returns the place of the first or last message of a lane among the recorded events.
fn position_of(node: &TestPeer, lane: Lane, last: bool) -> usize {
    let events = node.log.recorded();
    let is = |event: &PeerEvent| matches!(event, PeerEvent::Message(_, of, ..) if *of == lane);
    let found = if last { events.iter().rposition(is) } else { events.iter().position(is) };
    found.expect("one came")
}

#[tokio::test]
async fn control_message_overtakes_a_64_mib_data_message() {
    let (one, two) = two().await;
    assert_eq!(one.peers.send(TWO, data(1, 64 << 20)), SendOutcome::Sent);
    let vote = Message::new(Lane::Control, GroupId(2), Bytes::from_static(b"vote"));
    assert_eq!(one.peers.send(TWO, vote), SendOutcome::Sent);
    until("both have come", || two.log.messages() == 2).await;
    assert!(position_of(&two, Lane::Control, false) < position_of(&two, Lane::Data, false));
}

#[tokio::test]
async fn control_and_data_messages_overtake_a_64_mib_snapshot() {
    let (one, two) = two().await;
    let peers = one.peers.clone();
    let bulk = tokio::spawn(async move {
        for part in 0..64 {
            let message = Message::new(Lane::Bulk, GroupId(part), bytes(part, 1 << 20));
            assert_eq!(peers.send_bulk(TWO, message).await, SendOutcome::Sent);
        }
    });
    until("the snapshot has begun", || two.log.messages() > 0).await;
    let vote = Message::new(Lane::Control, GroupId(2), Bytes::from_static(b"vote"));
    assert_eq!(one.peers.send(TWO, vote), SendOutcome::Sent);
    assert_eq!(one.peers.send(TWO, data(3, 100)), SendOutcome::Sent);
    bulk.await.expect("it was sent");
    until("all have come", || two.log.messages() == 66).await;
    assert!(position_of(&two, Lane::Control, false) < position_of(&two, Lane::Bulk, true));
    assert!(position_of(&two, Lane::Data, false) < position_of(&two, Lane::Bulk, true));
    let parts: Vec<_> = two
        .log
        .recorded()
        .into_iter()
        .filter_map(|event| match event {
            PeerEvent::Message(_, Lane::Bulk, part, payload) => Some((part, payload.len())),
            _ => None,
        })
        .collect();
    assert_eq!(parts, (0..64).map(|part| (part, 1 << 20)).collect::<Vec<_>>());
}

#[tokio::test]
async fn slow_bulk_receiver_blocks_only_the_bulk_lane() {
    let (one, two) = two().await;
    two.log.holds_credits.store(true, SeqCst);
    let part = || Message::new(Lane::Bulk, GroupId(1), bytes(1, 1 << 20));
    // 2 MiB may be in flight and 2 MiB wait; more is refused, however long one retries.
    until("the lane is full", || match one.peers.send(TWO, part()) {
        SendOutcome::Full => two.log.messages() == 2,
        _ => false,
    })
    .await;
    let waiting = one.status(TWO).lanes[3];
    assert_eq!((waiting.waiting_messages, waiting.waiting_bytes), (2, 2 << 20));
    assert_eq!(one.peers.send(TWO, data(1, 10)), SendOutcome::Sent);
    until("a value passes", || two.log.messages() == 3).await;
    // One is consumed: one more is accepted.
    two.log.credits.lock().expect("plain data").drain(..1);
    until("one more comes", || two.log.messages() == 4).await;
    assert_eq!(one.peers.send_bulk(TWO, part()).await, SendOutcome::Sent);
    two.log.holds_credits.store(false, SeqCst);
    two.log.credits.lock().expect("plain data").clear();
    until("the rest comes", || two.log.messages() == 6).await;
}

#[tokio::test]
async fn broken_link_is_reported_to_both_sides_and_reconnects() {
    let (one, two, relay) = through_a_relay(settings(1, 1), settings(2, 1)).await;
    for round in 1..=5 {
        relay.cut();
        let broken = |node: &TestPeer| node.log.breaks().len() == round;
        until("both were told", || broken(&one) && broken(&two)).await;
        until("they are back", || one.connected(TWO) && two.connected(ONE)).await;
        assert_eq!(one.peers.send(TWO, data(round as u32, 50_000)), SendOutcome::Sent);
        until("it works again", || two.log.messages() == round).await;
    }
    assert_eq!(one.status(TWO).links, 6);
    // Each link begins with connected and ends with broken.
    let mut connected = false;
    for event in two.log.recorded() {
        match event {
            PeerEvent::Connected(..) => assert!(!std::mem::replace(&mut connected, true)),
            PeerEvent::Broken(..) => assert!(std::mem::take(&mut connected)),
            PeerEvent::Message(..) => assert!(connected),
        }
    }
}

#[tokio::test]
async fn disconnected_time_counts_from_link_end_or_member_addition() {
    let one = TestPeer::start(settings(1, 1)).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    until("some time has passed", || one.status(TWO).disconnected_ms >= Some(30)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    introduce(&[&one, &two]).await;
    assert_eq!((one.status(TWO).disconnected_ms, two.status(ONE).disconnected_ms), (None, None));
    two.peers.stop().await;
    until("it is counted again", || one.status(TWO).disconnected_ms >= Some(30)).await;
}

#[tokio::test]
async fn corrupt_byte_breaks_the_link_and_is_never_delivered() {
    for direction in [0, 1] {
        let (one, two, relay) = through_a_relay(settings(1, 1), settings(2, 1)).await;
        let (from, to) = if direction == 0 { (&one, &two) } else { (&two, &one) };
        relay.corrupt(direction);
        let good = data(7, 30_000);
        until("it was noticed", || {
            from.peers.send(to.id, good.clone());
            !to.log.breaks().is_empty() && !from.log.breaks().is_empty()
        })
        .await;
        assert_eq!(to.log.breaks()[0], Broken::Frame(FrameError::Checksum));
        until("they are back", || {
            from.peers.send(to.id, good.clone()) == SendOutcome::Sent && to.connected(from.id)
        })
        .await;
        until("it works again", || to.log.messages() > 0).await;
        for event in to.log.recorded() {
            if let PeerEvent::Message(.., payload) = event {
                assert_eq!(payload, bytes(7, 30_000), "an altered message was delivered");
            }
        }
    }
}

#[tokio::test]
async fn silent_network_path_breaks_the_link_on_both_sides() {
    // In both directions, one direction, the other.
    for ways in [&[0, 1][..], &[0], &[1]] {
        let brief = |node| {
            let mut settings = settings(node, 1);
            settings.silence_timeout = Duration::from_millis(300);
            settings
        };
        let (one, two, relay) = through_a_relay(brief(1), brief(2)).await;
        ways.iter().for_each(|direction| relay.drop_bytes(*direction));
        until("both know it", || !one.log.breaks().is_empty() && !two.log.breaks().is_empty())
            .await;
        let silent = |node: &TestPeer| node.log.breaks().contains(&Broken::Silent);
        assert!(silent(&one) || silent(&two), "{ways:?}: {:?}", one.log.breaks());
        relay.heal();
        until("they are back", || {
            one.connected(TWO) && two.connected(ONE) && one.status(TWO).link == two.status(ONE).link
        })
        .await;
    }
}

#[tokio::test]
async fn removed_member_is_disconnected_and_reconnects_once_added_again() {
    let (one, two) = two().await;
    let three = TestPeer::start(settings(3, 1)).await;
    introduce(&[&one, &two, &three]).await;
    assert_eq!(one.status(TWO).links, 1, "who stays a member keeps its link");
    // Node 3 is removed: both others close, and it can't reconnect.
    let rest = vec![one.member(), two.member()];
    one.peers.set_members(rest.clone());
    two.peers.set_members(rest);
    until("it is told", || three.log.breaks().len() >= 2).await;
    assert_eq!(one.peers.send(three.id, data(1, 1)), SendOutcome::NoLink);
    assert_eq!(one.log.breaks(), [Broken::Removed]);
    until("it hears why", || {
        let text = three.status(ONE).last_failure.unwrap_or_default();
        text.contains("is not a member of the cluster")
    })
    .await;
    // Node 3 is added again, under another name.
    let again = crate::Member { name: "again".into(), ..three.member() };
    one.peers.set_members(vec![one.member(), two.member(), again]);
    until("it is back", || one.connected(three.id) && three.connected(ONE)).await;
    assert_eq!(one.status(three.id).name, "again");
}

#[tokio::test]
async fn member_is_reached_at_its_new_address() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    two.peers.set_members(vec![member(1, super::test_peer::nowhere())]);
    one.peers.set_members(vec![member(2, super::test_peer::nowhere())]);
    until("it was tried", || one.status(TWO).last_failure.is_some()).await;
    one.peers.set_members(vec![two.member()]);
    until("it is found", || one.connected(TWO) && two.connected(ONE)).await;
}

#[tokio::test]
async fn stopped_node_closes_its_links_and_frees_its_address() {
    let (one, two) = two().await;
    one.peers.stop().await;
    assert_eq!(one.log.breaks(), [Broken::Stopping]);
    until("the other knows", || !two.log.breaks().is_empty()).await;
    assert!(matches!(&two.log.breaks()[0], Broken::Closed(text) if text.contains("stopping")));
    assert_eq!(one.peers.send(TWO, data(1, 1)), SendOutcome::NoLink);
    let again = tokio::net::TcpListener::bind(one.address).await;
    assert!(again.is_ok(), "the address is free again");
}
