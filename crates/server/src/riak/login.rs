//! Login of requests by their header `Authorization`, as Riak's clients send it.

use super::errors;
use super::request::RiakRequest;
use super::serve::{ConnectionEnd, RiakConnection};
use base::{Error, Principal, Reason};

/// Path of the liveness check, which needs no login.
const PING: &str = "/ping";

impl RiakConnection {
    /// Sets the principal of a request by its header `Authorization`, while access is on.
    pub(super) async fn log_in(&mut self, request: &RiakRequest) -> Result<(), ConnectionEnd> {
        let node = &self.shared.node;
        if !node.is_access_on() {
            return Ok(());
        }
        let principal = match request.header("authorization") {
            Some(header) => {
                let from = self.stream.peer_addr()?.ip();
                let login = self.shared.logins.by_header(node, from, header).await;
                Principal::User(login.map_err(|error| errors::answer(&error))?, self.role.rights())
            }
            None if request.path == PING => self.role.principal(),
            None => {
                let text = "log in first: this cluster requires a user";
                let error = Error::new(Reason::Unauthenticated, text);
                return Err(errors::answer(&error).into());
            }
        };
        if principal != *self.flow.principal() {
            self.flow.set_principal(principal);
        }
        Ok(())
    }
}
