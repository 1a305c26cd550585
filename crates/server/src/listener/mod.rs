//! Listener of all protocols: accepts and counts connections, detects the protocol, and passes each
//! connection to its front-end.
//!
//! Promises: nothing is served beyond loopback unless it is encrypted and access is on, or the
//! settings allow it; a silent connection is closed after `HELLO_MS_MAX`; a process out of file
//! descriptors waits instead of spinning; `close` lets requests in flight finish, up to a time
//! limit.
//! Never: parses a request; lets connections use the file descriptors that the log and the store
//! need.
//! Read next: `first_bytes.rs`, `secure.rs`, `accept.rs`, `exposure.rs`.

mod accept;
mod bound_ports;
mod exposure;
mod first_bytes;
mod refusal;
mod secure;

pub use bound_ports::{BoundPorts, ClusterlessFlag};

use crate::clock::Clock;
use crate::connection::{ListenerKind, ListenerRole, Shutdown};
use crate::settings::ServerSettings;
use crate::shared::Shared;
use crate::{arakoon, native, resp, riak};
use base::{Error, Reason, Result};
use node::{Node, Watch};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tls::ListenerMode;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Connections that may wait to be accepted. The system drops what comes on top, and the client
/// tries again only after a second. (The system's own bound, `net.core.somaxconn`, holds beside.)
const BACKLOG_MAX: u32 = 4096;

/// Watch over the loop of a listener: it rests until a connection arrives, and passes it on at
/// once.
const LISTENER_WATCH: Watch = Watch::Round(Duration::from_secs(15));

/// State that connections share, common and per protocol.
#[derive(Clone)]
struct ServerState {
    shared: Arc<Shared>,
    resp: Arc<resp::Registry>,
    arakoon: Arc<arakoon::Registry>,
    riak: Arc<riak::RiakCounters>,
}

impl ServerState {
    fn new(shared: Shared) -> ServerState {
        ServerState {
            shared: Arc::new(shared),
            resp: Arc::new(resp::Registry::new(Clock::Wall)),
            arakoon: Arc::default(),
            riak: Arc::default(),
        }
    }
}

/// Open front-ends. Dropping them closes them without waiting; [`FrontEnds::close`] waits.
pub struct FrontEnds {
    addresses: Vec<SocketAddr>,
    state: ServerState,
    shutdown: watch::Sender<bool>,
    listeners: Vec<JoinHandle<()>>,
}

impl FrontEnds {
    /// Binds the addresses and starts to serve.
    ///
    /// Errors: `NotSupported` (an address beyond loopback without `insecure`), `InUse` (another
    /// process listens there), `StartFailed` (the address can't be bound). The detail names the
    /// setting and the remedy.
    pub async fn open(node: Node, settings: ServerSettings) -> Result<FrontEnds> {
        Ok(FrontEnds::bind(settings)?.open(node))
    }

    fn serve(
        node: Node,
        settings: ServerSettings,
        bound: Vec<((TcpListener, SocketAddr), ListenerRole)>,
    ) -> FrontEnds {
        let state = ServerState::new(Shared::new(node, settings));
        state.shared.set_listeners(
            bound.iter().map(|((_, address), role)| (role.name(), *address)).collect(),
        );
        report_exposed(&state.shared);
        let (shutdown, receiver) = watch::channel(false);
        let mut addresses = Vec::new();
        let mut listeners = Vec::new();
        for ((listener, address), role) in bound {
            addresses.push(address);
            let shutdown = Shutdown::new(receiver.clone());
            let accepting = accept::run(listener, role, state.clone(), shutdown);
            listeners.push(spawn_listener(&state.shared, &address.to_string(), accepting));
        }
        listeners.extend(open_local_socket(&state.shared, Shutdown::new(receiver)));
        FrontEnds { addresses, state, shutdown, listeners }
    }

    /// Returns the addresses of the listeners, in this order: the clients' address, the operators'
    /// if it is another, those of Arakoon's clients, those of Riak's clients, those of
    /// its clients by Protocol Buffers, those of `listen_also`.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the state that all connections share, with the counters.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.state.shared
    }

    /// Returns the bytes free for requests of Redis' clients that run concurrently.
    #[cfg(test)]
    pub(crate) fn window_free(&self) -> usize {
        self.state.resp.window_free()
    }

    /// Stops accepting, lets requests in flight finish, refuses requests that arrive within
    /// `CLOSE_GRACE_MS`, and closes all connections. All of it takes at most `shutdown_timeout_ms`.
    pub async fn close(mut self) {
        self.state.shared.start_closing();
        self.shutdown.send_replace(true);
        for listener in self.listeners.drain(..) {
            // The task of a listener can't fail: it is never cancelled.
            let _ = listener.await;
        }
    }
}

impl Drop for FrontEnds {
    fn drop(&mut self) {
        self.shutdown.send_replace(true);
        for listener in &self.listeners {
            listener.abort();
        }
    }
}

/// Begins the loop of a listener, which the node's watchdog watches.
fn spawn_listener(
    shared: &Shared,
    address: &str,
    accepting: impl Future<Output = ()> + Send + 'static,
) -> JoinHandle<()> {
    let name = format!("listener {address}");
    tokio::spawn(shared.node.watch_loop(&name, LISTENER_WATCH, accepting))
}

/// Opens the operators' local socket. A node without one serves all the same: its path may be
/// longer than a socket's may be.
fn open_local_socket(shared: &Arc<Shared>, shutdown: Shutdown) -> Option<JoinHandle<()>> {
    let path = shared.settings.admin_socket.as_deref()?;
    match native::local::bind(path) {
        Ok(listener) => {
            let accepting = native::local::run(listener, shared.clone(), shutdown);
            Some(spawn_listener(shared, "of operators", accepting))
        }
        Err(error) => {
            tracing::error!(target: "server", %error, "operators have no local socket");
            None
        }
    }
}

/// Returns the listeners of these settings: the setting, the purpose, and the address of each, in
/// the order of [`FrontEnds::addresses`].
fn listeners(
    settings: &ServerSettings,
) -> impl Iterator<Item = (&'static str, ListenerKind, SocketAddr)> {
    let main = [("listen", ListenerKind::Clients, settings.listen)];
    let operators = settings.admin_listen.iter();
    let operators = operators.map(|it| ("admin_listen", ListenerKind::Operators, *it));
    let arakoon = settings.arakoon_listen.iter();
    let arakoon = arakoon.map(|it| ("arakoon_listen", ListenerKind::Arakoon, *it));
    let riak = settings.riak_listen.iter().map(|it| ("riak_listen", ListenerKind::Riak, *it));
    let pbc = settings.pbc_listen.iter().map(|it| ("pbc_listen", ListenerKind::RiakPbc, *it));
    let also = settings.listen_also.iter().map(|it| ("listen_also", ListenerKind::Clients, *it));
    main.into_iter().chain(operators).chain(arakoon).chain(riak).chain(pbc).chain(also)
}

/// Reports the listeners beyond this machine to the node, if there are any that take plain
/// connections.
fn report_exposed(shared: &Shared) {
    if shared.settings.tls_mode() == ListenerMode::Required {
        return;
    }
    let listeners = shared.listeners().iter();
    let exposed = listeners.filter(|(_, address)| !address.ip().is_loopback());
    let exposed: Vec<_> =
        exposed.map(|(serves, address)| format!("{address} ({serves})")).collect();
    if !exposed.is_empty() {
        shared.node.report_exposed(exposed.join(", "));
    }
}

fn check_addresses(settings: &ServerSettings) -> Result<()> {
    if settings.tls_mode() == ListenerMode::Required || settings.insecure {
        // Without `insecure` such a listener still waits for access to be on.
        return Ok(());
    }
    for (setting, _, address) in listeners(settings) {
        if !address.ip().is_loopback() {
            return Err(Error::new(
                Reason::NotSupported,
                format!(
                    "{setting} = {address} is open to the network without encryption or \
                     authentication; set `tls = required` and turn access on, listen on 127.0.0.1, \
                     or set `insecure` to allow it"
                ),
            ));
        }
    }
    Ok(())
}

fn bind(setting: &str, address: SocketAddr) -> Result<(TcpListener, SocketAddr)> {
    let to_error = |error: std::io::Error| {
        let reason = match error.kind() {
            std::io::ErrorKind::AddrInUse => Reason::InUse,
            _ => Reason::StartFailed,
        };
        let remedy = match error.kind() {
            std::io::ErrorKind::AddrInUse => "another process uses this port: choose another",
            std::io::ErrorKind::AddrNotAvailable => "this machine has no such address",
            std::io::ErrorKind::PermissionDenied => {
                "ports below 1024 need a privilege: choose a higher port"
            }
            _ => "choose another address",
        };
        Error::new(reason, format!("{setting} = {address}: {error}: {remedy}"))
    };
    let open = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // A restarted node must get its old address although old connections linger in TIME_WAIT.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG_MAX)
    };
    let listener = open().map_err(to_error)?;
    let local = listener.local_addr().map_err(to_error)?;
    Ok((listener, local))
}

#[cfg(test)]
mod tests;
