//! Ports that are bound before the node serves: health checks learn that the node is starting, and
//! all other clients get an error to retry on.
//!
//! A port that is in use is reported before the log is read, however long that takes, and a long
//! recovery is distinguishable from a dead process.

use super::accept::{ACCEPT_PAUSE_MS, REFUSALS_MAX};
use super::first_bytes::FirstBytes;
use super::refusal::{self, REFUSAL_MS_MAX, StartPhase, send_and_close};
use super::secure::{self, Detected};
use super::{FrontEnds, check_addresses, listeners};
use crate::connection::{ListenerKind, ListenerRole};
use crate::settings::ServerSettings;
use base::limits::HTTP_LINE_BYTES_MAX;
use base::{Error, Reason, Result};
use node::Node;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener as StdTcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// Time for which connections at sockets of a service manager wait for the node to start. After it
/// they are answered that the node is starting.
const QUIET_START_MS: u64 = 5_000;

/// Bound addresses without a serving node behind them yet.
pub struct BoundPorts {
    clusterless: ClusterlessFlag,
    /// True if a service manager passed a socket: it keeps connections while nobody accepts them.
    has_passed_socket: bool,
    pub(super) settings: ServerSettings,
    pub(super) bound: Vec<((TcpListener, SocketAddr), ListenerRole)>,
}

/// True if the starting node belongs to no cluster yet. The client that founds a cluster waits for
/// this.
#[derive(Clone, Default)]
pub struct ClusterlessFlag(Arc<AtomicBool>);

impl ClusterlessFlag {
    /// Sets the flag.
    pub fn set(&self, clusterless: bool) {
        self.0.store(clusterless, Ordering::Relaxed);
    }

    fn phase(&self) -> StartPhase {
        if self.0.load(Ordering::Relaxed) { StartPhase::Clusterless } else { StartPhase::Starting }
    }
}

impl FrontEnds {
    /// Binds the addresses and serves nothing yet. Errors: as for [`FrontEnds::open`].
    pub fn bind(settings: ServerSettings) -> Result<BoundPorts> {
        FrontEnds::bind_with(settings, Vec::new())
    }

    /// Binds the addresses for which a service manager has passed no socket. `Malformed` if no
    /// setting names the address of a passed one.
    pub fn bind_with(settings: ServerSettings, passed: Vec<StdTcpListener>) -> Result<BoundPorts> {
        check_addresses(&settings)?;
        let has_passed_socket = !passed.is_empty();
        let mut passed = PassedSockets::new(passed)?;
        let mut bound = Vec::new();
        for (setting, kind, address) in listeners(&settings) {
            let role = ListenerRole::new(kind, address.ip(), settings.admin_listen.is_some());
            let listener = match passed.take(address) {
                Some(socket) => adopt(setting, address, socket)?,
                None => super::bind(setting, address)?,
            };
            bound.push((listener, role));
        }
        passed.must_be_empty()?;
        let clusterless = ClusterlessFlag::default();
        Ok(BoundPorts { clusterless, has_passed_socket, settings, bound })
    }
}

/// Sockets that a service manager passed, with their addresses.
struct PassedSockets(Vec<(SocketAddr, StdTcpListener)>);

impl PassedSockets {
    fn new(sockets: Vec<StdTcpListener>) -> Result<PassedSockets> {
        let with_address = |socket: StdTcpListener| Ok((socket.local_addr()?, socket));
        let sockets = sockets.into_iter().map(with_address).collect::<std::io::Result<_>>();
        sockets.map(PassedSockets).map_err(|error| {
            Error::new(Reason::StartFailed, format!("a passed socket can't be used: {error}"))
        })
    }

    fn take(&mut self, address: SocketAddr) -> Option<StdTcpListener> {
        let at = self.0.iter().position(|(passed, _)| *passed == address)?;
        Some(self.0.swap_remove(at).1)
    }

    fn must_be_empty(&self) -> Result<()> {
        let Some((address, _)) = self.0.first() else { return Ok(()) };
        let text = format!(
            "the service manager passes a socket at {address}, which no setting names: set \
             `listen` to it, or correct the socket unit"
        );
        Err(Error::new(Reason::Malformed, text))
    }
}

fn adopt(
    setting: &str,
    address: SocketAddr,
    socket: StdTcpListener,
) -> Result<(TcpListener, SocketAddr)> {
    let adopted = socket.set_nonblocking(true).and_then(|()| TcpListener::from_std(socket));
    adopted.map(|listener| (listener, address)).map_err(|error| {
        let text = format!("{setting} = {address}: the passed socket can't be used: {error}");
        Error::new(Reason::StartFailed, text)
    })
}

impl BoundPorts {
    /// Returns the addresses of the future front-ends, the clients' address first.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.bound.iter().map(|((_, address), _)| *address).collect()
    }

    /// Returns the flag by which the node reports that it belongs to no cluster.
    pub fn clusterless(&self) -> ClusterlessFlag {
        self.clusterless.clone()
    }

    /// Answers every connection that the node is starting, until the future is dropped. Never
    /// returns. Connections at passed sockets wait for a short start instead, so that a restart
    /// refuses none.
    pub async fn refuse_until_started(&self) -> std::convert::Infallible {
        if self.has_passed_socket {
            sleep(Duration::from_millis(QUIET_START_MS)).await;
        }
        let mut connections = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                Some(_) = connections.join_next(), if !connections.is_empty() => continue,
                accepted = self.accept() => accepted,
            };
            match accepted {
                Ok((stream, kind)) if connections.len() < REFUSALS_MAX => {
                    let time_limit = Duration::from_millis(REFUSAL_MS_MAX);
                    let phase = self.clusterless.phase();
                    let settings = self.settings.clone();
                    connections.spawn(async move {
                        let answering = answer_starting(stream, kind, phase, &settings);
                        let _ = timeout(time_limit, answering).await;
                    });
                }
                Ok(_) => {}
                Err(_) => sleep(Duration::from_millis(ACCEPT_PAUSE_MS.1)).await,
            }
        }
    }

    async fn accept(&self) -> std::io::Result<(TcpStream, ListenerKind)> {
        poll_fn(|context| {
            for ((listener, _), role) in &self.bound {
                if let Poll::Ready(accepted) = listener.poll_accept(context) {
                    return Poll::Ready(accepted.map(|(stream, _)| (stream, role.kind)));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Starts to serve.
    pub fn open(self, node: Node) -> FrontEnds {
        FrontEnds::serve(node, self.settings, self.bound)
    }
}

/// Answers a connection in its own protocol.
async fn answer_starting(
    socket: TcpStream,
    kind: ListenerKind,
    phase: StartPhase,
    settings: &ServerSettings,
) {
    let Some(detected) = secure::detect_at_start(socket, kind, settings).await else { return };
    let Detected { mut stream, mut first, protocol } = detected;
    if protocol == FirstBytes::Http {
        // The answer depends on the first line.
        while !first.contains(&b'\n') && first.len() <= HTTP_LINE_BYTES_MAX {
            if stream.read_buf(&mut first).await.unwrap_or(0) == 0 {
                return;
            }
        }
    }
    send_and_close(stream, &refusal::starting(phase, protocol, &first)).await;
}
