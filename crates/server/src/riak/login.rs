//! Login of requests by their header `Authorization`, as Riak's clients send it, or by the client's
//! certificate, and the decision about their path.
//!
//! The body of a request is parsed only if its sender has a right that the path needs.

use super::path::{Resource, TYPE, parse_path};
use super::request::RiakRequest;
use super::serve::{ConnectionEnd, RiakConnection};
use super::{RiakPlan, errors, plan};
use crate::http::Method;
use base::access::Verb;
use base::rights::{KeySet, Need};
use base::{Error, Principal, Reason};

/// Path of the liveness check, which needs no login.
const PING: &str = "/ping";

impl RiakConnection {
    /// Sets the principal of a request by its header `Authorization`, or else by the certificate of
    /// its connection, while access is on.
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
                let login = self.shared.logins.by_certificate(node, self.stream.identity());
                match login.map_err(|error| errors::answer(&error))? {
                    Some(login) => Principal::User(login, self.role.rights()),
                    None if !node.requires_login() => self.role.principal(),
                    None => {
                        let text = "log in first: this cluster requires a user";
                        let error = Error::new(Reason::Unauthenticated, text);
                        return Err(errors::answer(&error).into());
                    }
                }
            }
        };
        if principal != *self.flow.principal() {
            self.flow.set_principal(principal);
        }
        Ok(())
    }

    /// Plans a request. Refuses one with a body whose sender lacks what its path needs.
    pub(super) fn plan(&mut self, request: &RiakRequest) -> RiakPlan {
        let node = &self.shared.node;
        if request.body.is_empty() || !node.is_access_on() {
            return plan(request);
        }
        let Some(Ok(resource)) = parse_path(&request.path) else { return plan(request) };
        let need = least_need(&resource, request.method);
        match node.authorize_any(&mut self.flow, need) {
            Ok(()) => plan(request),
            Err(error) => RiakPlan::Answer(errors::answer(&error)),
        }
    }
}

/// Returns what every write to a resource needs at least. `None`: it is no write.
fn least_need(resource: &Resource, method: Method) -> Option<Need<'_>> {
    use Method::{Delete, Post, Put};
    match (resource, method) {
        (Resource::Object(bucket, key), Put | Post | Delete) => {
            Some(Need::Keys(Verb::Write, &bucket.name, KeySet::One(key)))
        }
        (Resource::Keys(bucket), Post)
        | (Resource::Datatype(bucket, _) | Resource::Counter(bucket, _), Put | Post | Delete) => {
            Some(Need::Keys(Verb::Write, &bucket.name, KeySet::Part))
        }
        (Resource::Keys(bucket) | Resource::Properties(bucket), Put) => {
            Some(Need::Keys(Verb::Own, &bucket.name, KeySet::All))
        }
        (Resource::TypeProperties { kind }, Put) => {
            let kind = if kind == "default" { TYPE } else { kind };
            Some(Need::Type(Verb::Own, kind))
        }
        _ => None,
    }
}
