//! Greetings under the cluster's secret: refusals without it, and the change to a required secret.

use super::greetings::identity;
use super::test_peer::{
    CLUSTER, TestPeer, introduce, member, nowhere, settings, through_a_relay, until,
};
use crate::handshake::{Greeting, Hello, LinkKeys, PeerIdentity, Received};
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

fn settings_with(node: u64, credential: Option<Credential>) -> PeerSettings {
    PeerSettings { credential, ..settings(node, 1) }
}

/// Caller that sends arbitrary greetings.
struct UnknownCaller {
    stream: TcpStream,
    transcript: Transcript,
}

impl UnknownCaller {
    async fn call(to: SocketAddr, credential: Option<Credential>) -> UnknownCaller {
        let stream = TcpStream::connect(to).await.expect("it listens");
        UnknownCaller { stream, transcript: Transcript::new(credential) }
    }

    async fn send(&mut self, greeting: &Greeting) {
        greet::send_greeting(&mut self.stream, &mut self.transcript, greeting)
            .await
            .expect("it is heard");
    }

    async fn receive(&mut self) -> Received {
        greet::read(&mut self.stream, VERSIONS).await.unwrap_or_else(|_| panic!("an answer comes"))
    }
}

/// Returns a forged identity and hello of node 2 in this incarnation, dialling node 1.
fn forged_hello(incarnation: u64) -> (PeerIdentity, Greeting) {
    let me = PeerIdentity { cluster: CLUSTER, ..identity(2, incarnation, 7, 70) };
    let target = ONE;
    let hello = Hello { versions: VERSIONS, identity: me.clone(), target, previous: 0 };
    (me, Greeting::Hello(hello))
}

fn refusal(received: Received) -> (u8, String) {
    match received.greeting {
        Greeting::Refused { code, text } => (code, text),
        other => panic!("it is refused, not answered with {other:?}"),
    }
}

#[tokio::test]
async fn unknown_client_learns_no_id_from_a_refusal() {
    for credential in [None, Some(credential(1, true))] {
        let one = TestPeer::start(settings_with(1, credential)).await;
        one.peers.set_members(vec![member(2, nowhere())]);
        let ids = [one.id.0, CLUSTER.0].map(|id| format!("{id:016x}"));
        let guess = |cluster: u64, target: u64| {
            let (me, _) = forged_hello(1);
            let identity = PeerIdentity { cluster: ClusterId(cluster), ..me };
            let target = NodeId(target);
            Greeting::Hello(Hello { versions: VERSIONS, identity, target, previous: 0 })
        };
        for hello in [guess(0xBAD, 0xBAD), guess(CLUSTER.0, 0xBAD)] {
            let mut caller = UnknownCaller::call(one.address, None).await;
            caller.send(&hello).await;
            let (_, words) = refusal(caller.receive().await);
            assert!(!ids.iter().any(|id| words.contains(id)), "{words}");
        }
    }
}

#[tokio::test]
async fn client_without_the_secret_cannot_impersonate_a_member() {
    let [one, two] = [
        TestPeer::start(settings_with(1, Some(credential(1, true)))).await,
        TestPeer::start(settings_with(2, Some(credential(1, true)))).await,
    ];
    introduce(&[&one, &two]).await;
    for key in [None, Some(credential(2, true)), Some(credential(2, false))] {
        let mut caller = UnknownCaller::call(one.address, key).await;
        caller.send(&forged_hello(1 << 19).1).await;
        let (code, _) = refusal(caller.receive().await);
        assert_eq!(code, Refusal::Unauthenticated.code());
    }
    assert!(one.connected(TWO) && two.connected(ONE));
    assert_eq!((one.log.breaks(), one.status(TWO).links), (vec![], 1));
    assert_eq!(one.status(TWO).connected, Some(Incarnation(1)), "and no number was remembered");
}

#[tokio::test]
async fn replayed_hello_establishes_no_connection() {
    let one = TestPeer::start(settings_with(1, Some(credential(1, true)))).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    let (me, hello) = forged_hello(9);
    let recorded = Transcript::new(Some(credential(1, true))).sign(&hello);
    let mut replay = UnknownCaller::call(one.address, None).await;
    replay.stream.write_all(&recorded).await.expect("it is heard");
    let Greeting::Welcome { identity, .. } = replay.receive().await.greeting else {
        panic!("its MAC holds, so it is welcome so far")
    };
    // Without the secret it can forge only the right link, unsigned or signed with another key.
    let go = Greeting::Go { link: LinkKeys::new(&me, &identity, None).link };
    replay.send(&go).await;
    until("the attempt has failed", || one.status(TWO).last_failure.is_some()).await;
    assert!(one.status(TWO).last_failure.is_some_and(|why| why.contains("cluster's secret")));
    assert_eq!((one.status(TWO).links, one.status(TWO).connected), (0, None));
    // Incarnation 9 was never accepted: the true node, in incarnation 1, still is.
    let two = TestPeer::start(settings_with(2, Some(credential(1, true)))).await;
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
            let mut caller = UnknownCaller { stream, transcript: Transcript::new(key.clone()) };
            let hello = caller.receive().await;
            let _ = caller.transcript.verify(&hello);
            let _ = greet::send_greeting(&mut caller.stream, &mut caller.transcript, &with()).await;
        }
    });
}

#[tokio::test]
async fn outdated_refusal_counts_only_if_proven_when_a_secret_is_set() {
    let refused = || {
        let text = "its data directory is an old copy".into();
        Greeting::Refused { code: 12, text }
    };
    for (own, other, stops) in [
        (Some(credential(1, true)), None, false),
        (Some(credential(1, false)), None, false),
        (Some(credential(1, true)), Some(credential(2, true)), false),
        (Some(credential(1, true)), Some(credential(1, true)), true),
        (None, None, true),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        let one = TestPeer::start(settings_with(1, own)).await;
        one.peers.set_members(vec![member(2, listener.local_addr().expect("bound").to_string())]);
        answers(listener, other, refused);
        until("it was refused", || one.status(TWO).last_failure.is_some()).await;
        assert_eq!(one.status(TWO).old_copy_text.is_some(), stops);
    }
}

#[tokio::test]
async fn outdated_refusal_of_an_unsigned_dialler_is_ignored_under_a_secret() {
    for (own, stops) in [(Some(credential(1, false)), false), (None, true)] {
        let one = TestPeer::start(settings_with(1, own)).await;
        one.peers.set_members(vec![member(2, nowhere())]);
        let mut caller = UnknownCaller::call(one.address, None).await;
        caller.send(&forged_hello(1).1).await;
        let Greeting::Welcome { .. } = caller.receive().await.greeting else {
            panic!("unsigned greetings are accepted yet")
        };
        let text = "its data directory is an old copy".into();
        caller.send(&Greeting::Refused { code: 12, text }).await;
        let was_refused = || {
            let failed = one.status(TWO).last_failure.unwrap_or_default();
            failed.contains("refused by the other node")
        };
        until("it was refused", was_refused).await;
        assert_eq!(one.status(TWO).old_copy_text.is_some(), stops);
    }
}

#[tokio::test]
async fn dialler_rejects_an_unproven_node_at_a_members_address() {
    let welcome = || {
        let identity = PeerIdentity { cluster: CLUSTER, ..identity(2, 1, 7, 70) };
        Greeting::Welcome { version: 1, identity }
    };
    for other in [None, Some(credential(2, true))] {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
        let one = TestPeer::start(settings_with(1, Some(credential(1, true)))).await;
        one.peers.set_members(vec![member(2, listener.local_addr().expect("bound").to_string())]);
        answers(listener, other, welcome);
        let why = || one.status(TWO).last_failure.unwrap_or_default();
        until("it is refused", || why().contains("cluster's secret")).await;
        assert!(!one.connected(TWO));
    }
}

#[tokio::test]
async fn offered_secret_still_admits_members_without_it() {
    for (first, second) in [
        (Some(credential(1, false)), None),
        (None, Some(credential(1, false))),
        (Some(credential(1, false)), Some(credential(1, true))),
    ] {
        let one = TestPeer::start(settings_with(1, first)).await;
        let two = TestPeer::start(settings_with(2, second)).await;
        introduce(&[&one, &two]).await;
    }
}

#[tokio::test]
async fn required_secret_ends_unproven_connections_only() {
    let (one, two, _relay) = through_a_relay(settings_with(1, None), settings_with(2, None)).await;
    one.peers.set_credential(credential(1, false));
    two.peers.set_credential(credential(1, false));
    assert!(one.connected(TWO) && one.log.breaks().is_empty(), "an offer ends nothing");
    two.peers.set_credential(credential(1, true));
    until("the connection ended", || two.log.breaks() == [Broken::Unauthenticated]).await;
    until("a proven one began", || one.status(TWO).links == 2 && two.connected(ONE)).await;
    one.peers.set_credential(credential(1, true));
    two.peers.set_credential(credential(1, true));
    // Changes of members use the same notification: the connection would have ended by then.
    two.peers.set_members(vec![member(1, nowhere())]);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert_eq!((one.status(TWO).links, two.status(ONE).links), (2, 2), "it was proven");
}

#[tokio::test]
async fn incarnation_far_ahead_of_the_known_one_is_refused() {
    let one = TestPeer::start(settings_with(1, None)).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    let mut caller = UnknownCaller::call(one.address, None).await;
    caller.send(&forged_hello(u64::MAX).1).await;
    let (code, words) = refusal(caller.receive().await);
    assert_eq!(code, 14, "{words}");
}
