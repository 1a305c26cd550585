//! Login of requests, and decisions about acts of operators.
//!
//! Credentials in a request's header `Authorization` count before the certificate of its
//! connection. A request is refused before its body is read if nobody logs in, or who does has no
//! right that the route needs: only health, the document and nodes with a join token need no login.

use super::connection::NativeConnection;
use super::output::AnswerOrigin;
use super::route_needs::least_needs;
use super::route_operations::operation_name;
use super::routes::Admission;
use super::target::{HttpRefusal, RequestTarget};
use super::translate::{NativePlan, OperatorCall};
use crate::connection::{Access, ListenerKind, ListenerRole};
use crate::http::Head;
use crate::shared::Shared;
use base::access::Verb;
use base::rights::Need;
use base::{Error, Principal, Reason};
use node::RecordedAct;
use std::net::{IpAddr, Ipv6Addr};
use zeroize::Zeroizing;

/// Value of a header `Authorization`; wiped when it is dropped.
pub(super) type AuthorizationValue = Zeroizing<Vec<u8>>;

impl NativeConnection {
    /// Returns the header `Authorization` of a head, while access is on.
    pub(super) fn authorization(&self, head: &Head<'_>) -> Option<AuthorizationValue> {
        let value = head.authorization.filter(|_| self.shared.node.is_access_on())?;
        Some(Zeroizing::new(value.to_vec()))
    }

    /// Admits a request before its body is read: logs its sender in, and decides what its route
    /// needs at least. Returns the target again.
    pub(super) async fn admit(
        &mut self,
        authorization: Option<AuthorizationValue>,
        target: RequestTarget,
    ) -> Result<RequestTarget, HttpRefusal> {
        self.log_in(authorization, &target).await?;
        let needs = least_needs(&target);
        let is_about_buckets = |need: &Need<'_>| !need.is_of_cluster();
        if self.role.kind == ListenerKind::Operators && needs.iter().flatten().any(is_about_buckets)
        {
            return Err(misplaced(self.role));
        }
        let needs = needs.into_iter().flatten();
        self.shared.node.authorize_any(&mut self.flow, operation_name(&target), needs)?;
        Ok(target)
    }

    /// Returns the role by which the head of a request is read. While access is on, the listener
    /// vouches for nobody, but a user's certificate does in place of a join token.
    pub(super) fn role_of(&self, head: &Head<'_>) -> ListenerRole {
        let Shared { node, logins, .. } = &*self.shared;
        if !node.is_access_on() {
            return self.role;
        }
        let login = || logins.by_certificate(node, self.stream.identity());
        match head.authorization.is_none() && login().is_ok_and(|login| login.is_some()) {
            true => ListenerRole { access: Access::Operator, ..self.role },
            false => self.role.without_trust(),
        }
    }

    /// Sets the principal of a request by its header `Authorization`, or else by the certificate of
    /// its connection.
    async fn log_in(
        &mut self,
        authorization: Option<AuthorizationValue>,
        target: &RequestTarget,
    ) -> Result<(), HttpRefusal> {
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
            None if node.is_access_on() && admission != Admission::Open => {
                let caller = (self.role.origin.address, self.flow.principal());
                let identity = self.stream.identity();
                match self.shared.logins.record_by_certificate(node, caller, identity) {
                    Ok(Some(login)) => Principal::User(login, self.role.rights()),
                    Ok(None) => self.role.principal(),
                    Err(error) => return Err(self.refuse_stranger(target, error)),
                }
            }
            _ => self.role.principal(),
        };
        let is_anonymous = principal.user().is_none();
        if node.requires_login() && is_anonymous && admission == Admission::Rights {
            let text = "log in first: this cluster requires a user";
            return Err(self.refuse_stranger(target, Error::new(Reason::Unauthenticated, text)));
        }
        if principal != *self.flow.principal() {
            self.flow.set_principal(principal);
        }
        Ok(())
    }

    /// Records that a request without a login is refused. Returns the refusal.
    fn refuse_stranger(&self, target: &RequestTarget, error: Error) -> HttpRefusal {
        let need = least_needs(target)[0];
        let verb = || need.and_then(|need| need.verb()).map_or("member", Verb::name);
        let operation = operation_name(target).unwrap_or_else(verb);
        let scope = need.map_or_else(String::new, |need| need.scope());
        let stranger = self.role.principal();
        self.shared.node.record_refusal(&stranger, operation, scope, error.reason);
        error.into()
    }

    /// Decides about an operator's call.
    pub(super) fn decide(&self, call: &OperatorCall) -> Result<RecordedAct, Error> {
        decide(&self.shared, self.flow.principal(), call)
    }

    /// Refuses a request that does not confirm what it destroys; for a missing right, if there is
    /// one.
    pub(super) fn refuse_plan(&mut self, plan: &NativePlan, error: Error, origin: AnswerOrigin) {
        let node = &self.shared.node;
        let decided = match plan {
            NativePlan::Submit(request, _) => node.authorize_request(&mut self.flow, request),
            // What its parts need shows once they are read.
            NativePlan::Operator(OperatorCall::EmptyPrefix(call)) => {
                node.authorize_request(&mut self.flow, &call.as_whole())
            }
            NativePlan::Operator(call) => self.decide(call).map(RecordedAct::withdraw),
            NativePlan::Stream(_)
            | NativePlan::Feed(..)
            | NativePlan::PreconditionFailed
            | NativePlan::Unconfirmed(..) => Ok(()),
        };
        self.refuse(decided.err().unwrap_or(error).into(), origin);
    }
}

/// Decides about an operator's call of a principal.
pub(super) fn decide(
    shared: &Shared,
    principal: &Principal,
    call: &OperatorCall,
) -> Result<RecordedAct, Error> {
    match call.act() {
        Some(act) => shared.node.authorize(principal, act),
        None => Ok(RecordedAct::UNRECORDED),
    }
}

/// Returns the refusal of a data request on a connection that serves none.
fn misplaced(role: ListenerRole) -> HttpRefusal {
    let text = match role.access {
        Access::Operator => {
            "this listener serves operators only; use the address of `listen` for data"
        }
        Access::Client => {
            "only health checks and nodes that join are served here: a node's certificate opens \
             nothing else, and beyond loopback clients are served once access is on (`credenza \
             access init`)"
        }
    };
    Error::new(Reason::Forbidden, text).into()
}
