//! Accept loop: reads the greeting of each incoming connection, and passes the call to the peer's
//! task.

use super::admission::admit;
use super::greet::{self, Unread};
use super::handshake::{Greeting, Received};
use super::peer::{Caller, PeerCall};
use super::peer_table::PeerTable;
use super::refusal::Refusal;
use super::transcript::Transcript;
use base::limits::{PEER_GREETING_MS_MAX, PEER_GREETINGS_MAX, PEER_GREETINGS_PER_ADDRESS_MAX};
use runtime::CancellationToken;
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

/// Number of connections whose handshake is in progress, by address.
#[derive(Default)]
struct Greetings(Mutex<BTreeMap<IpAddr, usize>>);

/// Permit of a handshake in progress; returned when dropped.
struct GreetingPlace {
    all: Arc<Greetings>,
    address: IpAddr,
}

impl Greetings {
    fn enter(self: &Arc<Greetings>, address: IpAddr) -> Option<GreetingPlace> {
        let mut greeting = self.0.lock().expect("no one panics while holding it");
        if greeting.values().sum::<usize>() >= PEER_GREETINGS_MAX {
            return None;
        }
        let here = greeting.entry(address).or_default();
        if *here >= PEER_GREETINGS_PER_ADDRESS_MAX {
            return None;
        }
        *here += 1;
        Some(GreetingPlace { all: self.clone(), address })
    }
}

impl Drop for GreetingPlace {
    fn drop(&mut self) {
        let mut greeting = self.all.0.lock().expect("no one panics while holding it");
        if let Some(here) = greeting.get_mut(&self.address) {
            *here -= 1;
            if *here == 0 {
                greeting.remove(&self.address);
            }
        }
    }
}

/// Accepts connections until the node stops.
pub(super) async fn accept(table: Arc<PeerTable>, listener: TcpListener, stop: CancellationToken) {
    let (greetings, mut tasks) = (Arc::<Greetings>::default(), JoinSet::new());
    let mut pause = ACCEPT_PAUSE.0;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = tasks.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, from)) => {
                    pause = ACCEPT_PAUSE.0;
                    // Without a permit the connection is closed unread: it costs us nothing, and a
                    // peer retries.
                    if let Some(place) = greetings.enter(from.ip()) {
                        tasks.spawn(hear(table.clone(), stream, place));
                    }
                }
                Err(error) => {
                    tracing::warn!(target: "peers", "no connection can be accepted: {error}");
                    sleep(pause).await;
                    pause = (pause * 2).min(ACCEPT_PAUSE.1);
                }
            },
        }
    }
    tasks.shutdown().await;
}

/// Reads the greeting of one caller, within its time limit, and passes the call on or refuses it.
async fn hear(table: Arc<PeerTable>, mut stream: TcpStream, _place: GreetingPlace) {
    let patience = Duration::from_millis(PEER_GREETING_MS_MAX);
    if greet::prepare(&stream).is_err() {
        return;
    }
    let transcript = Transcript::new(table.endpoint.credential());
    let (mut refused, refusal) = match timeout(patience, greet::read(&mut stream)).await {
        Ok(Ok(received)) => match call(&table, Caller { stream, transcript }, received).await {
            Some(refused) => refused,
            None => return,
        },
        Ok(Err(Unread::Refused(refusal))) => (Caller { stream, transcript }, refusal),
        Ok(Err(Unread::Socket(_))) | Err(_) => return,
    };
    tracing::debug!(target: "peers", "a caller is refused: {refusal}");
    let Caller { stream, transcript } = &mut refused;
    let _ = timeout(patience, greet::refuse(stream, transcript, &refusal)).await;
}

/// Passes the call to the peer's task. Returns it with the refusal if it is refused. No field of a
/// hello is believed, and no id of this node revealed, before its MAC is verified.
async fn call(
    table: &PeerTable,
    mut caller: Caller,
    received: Received,
) -> Option<(Caller, Refusal)> {
    let verified = caller.transcript.verify(&received);
    let Greeting::Hello(hello) = received.greeting else {
        return Some((caller, Refusal::Malformed("kind")));
    };
    let peer = table.peer(hello.speaker.node);
    let known = peer.as_ref().map(|peer| peer.known());
    if let Err(refusal) = verified.and_then(|()| admit(&table.endpoint.speaker(), &hello, known)) {
        return Some((caller, refusal));
    }
    let calls = &peer?.calls;
    let (back, refused) = oneshot::channel();
    match calls.try_send(PeerCall { caller, hello, back }) {
        // An error of `refused` means that the call was accepted.
        Ok(()) => refused.await.ok(),
        Err(full) => Some((full.into_inner().caller, Refusal::Busy)),
    }
}
