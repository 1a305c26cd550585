//! Accept loop, and protocol detection of a new connection.

use super::first_bytes::{self, FirstBytes, Foreign};
use super::{Served, refusal};
use crate::connection::{Connection, ListenerKind, Shutdown};
use crate::connection_limits::{ConnectionLimits, Full};
use crate::counters::ClientProtocol;
use crate::read_buffer::LAST_WORDS_MS;
use crate::shared::Shared;
use crate::{arakoon, native, resp, riak};
use base::limits::HELLO_MS_MAX;
use bytes::BytesMut;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Descriptors that connections leave to the log, the store and everything else.
const DESCRIPTORS_KEPT_MIN: u64 = 96;
/// Most refused connections that are answered at a time; others are closed without an answer.
pub(super) const REFUSALS_MAX: usize = 64;
/// Time that a refused connection has to show which protocol it speaks.
pub(super) const REFUSAL_MS_MAX: u64 = 1_000;
/// Pauses after a failed accept in milliseconds: the first one, and the maximum that doubling
/// reaches.
pub(super) const ACCEPT_PAUSE_MS: (u64, u64) = (10, 500);
/// Least silence, milliseconds, after which a client of Redis or Arakoon is closed for another
/// where all places are taken.
const IDLE_MS_MIN: u64 = 60_000;
/// Buffer size for detecting the protocol.
const FIRST_BUFFER_BYTES: usize = 4 * 1024;

/// Accepts connections until the server closes. Then waits for open ones, up to
/// `shutdown_timeout_ms`.
pub(super) async fn run(
    listener: TcpListener,
    kind: ListenerKind,
    served: Served,
    mut shutdown: Shutdown,
) {
    let shared = &served.shared;
    let mut connections = JoinSet::new();
    let refusals = Arc::new(AtomicUsize::new(0));
    let mut pause_ms = ACCEPT_PAUSE_MS.0;
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.called() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, from)) => {
                pause_ms = ACCEPT_PAUSE_MS.0;
                shared.counters.accepted();
                match shared.places.take(kind, from.ip(), limits(shared)) {
                    Ok(place) => {
                        let (served, shutdown) = (served.clone(), shutdown.clone());
                        connections.spawn(async move {
                            greet(stream, kind, &served, shutdown).await;
                            drop(place);
                        });
                    }
                    Err(full) => {
                        shared.counters.refused();
                        shared.complain(|| full_up(full, from.ip()));
                        if matches!(full, Full::All(_)) {
                            // The freed place serves the next client; this one is refused.
                            shared.idle.end_idlest(shared.clock.unix_ms(), IDLE_MS_MIN);
                        }
                        refuse(stream, full.limit(), &refusals, &mut connections);
                    }
                }
            }
            Err(error) if is_the_peers(&error) => {}
            Err(error) => {
                shared.complain(|| format!("can't accept connections now: {error}"));
                sleep(Duration::from_millis(pause_ms)).await;
                pause_ms = (pause_ms * 2).min(ACCEPT_PAUSE_MS.1);
            }
        }
    }
    drop(listener);
    let bound = Duration::from_millis(shared.settings.shutdown_timeout_ms);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(bound, ended).await.is_err() {
        let connections = connections.len();
        tracing::warn!(target: "server", connections, "connections that had not ended are cut");
    }
    connections.shutdown().await;
}

fn limits(shared: &Shared) -> ConnectionLimits {
    let settings = &shared.settings;
    let clients = connections_max(settings.connections_max);
    let part = settings.connections_per_address_max.unwrap_or(clients.div_ceil(2));
    ConnectionLimits { clients, per_address: part }
}

fn full_up(full: Full, from: IpAddr) -> String {
    match full {
        Full::All(limit) => {
            format!(
                "a connection is refused: there are {limit} already (connections_max); raise \
                 that, or look who opens so many"
            )
        }
        Full::OfAddress(limit) => format!(
            "a connection is refused: there are {limit} from {from} already \
             (connections_per_address_max); raise that, or let its clients share connections"
        ),
    }
}

/// Returns true for errors of a single connection that died before it was accepted.
fn is_the_peers(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset | ErrorKind::Interrupted
    )
}

/// Returns the limit of connections: the setting, or fewer if the process' limit of descriptors is
/// small. That limit may change at run time.
fn connections_max(setting: usize) -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let Some(descriptors) = limit else { return setting };
    let kept = DESCRIPTORS_KEPT_MIN.max(descriptors / 4);
    setting.min(usize::try_from(descriptors.saturating_sub(kept)).unwrap_or(usize::MAX))
}

fn refuse(
    mut stream: TcpStream,
    limit: usize,
    refusals: &Arc<AtomicUsize>,
    connections: &mut JoinSet<()>,
) {
    if refusals.load(Relaxed) >= REFUSALS_MAX {
        return;
    }
    refusals.fetch_add(1, Relaxed);
    let refusals = refusals.clone();
    connections.spawn(async move {
        let told = timeout(Duration::from_millis(REFUSAL_MS_MAX), async {
            let mut first = [0; 16];
            let length = stream.read(&mut first).await.unwrap_or(0);
            let told = first_bytes::tell(&first[..length]);
            let _ = stream.write_all(&refusal::too_many(told, limit)).await;
        });
        let _ = told.await;
        refusals.fetch_sub(1, Relaxed);
    });
}

/// Reads until the protocol is known, then hands the connection to its front-end.
async fn greet(mut stream: TcpStream, kind: ListenerKind, served: &Served, mut shutdown: Shutdown) {
    let shared = &served.shared;
    // Both calls fail only on a dead socket, and the next read notices that.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let mut first = BytesMut::with_capacity(FIRST_BUFFER_BYTES);
    let bound = Duration::from_millis(HELLO_MS_MAX);
    // On a port of Arakoon's alone, one byte suffices to recognize a foreign protocol.
    let tell: fn(&[u8]) -> FirstBytes =
        if kind == ListenerKind::Arakoon { first_bytes::tell_arakoon } else { first_bytes::tell };
    let hello = tokio::select! {
        biased;
        hello = timeout(bound, hello(&mut stream, &mut first, tell)) => hello,
        () = shutdown.called() => {
            let last = Duration::from_millis(LAST_WORDS_MS);
            timeout(last, hello(&mut stream, &mut first, tell)).await
        }
    };
    let Ok(Some(told)) = hello else { return };
    let peer = stream.peer_addr().ok();
    tracing::debug!(target: "server", ?peer, language = ?told, "connected");
    let connection = |stream, first| Connection { stream, first, kind };
    match told {
        FirstBytes::More => {}
        // On a port of Riak's alone, an unknown method is refused as HTTP does.
        FirstBytes::Resp if kind == ListenerKind::Riak && !first.starts_with(b"*") => {
            serve_http(connection(stream, first), true, served, shutdown).await;
        }
        FirstBytes::Resp | FirstBytes::Arakoon
            if matches!(kind, ListenerKind::Operators | ListenerKind::Riak) =>
        {
            answer_until_started(stream, Foreign::Unknown, &first, shared).await;
        }
        FirstBytes::Arakoon => {
            let _open = shared.counters.open(ClientProtocol::Arakoon);
            arakoon::serve(connection(stream, first), shared.clone(), &served.arakoon, shutdown)
                .await;
        }
        // Bytes that are not a prologue: close without an answer, as Arakoon does.
        _ if kind == ListenerKind::Arakoon => shared.counters.unknown_protocol(),
        FirstBytes::Http | FirstBytes::Riak => {
            let is_riaks = match kind {
                ListenerKind::Riak => true,
                // On the operators' port every path belongs to the native front-end.
                ListenerKind::Operators => false,
                _ => told == FirstBytes::Riak,
            };
            serve_http(connection(stream, first), is_riaks, served, shutdown).await;
        }
        FirstBytes::Resp => {
            let _open = shared.counters.open(ClientProtocol::Resp);
            resp::serve(connection(stream, first), shared.clone(), served.resp.clone(), shutdown)
                .await;
        }
        FirstBytes::Foreign(language) => {
            answer_until_started(stream, language, &first, shared).await
        }
    }
}

/// Serves an HTTP connection. The two HTTP front-ends hand it to each other as the paths demand,
/// because a proxy uses one connection for many clients.
async fn serve_http(
    mut connection: Connection,
    mut is_riaks: bool,
    served: &Served,
    shutdown: Shutdown,
) {
    loop {
        let (shared, shutdown) = (&served.shared, shutdown.clone());
        let goes_on = match is_riaks {
            true => {
                let _open = shared.counters.open(ClientProtocol::Riak);
                riak::serve(connection, shared.clone(), served.riak.clone(), shutdown).await
            }
            false => {
                let _open = shared.counters.open(ClientProtocol::Http);
                native::serve(connection, shared.clone(), shutdown).await
            }
        };
        let Some(handed_over) = goes_on else { return };
        (connection, is_riaks) = (handed_over, !is_riaks);
    }
}

/// Reads until the first bytes identify the protocol. Returns `None` if the client leaves earlier.
pub(super) async fn hello(
    stream: &mut TcpStream,
    first: &mut BytesMut,
    tell: fn(&[u8]) -> FirstBytes,
) -> Option<FirstBytes> {
    loop {
        match stream.read_buf(first).await {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        let told = tell(first);
        if told != FirstBytes::More {
            return Some(told);
        }
    }
}

async fn answer_until_started(stream: TcpStream, language: Foreign, first: &[u8], shared: &Shared) {
    shared.counters.unknown_protocol();
    shared.complain(|| {
        format!(
            "a connection is refused: its protocol is not served here: {}; correct that client's \
             address or port",
            language.name()
        )
    });
    part_with(stream, &refusal::foreign(language, first)).await;
}

/// Sends the last bytes to a connection and ends it.
pub(super) async fn part_with(mut stream: TcpStream, words: &[u8]) {
    let said = async {
        stream.write_all(words).await?;
        stream.shutdown().await?;
        // Read what the client still sends: otherwise it would see a reset instead of the answer.
        let mut rest = [0; 1024];
        for _ in 0..16 {
            if stream.read(&mut rest).await? == 0 {
                break;
            }
        }
        Ok::<(), std::io::Error>(())
    };
    let _ = timeout(Duration::from_millis(REFUSAL_MS_MAX), said).await;
}
