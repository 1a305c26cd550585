//! Handshake over a socket, and the options of sockets between nodes.

use super::admission::{KnownIncarnations, accept};
use super::endpoint::Endpoint;
use super::handshake::{Bond, ENVELOPE_BYTES, Greeting, Hello, Received, Speaker};
use super::link::Terms;
use super::network::{Failed, Member};
use super::refusal::Refusal;
use super::transcript::Transcript;
use super::versions::VERSIONS;
use runtime::world;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Most unsent bytes that the system may hold: urgent messages can't overtake them.
const UNSENT_BYTES: u32 = 64 * 1024;

/// Connection after a completed handshake.
pub(super) struct Greeted {
    pub(super) stream: TcpStream,
    pub(super) terms: Terms,
    pub(super) speaker: Speaker,
}

/// Sets the socket options: small writes leave at once, and the system buffers little.
pub(super) fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// Failure to read a greeting.
pub(super) enum Unread {
    Socket(io::Error),
    Refused(Refusal),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::Socket(error)
    }
}

/// Reads one greeting and not a byte more.
pub(super) async fn read(stream: &mut TcpStream) -> Result<Received, Unread> {
    let mut envelope = [0; ENVELOPE_BYTES];
    stream.read_exact(&mut envelope).await?;
    let length = Greeting::body_bytes(&envelope).map_err(Unread::Refused)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Greeting::decode(&envelope, &body, VERSIONS).map_err(Unread::Refused)
}

/// Sends a greeting, signed if this node holds the cluster's secret.
pub(super) async fn say(
    stream: &mut TcpStream,
    transcript: &mut Transcript,
    greeting: &Greeting,
) -> io::Result<()> {
    stream.write_all(&transcript.sign(greeting)).await
}

/// Sends a refusal; best effort, the closed socket says the rest.
pub(super) async fn refuse(stream: &mut TcpStream, transcript: &mut Transcript, refusal: &Refusal) {
    let words = match transcript.proven() {
        Some(_) => refusal.to_string(),
        None => refusal.words_for_strangers(),
    };
    let refused = Greeting::Refused { code: refusal.code(), words };
    if say(stream, transcript, &refused).await.is_ok() {
        // An orderly shutdown, so that unread bytes do not make the system discard the text.
        let _ = stream.shutdown().await;
    }
}

/// Dials a member. `known` returns what is known of its incarnations when it answers; `said`
/// becomes true when the other side may have received the hello.
pub(super) async fn dial(
    endpoint: &Endpoint,
    member: Member,
    known: impl Fn() -> KnownIncarnations,
    previous: u64,
    said: &AtomicBool,
) -> Result<Greeted, Failed> {
    let patience = endpoint.settings.dial;
    let late = |what: &str| Failed::Unreachable(format!("{}: {what}", member.address));
    let failed = |error: io::Error| Failed::Unreachable(format!("{}: {error}", member.address));
    let connecting = timeout(patience, TcpStream::connect(&member.address)).await;
    let mut stream = connecting.map_err(|_| late("no answer"))?.map_err(failed)?;
    prepare(&stream).map_err(failed)?;
    let hello =
        Hello { versions: VERSIONS, speaker: endpoint.speaker(), wanted: member.node, previous };
    // Before it is written: after an error nobody knows how much of it arrived.
    said.store(true, Relaxed);
    let mut transcript = Transcript::new(endpoint.credential());
    let greeting = async {
        say(&mut stream, &mut transcript, &Greeting::Hello(hello.clone())).await?;
        read(&mut stream).await
    };
    let answer = timeout(patience, greeting).await.map_err(|_| late("no greeting came"))?;
    let refusal = match answer {
        Ok(received) => match answered(&mut transcript, received, &hello, &known()) {
            Ok(speaker) => {
                return go(stream, transcript, &hello.speaker, speaker).await.map_err(failed);
            }
            Err(Failed::Refuses(refusal)) => refusal,
            Err(refused) => return Err(refused),
        },
        Err(Unread::Refused(refusal)) => refusal,
        Err(Unread::Socket(error)) => return Err(failed(error)),
    };
    let _ = timeout(patience, refuse(&mut stream, &mut transcript, &refusal)).await;
    Err(Failed::Refuses(refusal))
}

/// Returns the introduction of the node that answered the hello, if it is the one that was dialled.
fn answered(
    transcript: &mut Transcript,
    received: Received,
    hello: &Hello,
    known: &KnownIncarnations,
) -> Result<Speaker, Failed> {
    match &received.greeting {
        Greeting::Welcome { version, speaker } => {
            let (me, wanted) = (&hello.speaker, hello.wanted);
            let accepted = transcript
                .verify(&received)
                .and_then(|()| accept(me, wanted, *version, speaker, *known, VERSIONS));
            accepted.map(|()| speaker.clone()).map_err(Failed::Refuses)
        }
        Greeting::Refused { code, words } => {
            let (code, words) = (*code, words.clone());
            Err(Failed::Refused { code, words, is_trusted: transcript.trusts(&received) })
        }
        _ => Err(Failed::Refuses(Refusal::Malformed("kind"))),
    }
}

async fn go(
    mut stream: TcpStream,
    mut transcript: Transcript,
    me: &Speaker,
    speaker: Speaker,
) -> io::Result<Greeted> {
    let bond = Bond::new(me, &speaker, transcript.proven());
    say(&mut stream, &mut transcript, &Greeting::Go { link: bond.link }).await?;
    let salts = (bond.dialler, bond.dialled);
    let terms = terms(&speaker, bond.link, salts, &transcript);
    Ok(Greeted { stream, terms, speaker })
}

/// Welcomes an accepted caller, and waits for its `Go`. `transcript`: that of its hello.
pub(super) async fn welcome(
    endpoint: &Endpoint,
    mut stream: TcpStream,
    hello: Hello,
    mut transcript: Transcript,
) -> Result<Greeted, Failed> {
    let me = endpoint.speaker();
    let caller = hello.speaker;
    let failed = |error: io::Error| Failed::Unreachable(format!("{}: {error}", caller.address));
    // `accept` only accepts callers with a common version.
    let version = VERSIONS.common(hello.versions).unwrap_or(VERSIONS.lowest);
    let bond = Bond::new(&caller, &me, transcript.proven());
    let greeting = async {
        say(&mut stream, &mut transcript, &Greeting::Welcome { version, speaker: me }).await?;
        read(&mut stream).await
    };
    let received = match timeout(endpoint.settings.dial, greeting).await {
        Ok(Ok(received)) => received,
        Ok(Err(Unread::Refused(refusal))) => return Err(Failed::Refuses(refusal)),
        Ok(Err(Unread::Socket(error))) => return Err(failed(error)),
        Err(_) => return Err(Failed::Unreachable(format!("{}: no go came", caller.address))),
    };
    match &received.greeting {
        Greeting::Go { link } if *link == bond.link => {
            transcript.verify(&received).map_err(Failed::Refuses)?;
            let salts = (bond.dialled, bond.dialler);
            let terms = terms(&caller, bond.link, salts, &transcript);
            Ok(Greeted { stream, terms, speaker: caller })
        }
        Greeting::Refused { code, words } => {
            let (code, words) = (*code, words.clone());
            Err(Failed::Refused { code, words, is_trusted: transcript.trusts(&received) })
        }
        _ => Err(Failed::Refuses(Refusal::Malformed("go"))),
    }
}

fn terms(speaker: &Speaker, id: u64, (ours, theirs): (u64, u64), transcript: &Transcript) -> Terms {
    let Speaker { node, incarnation, incarnations, .. } = speaker;
    let (node, incarnation, incarnations) = (*node, *incarnation, incarnations.clone());
    let is_proven = transcript.proven().is_some();
    Terms { id, node, incarnation, incarnations, ours, theirs, is_proven }
}

/// Returns the pause before a dial: half to all of `most`, at random, so that nodes that lost each
/// other at the same moment do not keep dialling at the same moment.
pub(super) fn pause(most: std::time::Duration) -> std::time::Duration {
    let half = most / 2;
    let parts = (world::chance() % 1_024) as u32;
    half + half * parts / 1_024
}
