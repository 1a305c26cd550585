//! Hostile and broken peers: garbage, slow handshakes, corrupt frames, ends that read nothing,
//! half-open connections.

use super::greetings::identity;
use super::test_peer::{
    CLUSTER, PeerEvent, TEST_TIMEOUT, TestPeer, introduce, member, nowhere, settings, until,
};
use crate::frame::{ControlFrame, Decoder, Encoder, FrameEvent};
use crate::handshake::{Greeting, Hello, LinkKeys, Received};
use crate::transcript::Transcript;
use crate::versions::VERSIONS;
use crate::{Broken, FrameError, Incarnation, Lane, Message, PeerSettings, SendOutcome, greet};
use base::limits::PEER_GREETINGS_PER_ADDRESS_MAX;
use base::{GroupId, NodeId};
use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const TWO: NodeId = NodeId(2);

/// Node 2, driven step by step.
struct ManualPeer {
    stream: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
    link: u64,
}

impl ManualPeer {
    async fn connect(to: SocketAddr, incarnation: u64, previous: u64) -> ManualPeer {
        let mut stream = TcpStream::connect(to).await.expect("it listens");
        let mut me = identity(2, incarnation, incarnation, previous + incarnation);
        me.cluster = CLUSTER;
        let hello = Hello { versions: VERSIONS, identity: me.clone(), target: NodeId(1), previous };
        let mut transcript = Transcript::new(None);
        let hello = Greeting::Hello(hello);
        greet::send_greeting(&mut stream, &mut transcript, &hello).await.expect("it hears");
        let Ok(Received { greeting: Greeting::Welcome { identity, .. }, .. }) =
            greet::read(&mut stream, VERSIONS).await
        else {
            panic!("it is welcome")
        };
        let link_keys = LinkKeys::new(&me, &identity, None);
        let go = Greeting::Go { link: link_keys.link };
        greet::send_greeting(&mut stream, &mut transcript, &go).await.expect("it hears");
        let (encoder, decoder) =
            (Encoder::new(link_keys.dialler_salt), Decoder::new(link_keys.dialled_salt));
        ManualPeer { stream, encoder, decoder, link: link_keys.link }
    }

    fn frame(&mut self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.encoder.copied(&mut out, Lane::Data, GroupId(1), body.len(), [body, &[]]);
        out
    }

    /// Reads until the end; returns the text of the close frame, if there was one.
    async fn goodbye(mut self) -> Option<String> {
        let (mut buffer, mut reason) = (BytesMut::new(), None);
        loop {
            while let Ok(Some(event)) = self.decoder.next(&mut buffer) {
                if let FrameEvent::Control(ControlFrame::Close(text)) = event {
                    reason = Some(text);
                }
            }
            match self.stream.read_buf(&mut buffer).await {
                Ok(1..) => {}
                _ => return reason,
            }
        }
    }
}

/// Starts node 1, with node 2 as a member that it can't dial.
async fn start_passive(settings: PeerSettings) -> TestPeer {
    let node = TestPeer::start(settings).await;
    node.peers.set_members(vec![member(2, nowhere())]);
    node
}

#[tokio::test]
async fn peer_that_reads_nothing_fills_its_lane_and_then_breaks_the_link() {
    let mut brief = settings(1, 1);
    brief.answer_timeout = Duration::from_secs(2);
    brief.lanes[1].bytes = 1 << 20;
    let node = start_passive(brief).await;
    let mut deaf = ManualPeer::connect(node.address, 1, 0).await;
    until("it is connected", || node.connected(TWO)).await;
    let value = Bytes::from(vec![7; 50_000]);
    let send = || node.peers.send(TWO, Message::new(Lane::Data, GroupId(1), value.clone()));
    let (mut full, mut most) = (0, 0);
    let pressing = async {
        while node.log.breaks().is_empty() {
            // The peer keeps sending, so that the silence timeout does not end the link.
            let mut ping = Vec::new();
            deaf.encoder.control(&mut ping, &ControlFrame::Ping(1));
            let _ = deaf.stream.write_all(&ping).await;
            for _ in 0..100 {
                full += u64::from(send() == SendOutcome::Full);
            }
            most = most.max(node.status(TWO).lanes[1].waiting_bytes);
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(TEST_TIMEOUT, pressing).await.is_ok(), "the link never broke");
    assert!(full > 0);
    assert!(most <= 1 << 20, "{most} bytes waited");
    assert_eq!(node.status(TWO).refused_messages, full);
    assert_eq!(node.log.breaks(), [Broken::Unresponsive]);
    assert_eq!(send(), SendOutcome::NoLink);
}

#[tokio::test]
async fn plain_connection_that_announces_its_retirement_ends_in_order() {
    let node = start_passive(settings(1, 1)).await;
    let mut peer = ManualPeer::connect(node.address, 1, 0).await;
    until("it is connected", || node.connected(TWO)).await;
    let mut frame = Vec::new();
    peer.encoder.control(&mut frame, &ControlFrame::Retire(0));
    peer.stream.write_all(&frame).await.expect("it reads");
    until("it has ended", || !node.log.breaks().is_empty()).await;
    assert_eq!(node.log.breaks(), [Broken::Renewed]);
}

#[tokio::test]
async fn half_open_link_is_replaced_when_the_same_node_reconnects() {
    let node = start_passive(settings(1, 1)).await;
    let first = ManualPeer::connect(node.address, 1, 0).await;
    until("the first is in", || node.status(TWO).link == first.link).await;
    // The same incarnation lost the link and names it in its hello.
    let second = ManualPeer::connect(node.address, 1, first.link).await;
    until("the second is in", || node.status(TWO).link == second.link).await;
    assert_eq!(first.goodbye().await.as_deref(), Some("the node made a new connection"));
    // The next incarnation does not know the link.
    let third = ManualPeer::connect(node.address, 2, 0).await;
    until("the third is in", || node.status(TWO).link == third.link).await;
    assert_eq!(node.log.breaks(), [Broken::Replaced, Broken::Replaced]);
    let connected = |incarnation| PeerEvent::Connected(TWO, Incarnation(incarnation));
    let events = node.log.recorded();
    let begun: Vec<_> =
        events.iter().filter(|event| matches!(event, PeerEvent::Connected(..))).collect();
    assert_eq!(begun, [&connected(1), &connected(1), &connected(2)]);
}

#[tokio::test]
async fn frame_replayed_from_an_earlier_connection_is_rejected() {
    let node = start_passive(settings(1, 1)).await;
    let mut first = ManualPeer::connect(node.address, 1, 0).await;
    let recorded = first.frame(b"take my vote");
    first.stream.write_all(&recorded).await.expect("it hears");
    until("it came", || node.log.messages() == 1).await;
    let link = first.link;
    drop(first);
    until("it ended", || !node.connected(TWO)).await;
    let mut second = ManualPeer::connect(node.address, 1, link).await;
    second.stream.write_all(&recorded).await.expect("it hears");
    let text = second.goodbye().await.expect("it says why");
    assert_eq!(text, "an invalid frame was received: its checksum does not match");
    assert_eq!(node.log.messages(), 1);
}

#[tokio::test]
async fn corrupt_frame_breaks_its_link_and_is_never_delivered() {
    let node = start_passive(settings(1, 1)).await;
    let mut link = 0;
    for round in 0..200usize {
        let mut peer = ManualPeer::connect(node.address, 1, link).await;
        link = peer.link;
        let good = peer.frame(b"good");
        let mut bad = peer.frame(&vec![3; round * 11]);
        let at = (round * 37) % bad.len();
        bad[at] ^= 1 << (round % 8);
        // Enough bytes follow for any length in a corrupt head.
        let bytes = [good, bad, vec![0; 40_000]].concat();
        let _ = peer.stream.write_all(&bytes).await;
        until("the link broke", || node.log.breaks().len() > round).await;
        drop(peer);
        until("it is gone", || !node.connected(TWO)).await;
    }
    assert_eq!(node.log.messages(), 200, "each good message came, and no bad one");
    for broken in node.log.breaks() {
        let known = [FrameError::Checksum, FrameError::Length].map(Broken::Frame);
        assert!(known.contains(&broken), "{broken:?}");
    }
}

/// Opens 1,000 connections with garbage of all lengths, and one from a client that speaks HTTP.
#[tokio::test]
async fn garbage_instead_of_a_greeting_is_rejected() {
    let one = TestPeer::start(settings(1, 1)).await;
    let two = TestPeer::start(settings(2, 1)).await;
    introduce(&[&one, &two]).await;
    for round in 0..1_000usize {
        let mut stream = TcpStream::connect(one.address).await.expect("it listens");
        let mut bytes: Vec<u8> = (0..round % 300).map(|at| (at * round) as u8).collect();
        if round % 3 == 0 {
            bytes.splice(..0, *b"CRDZPEER");
        }
        // The connection may be closed before all of it is written.
        let _ = stream.write_all(&bytes).await;
    }
    let mut client = TcpStream::connect(one.address).await.expect("it listens");
    client.write_all(b"GET /status HTTP/1.1\r\nhost: x\r\n\r\n").await.expect("it hears");
    let mut received = Vec::new();
    // Unread bytes may turn the end into a reset.
    let _ = client.read_to_end(&mut received).await;
    let words = String::from_utf8_lossy(&received);
    assert!(words.contains("the peer address is for nodes only"), "{words}");
    assert!(one.connected(TWO) && two.connected(NodeId(1)));
    assert!(one.log.breaks().is_empty() && two.log.breaks().is_empty());
    assert_eq!(one.log.messages(), 0);
}

#[tokio::test]
async fn slow_greetings_are_closed_and_a_peer_still_connects() {
    let node = TestPeer::start(settings(1, 1)).await;
    let mut slow = Vec::new();
    for _ in 0..4 * PEER_GREETINGS_PER_ADDRESS_MAX {
        let mut stream = TcpStream::connect(node.address).await.expect("it listens");
        // Connections above the limit may be closed already.
        let _ = stream.write_all(b"CRDZPE").await;
        slow.push(stream);
    }
    // Only node 2 can dial, from the same address as the slow ones.
    let two = TestPeer::start(settings(2, 1)).await;
    node.peers.set_members(vec![member(2, nowhere())]);
    two.peers.set_members(vec![node.member()]);
    until("it gets in", || node.connected(TWO)).await;
    for mut stream in slow {
        let mut rest = Vec::new();
        // Closed in order or by a reset.
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "a caller that said nothing is told nothing");
    }
}

#[tokio::test]
async fn excess_consumed_credit_breaks_the_link() {
    let node = start_passive(settings(1, 1)).await;
    let mut peer = ManualPeer::connect(node.address, 1, 0).await;
    let mut out = Vec::new();
    peer.encoder.control(&mut out, &ControlFrame::Consumed(u64::MAX));
    peer.stream.write_all(&out).await.expect("it hears");
    until("it is found out", || !node.log.breaks().is_empty()).await;
    assert_eq!(node.log.breaks(), [Broken::Frame(FrameError::Credit)]);
}
