//! Accept loop: reads the greeting of each incoming connection, and passes the call to the peer's
//! task.

use super::admission::admit;
use super::greet::{self, GreetingError};
use super::handshake::{Greeting, Received};
use super::peer_call::{Caller, PeerCall};
use super::peer_table::PeerTable;
use super::refusal::Refusal;
use super::secure;
use super::transcript::Transcript;
use base::address_or_network;
use base::limits::{
    PEER_GREETING_MS_MAX, PEER_GREETINGS_MAX, PEER_GREETINGS_OF_STRANGERS_MAX,
    PEER_GREETINGS_PER_ADDRESS_MAX,
};
use runtime::CancellationToken;
use runtime::round::rest;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Pause after a failed accept (no descriptors left, say): the first, and the bound up to which it
/// doubles.
const ACCEPT_PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(500));

/// Limit of concurrent handshakes.
#[derive(Default)]
struct HandshakeLimit(Mutex<HandshakeCounts>);

/// Counts of handshakes in progress.
#[derive(Default)]
struct HandshakeCounts {
    all: usize,
    /// Those from addresses of no member.
    strangers: usize,
    /// By address, or by network for IPv6.
    addresses: BTreeMap<IpAddr, usize>,
}

/// Permit of a handshake in progress; returned when dropped.
struct HandshakePermit {
    limit: Arc<HandshakeLimit>,
    address: IpAddr,
    is_stranger: bool,
}

impl HandshakeLimit {
    fn acquire(
        self: &Arc<HandshakeLimit>,
        address: IpAddr,
        is_stranger: bool,
    ) -> Option<HandshakePermit> {
        let address = address_or_network(address);
        let mut counts = self.0.lock().expect("no one panics while holding it");
        let from_address = counts.addresses.get(&address).copied().unwrap_or(0);
        if counts.all >= PEER_GREETINGS_MAX
            || from_address >= PEER_GREETINGS_PER_ADDRESS_MAX
            || is_stranger && counts.strangers >= PEER_GREETINGS_OF_STRANGERS_MAX
        {
            return None;
        }
        counts.all += 1;
        counts.strangers += usize::from(is_stranger);
        counts.addresses.insert(address, from_address + 1);
        Some(HandshakePermit { limit: self.clone(), address, is_stranger })
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        let mut counts = self.limit.0.lock().expect("no one panics while holding it");
        counts.all -= 1;
        counts.strangers -= usize::from(self.is_stranger);
        if let Some(from_address) = counts.addresses.get_mut(&self.address) {
            *from_address -= 1;
            if *from_address == 0 {
                counts.addresses.remove(&self.address);
            }
        }
    }
}

/// Accepts connections until the node stops.
pub(super) async fn accept(table: Arc<PeerTable>, listener: TcpListener, stop: CancellationToken) {
    let (limit, mut tasks) = (Arc::<HandshakeLimit>::default(), JoinSet::new());
    let mut pause = ACCEPT_PAUSE.0;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = tasks.join_next() => {}
            accepted = rest(listener.accept()) => match accepted {
                Ok((stream, from)) => {
                    pause = ACCEPT_PAUSE.0;
                    // Without a permit the connection is closed unread: cheap for this node, and a
                    // peer retries.
                    if let Some(permit) = permit(&table, &limit, from.ip()) {
                        tasks.spawn(read_call(table.clone(), stream, permit));
                    }
                }
                Err(error) => {
                    tracing::warn!(target: "peers", "can't accept a peer connection: {error}");
                    sleep(pause).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE.1);
                }
            },
        }
    }
    tasks.shutdown().await;
}

/// Returns a permit, if the caller's address is within `peer_networks` and below the limits.
fn permit(table: &PeerTable, limit: &Arc<HandshakeLimit>, from: IpAddr) -> Option<HandshakePermit> {
    let from = from.to_canonical();
    if !table.endpoint.settings.networks.contains(from) {
        tracing::debug!(target: "peers", %from, "a call from outside `peer_networks` is closed");
        return None;
    }
    limit.acquire(from, !table.is_member_address(from))
}

/// Reads the greeting of one caller, within its time limit, and passes the call on or refuses it.
async fn read_call(table: Arc<PeerTable>, socket: TcpStream, _permit: HandshakePermit) {
    let time_limit = Duration::from_millis(PEER_GREETING_MS_MAX);
    if greet::set_socket_options(&socket).is_err() {
        return;
    }
    let securing = timeout(time_limit, secure::accept(&table.endpoint.settings, socket));
    let mut stream = match securing.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => {
            tracing::debug!(target: "peers", "a TLS handshake of a caller failed: {error}");
            return;
        }
        Err(_) => return,
    };
    let transcript = Transcript::new(table.endpoint.credential());
    let versions = table.endpoint.versions();
    let (mut refused, refusal) = match timeout(time_limit, greet::read(&mut stream, versions)).await
    {
        Ok(Ok(received)) => {
            match pass_to_peer(&table, Caller { stream, transcript }, received).await {
                Some(refused) => refused,
                None => return,
            }
        }
        Ok(Err(GreetingError::Refused(refusal))) => (Caller { stream, transcript }, refusal),
        Ok(Err(GreetingError::Socket(_))) | Err(_) => return,
    };
    tracing::debug!(target: "peers", "a peer connection is refused: {refusal}");
    let Caller { stream, transcript } = &mut refused;
    let _ = timeout(time_limit, greet::refuse(stream, transcript, &refusal)).await;
}

/// Passes the call to the peer's task. Returns it with the refusal if it is refused. Before its MAC
/// is verified, no field of a hello is trusted and no id of this node is revealed.
async fn pass_to_peer(
    table: &PeerTable,
    mut caller: Caller,
    received: Received,
) -> Option<(Caller, Refusal)> {
    if let Err(refusal) = secure::check_encryption(&table.endpoint.settings, &caller.stream) {
        return Some((caller, refusal));
    }
    let verified = caller.transcript.verify(&received);
    let Greeting::Hello(hello) = received.greeting else {
        return Some((caller, Refusal::Malformed("kind")));
    };
    let peer = table.peer(hello.identity.node);
    let known = peer.as_ref().map(|peer| peer.known());
    let admitted = verified.and_then(|()| admit(&table.endpoint.identity(), &hello, known));
    let name = peer.as_ref().map_or_else(String::new, |peer| peer.member().name);
    // Behind the admission, which tells a caller that is no member so.
    let certified = admitted.and_then(|()| secure::check_member(&caller.stream, &name));
    if let Err(refusal) = certified {
        return Some((caller, refusal));
    }
    let calls = &peer?.calls;
    let (on_refusal, refused) = oneshot::channel();
    match calls.try_send(PeerCall { caller, hello, on_refusal }) {
        // An error of `refused` means that the call was accepted.
        Ok(()) => refused.await.ok(),
        Err(full) => Some((full.into_inner().caller, Refusal::Busy)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greetings_of_strangers_leave_places_to_members() {
        let limit = Arc::<HandshakeLimit>::default();
        let acquire = |last: usize, is_stranger| {
            limit.acquire(IpAddr::from([192, 0, 2, last as u8]), is_stranger)
        };
        // More addresses than would fill all places.
        let attempts = 0..2 * PEER_GREETINGS_MAX;
        let strangers: Vec<_> = attempts.filter_map(|at| acquire(at % 100, true)).collect();
        assert_eq!(strangers.len(), PEER_GREETINGS_OF_STRANGERS_MAX);
        let members: Vec<_> =
            (0..2 * PEER_GREETINGS_MAX).filter_map(|at| acquire(100 + at % 100, false)).collect();
        assert_eq!(strangers.len() + members.len(), PEER_GREETINGS_MAX);
        drop(strangers);
        let from_one: Vec<_> = (0..PEER_GREETINGS_MAX).filter_map(|_| acquire(1, true)).collect();
        assert_eq!(from_one.len(), PEER_GREETINGS_PER_ADDRESS_MAX);
        drop((members, from_one));
        assert!(limit.0.lock().expect("plain data").addresses.is_empty());
    }
}
