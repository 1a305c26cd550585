//! Connection as a listener hands it to a protocol's front-end: stream, listener, and the request
//! to close.

use bytes::BytesMut;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Connection whose protocol is known: the stream, and the bytes that were read to tell it.
pub struct Connection {
    /// The stream; `TCP_NODELAY` is set.
    pub stream: TcpStream,
    /// Bytes read so far; never empty.
    pub first: BytesMut,
    /// Listener that took it.
    pub face: Face,
}

/// Purpose of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Face {
    /// Everything: clients and operators, on loopback.
    Both,
    /// Clients' requests; status, metrics and administration are elsewhere.
    Clients,
    /// Status, metrics and administration alone.
    Operators,
    /// Clients of Arakoon alone.
    Arakoon,
    /// Clients of Riak alone: whatever comes by HTTP is Riak's.
    Riak,
}

impl Face {
    /// Name of it in the status.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Face::Both => "clients and operators",
            Face::Clients => "clients",
            Face::Operators => "operators",
            Face::Arakoon => "arakoon",
            Face::Riak => "riak",
        }
    }
}

/// Tells connections that the doors are closing. Cheap to clone.
#[derive(Clone)]
pub struct Shutdown(watch::Receiver<bool>);

impl Shutdown {
    /// Becomes true when the doors begin to close.
    pub(crate) fn new(called: watch::Receiver<bool>) -> Shutdown {
        Shutdown(called)
    }

    /// Returns true if the doors are closing.
    pub fn is_called(&self) -> bool {
        *self.0.borrow()
    }

    /// Resolves when the doors begin to close. Cancel-safe.
    pub async fn called(&mut self) {
        // An error means that the doors are gone, which is closing too.
        let _ = self.0.wait_for(|called| *called).await;
    }
}
