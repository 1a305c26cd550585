//! Rotation: after a change of this node's certificate or of the authorities that it trusts, its
//! connections are replaced one after the other.
//!
//! A connection ends in order: both sides begin no more requests on it, and it is closed once those
//! under way are answered. Heartbeats and log entries flow until then, so no election follows.

use super::greet::random_pause;
use super::link::Link;
use super::peer::Peer;
use super::peer_table::PeerTable;
use runtime::round::{progress, rest};
use runtime::{CancellationToken, world};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::sleep;

/// Longest pause before the first connection is replaced: the nodes of a cluster often get their
/// files at the same moment.
const SPREAD: Duration = Duration::from_secs(1);
/// Longest wait for the connection that replaces another, before the next one is replaced: with
/// two nodes unreachable at a time a group of three would have no majority.
const REPLACE_NS_MAX: u64 = 10_000_000_000;
/// Pause between two looks at a connection.
const LOOK_PAUSE: Duration = Duration::from_millis(20);

/// Replaces connections after each change, until the node stops.
pub(super) async fn run(
    table: Arc<PeerTable>,
    mut generation: watch::Receiver<u64>,
    stop: CancellationToken,
) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = async {
            // An error means that nothing changes any more.
            while rest(generation.changed()).await.is_ok() {
                sleep(random_pause(SPREAD)).await;
                let current = *generation.borrow_and_update();
                replace_older(&table, current).await;
            }
        } => {}
    }
}

/// Replaces the connections that were made with older certificates, one after the other.
async fn replace_older(table: &PeerTable, current: u64) {
    let is_older = |link: &Arc<Link>| link.terms.tls_generation.is_some_and(|it| it < current);
    for peer in table.peers() {
        let Some(link) = peer.link().filter(is_older) else { continue };
        progress();
        tracing::info!(
            target: "peers", peer = peer.member().name, "certificates have changed: the connection \
             is replaced"
        );
        replace(&peer, &link).await;
    }
}

/// Ends a peer's connection in order, and waits for the one that replaces it.
pub(super) async fn replace(peer: &Peer, link: &Link) {
    link.retirement.begin();
    let deadline = world::nanoseconds().saturating_add(REPLACE_NS_MAX);
    let is_replaced = || peer.link().is_some_and(|current| current.terms.id != link.terms.id);
    while !is_replaced() && world::nanoseconds() < deadline {
        sleep(LOOK_PAUSE).await;
    }
}
