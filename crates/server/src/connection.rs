//! Connection as a listener passes it to a protocol's front-end: stream, listener, and the request
//! to close.

use base::Principal;
use base::access::ListenerRights;
use bytes::BytesMut;
use std::net::IpAddr;
use tokio::net::TcpStream;
use tokio::sync::watch;

/// Connection whose protocol is known: the stream, and the bytes read to detect the protocol.
pub struct Connection {
    /// The stream; `TCP_NODELAY` is set.
    pub stream: TcpStream,
    /// Bytes read so far; never empty.
    pub first: BytesMut,
    /// Role of the listener that accepted it.
    pub role: ListenerRole,
}

/// Purpose of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenerKind {
    /// Requests of clients, in every protocol.
    Clients,
    /// Status, metrics and administration only.
    Operators,
    /// Arakoon's protocol only.
    Arakoon,
    /// Riak's HTTP interface only: every HTTP request is treated as Riak's.
    Riak,
}

/// Rights of a listener's connections while access is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Acts of operators too: membership, settings, status, other clients' connections.
    Operator,
    /// Requests of clients only.
    Client,
}

/// Purpose of a listener, and the rights of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerRole {
    /// Its purpose.
    pub kind: ListenerKind,
    /// Rights of its connections.
    pub access: Access,
}

impl ListenerRole {
    /// Returns the role of a listener at this address. `operators_listen`: operators have a
    /// listener of their own. Then it is their only one; otherwise whoever reaches loopback is an
    /// operator.
    pub(crate) fn new(kind: ListenerKind, address: IpAddr, operators_listen: bool) -> ListenerRole {
        let is_operators = match kind {
            ListenerKind::Operators => true,
            _ => address.is_loopback() && !operators_listen,
        };
        let access = if is_operators { Access::Operator } else { Access::Client };
        ListenerRole { kind, access }
    }

    /// Returns the role while access is on: the listener vouches for nobody.
    pub(crate) fn without_trust(self) -> ListenerRole {
        ListenerRole { access: Access::Client, ..self }
    }

    /// Returns the rights of its callers while access is off.
    pub(crate) fn rights(self) -> ListenerRights {
        ListenerRights { operates: self.access == Access::Operator }
    }

    /// Returns the principal of a connection that has not logged in. A certificate that names a
    /// user logs in by `Logins::by_name` instead.
    pub(crate) fn principal(self) -> Principal {
        Principal::Anonymous(self.rights())
    }

    /// Returns the name that the node's status shows.
    pub(crate) fn name(self) -> &'static str {
        match (self.kind, self.access) {
            (ListenerKind::Clients, Access::Operator) => "clients and operators",
            (ListenerKind::Clients, Access::Client) => "clients",
            (ListenerKind::Operators, _) => "operators",
            (ListenerKind::Arakoon, _) => "arakoon",
            (ListenerKind::Riak, _) => "riak",
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
