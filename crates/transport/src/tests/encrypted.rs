//! Encrypted connections: whose certificate is accepted, migration, and rotation under load.

use super::test_peer::{TestPeer, introduce, member, nowhere, settings, until};
use crate::{Broken, Lane, Message, PeerSettings, SendOutcome};
use base::{GroupId, NodeId};
use bytes::Bytes;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tls::authority::Authority;
use tls::{PeerMode, Purpose, Tls, TlsSettings};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

const DAY: Duration = Duration::from_secs(24 * 3_600);
const GROUP: GroupId = GroupId(3);

/// Authority of a cluster, and the folder of its nodes' files.
struct Certificates {
    authority: Authority,
    folder: TempDir,
}

impl Certificates {
    fn new() -> Certificates {
        let authority = Authority::create("shop", SystemTime::now()).expect("a valid name");
        let folder = TempDir::new().expect("a scratch folder");
        let ca = authority.certificate().expect("short");
        fs::write(folder.path().join("ca.crt"), ca).expect("the folder is ours");
        Certificates { authority, folder }
    }

    /// Writes the files of a node, with a certificate of this name.
    fn write(&self, node: u64, name: &str) {
        let now = SystemTime::now();
        let issued = self.authority.issue(Purpose::Node, name, &[], now..now + DAY);
        let issued = issued.expect("valid names");
        let path = |end: &str| self.folder.path().join(format!("{node}.{end}"));
        fs::write(path("crt"), &issued.certificate).expect("the folder is ours");
        fs::write(path("key"), issued.key.as_bytes()).expect("the folder is ours");
        fs::set_permissions(path("key"), Permissions::from_mode(0o600)).expect("it is ours");
    }

    /// Returns a node's settings, with the files that were written for it.
    fn settings(&self, node: u64, peers: PeerMode) -> PeerSettings {
        let path = |name: String| Some(self.folder.path().join(name));
        let tls = TlsSettings {
            peers,
            certificate: path(format!("{node}.crt")),
            key: path(format!("{node}.key")),
            authorities: path("ca.crt".into()),
            ..TlsSettings::default()
        };
        let tls = Tls::open(tls).unwrap_or_else(|error| panic!("{error}"));
        PeerSettings { tls: Some(Arc::new(tls)), ..settings(node, 1) }
    }

    /// Starts a node with a certificate of this name.
    async fn start(&self, node: u64, name: &str, peers: PeerMode) -> TestPeer {
        self.write(node, name);
        TestPeer::start(self.settings(node, peers)).await
    }
}

fn is_encrypted(one: &TestPeer, other: &TestPeer) -> bool {
    one.status(other.id).is_encrypted && other.status(one.id).is_encrypted
}

/// Lets only the first node dial the second; returns the reason why it could not, once there is
/// one.
async fn refusal(one: &TestPeer, other: &TestPeer) -> String {
    one.peers.set_members(vec![other.member()]);
    other.peers.set_members(vec![member(one.id.0, nowhere())]);
    until("a dial has failed", || one.status(other.id).last_failure.is_some()).await;
    assert!(!one.connected(other.id) && !other.connected(one.id));
    one.status(other.id).last_failure.expect("there is one")
}

#[tokio::test]
async fn nodes_with_certificates_of_their_names_exchange_messages_of_every_size() {
    let certificates = Certificates::new();
    let one = certificates.start(1, "n1", PeerMode::Required).await;
    let two = certificates.start(2, "n2", PeerMode::Required).await;
    introduce(&[&one, &two]).await;
    assert!(is_encrypted(&one, &two));
    for bytes in [0, 100, 20_000, 3 << 20] {
        let message = Message::new(Lane::Data, GROUP, Bytes::from(vec![7; bytes]));
        assert_eq!(one.peers.send(two.id, message), SendOutcome::Sent);
    }
    until("all have come", || two.log.messages() == 4).await;
}

/// A member that knows everything but another member's key can't take that one's place.
#[tokio::test]
async fn node_with_the_certificate_of_another_is_refused_in_both_directions() {
    let certificates = Certificates::new();
    let one = certificates.start(1, "n1", PeerMode::Required).await;
    let impostor = certificates.start(2, "n3", PeerMode::Required).await;
    let text = refusal(&impostor, &one).await;
    assert!(text.contains("certificate is that of node `n3`"), "{text}");
    let one = certificates.start(1, "n1", PeerMode::Required).await;
    let impostor = certificates.start(2, "n3", PeerMode::Required).await;
    let text = refusal(&one, &impostor).await;
    assert!(text.contains("TLS handshake failed"), "{text}");
}

#[tokio::test]
async fn plain_and_foreign_nodes_are_refused_where_encryption_is_required() {
    let certificates = Certificates::new();
    let one = certificates.start(1, "n1", PeerMode::Required).await;
    let plain = TestPeer::start(settings(2, 1)).await;
    let text = refusal(&plain, &one).await;
    assert!(text.contains("only encrypted connections"), "{text}");
    let one = certificates.start(1, "n1", PeerMode::Required).await;
    let text = refusal(&one, &plain).await;
    assert!(text.contains("TLS handshake failed"), "{text}");
    let foreign = Certificates::new().start(2, "n2", PeerMode::Required).await;
    let text = refusal(&foreign, &one).await;
    assert!(text.contains("TLS handshake failed"), "{text}");
}

#[tokio::test]
async fn accepting_nodes_connect_with_plain_and_with_requiring_ones() {
    use PeerMode::{Accept, Off, Required};
    let certificates = Certificates::new();
    for (one_mode, other_mode, encrypted) in [
        (Off, Accept, false),
        (Accept, Off, false),
        (Accept, Accept, true),
        (Accept, Required, true),
        (Required, Accept, true),
    ] {
        let one = certificates.start(1, "n1", one_mode).await;
        let two = certificates.start(2, "n2", other_mode).await;
        // One direction at a time: the other would hide a dial that never succeeds.
        one.peers.set_members(vec![two.member()]);
        two.peers.set_members(vec![member(1, nowhere())]);
        let case = format!("{one_mode:?} dials {other_mode:?}");
        until(&case, || one.connected(two.id) && two.connected(one.id)).await;
        assert_eq!(is_encrypted(&one, &two), encrypted, "{case}");
    }
}

/// Starts a relay to a node that ends each connection that begins with a TLS handshake, until it is
/// told to pass them. Returns its address.
async fn relay_without_tls(node: &TestPeer, passes_tls: &'static AtomicBool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback is there");
    let (relay, node) = (listener.local_addr().expect("it is bound"), node.address);
    tokio::spawn(async move {
        loop {
            let (mut caller, _) = listener.accept().await.expect("it listens");
            tokio::spawn(async move {
                let mut first = [0];
                let peeked = caller.peek(&mut first).await;
                if peeked.is_ok() && (first != [0x16] || passes_tls.load(SeqCst)) {
                    let mut callee = TcpStream::connect(node).await.expect("the node listens");
                    // It ends when either end closes it.
                    let _ = tokio::io::copy_bidirectional(&mut caller, &mut callee).await;
                }
            });
        }
    });
    relay.to_string()
}

/// A handshake that fails while a member starts must not leave the connection plain for ever.
#[tokio::test]
async fn plain_connection_is_replaced_once_both_ends_can_encrypt() {
    static PASSES_TLS: AtomicBool = AtomicBool::new(false);
    let certificates = Certificates::new();
    certificates.write(1, "n1");
    let one = certificates.settings(1, PeerMode::Accept);
    let one = PeerSettings { encrypt_pause: Duration::from_millis(50), ..one };
    let one = TestPeer::start(one).await;
    let two = certificates.start(2, "n2", PeerMode::Accept).await;
    let relay = relay_without_tls(&two, &PASSES_TLS).await;
    one.peers.set_members(vec![member(2, relay)]);
    two.peers.set_members(vec![member(1, nowhere())]);
    until("they are connected", || one.connected(two.id) && two.connected(one.id)).await;
    assert!(!one.status(two.id).is_encrypted && !two.status(one.id).is_encrypted);
    let plain = one.status(two.id).link;
    sleep(Duration::from_millis(200)).await;
    assert_eq!(one.status(two.id).link, plain, "attempts in vain cost no connection");
    PASSES_TLS.store(true, SeqCst);
    until("they are encrypted", || {
        one.connected(two.id) && two.connected(one.id) && is_encrypted(&one, &two)
    })
    .await;
    let ends = [one.log.breaks(), two.log.breaks()].concat();
    let in_order = |end: &Broken| end.to_string().contains("certificates have changed, or can be");
    assert!(ends.len() == 2 && ends.iter().all(in_order), "{ends:?}");
}

/// Answers all requests that arrive at a node, until it is stopped.
async fn answer_all(node: &TestPeer, stop: &AtomicBool) {
    while !stop.load(SeqCst) {
        let calls = std::mem::take(&mut *node.log.calls.lock().expect("plain data"));
        for call in calls {
            let payload = call.payload.clone();
            node.peers.answer(&call, payload).expect("it is not too large");
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// Sends one request after the other; a request that was not sent is repeated, as callers may.
async fn ask(one: &TestPeer, to: NodeId, stop: &AtomicBool, answered: &AtomicUsize) {
    while !stop.load(SeqCst) {
        let question = Bytes::from_static(b"question");
        match one.peers.call(to, GROUP, question, Duration::from_secs(20)).await {
            Ok(_) => {
                answered.fetch_add(1, SeqCst);
            }
            Err(crate::CallError::NoLink(_) | crate::CallError::NotSent(_)) => {
                sleep(Duration::from_millis(1)).await;
            }
            Err(error) => panic!("a request is in doubt: {error:?}"),
        }
    }
}

#[tokio::test]
async fn rotation_replaces_the_connection_and_leaves_no_request_in_doubt() {
    let certificates = Certificates::new();
    let nodes = [
        certificates.start(1, "n1", PeerMode::Required).await,
        certificates.start(2, "n2", PeerMode::Required).await,
    ];
    let [one, two] = &nodes;
    introduce(&[one, two]).await;
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let rotating = async {
        for node in [1, 2] {
            let before = (one.status(two.id).link, answered.load(SeqCst));
            until("requests are under way", || answered.load(SeqCst) > before.1 + 50).await;
            certificates.write(node, &format!("n{node}"));
            let tls = if node == 1 { &one.tls } else { &two.tls };
            assert_eq!(tls.as_ref().expect("it has TLS").reload(), Ok(true));
            until("it is a new connection", || {
                let link = one.status(two.id).link;
                link != 0 && link != before.0 && two.status(one.id).link == link
            })
            .await;
        }
        let before = answered.load(SeqCst);
        until("requests go on", || answered.load(SeqCst) > before + 50).await;
        stop.store(true, SeqCst);
    };
    // The last requests are answered, too.
    let asked = AtomicBool::new(false);
    let asking = async {
        tokio::join!(
            ask(one, two.id, &stop, &answered),
            ask(two, one.id, &stop, &answered),
            ask(one, two.id, &stop, &answered),
        );
        asked.store(true, SeqCst);
    };
    tokio::join!(rotating, asking, answer_all(one, &asked), answer_all(two, &asked));
    let text = "certificates have changed";
    let ends = [one.log.breaks(), two.log.breaks()].concat();
    assert!(ends.len() >= 4 && ends.iter().all(|end| end.to_string().contains(text)), "{ends:?}");
}
