//! Login of requests, and decisions about acts of operators.
//!
//! A request is refused before its body is read if nobody logs in: only health, the document and
//! nodes with a join token need no login.

use super::connection::NativeConnection;
use super::routes::Admission;
use super::target::{HttpRefusal, RequestTarget};
use super::translate::{NativePlan, OperatorCall};
use crate::connection::ListenerKind;
use crate::shared::Shared;
use base::{Error, Principal, Reason};
use std::net::{IpAddr, Ipv6Addr};

impl NativeConnection {
    /// Sets the principal of a request by its header `Authorization`. Returns the target again.
    pub(super) async fn log_in(
        &mut self,
        authorization: Option<Vec<u8>>,
        target: RequestTarget,
    ) -> Result<RequestTarget, HttpRefusal> {
        let (node, admission) = (&self.shared.node, target.route.admission);
        let principal = match authorization {
            // The directory checks a join token.
            Some(header) if node.is_access_on() && target.token_digest.is_none() => {
                // A socket without an address is dead.
                let from = self.stream.peer_addr().map(|address| address.ip());
                let from = from.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
                let login = self.shared.logins.by_header(node, from, &header).await?;
                Principal::User(login, self.role.rights())
            }
            _ => self.role.principal(),
        };
        let is_anonymous = principal.user().is_none();
        if node.is_access_on() && is_anonymous && admission == Admission::Rights {
            let text = "log in first: this cluster requires a user";
            return Err(Error::new(Reason::Unauthenticated, text).into());
        }
        if principal != *self.flow.principal() {
            self.flow.set_principal(principal);
        }
        Ok(target)
    }

    /// Returns true if a plan is about buckets, and the listener serves operators only.
    pub(super) fn is_misplaced(&self, plan: &NativePlan) -> bool {
        self.role.kind == ListenerKind::Operators && plan.is_about_buckets()
    }

    /// Decides about an operator's call.
    pub(super) fn decide(&self, call: &OperatorCall) -> Result<(), Error> {
        decide(&self.shared, self.flow.principal(), call)
    }
}

/// Decides about an operator's call of a principal.
pub(super) fn decide(
    shared: &Shared,
    principal: &Principal,
    call: &OperatorCall,
) -> Result<(), Error> {
    match call.act() {
        Some(act) => shared.node.authorize(principal, act),
        None => Ok(()),
    }
}

/// Returns the refusal of a data request at the operators' listener.
pub(super) fn operators_only() -> HttpRefusal {
    let text = "this listener serves operators only; use the address of `listen` for data";
    Error::new(Reason::Forbidden, text).into()
}
