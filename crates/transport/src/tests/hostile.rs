//! Strangers and broken peers: garbage, slow handshakes, corrupt frames, deaf and half-open ends.

use super::greetings::speaker;
use super::test_peer::{
    CLUSTER, PATIENCE, PeerEvent, TestPeer, introduce, member, nowhere, settings, until,
};
use crate::frame::{ConnectionWord, Decoder, Encoder, FrameEvent};
use crate::handshake::{Bond, Greeting, Hello, Received};
use crate::transcript::Transcript;
use crate::versions::VERSIONS;
use crate::{Broken, FrameError, Incarnation, Lane, Message, PeerSettings, Sending, greet};
use base::limits::PEER_GREETINGS_PER_ADDRESS_MAX;
use base::{GroupId, NodeId};
use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

const TWO: NodeId = NodeId(2);

/// Node 2, driven by hand.
struct ByHand {
    stream: TcpStream,
    encoder: Encoder,
    decoder: Decoder,
    link: u64,
}

impl ByHand {
    async fn connect(to: SocketAddr, incarnation: u64, previous: u64) -> ByHand {
        let mut stream = TcpStream::connect(to).await.expect("it listens");
        let mut me = speaker(2, incarnation, incarnation, previous + incarnation);
        me.cluster = CLUSTER;
        let hello = Hello { versions: VERSIONS, speaker: me.clone(), wanted: NodeId(1), previous };
        let mut transcript = Transcript::new(None);
        let hello = Greeting::Hello(hello);
        greet::say(&mut stream, &mut transcript, &hello).await.expect("it hears");
        let Ok(Received { greeting: Greeting::Welcome { speaker, .. }, .. }) =
            greet::read(&mut stream).await
        else {
            panic!("it is welcome")
        };
        let bond = Bond::new(&me, &speaker, None);
        let go = Greeting::Go { link: bond.link };
        greet::say(&mut stream, &mut transcript, &go).await.expect("it hears");
        let (encoder, decoder) = (Encoder::new(bond.dialler), Decoder::new(bond.dialled));
        ByHand { stream, encoder, decoder, link: bond.link }
    }

    fn frame(&mut self, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.encoder.copied(&mut out, Lane::Data, GroupId(1), body.len(), [body, &[]]);
        out
    }

    /// Reads until the end; returns the text of the goodbye, if one came.
    async fn goodbye(mut self) -> Option<String> {
        let (mut buffer, mut said) = (BytesMut::new(), None);
        loop {
            while let Ok(Some(heard)) = self.decoder.next(&mut buffer) {
                if let FrameEvent::Word(ConnectionWord::Close(words)) = heard {
                    said = Some(words);
                }
            }
            match self.stream.read_buf(&mut buffer).await {
                Ok(1..) => {}
                _ => return said,
            }
        }
    }
}

/// Starts node 1, which knows node 2 and can't dial it.
async fn alone(settings: PeerSettings) -> TestPeer {
    let home = TestPeer::start(settings).await;
    home.peers.set_members(vec![member(2, nowhere())]);
    home
}

#[tokio::test]
async fn a_peer_that_reads_nothing_is_full_then_broken_and_memory_stays_bounded() {
    let mut brief = settings(1, 1);
    brief.unanswered = Duration::from_secs(2);
    brief.lanes[1].bytes = 1 << 20;
    let home = alone(brief).await;
    let mut deaf = ByHand::connect(home.address, 1, 0).await;
    until("it is connected", || home.connected(TWO)).await;
    let value = Bytes::from(vec![7; 50_000]);
    let send = || home.peers.send(TWO, Message::new(Lane::Data, GroupId(1), value.clone()));
    let (mut full, mut most) = (0, 0);
    let pressing = async {
        while home.post.breaks().is_empty() {
            // It goes on sending, so the silence timeout is not what ends it.
            let mut ping = Vec::new();
            deaf.encoder.word(&mut ping, &ConnectionWord::Ping(1));
            let _ = deaf.stream.write_all(&ping).await;
            for _ in 0..100 {
                full += u64::from(send() == Sending::Full);
            }
            most = most.max(home.status(TWO).lanes[1].waiting_bytes);
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(PATIENCE, pressing).await.is_ok(), "the link never broke");
    assert!(full > 0);
    assert!(most <= 1 << 20, "{most} bytes waited");
    assert_eq!(home.status(TWO).full, full);
    assert_eq!(home.post.breaks(), [Broken::Unanswering]);
    assert_eq!(send(), Sending::NoLink);
}

#[tokio::test]
async fn a_half_open_link_gives_way_to_the_same_node_coming_back() {
    let home = alone(settings(1, 1)).await;
    let first = ByHand::connect(home.address, 1, 0).await;
    until("the first is in", || home.status(TWO).link == first.link).await;
    // The same incarnation lost the link and says so.
    let second = ByHand::connect(home.address, 1, first.link).await;
    until("the second is in", || home.status(TWO).link == second.link).await;
    assert_eq!(first.goodbye().await.as_deref(), Some("the node came back by a new connection"));
    // The next incarnation never knew of it.
    let third = ByHand::connect(home.address, 2, 0).await;
    until("the third is in", || home.status(TWO).link == third.link).await;
    assert_eq!(home.post.breaks(), [Broken::Replaced, Broken::Replaced]);
    let connected = |life| PeerEvent::Connected(TWO, Incarnation(life));
    let told = home.post.told();
    let begun: Vec<_> =
        told.iter().filter(|told| matches!(told, PeerEvent::Connected(..))).collect();
    assert_eq!(begun, [&connected(1), &connected(1), &connected(2)]);
}

#[tokio::test]
async fn frames_of_an_earlier_connection_are_refused() {
    let home = alone(settings(1, 1)).await;
    let mut first = ByHand::connect(home.address, 1, 0).await;
    let recorded = first.frame(b"take my vote");
    first.stream.write_all(&recorded).await.expect("it hears");
    until("it came", || home.post.messages() == 1).await;
    let link = first.link;
    drop(first);
    until("it ended", || !home.connected(TWO)).await;
    let mut second = ByHand::connect(home.address, 1, link).await;
    second.stream.write_all(&recorded).await.expect("it hears");
    let words = second.goodbye().await.expect("it says why");
    assert_eq!(words, "a bad frame came: its checksum does not hold");
    assert_eq!(home.post.messages(), 1);
}

#[tokio::test]
async fn spoilt_frames_break_their_link_and_nothing_else() {
    let home = alone(settings(1, 1)).await;
    let mut link = 0;
    for round in 0..200usize {
        let mut peer = ByHand::connect(home.address, 1, link).await;
        link = peer.link;
        let good = peer.frame(b"good");
        let mut bad = peer.frame(&vec![3; round * 11]);
        let at = (round * 37) % bad.len();
        bad[at] ^= 1 << (round % 8);
        // Enough bytes follow for any length that a corrupt head may claim.
        let bytes = [good, bad, vec![0; 40_000]].concat();
        let _ = peer.stream.write_all(&bytes).await;
        until("the link broke", || home.post.breaks().len() > round).await;
        drop(peer);
        until("it is gone", || !home.connected(TWO)).await;
    }
    assert_eq!(home.post.messages(), 200, "each good message came, and no bad one");
    for broken in home.post.breaks() {
        let known = [FrameError::Checksum, FrameError::Length].map(Broken::Frame);
        assert!(known.contains(&broken), "{broken:?}");
    }
}

/// Opens 1,000 connections with garbage of all lengths, and one from a client that speaks HTTP.
#[tokio::test]
async fn garbage_for_a_greeting_is_refused() {
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
    let mut heard = Vec::new();
    // Unread bytes may turn the end into a reset.
    let _ = client.read_to_end(&mut heard).await;
    let words = String::from_utf8_lossy(&heard);
    assert!(words.contains("the peer address is for nodes only"), "{words}");
    assert!(one.connected(TWO) && two.connected(NodeId(1)));
    assert!(one.post.breaks().is_empty() && two.post.breaks().is_empty());
    assert_eq!(one.post.messages(), 0);
}

#[tokio::test]
async fn slow_greetings_are_closed_and_a_peer_gets_in() {
    let home = TestPeer::start(settings(1, 1)).await;
    let mut slow = Vec::new();
    for _ in 0..4 * PEER_GREETINGS_PER_ADDRESS_MAX {
        let mut stream = TcpStream::connect(home.address).await.expect("it listens");
        // Those beyond the bound may be closed already.
        let _ = stream.write_all(b"CRDZPE").await;
        slow.push(stream);
    }
    // Only node 2 can dial, from the same address as the slow ones.
    let two = TestPeer::start(settings(2, 1)).await;
    home.peers.set_members(vec![member(2, nowhere())]);
    two.peers.set_members(vec![home.member()]);
    until("it gets in", || home.connected(TWO)).await;
    for mut stream in slow {
        let mut rest = Vec::new();
        // Closed in order, or by a reset; either way it ends.
        let _ = stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "a caller that said nothing is told nothing");
    }
}

#[tokio::test]
async fn more_used_up_than_was_sent_is_a_lie() {
    let home = alone(settings(1, 1)).await;
    let mut peer = ByHand::connect(home.address, 1, 0).await;
    let mut out = Vec::new();
    peer.encoder.word(&mut out, &ConnectionWord::Consumed(u64::MAX));
    peer.stream.write_all(&out).await.expect("it hears");
    until("it is found out", || !home.post.breaks().is_empty()).await;
    assert_eq!(home.post.breaks(), [Broken::Frame(FrameError::Credit)]);
}
