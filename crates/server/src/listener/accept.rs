//! Accept loop, and protocol detection of a new connection.

use super::ServerState;
use super::exposure::{self, ExposureGuard};
use super::first_bytes::{FirstBytes, ForeignProtocol};
use super::refusal::{self, REFUSAL_MS_MAX, send_and_close};
use super::secure::{self, Detected};
use crate::connection::{Connection, ListenerKind, ListenerRole, Shutdown};
use crate::connection_limits::{ConnectionLimits, ExceededLimit};
use crate::counters::ClientProtocol;
use crate::shared::Shared;
use crate::{arakoon, native, resp, riak};
use node::round;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;
use tls::{Purpose, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Descriptors that connections leave to the log, the store and everything else.
const DESCRIPTORS_KEPT_MIN: u64 = 96;
/// Most refused connections that are answered at a time; others are closed without an answer.
pub(super) const REFUSALS_MAX: usize = 64;
/// Pauses after a failed accept in milliseconds: the first one, and the maximum that doubling
/// reaches.
pub(super) const ACCEPT_PAUSE_MS: (u64, u64) = (10, 500);
/// Least silence, milliseconds, after which a client of Redis or Arakoon is closed for another
/// where all places are taken.
const IDLE_MS_MIN: u64 = 60_000;
/// Bytes of a refused connection in which the line of a health check must stand.
const HEALTH_LINE_BYTES_MAX: usize = 256;

/// Accepts connections until the server closes. Then waits for open ones, up to
/// `shutdown_timeout_ms`.
pub(super) async fn run(
    listener: TcpListener,
    role: ListenerRole,
    state: ServerState,
    mut shutdown: Shutdown,
) {
    let shared = &state.shared;
    let mut connections = JoinSet::new();
    let refusals = Arc::new(AtomicUsize::new(0));
    // It fails only on a dead socket, which accepts nothing.
    let Ok(address) = listener.local_addr() else { return };
    let mut guard = ExposureGuard::new(address, &shared.settings, &shared.node);
    let mut pause_ms = ACCEPT_PAUSE_MS.0;
    loop {
        let accepted = tokio::select! {
            biased;
            _ = shutdown.wait() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            () = guard.wait_for_change(&shared.node) => {
                connections.abort_all();
                continue;
            }
            accepted = round::rest(listener.accept()) => accepted,
        };
        // Before the new connection is served, which must not end with those before it.
        if guard.has_changed(&shared.node) {
            connections.abort_all();
        }
        match accepted {
            Ok((stream, from)) => {
                pause_ms = ACCEPT_PAUSE_MS.0;
                shared.counters.count_accepted();
                let limits = limits(role.kind, shared);
                match shared.connection_limiter.acquire(role.kind, from.ip(), limits) {
                    Ok(permit) => {
                        let (state, shutdown) = (state.clone(), shutdown.clone());
                        connections.spawn(async move {
                            detect_and_serve(stream, (role, guard), &state, shutdown).await;
                            drop(permit);
                        });
                    }
                    Err(exceeded) => {
                        shared.counters.count_refused();
                        shared.warn_limited(|| limit_warning(role.kind, exceeded, from.ip()));
                        if is_of_clients(role.kind) && matches!(exceeded, ExceededLimit::Total(_)) {
                            // The freed permit serves the next client; this one is refused.
                            shared.idle.end_idlest(shared.clock.unix_ms(), IDLE_MS_MIN);
                        }
                        let limit = exceeded.limit();
                        let refused = RefusedConnection { stream, role, guard, limit };
                        let context = (state.shared.clone(), shutdown.clone());
                        refuse(refused, from.ip(), context, &refusals, &mut connections);
                    }
                }
            }
            Err(error) if is_peer_error(&error) => {}
            Err(error) => {
                shared.warn_limited(|| format!("can't accept connections at the moment: {error}"));
                sleep(Duration::from_millis(pause_ms)).await;
                pause_ms = (pause_ms * 2).min(ACCEPT_PAUSE_MS.1);
            }
        }
    }
    drop(listener);
    end_connections(connections, shared).await;
}

/// Waits for open connections, up to `shutdown_timeout_ms`, and ends the others.
async fn end_connections(mut connections: JoinSet<()>, shared: &Shared) {
    let time_limit = shared.live.shutdown_timeout();
    let ended = async { while connections.join_next().await.is_some() {} };
    if round::rest(timeout(time_limit, ended)).await.is_err() {
        let connections = connections.len();
        tracing::warn!(target: "server", connections, "open connections are closed by force");
    }
    connections.shutdown().await;
}

fn is_of_clients(kind: ListenerKind) -> bool {
    kind != ListenerKind::Operators
}

fn limits(kind: ListenerKind, shared: &Shared) -> ConnectionLimits {
    if !is_of_clients(kind) {
        return ConnectionLimits::OPERATORS;
    }
    let settings = &shared.settings;
    let total = connections_max(settings.connections_max);
    let per_address = settings.connections_per_address_max.unwrap_or(total.div_ceil(2));
    ConnectionLimits { total, per_address }
}

fn limit_warning(kind: ListenerKind, exceeded: ExceededLimit, from: IpAddr) -> String {
    match exceeded {
        _ if !is_of_clients(kind) => {
            let limit = exceeded.limit();
            let whose = match exceeded {
                ExceededLimit::Total(_) => String::new(),
                ExceededLimit::PerAddress(_) => format!(" from {from}"),
            };
            format!(
                "a connection at admin_listen is refused: {limit}{whose} are open; find the \
                 operators' tool that opens them"
            )
        }
        ExceededLimit::Total(limit) => {
            format!(
                "a connection is refused: {limit} are open (connections_max); raise the limit, or \
                 find the client that opens them"
            )
        }
        ExceededLimit::PerAddress(limit) => format!(
            "a connection is refused: {limit} from {from} are open (connections_per_address_max); \
             raise the limit, or let its clients share connections"
        ),
    }
}

/// Returns true for errors of a single connection that failed before it was accepted.
fn is_peer_error(error: &std::io::Error) -> bool {
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
    let reserved = DESCRIPTORS_KEPT_MIN.max(descriptors / 4);
    setting.min(usize::try_from(descriptors.saturating_sub(reserved)).unwrap_or(usize::MAX))
}

/// Connection for which there is no place.
struct RefusedConnection {
    stream: TcpStream,
    role: ListenerRole,
    guard: ExposureGuard,
    limit: usize,
}

/// Refuses a connection in its protocol. Answers health checks: they must tell a node whose places
/// are taken from a dead one. Clients elsewhere have half of the refusals.
fn refuse(
    refused: RefusedConnection,
    from: IpAddr,
    (shared, shutdown): (Arc<Shared>, Shutdown),
    refusals: &Arc<AtomicUsize>,
    connections: &mut JoinSet<()>,
) {
    let refusals_max = if from.is_loopback() { REFUSALS_MAX } else { REFUSALS_MAX / 2 };
    if refusals.load(Relaxed) >= refusals_max {
        return;
    }
    refusals.fetch_add(1, Relaxed);
    let refusals = refusals.clone();
    connections.spawn(async move {
        let answering = answer_refused(refused, shared, shutdown);
        let _ = timeout(Duration::from_millis(REFUSAL_MS_MAX), answering).await;
        refusals.fetch_sub(1, Relaxed);
    });
}

/// Answers a connection for which there is no place, inside TLS if the client begins it.
async fn answer_refused(refused: RefusedConnection, shared: Arc<Shared>, shutdown: Shutdown) {
    let RefusedConnection { stream, mut role, guard, limit } = refused;
    let detecting = secure::detect(stream, role.kind, &shared, shutdown.clone());
    let Some(Detected { mut stream, mut first, protocol }) = detecting.await else { return };
    if protocol == FirstBytes::Http {
        while !first.contains(&b'\n') && first.len() < HEALTH_LINE_BYTES_MAX {
            if stream.read_buf(&mut first).await.unwrap_or(0) == 0 {
                return;
            }
        }
        if is_health_check(&first) {
            // Requests may follow the health check, with the rights that a place would give.
            if guard.is_closed(&shared.node) || is_node(&stream) {
                role = ListenerRole::of_joining_node();
            }
            // As at the operators' listener: nothing of clients is served here.
            role.kind = ListenerKind::Operators;
            role.origin.protocol = "http";
            role.origin.address = stream.peer_addr().ok().map(|peer| peer.ip());
            let connection = Connection { stream, first, role };
            native::serve(connection, shared, shutdown).await;
            return;
        }
    }
    let _ = stream.write_all(&refusal::too_many(protocol, limit)).await;
    let _ = stream.flush().await;
}

/// Returns true if the other side proved to be a node of this cluster.
fn is_node(stream: &Stream) -> bool {
    stream.identity().is_some_and(|identity| identity.purpose == Purpose::Node)
}

/// Returns true if the first line asks for `/live`, `/ready` or `/status`.
fn is_health_check(first: &[u8]) -> bool {
    let line = first.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let method = words.next();
    let path = words.next().and_then(|target| target.split(|byte| *byte == b'?').next());
    let paths: [&[u8]; 3] = [b"/live", b"/ready", b"/status"];
    matches!(method, Some(b"GET" | b"HEAD")) && path.is_some_and(|path| paths.contains(&path))
}

/// Reads until the protocol is detected, then passes the connection to its front-end.
async fn detect_and_serve(
    stream: TcpStream,
    (mut role, guard): (ListenerRole, ExposureGuard),
    state: &ServerState,
    mut shutdown: Shutdown,
) {
    let shared = &state.shared;
    // Both calls fail only on a dead socket, and the next read notices that.
    let _ = stream.set_nodelay(true);
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let detecting = secure::detect(stream, role.kind, shared, shutdown.clone());
    let Some(Detected { stream, first, protocol }) = detecting.await else { return };
    if let Stream::Tls(_) = &stream {
        shutdown = shutdown.with_session_time(secure::session_time(&stream, shared));
        if is_node(&stream) {
            role = ListenerRole::of_joining_node();
        }
    }
    let (peer, tls) = (stream.peer_addr().ok(), stream.version());
    role.origin.address = peer.map(|peer| peer.ip());
    tracing::debug!(target: "server", ?peer, tls, language = ?protocol, "connected");
    let refused = secure::refused_certificate(&stream, shared);
    let connection = Connection { stream, first, role };
    tokio::select! {
        biased;
        () = serve_guarded(connection, (protocol, guard), state, shutdown) => {}
        () = refused => shared.warn_limited(|| {
            let peer = peer.map_or_else(String::new, |peer| format!(" of {peer}"));
            format!("the connection{peer} is closed: its certificate is accepted no more")
        }),
    }
}

/// Serves a connection as far as its listener may serve clients now.
async fn serve_guarded(
    connection: Connection,
    (protocol, guard): (FirstBytes, ExposureGuard),
    state: &ServerState,
    shutdown: Shutdown,
) {
    match guard.is_closed(&state.shared.node) {
        // Boxed, like all that is rare: a connection's future has no space for it.
        true => {
            let serving = exposure::serve_closed(connection, protocol, &state.shared, shutdown);
            Box::pin(serving).await;
        }
        false => serve_protocol(connection, protocol, state, shutdown).await,
    }
}

/// Passes a connection to the front-end of its protocol, if its listener serves that.
async fn serve_protocol(
    mut connection: Connection,
    protocol: FirstBytes,
    state: &ServerState,
    shutdown: Shutdown,
) {
    let (shared, kind) = (&state.shared, connection.role.kind);
    match protocol {
        FirstBytes::More => {}
        // On a port of Riak's alone, an unknown method is refused as HTTP does.
        FirstBytes::Resp if kind == ListenerKind::Riak && !connection.first.starts_with(b"*") => {
            serve_http(connection, true, state, shutdown).await;
        }
        FirstBytes::Resp | FirstBytes::Arakoon
            if matches!(kind, ListenerKind::Operators | ListenerKind::Riak) =>
        {
            refuse_foreign(connection, ForeignProtocol::Unknown, shared).await;
        }
        FirstBytes::Arakoon => {
            connection.role.origin.protocol = "arakoon";
            let _open = shared.counters.open_connection(ClientProtocol::Arakoon);
            arakoon::serve(connection, shared.clone(), &state.arakoon, shutdown).await;
        }
        FirstBytes::RiakPbc | FirstBytes::RiakPbcStartTls => {
            connection.role.origin.protocol = "riak";
            let _open = shared.counters.open_connection(ClientProtocol::Riak);
            riak::pbc::serve(connection, shared.clone(), state.riak.clone(), shutdown).await;
        }
        // Bytes that are not a prologue: close without an answer, as Arakoon does.
        _ if kind == ListenerKind::Arakoon => shared.counters.count_unknown_protocol(),
        FirstBytes::Http | FirstBytes::Riak => {
            let is_riak = match kind {
                ListenerKind::Riak => true,
                // On the operators' port every path belongs to the native front-end.
                ListenerKind::Operators => false,
                _ => protocol == FirstBytes::Riak,
            };
            serve_http(connection, is_riak, state, shutdown).await;
        }
        FirstBytes::Resp => {
            connection.role.origin.protocol = "resp";
            let _open = shared.counters.open_connection(ClientProtocol::Resp);
            resp::serve(connection, shared.clone(), state.resp.clone(), shutdown).await;
        }
        FirstBytes::Foreign(foreign) => refuse_foreign(connection, foreign, shared).await,
    }
}

/// Serves an HTTP connection. The two HTTP front-ends pass it to each other, depending on the paths
/// of its requests, because a proxy uses one connection for many clients.
async fn serve_http(
    mut connection: Connection,
    mut is_riak: bool,
    state: &ServerState,
    shutdown: Shutdown,
) {
    loop {
        let (shared, shutdown) = (&state.shared, shutdown.clone());
        connection.role.origin.protocol = if is_riak { "riak" } else { "http" };
        let next_connection = match is_riak {
            true => {
                let _open = shared.counters.open_connection(ClientProtocol::Riak);
                riak::serve(connection, shared.clone(), state.riak.clone(), shutdown).await
            }
            false => {
                let _open = shared.counters.open_connection(ClientProtocol::Http);
                native::serve(connection, shared.clone(), shutdown).await
            }
        };
        let Some(next_connection) = next_connection else { return };
        (connection, is_riak) = (next_connection, !is_riak);
    }
}

async fn refuse_foreign(connection: Connection, protocol: ForeignProtocol, shared: &Shared) {
    shared.counters.count_unknown_protocol();
    shared.warn_limited(|| {
        format!(
            "a connection is refused: its protocol is not supported at this port: {}; correct the \
             address or port in that client",
            protocol.name()
        )
    });
    send_and_close(connection.stream, &refusal::foreign(protocol, &connection.first)).await;
}
