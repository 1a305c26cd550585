//! Handshake over a socket, and the options of sockets between nodes.

use super::admission::{KnownIncarnations, accept};
use super::endpoint::Endpoint;
use super::handshake::{ENVELOPE_BYTES, Greeting, Hello, LinkKeys, PeerIdentity, Received};
use super::link::Terms;
use super::network::{ConnectFailure, Member};
use super::refusal::Refusal;
use super::secure;
use super::transcript::Transcript;
use super::versions::Versions;
use runtime::world;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use tls::Stream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Maximum number of unsent bytes that the system may buffer: urgent messages can't overtake them.
const UNSENT_BYTES: u32 = 64 * 1024;

/// Connection after a completed handshake.
pub(super) struct NewLink {
    pub(super) stream: Stream,
    pub(super) terms: Terms,
    pub(super) identity: PeerIdentity,
}

/// Sets the socket options: small writes leave at once, and the system buffers little.
pub(super) fn set_socket_options(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// Error while a greeting is read.
pub(super) enum GreetingError {
    Socket(io::Error),
    Refused(Refusal),
}

impl From<io::Error> for GreetingError {
    fn from(error: io::Error) -> GreetingError {
        GreetingError::Socket(error)
    }
}

/// Reads exactly one greeting; a hello must have one of these versions.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    versions: Versions,
) -> Result<Received, GreetingError> {
    let mut envelope = [0; ENVELOPE_BYTES];
    stream.read_exact(&mut envelope).await?;
    let length = Greeting::body_bytes(&envelope).map_err(GreetingError::Refused)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Greeting::decode(&envelope, &body, versions).map_err(GreetingError::Refused)
}

/// Sends a greeting, signed if this node holds the cluster's secret.
pub(super) async fn send_greeting(
    stream: &mut (impl AsyncWrite + Unpin),
    transcript: &mut Transcript,
    greeting: &Greeting,
) -> io::Result<()> {
    stream.write_all(&transcript.sign(greeting)).await?;
    stream.flush().await
}

/// Sends a refusal; best effort, the socket is closed in any case.
pub(super) async fn refuse(
    stream: &mut (impl AsyncWrite + Unpin),
    transcript: &mut Transcript,
    refusal: &Refusal,
) {
    let text = match transcript.proven() {
        Some(_) => refusal.to_string(),
        None => refusal.redacted_text(),
    };
    let refused = Greeting::Refused { code: refusal.code(), text };
    if send_greeting(stream, transcript, &refused).await.is_ok() {
        // An orderly shutdown, so that unread bytes do not make the system discard the text.
        let _ = stream.shutdown().await;
    }
}

/// Dials a member. `known` returns its known incarnations at the time of the answer; `hello_sent`
/// becomes true once the other side may have received the hello.
pub(super) async fn dial(
    endpoint: &Endpoint,
    member: Member,
    known: impl Fn() -> KnownIncarnations,
    previous: u64,
    (hello_sent, handshake_failures): (&AtomicBool, &AtomicU8),
) -> Result<NewLink, ConnectFailure> {
    let time_limit = endpoint.settings.dial_timeout;
    let failed = |error: io::Error| ConnectFailure::at(&member, &error);
    let mut stream = connect(endpoint, &member, handshake_failures).await?;
    let (versions, identity) = (endpoint.versions(), endpoint.identity());
    let hello = Hello { versions, identity, target: member.node, previous };
    // Before it is written: after an error an unknown part of it may have arrived.
    hello_sent.store(true, Relaxed);
    let mut transcript = Transcript::new(endpoint.credential());
    let greeting = async {
        send_greeting(&mut stream, &mut transcript, &Greeting::Hello(hello.clone())).await?;
        read(&mut stream, versions).await
    };
    let answer = timeout(time_limit, greeting)
        .await
        .map_err(|_| ConnectFailure::at(&member, &"no greeting came"))?;
    let refusal = match answer {
        Ok(received) => {
            match check_answer(&mut transcript, received, &hello, &known()).and_then(|found| {
                let checked = secure::check_member(&stream, &member.name);
                checked.map(|()| found).map_err(ConnectFailure::RefusedLocally)
            }) {
                Ok(found) => {
                    return send_go(stream, transcript, &hello.identity, found)
                        .await
                        .map_err(failed);
                }
                Err(ConnectFailure::RefusedLocally(refusal)) => refusal,
                Err(refused) => return Err(refused),
            }
        }
        Err(GreetingError::Refused(refusal)) => refusal,
        Err(GreetingError::Socket(error)) => return Err(failed(error)),
    };
    let _ = timeout(time_limit, refuse(&mut stream, &mut transcript, &refusal)).await;
    Err(ConnectFailure::RefusedLocally(refusal))
}

/// Connects to a member, up to and with the TLS handshake; `handshake_failures` counts its
/// failures in succession.
pub(super) async fn connect(
    endpoint: &Endpoint,
    member: &Member,
    handshake_failures: &AtomicU8,
) -> Result<Stream, ConnectFailure> {
    let time_limit = endpoint.settings.dial_timeout;
    let failed = |error: io::Error| ConnectFailure::at(member, &error);
    let connecting = timeout(time_limit, connect_socket(endpoint, &member.address)).await;
    let socket =
        connecting.map_err(|_| ConnectFailure::at(member, &"no answer"))?.map_err(failed)?;
    set_socket_options(&socket).map_err(failed)?;
    let securing = secure::connect(&endpoint.settings, socket, &member.name, handshake_failures);
    let securing = timeout(time_limit, securing).await;
    securing.map_err(|_| ConnectFailure::at(member, &"no TLS handshake"))?.map_err(failed)
}

/// Connects to an address of this host within `peer_networks`: whoever can change the member's
/// address, or the answer of the name service, can't make this node call elsewhere.
async fn connect_socket(endpoint: &Endpoint, address: &str) -> io::Result<TcpStream> {
    let networks = &endpoint.settings.networks;
    let found = lookup_host(address).await?;
    let allowed: Vec<_> = found.filter(|found| networks.contains(found.ip())).collect();
    if allowed.is_empty() {
        let text = format!("no address of it is within `peer_networks` ({networks})");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    TcpStream::connect(&allowed[..]).await
}

/// Returns the identity of the node that answered the hello, and the version that it chose, if it
/// is the dialled one.
fn check_answer(
    transcript: &mut Transcript,
    received: Received,
    hello: &Hello,
    known: &KnownIncarnations,
) -> Result<(PeerIdentity, u16), ConnectFailure> {
    match &received.greeting {
        Greeting::Welcome { version, identity } => {
            let (local, target) = (&hello.identity, hello.target);
            let accepted = transcript
                .verify(&received)
                .and_then(|()| accept(local, target, *version, identity, *known, hello.versions));
            let found = (identity.clone(), *version);
            accepted.map(|()| found).map_err(ConnectFailure::RefusedLocally)
        }
        Greeting::Refused { code, text } => {
            let (code, text) = (*code, text.clone());
            Err(ConnectFailure::Refused { code, text, is_trusted: transcript.trusts(&received) })
        }
        _ => Err(ConnectFailure::RefusedLocally(Refusal::Malformed("kind"))),
    }
}

async fn send_go(
    mut stream: Stream,
    mut transcript: Transcript,
    local: &PeerIdentity,
    (identity, version): (PeerIdentity, u16),
) -> io::Result<NewLink> {
    let link_keys = LinkKeys::new(local, &identity, transcript.proven());
    let link_keys = link_keys.bound_to(stream.session_secret());
    send_greeting(&mut stream, &mut transcript, &Greeting::Go { link: link_keys.link }).await?;
    let salts = (link_keys.dialler_salt, link_keys.dialled_salt);
    let terms = terms((&identity, version), link_keys.link, salts, (&transcript, &stream));
    Ok(NewLink { stream, terms, identity })
}

/// Welcomes an accepted caller, and waits for its `Go`. `transcript`: that of its hello.
pub(super) async fn welcome(
    endpoint: &Endpoint,
    mut stream: Stream,
    hello: Hello,
    mut transcript: Transcript,
) -> Result<NewLink, ConnectFailure> {
    let local = endpoint.identity();
    let caller = hello.identity;
    let failed =
        |error: io::Error| ConnectFailure::Unreachable(format!("{}: {error}", caller.address));
    // `accept` only accepts callers with a common version.
    let versions = endpoint.versions();
    let version = versions.common(hello.versions).unwrap_or(versions.lowest);
    let link_keys = LinkKeys::new(&caller, &local, transcript.proven());
    let link_keys = link_keys.bound_to(stream.session_secret());
    let greeting = async {
        send_greeting(
            &mut stream,
            &mut transcript,
            &Greeting::Welcome { version, identity: local },
        )
        .await?;
        read(&mut stream, versions).await
    };
    let received = match timeout(endpoint.settings.dial_timeout, greeting).await {
        Ok(Ok(received)) => received,
        Ok(Err(GreetingError::Refused(refusal))) => {
            return Err(ConnectFailure::RefusedLocally(refusal));
        }
        Ok(Err(GreetingError::Socket(error))) => return Err(failed(error)),
        Err(_) => {
            return Err(ConnectFailure::Unreachable(format!("{}: no go came", caller.address)));
        }
    };
    match &received.greeting {
        Greeting::Go { link } if *link == link_keys.link => {
            transcript.verify(&received).map_err(ConnectFailure::RefusedLocally)?;
            let salts = (link_keys.dialled_salt, link_keys.dialler_salt);
            let parties = (&transcript, &stream);
            let terms = terms((&caller, version), link_keys.link, salts, parties);
            Ok(NewLink { stream, terms, identity: caller })
        }
        Greeting::Refused { code, text } => {
            let (code, text) = (*code, text.clone());
            Err(ConnectFailure::Refused { code, text, is_trusted: transcript.trusts(&received) })
        }
        _ => Err(ConnectFailure::RefusedLocally(Refusal::Malformed("go"))),
    }
}

fn terms(
    (identity, version): (&PeerIdentity, u16),
    id: u64,
    (send_salt, receive_salt): (u64, u64),
    (transcript, stream): (&Transcript, &Stream),
) -> Terms {
    let PeerIdentity { node, incarnation, incarnations, .. } = identity;
    Terms {
        id,
        node: *node,
        incarnation: *incarnation,
        version,
        incarnations: incarnations.clone(),
        send_salt,
        receive_salt,
        is_proven: transcript.proven().is_some(),
        tls_generation: stream.generation(),
    }
}

/// Returns the pause before a dial: half to all of `longest`, at random, so that nodes that lost
/// each other at the same moment do not keep dialling at the same moment.
pub(super) fn random_pause(longest: std::time::Duration) -> std::time::Duration {
    let half = longest / 2;
    let parts = (world::random_u64() % 1_024) as u32;
    half + half * parts / 1_024
}
