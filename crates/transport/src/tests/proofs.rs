//! Greetings under the cluster's secret: what a stranger learns and reaches without it, and how a
//! cluster comes to require it.

use super::greetings::speaker;
use super::test_peer::{
    CLUSTER, TestPeer, introduce, member, nowhere, settings, through_a_relay, until,
};
use crate::handshake::{Bond, Greeting, Hello, Received, Speaker};
use crate::refusal::Refusal;
use crate::transcript::Transcript;
use crate::versions::VERSIONS;
use crate::{Broken, Credential, Incarnation, PeerSettings, greet};
use base::{ClusterId, ClusterSecret, NodeId};
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

fn credential(byte: u8, is_required: bool) -> Credential {
    Credential { secret: ClusterSecret::new([byte; ClusterSecret::BYTES]), is_required }
}

fn holding(node: u64, credential: Option<Credential>) -> PeerSettings {
    PeerSettings { credential, ..settings(node, 1) }
}

/// Caller that sends arbitrary greetings.
struct Stranger {
    stream: TcpStream,
    transcript: Transcript,
}

impl Stranger {
    async fn call(to: SocketAddr, credential: Option<Credential>) -> Stranger {
        let stream = TcpStream::connect(to).await.expect("it listens");
        Stranger { stream, transcript: Transcript::new(credential) }
    }

    async fn say(&mut self, greeting: &Greeting) {
        greet::say(&mut self.stream, &mut self.transcript, greeting).await.expect("it is heard");
    }

    async fn hear(&mut self) -> Received {
        greet::read(&mut self.stream).await.unwrap_or_else(|_| panic!("an answer comes"))
    }
}

/// Introduction and hello of node 2 in this incarnation, dialling node 1.
fn posing(incarnation: u64) -> (Speaker, Greeting) {
    let me = Speaker { cluster: CLUSTER, ..speaker(2, incarnation, 7, 70) };
    let wanted = ONE;
    let hello = Hello { versions: VERSIONS, speaker: me.clone(), wanted, previous: 0 };
    (me, Greeting::Hello(hello))
}

fn refusal(received: Received) -> (u8, String) {
    match received.greeting {
        Greeting::Refused { code, words } => (code, words),
        other => panic!("it is refused, not answered with {other:?}"),
    }
}

#[tokio::test]
async fn a_stranger_learns_no_id_from_a_refusal() {
    for credential in [None, Some(credential(1, true))] {
        let one = TestPeer::start(holding(1, credential)).await;
        one.peers.set_members(vec![member(2, nowhere())]);
        let ids = [one.id.0, CLUSTER.0].map(|id| format!("{id:016x}"));
        let guess = |cluster: u64, wanted: u64| {
            let (me, _) = posing(1);
            let speaker = Speaker { cluster: ClusterId(cluster), ..me };
            let wanted = NodeId(wanted);
            Greeting::Hello(Hello { versions: VERSIONS, speaker, wanted, previous: 0 })
        };
        for hello in [guess(0xBAD, 0xBAD), guess(CLUSTER.0, 0xBAD)] {
            let mut stranger = Stranger::call(one.address, None).await;
            stranger.say(&hello).await;
            let (_, words) = refusal(stranger.hear().await);
            assert!(!ids.iter().any(|id| words.contains(id)), "{words}");
        }
    }
}

#[tokio::test]
async fn who_knows_all_ids_but_not_the_secret_takes_no_member_s_place() {
    let [one, two] = [
        TestPeer::start(holding(1, Some(credential(1, true)))).await,
        TestPeer::start(holding(2, Some(credential(1, true)))).await,
    ];
    introduce(&[&one, &two]).await;
    for key in [None, Some(credential(2, true)), Some(credential(2, false))] {
        let mut stranger = Stranger::call(one.address, key).await;
        stranger.say(&posing(1 << 19).1).await;
        let (code, _) = refusal(stranger.hear().await);
        assert_eq!(code, Refusal::Unproven.code());
    }
    assert!(one.connected(TWO) && two.connected(ONE));
    assert_eq!((one.post.breaks(), one.status(TWO).links), (vec![], 1));
    assert_eq!(one.status(TWO).connected, Some(Incarnation(1)), "and no number was remembered");
}

#[tokio::test]
async fn a_recorded_hello_begins_no_connection() {
    let one = TestPeer::start(holding(1, Some(credential(1, true)))).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    let (me, hello) = posing(9);
    let recorded = Transcript::new(Some(credential(1, true))).sign(&hello);
    let mut replay = Stranger::call(one.address, None).await;
    replay.stream.write_all(&recorded).await.expect("it is heard");
    let Greeting::Welcome { speaker, .. } = replay.hear().await.greeting else {
        panic!("its MAC holds, so it is welcome so far")
    };
    // What it can forge without the secret: the right link, unsigned or signed with another key.
    let go = Greeting::Go { link: Bond::new(&me, &speaker, None).link };
    replay.say(&go).await;
    until("the attempt has failed", || one.status(TWO).failed.is_some()).await;
    assert!(one.status(TWO).failed.is_some_and(|why| why.contains("cluster's secret")));
    assert_eq!((one.status(TWO).links, one.status(TWO).connected), (0, None));
    // Incarnation 9 was never accepted: the true node, in incarnation 1, still is.
    let two = TestPeer::start(holding(2, Some(credential(1, true)))).await;
    two.peers.set_members(vec![one.member()]);
    until("the true node is in", || one.connected(TWO)).await;
}

/// Answers every caller at this address with one greeting, signed by this key.
fn answers(
    listener: TcpListener,
    key: Option<Credential>,
    with: impl Fn() -> Greeting + Send + 'static,
) {
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut caller = Stranger { stream, transcript: Transcript::new(key.clone()) };
            let hello = caller.hear().await;
            let _ = caller.transcript.verify(&hello);
            let _ = greet::say(&mut caller.stream, &mut caller.transcript, &with()).await;
        }
    });
}

#[tokio::test]
async fn words_that_stop_a_node_count_only_from_a_holder_of_the_secret() {
    let refused = || {
        let words = "its data directory is an old copy".into();
        Greeting::Refused { code: 12, words }
    };
    for (own, other, stops) in [
        (Some(credential(1, true)), None, false),
        (Some(credential(1, false)), None, false),
        (Some(credential(1, true)), Some(credential(2, true)), false),
        (Some(credential(1, true)), Some(credential(1, true)), true),
        (None, None, true),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        let one = TestPeer::start(holding(1, own)).await;
        one.peers.set_members(vec![member(2, listener.local_addr().expect("bound").to_string())]);
        answers(listener, other, refused);
        until("it was refused", || one.status(TWO).failed.is_some()).await;
        assert_eq!(one.status(TWO).outdates.is_some(), stops);
    }
}

#[tokio::test]
async fn a_caller_that_was_let_in_unsigned_stops_no_node_by_a_refusal() {
    for (own, stops) in [(Some(credential(1, false)), false), (None, true)] {
        let one = TestPeer::start(holding(1, own)).await;
        one.peers.set_members(vec![member(2, nowhere())]);
        let mut stranger = Stranger::call(one.address, None).await;
        stranger.say(&posing(1).1).await;
        let Greeting::Welcome { .. } = stranger.hear().await.greeting else {
            panic!("unsigned greetings are accepted yet")
        };
        let words = "its data directory is an old copy".into();
        stranger.say(&Greeting::Refused { code: 12, words }).await;
        let was_refused = || {
            let failed = one.status(TWO).failed.unwrap_or_default();
            failed.contains("refused by the other side")
        };
        until("it was refused", was_refused).await;
        assert_eq!(one.status(TWO).outdates.is_some(), stops);
    }
}

#[tokio::test]
async fn a_dialler_takes_no_stranger_at_a_member_s_address_for_the_member() {
    let welcome = || {
        let speaker = Speaker { cluster: CLUSTER, ..speaker(2, 1, 7, 70) };
        Greeting::Welcome { version: 1, speaker }
    };
    for other in [None, Some(credential(2, true))] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        let one = TestPeer::start(holding(1, Some(credential(1, true)))).await;
        one.peers.set_members(vec![member(2, listener.local_addr().expect("bound").to_string())]);
        answers(listener, other, welcome);
        let why = || one.status(TWO).failed.unwrap_or_default();
        until("it is refused", || why().contains("cluster's secret")).await;
        assert!(!one.connected(TWO));
    }
}

#[tokio::test]
async fn while_a_secret_is_offered_members_without_it_are_let_in() {
    for (first, second) in [
        (Some(credential(1, false)), None),
        (None, Some(credential(1, false))),
        (Some(credential(1, false)), Some(credential(1, true))),
    ] {
        let one = TestPeer::start(holding(1, first)).await;
        let two = TestPeer::start(holding(2, second)).await;
        introduce(&[&one, &two]).await;
    }
}

#[tokio::test]
async fn a_secret_that_is_required_ends_connections_that_began_without_it() {
    let (one, two, _relay) = through_a_relay(holding(1, None), holding(2, None)).await;
    one.peers.set_credential(credential(1, false));
    two.peers.set_credential(credential(1, false));
    assert!(one.connected(TWO) && one.post.breaks().is_empty(), "an offer ends nothing");
    two.peers.set_credential(credential(1, true));
    until("the connection ended", || two.post.breaks() == [Broken::Unproven]).await;
    until("a proven one began", || one.status(TWO).links == 2 && two.connected(ONE)).await;
    one.peers.set_credential(credential(1, true));
    two.peers.set_credential(credential(1, true));
    // Changes of the members come by the same way: by then it would have ended.
    two.peers.set_members(vec![member(1, nowhere())]);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!((one.status(TWO).links, two.status(ONE).links), (2, 2), "it was proven");
}

#[tokio::test]
async fn a_life_far_ahead_of_the_known_one_is_refused() {
    let one = TestPeer::start(holding(1, None)).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    let mut stranger = Stranger::call(one.address, None).await;
    stranger.say(&posing(u64::MAX).1).await;
    let (code, words) = refusal(stranger.hear().await);
    assert_eq!(code, 14, "{words}");
}
