//! Connection as a listener passes it to a protocol's front-end: stream, listener, and the request
//! to close.

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Connection whose protocol is known: the stream, and the bytes read to detect the protocol.
pub struct Connection {
    /// The stream; `TCP_NODELAY` is set.
    pub stream: TcpStream,
    /// Bytes read so far; never empty.
    pub first: BytesMut,
    /// Kind of the listener that accepted it.
    pub kind: ListenerKind,
}

/// Purpose of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Clients and operators, on loopback.
    Both,
    /// Requests of clients. Status, metrics and administration have another listener.
    Clients,
    /// Status, metrics and administration only.
    Operators,
    /// Arakoon's protocol only.
    Arakoon,
    /// Riak's HTTP interface only: every HTTP request is treated as Riak's.
    Riak,
}

impl ListenerKind {
    /// Returns the name that the node's status shows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ListenerKind::Both => "clients and operators",
            ListenerKind::Clients => "clients",
            ListenerKind::Operators => "operators",
            ListenerKind::Arakoon => "arakoon",
            ListenerKind::Riak => "riak",
        }
    }
}

/// Signal to connections that the server is closing. Cheap to clone.
#[derive(Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Returns a signal that is on once `called` holds true.
    pub(crate) fn new(called: watch::Receiver<bool>) -> Shutdown {
        Shutdown(called)
    }

    /// Returns true if the server is closing.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the server begins to close. Cancel-safe.
    pub async fn wait(&mut self) {
        // An error means that the front-ends are gone: the server has closed.
        let _ = self.0.wait_for(|called| *called).await;
    }
}
