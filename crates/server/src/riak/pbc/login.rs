//! Login of connections: by the client's certificate, or by `RpbAuthReq`.
//!
//! Until it, a client may send only small requests, and is answered only what it needs to log in.

use super::serve::{PbcConnection, PbcDisconnect};
use base::Principal;
use base::access::{Login, Password};
use riak_pbc::{PbcRequest, RpbAuthReq, append_empty, append_error, code};
use std::sync::Arc;

/// Failed logins after which a connection ends.
const FAILED_LOGINS_MAX: u8 = 3;

impl PbcConnection {
    /// Returns true if the client must log in before anything else. Logs it in by its certificate,
    /// if it has one that a user may log in with.
    pub(super) fn is_stranger(&mut self) -> bool {
        let is_anonymous =
            self.shared.node.is_access_on() && self.flow.principal().user().is_none();
        is_anonymous && !self.log_in_by_certificate() && self.shared.node.requires_login()
    }

    fn log_in_by_certificate(&mut self) -> bool {
        let (node, identity) = (&self.shared.node, self.stream.identity());
        let caller = (self.role.origin.address, self.flow.principal());
        match self.shared.logins.record_by_certificate(node, caller, identity) {
            Ok(Some(login)) => {
                self.set_login(login);
                true
            }
            Ok(None) | Err(_) => false,
        }
    }

    fn set_login(&mut self, login: Arc<Login>) {
        self.flow.set_principal(Principal::User(login, self.role.rights()));
    }

    /// Returns the refusal of a request of a client that has not logged in. `None`: it may be
    /// answered.
    pub(super) fn stranger_refusal(request: &PbcRequest) -> Option<&'static str> {
        match request {
            PbcRequest::Auth(_) | PbcRequest::StartTls | PbcRequest::Ping => None,
            _ => Some("log in first: this cluster requires a user (RpbAuthReq)"),
        }
    }

    /// Logs in by name and password. A refused client stays what it was; after a few refusals the
    /// connection ends.
    pub(super) async fn log_in(&mut self, auth: RpbAuthReq) -> Result<(), PbcDisconnect> {
        if !self.shared.node.is_access_on() {
            append_error(&mut self.out, "Security not enabled: there is no user to log in");
            return Ok(());
        }
        let shared = self.shared.clone();
        let from = self.stream.peer_addr()?.ip();
        let login = match Password::new(&auth.password) {
            Ok(password) => {
                let credentials = (&auth.user[..], &password);
                shared.logins.by_password(&shared.node, from, credentials).await
            }
            Err(error) => Err(error),
        };
        match login {
            Ok(login) => {
                self.set_login(login);
                append_empty(&mut self.out, code::AUTH);
                return Ok(());
            }
            Err(error) if error.kind() == base::Kind::Unavailable => {
                append_error(&mut self.out, &error.text());
            }
            Err(_) => append_error(&mut self.out, "Authentication failed"),
        }
        self.failed_logins += 1;
        if self.failed_logins < FAILED_LOGINS_MAX { Ok(()) } else { Err(PbcDisconnect::Refused) }
    }
}
