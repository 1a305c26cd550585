//! Detection of a connection's protocol, plain or inside TLS.
//!
//! The first bytes tell TLS from the other protocols, so one port serves both; inside TLS the
//! protocols are told apart as ever. What may not be plain is refused in its own protocol.

use super::first_bytes::{self, FirstBytes, ForeignProtocol, START_TLS};
use super::refusal::{self, send_and_close};
use crate::connection::{ListenerKind, Shutdown};
use crate::read_buffer::CLOSE_GRACE_MS;
use crate::settings::ServerSettings;
use crate::shared::Shared;
use base::limits::HELLO_MS_MAX;
use bytes::BytesMut;
use std::future::Future;
use std::time::Duration;
use tls::{ListenerMode, Stream, Tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Buffer size for detecting the protocol.
pub(super) const FIRST_BUFFER_BYTES: usize = 4 * 1024;

/// Connection whose protocol is known.
pub(super) struct Detected {
    pub(super) stream: Stream,
    /// Bytes read so far.
    pub(super) first: BytesMut,
    pub(super) protocol: FirstBytes,
}

/// Reads until the protocol is detected, inside TLS if the client begins it. `None`: the connection
/// has ended, or was refused.
pub(super) async fn detect(
    socket: TcpStream,
    kind: ListenerKind,
    shared: &Shared,
    mut shutdown: Shutdown,
) -> Option<Detected> {
    let time_limit = Duration::from_millis(HELLO_MS_MAX);
    let detect = detector(kind);
    let outer = read_in_time(socket.into(), detect, time_limit, &mut shutdown).await?;
    let Detected { stream, first, protocol } = outer;
    let mode = shared.settings.tls_mode();
    let is_handshake = protocol == FirstBytes::Foreign(ForeignProtocol::Tls);
    match (stream, &shared.settings.tls) {
        (Stream::Plain(socket), Some(tls)) if is_handshake && mode != ListenerMode::Off => {
            let stream = handshake(tls, socket, first, shared).await?;
            // A client that began a handshake has shown nothing of its protocol yet.
            read_in_time(stream, detect, time_limit, &mut shutdown).await
        }
        (Stream::Plain(socket), Some(tls))
            if protocol == FirstBytes::RiakPbcStartTls && mode != ListenerMode::Off =>
        {
            let stream = start_tls(tls, socket, first, shared).await?;
            read_in_time(stream, detect, time_limit, &mut shutdown).await
        }
        (stream, _) if !is_handshake && mode == ListenerMode::Required => {
            shared.counters.count_refused();
            shared.warn_limited(|| {
                "a plain connection is refused: this port requires TLS (`tls = required`); use \
                 TLS in that client"
                    .into()
            });
            send_and_close(stream, &refusal::plain(protocol)).await;
            None
        }
        (stream, _) => Some(Detected { stream, first, protocol }),
    }
}

/// Confirms the begin of TLS to a client of Riak's Protocol Buffers, and carries out the handshake.
/// `None`: the connection has ended, or its handshake failed.
async fn start_tls(
    tls: &Tls,
    mut socket: TcpStream,
    mut first: BytesMut,
    shared: &Shared,
) -> Option<Stream> {
    let _ = first.split_to(START_TLS.len());
    // A socket that has sent nothing takes a few bytes at once.
    socket.write_all(&START_TLS).await.ok()?;
    handshake(tls, socket, first, shared).await
}

/// Returns the detection of the protocols that a listener serves.
fn detector(kind: ListenerKind) -> fn(&[u8]) -> FirstBytes {
    // On a port of Arakoon's alone, one byte suffices to recognize a foreign protocol.
    match kind {
        ListenerKind::Arakoon => first_bytes::detect_arakoon,
        ListenerKind::RiakPbc => first_bytes::detect_pbc,
        _ => first_bytes::detect,
    }
}

async fn read_in_time(
    mut stream: Stream,
    detect: fn(&[u8]) -> FirstBytes,
    time_limit: Duration,
    shutdown: &mut Shutdown,
) -> Option<Detected> {
    let mut first = BytesMut::with_capacity(FIRST_BUFFER_BYTES);
    let hello = tokio::select! {
        biased;
        hello = timeout(time_limit, read_first_bytes(&mut stream, &mut first, detect)) => hello,
        _ = shutdown.wait() => {
            let grace = Duration::from_millis(CLOSE_GRACE_MS);
            timeout(grace, read_first_bytes(&mut stream, &mut first, detect)).await
        }
    };
    let protocol = hello.ok()??;
    Some(Detected { stream, first, protocol })
}

/// Reads until the first bytes identify the protocol. Returns `None` if the client leaves earlier.
pub(super) async fn read_first_bytes(
    stream: &mut (impl AsyncRead + Unpin),
    first: &mut BytesMut,
    detect: fn(&[u8]) -> FirstBytes,
) -> Option<FirstBytes> {
    loop {
        match stream.read_buf(first).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        let detected = detect(first);
        if detected != FirstBytes::More {
            return Some(detected);
        }
    }
}

/// Completes a handshake, once there is a place for it.
async fn handshake(
    tls: &Tls,
    socket: TcpStream,
    first: BytesMut,
    shared: &Shared,
) -> Option<Stream> {
    let address = socket.peer_addr().ok()?.ip();
    let Some(_permit) = shared.handshake_limiter.acquire(address).await else {
        shared.warn_limited(|| {
            format!("a connection is closed: too many TLS handshakes are in progress ({address})")
        });
        return None;
    };
    match tls.accept_client(socket, first).await {
        Ok(stream) => Some(stream),
        Err(error) => {
            shared.counters.count_refused();
            shared.warn_limited(|| {
                format!("a TLS handshake of {address} failed: {error}; correct that client")
            });
            None
        }
    }
}

/// Returns the longest time for which an encrypted connection may last.
pub(super) fn session_time(stream: &Stream, shared: &Shared) -> Duration {
    let now_s = shared.clock.unix_time().as_secs();
    let session_time = |tls: &std::sync::Arc<Tls>| tls.session_time(stream, now_s);
    shared.settings.tls.as_ref().map_or(Duration::ZERO, session_time)
}

/// Returns a future that resolves once a reload makes the node refuse the certificate of this
/// connection's client. Without a certificate it never resolves, and needs no memory.
pub(super) fn refused_certificate(
    stream: &Stream,
    shared: &Shared,
) -> impl Future<Output = ()> + Send + use<> {
    let presented = stream.presented_chain();
    let presented = presented.and_then(|chain| Some((chain, shared.settings.tls.clone()?)));
    // Boxed, like all that is rare: a connection's future has no space for it.
    let waiting = presented
        .map(|(presented, tls)| Box::pin(async move { tls.wait_until_refused(&presented).await }));
    async move {
        match waiting {
            Some(waiting) => waiting.await,
            None => std::future::pending().await,
        }
    }
}

/// Detects the protocol of a connection to a node that is starting. It counts no handshakes: few
/// connections are answered then.
pub(super) async fn detect_at_start(
    socket: TcpStream,
    kind: ListenerKind,
    settings: &ServerSettings,
) -> Option<Detected> {
    // Only this port's clients can read answers of its protocol; others detect theirs in any port.
    let detect = match kind {
        ListenerKind::RiakPbc => detector(kind),
        _ => first_bytes::detect,
    };
    let mut stream = Stream::from(socket);
    let mut first = BytesMut::with_capacity(FIRST_BUFFER_BYTES);
    let mut protocol = read_first_bytes(&mut stream, &mut first, detect).await?;
    let mode = settings.tls_mode();
    if mode != ListenerMode::Off && protocol == FirstBytes::Foreign(ForeignProtocol::Tls) {
        let (Stream::Plain(socket), Some(tls)) = (stream, &settings.tls) else { return None };
        stream = tls.accept_client(socket, first).await.ok()?;
        first = BytesMut::with_capacity(FIRST_BUFFER_BYTES);
        protocol = read_first_bytes(&mut stream, &mut first, detect).await?;
    } else if mode == ListenerMode::Required {
        send_and_close(stream, &refusal::plain(protocol)).await;
        return None;
    }
    Some(Detected { stream, first, protocol })
}
