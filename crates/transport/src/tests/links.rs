//! Links over real sockets: order, urgency, and every way in which a connection may end.

use super::test_peer::{
    PeerEvent, TestPeer, introduce, member, nowhere, settings, through_a_relay, until,
};
use crate::{Broken, FrameError, Lane, Message, Sending};
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
    let homes = (TestPeer::start(settings(1, 1)).await, TestPeer::start(settings(2, 1)).await);
    introduce(&[&homes.0, &homes.1]).await;
    homes
}

#[tokio::test]
async fn messages_of_a_lane_arrive_in_order_and_unaltered() {
    let (one, two) = two().await;
    let size = |number: u32| (number as usize * 7919) % 100_000 / (1 + number as usize % 9);
    for number in 0..2_000u32 {
        let message = data(number, size(number)).with_head(&number.to_le_bytes());
        while one.peers.send(TWO, message.clone()) == Sending::Full {
            tokio::task::yield_now().await;
        }
    }
    until("all have come", || two.post.messages() == 2_000).await;
    let told = two.post.told();
    assert_eq!(told[0], PeerEvent::Connected(ONE, crate::Incarnation(1)));
    for (number, told) in (0u32..).zip(&told[1..]) {
        let body = [&number.to_le_bytes()[..], &bytes(number, size(number))].concat();
        assert_eq!(*told, PeerEvent::Message(ONE, Lane::Data, number, body.into()));
    }
    let (sent, heard) = (one.status(TWO).lanes[1], two.status(ONE).lanes[1]);
    assert_eq!((sent.sent_messages, heard.received_messages), (2_000, 2_000));
    assert_eq!(sent.sent_bytes, heard.received_bytes);
    until("a ping came back", || one.status(TWO).rtt_us > 0).await;
}

/// Returns the place of the first or last message of a lane among the recorded events.
fn place(home: &TestPeer, lane: Lane, last: bool) -> usize {
    let told = home.post.told();
    let is = |told: &PeerEvent| matches!(told, PeerEvent::Message(_, of, ..) if *of == lane);
    let found = if last { told.iter().rposition(is) } else { told.iter().position(is) };
    found.expect("one came")
}

#[tokio::test]
async fn control_overtakes_a_value_of_64_mib() {
    let (one, two) = two().await;
    assert_eq!(one.peers.send(TWO, data(1, 64 << 20)), Sending::Sent);
    let vote = Message::new(Lane::Control, GroupId(2), Bytes::from_static(b"vote"));
    assert_eq!(one.peers.send(TWO, vote), Sending::Sent);
    until("both have come", || two.post.messages() == 2).await;
    assert!(place(&two, Lane::Control, false) < place(&two, Lane::Data, false));
}

#[tokio::test]
async fn control_and_values_overtake_a_snapshot_of_64_mib() {
    let (one, two) = two().await;
    let peers = one.peers.clone();
    let bulk = tokio::spawn(async move {
        for part in 0..64 {
            let message = Message::new(Lane::Bulk, GroupId(part), bytes(part, 1 << 20));
            assert_eq!(peers.send_bulk(TWO, message).await, Sending::Sent);
        }
    });
    until("the snapshot has begun", || two.post.messages() > 0).await;
    let vote = Message::new(Lane::Control, GroupId(2), Bytes::from_static(b"vote"));
    assert_eq!(one.peers.send(TWO, vote), Sending::Sent);
    assert_eq!(one.peers.send(TWO, data(3, 100)), Sending::Sent);
    bulk.await.expect("it was sent");
    until("all have come", || two.post.messages() == 66).await;
    assert!(place(&two, Lane::Control, false) < place(&two, Lane::Bulk, true));
    assert!(place(&two, Lane::Data, false) < place(&two, Lane::Bulk, true));
    let parts: Vec<_> = two
        .post
        .told()
        .into_iter()
        .filter_map(|told| match told {
            PeerEvent::Message(_, Lane::Bulk, part, payload) => Some((part, payload.len())),
            _ => None,
        })
        .collect();
    assert_eq!(parts, (0..64).map(|part| (part, 1 << 20)).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_slow_receiver_of_bulk_stops_bulk_and_nothing_else() {
    let (one, two) = two().await;
    two.post.keep.store(true, SeqCst);
    let part = || Message::new(Lane::Bulk, GroupId(1), bytes(1, 1 << 20));
    // 2 MiB may be in flight and 2 MiB wait; more is refused, however long one retries.
    until("the lane is full", || match one.peers.send(TWO, part()) {
        Sending::Full => two.post.messages() == 2,
        _ => false,
    })
    .await;
    let waiting = one.status(TWO).lanes[3];
    assert_eq!((waiting.waiting_messages, waiting.waiting_bytes), (2, 2 << 20));
    assert_eq!(one.peers.send(TWO, data(1, 10)), Sending::Sent);
    until("a value passes", || two.post.messages() == 3).await;
    // One is consumed: one more is accepted.
    two.post.credits.lock().expect("plain data").drain(..1);
    until("one more comes", || two.post.messages() == 4).await;
    assert_eq!(one.peers.send_bulk(TWO, part()).await, Sending::Sent);
    two.post.keep.store(false, SeqCst);
    two.post.credits.lock().expect("plain data").clear();
    until("the rest comes", || two.post.messages() == 6).await;
}

#[tokio::test]
async fn a_cut_link_is_told_to_both_and_comes_back() {
    let (one, two, relay) = through_a_relay(settings(1, 1), settings(2, 1)).await;
    for round in 1..=5 {
        relay.cut();
        let broken = |home: &TestPeer| home.post.breaks().len() == round;
        until("both were told", || broken(&one) && broken(&two)).await;
        until("they are back", || one.connected(TWO) && two.connected(ONE)).await;
        assert_eq!(one.peers.send(TWO, data(round as u32, 50_000)), Sending::Sent);
        until("it works again", || two.post.messages() == round).await;
    }
    assert_eq!(one.status(TWO).links, 6);
    // Each link begins with connected and ends with broken.
    let mut connected = false;
    for told in two.post.told() {
        match told {
            PeerEvent::Connected(..) => assert!(!std::mem::replace(&mut connected, true)),
            PeerEvent::Broken(..) => assert!(std::mem::take(&mut connected)),
            PeerEvent::Message(..) => assert!(connected),
        }
    }
}

#[tokio::test]
async fn time_without_a_connection_is_counted_from_its_end_or_from_the_first_look() {
    let one = TestPeer::start(settings(1, 1)).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    until("some time has passed", || one.status(TWO).away_ms >= Some(30)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    introduce(&[&one, &two]).await;
    assert_eq!((one.status(TWO).away_ms, two.status(ONE).away_ms), (None, None));
    two.peers.stop().await;
    until("it is counted again", || one.status(TWO).away_ms >= Some(30)).await;
}

#[tokio::test]
async fn a_spoilt_byte_breaks_the_link_and_is_never_delivered() {
    for way in [0, 1] {
        let (one, two, relay) = through_a_relay(settings(1, 1), settings(2, 1)).await;
        let (from, to) = if way == 0 { (&one, &two) } else { (&two, &one) };
        relay.spoil(way);
        let good = data(7, 30_000);
        until("it was noticed", || {
            from.peers.send(to.id, good.clone());
            !to.post.breaks().is_empty() && !from.post.breaks().is_empty()
        })
        .await;
        assert_eq!(to.post.breaks()[0], Broken::Frame(FrameError::Checksum));
        until("they are back", || {
            from.peers.send(to.id, good.clone()) == Sending::Sent && to.connected(from.id)
        })
        .await;
        until("it works again", || to.post.messages() > 0).await;
        for told in to.post.told() {
            if let PeerEvent::Message(.., payload) = told {
                assert_eq!(payload, bytes(7, 30_000), "an altered message was delivered");
            }
        }
    }
}

#[tokio::test]
async fn a_way_that_swallows_everything_breaks_the_link_on_both_sides() {
    // In both directions, one direction, the other.
    for ways in [&[0, 1][..], &[0], &[1]] {
        let brief = |node| {
            let mut settings = settings(node, 1);
            settings.silence = Duration::from_millis(300);
            settings
        };
        let (one, two, relay) = through_a_relay(brief(1), brief(2)).await;
        ways.iter().for_each(|way| relay.swallow(*way));
        until("both know it", || !one.post.breaks().is_empty() && !two.post.breaks().is_empty())
            .await;
        let silent = |home: &TestPeer| home.post.breaks().contains(&Broken::Silent);
        assert!(silent(&one) || silent(&two), "{ways:?}: {:?}", one.post.breaks());
        relay.heal();
        until("they are back", || {
            one.connected(TWO) && two.connected(ONE) && one.status(TWO).link == two.status(ONE).link
        })
        .await;
    }
}

#[tokio::test]
async fn members_come_and_go() {
    let (one, two) = two().await;
    let three = TestPeer::start(settings(3, 1)).await;
    introduce(&[&one, &two, &three]).await;
    assert_eq!(one.status(TWO).links, 1, "who stays a member keeps its link");
    // Three leaves: both others close, and it can't come back on its own.
    let rest = vec![one.member(), two.member()];
    one.peers.set_members(rest.clone());
    two.peers.set_members(rest);
    until("it is told", || three.post.breaks().len() >= 2).await;
    assert_eq!(one.peers.send(three.id, data(1, 1)), Sending::NoLink);
    assert_eq!(one.post.breaks(), [Broken::Removed]);
    until("it hears why", || {
        let words = three.status(ONE).failed.unwrap_or_default();
        words.contains("is no member of the cluster")
    })
    .await;
    // It is added again, under another name.
    let again = crate::Member { name: "again".into(), ..three.member() };
    one.peers.set_members(vec![one.member(), two.member(), again]);
    until("it is back", || one.connected(three.id) && three.connected(ONE)).await;
    assert_eq!(one.status(three.id).name, "again");
}

#[tokio::test]
async fn a_member_that_moves_is_found_at_its_new_address() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    two.peers.set_members(vec![member(1, super::test_peer::nowhere())]);
    one.peers.set_members(vec![member(2, super::test_peer::nowhere())]);
    until("it was tried", || one.status(TWO).failed.is_some()).await;
    one.peers.set_members(vec![two.member()]);
    until("it is found", || one.connected(TWO) && two.connected(ONE)).await;
}

#[tokio::test]
async fn stopping_tells_everyone_and_leaves_nothing_behind() {
    let (one, two) = two().await;
    one.peers.stop().await;
    assert_eq!(one.post.breaks(), [Broken::Stopping]);
    until("the other knows", || !two.post.breaks().is_empty()).await;
    assert!(matches!(&two.post.breaks()[0], Broken::Closed(words) if words.contains("stopping")));
    assert_eq!(one.peers.send(TWO, data(1, 1)), Sending::NoLink);
    let again = tokio::net::TcpListener::bind(one.address).await;
    assert!(again.is_ok(), "the address is free again");
}
