//! Migration to encryption: a plain connection is replaced once the member at its other end
//! completes a TLS handshake.
//!
//! A node that accepts both kinds dials a member without TLS after handshakes that failed. They may
//! have failed because the member was starting, or too slow; and since both ends keep their
//! connection, it would stay plain until one of them restarts.

use super::greet::{self, random_pause};
use super::peer::Peer;
use super::peer_table::PeerTable;
use super::rotation;
use runtime::CancellationToken;
use runtime::round::{progress, rest};
use std::sync::Arc;
use std::sync::atomic::AtomicU8;
use tokio::time::sleep;

/// Tries to encrypt the plain connections again and again, until the node stops.
pub(super) async fn run(table: Arc<PeerTable>, stop: CancellationToken) {
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = async {
            loop {
                rest(sleep(random_pause(table.endpoint.settings.encrypt_pause))).await;
                for peer in table.peers() {
                    encrypt(&table, &peer).await;
                }
            }
        } => {}
    }
}

/// Replaces the connection with a peer, if it is plain and the peer completes a TLS handshake.
async fn encrypt(table: &PeerTable, peer: &Peer) {
    let Some(link) = peer.link().filter(|link| !link.is_encrypted()) else { return };
    progress();
    // No failure before it: this attempt is made with TLS.
    let attempt = greet::connect(&table.endpoint, &peer.member(), &AtomicU8::new(0)).await;
    if attempt.is_err() {
        return;
    }
    tracing::info!(
        target: "peers", peer = peer.member().name, "both ends can encrypt: the connection is \
         replaced"
    );
    rotation::replace(peer, &link).await;
}
