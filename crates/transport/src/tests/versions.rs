//! Versions of connections over real sockets: a node that requires a version ends connections of
//! older ones, and begins none.

use super::greetings::identity;
use super::test_peer::{CLUSTER, TestPeer, member, nowhere, settings, until};
use crate::handshake::{Greeting, Hello, LinkKeys, PeerIdentity, Received};
use crate::transcript::Transcript;
use crate::versions::{VERSION_WITH_COUNTS, VERSIONS, Versions};
use crate::{Broken, PeerSettings, greet};
use base::NodeId;
use std::net::SocketAddr;
use tokio::net::TcpStream;

const TWO: NodeId = NodeId(2);

/// Connects to node 1 as node 2 with a program that speaks version 1 alone. Errors: the text of the
/// refusal.
async fn connect_older(to: SocketAddr) -> Result<TcpStream, String> {
    let mut stream = TcpStream::connect(to).await.expect("it listens");
    let me = PeerIdentity { cluster: CLUSTER, ..identity(2, 1, 7, 70) };
    let versions = Versions { lowest: 1, highest: 1 };
    let hello = Hello { versions, identity: me.clone(), target: NodeId(1), previous: 0 };
    let mut transcript = Transcript::new(None);
    let hello = Greeting::Hello(hello);
    greet::send_greeting(&mut stream, &mut transcript, &hello).await.expect("it hears");
    let Ok(Received { greeting, .. }) = greet::read(&mut stream, VERSIONS).await else {
        panic!("an answer comes")
    };
    let found = match greeting {
        Greeting::Welcome { version: 1, identity } => identity,
        Greeting::Refused { text, .. } => return Err(text),
        other => panic!("it is welcome or refused, not answered with {other:?}"),
    };
    let go = Greeting::Go { link: LinkKeys::new(&me, &found, None).link };
    greet::send_greeting(&mut stream, &mut transcript, &go).await.expect("it hears");
    Ok(stream)
}

#[tokio::test]
async fn required_version_ends_older_connections_and_refuses_new_ones() {
    let one = TestPeer::start(settings(1, 1)).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    let older = connect_older(one.address).await.expect("it is admitted");
    until("it is connected", || one.connected(TWO)).await;
    assert_eq!(one.peers.version(TWO), Some(1));
    one.peers.require_version(1);
    // Changes of members use the same notification: the connection would have ended by then.
    one.peers.set_members(vec![member(2, nowhere())]);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    assert!(one.connected(TWO) && one.log.breaks().is_empty(), "it is required already");
    one.peers.require_version(VERSION_WITH_COUNTS);
    until("the connection ended", || one.log.breaks() == [Broken::VersionTooLow]).await;
    assert_eq!(one.peers.version(TWO), None);
    drop(older);
    let refused = connect_older(one.address).await.expect_err("it is refused");
    assert!(refused.contains("no common version"), "{refused}");
    let two = TestPeer::start(settings(2, 9)).await;
    two.peers.set_members(vec![one.member()]);
    until("the upgraded program is in", || one.connected(TWO)).await;
    assert_eq!(one.peers.version(TWO), Some(VERSIONS.highest));
}

#[tokio::test]
async fn node_that_starts_with_a_required_version_refuses_older_programs() {
    let version_min = VERSION_WITH_COUNTS;
    let one = TestPeer::start(PeerSettings { version_min, ..settings(1, 1) }).await;
    one.peers.set_members(vec![member(2, nowhere())]);
    let refused = connect_older(one.address).await.expect_err("it is refused");
    assert!(refused.contains("no common version"), "{refused}");
}
