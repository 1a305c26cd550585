//! Connection as a listener passes it to a protocol's front-end: stream, listener, and the request
//! to close.

use base::Principal;
use base::access::{ListenerRights, Origin};
use bytes::BytesMut;
use std::net::IpAddr;
use std::time::Duration;
use tls::Stream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// Connection whose protocol is known: the stream, and the bytes read to detect the protocol.
pub struct Connection {
    /// The stream; `TCP_NODELAY` is set. It knows the identity in its client's certificate.
    pub stream: Stream,
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
    /// Riak's Protocol Buffers only.
    RiakPbc,
}

/// Rights of a listener's connections while access is off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Acts of operators too: membership, settings, status, other clients' connections.
    Operator,
    /// Requests of clients only.
    Client,
}

/// Purpose of a listener, and the rights of its connections; with the origin of one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListenerRole {
    /// Its purpose.
    pub kind: ListenerKind,
    /// Rights of its connections.
    pub access: Access,
    /// Protocol and address of the connection, once they are known.
    pub origin: Origin,
}

impl ListenerRole {
    /// Returns the role of a connection whose certificate is that of a node: it comes to join, and
    /// is served nothing else.
    pub(crate) fn of_joining_node() -> ListenerRole {
        let (kind, access) = (ListenerKind::Operators, Access::Client);
        ListenerRole { kind, access, origin: Origin::default() }
    }

    /// Returns the role of a listener at this address. `operators_listen`: operators have a
    /// listener of their own. Then it is their only one; otherwise whoever reaches loopback is an
    /// operator.
    pub(crate) fn new(kind: ListenerKind, address: IpAddr, operators_listen: bool) -> ListenerRole {
        let is_operators = match kind {
            ListenerKind::Operators => true,
            _ => address.is_loopback() && !operators_listen,
        };
        let access = if is_operators { Access::Operator } else { Access::Client };
        ListenerRole { kind, access, origin: Origin::default() }
    }

    /// Returns the role while access is on: the listener vouches for nobody.
    pub(crate) fn without_trust(self) -> ListenerRole {
        ListenerRole { access: Access::Client, ..self }
    }

    /// Returns the rights of its callers while access is off.
    pub(crate) fn rights(self) -> ListenerRights {
        ListenerRights { operates: self.access == Access::Operator, origin: self.origin }
    }

    /// Returns the principal of a connection that has not logged in.
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
            (ListenerKind::RiakPbc, _) => "riak pbc",
        }
    }
}

/// Signal to a connection that it must end: the server is closing, or its session is over. Cheap to
/// clone.
#[derive(Clone)]
pub struct Shutdown {
    called: watch::Receiver<bool>,
    /// End of the session. `None`: it lasts as long as its client wishes.
    session_end: Option<Instant>,
}

impl Shutdown {
    /// Returns a signal that is on once `called` holds true.
    pub(crate) fn new(called: watch::Receiver<bool>) -> Shutdown {
        Shutdown { called, session_end: None }
    }

    /// Returns a signal that is also on after this time.
    pub(crate) fn with_session_time(self, session_time: Duration) -> Shutdown {
        // Without a time that far there is no end.
        Shutdown { session_end: Instant::now().checked_add(session_time), ..self }
    }

    /// Returns true if the connection must end.
    pub fn is_requested(&self) -> bool {
        *self.called.borrow() || self.session_end.is_some_and(|end| Instant::now() >= end)
    }

    /// Resolves when the connection must end. Returns true if the reason is that the server closes.
    /// Cancel-safe.
    pub async fn wait(&mut self) -> bool {
        // An error means that the front-ends are gone: the server has closed.
        let closing = self.called.wait_for(|called| *called);
        let Some(end) = self.session_end else {
            let _ = closing.await;
            return true;
        };
        tokio::select! {
            biased;
            _ = closing => true,
            () = sleep_until(end) => false,
        }
    }
}
