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

/// Name, in the audit log, of a request that is no operation: for the list of resources, or for
/// what is not served.
const OTHER: &str = "request";
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
                let caller = (self.role.origin.address, self.flow.principal());
                let identity = self.stream.identity();
                let login = self.shared.logins.record_by_certificate(node, caller, identity);
                let stranger = || {
                    let text = "log in first: this cluster requires a user";
                    Error::new(Reason::Unauthenticated, text)
                };
                match login.and_then(|login| login.ok_or_else(stranger)) {
                    Ok(login) => Principal::User(login, self.role.rights()),
                    Err(_) if !node.requires_login() => self.role.principal(),
                    Err(error) => {
                        self.record_stranger(request, &error);
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

    /// Records that a request without a login is refused.
    fn record_stranger(&self, request: &RiakRequest, error: &Error) {
        let Some(Ok(resource)) = parse_path(&request.path) else { return };
        let operation = operation_name(&resource, request.method).unwrap_or(OTHER);
        let (node, stranger) = (&self.shared.node, self.role.principal());
        node.record_refusal(&stranger, operation, scope(&resource), error.reason);
    }

    /// Plans a request. Refuses one with a body whose sender lacks what its path needs.
    pub(super) fn plan(&mut self, request: &RiakRequest) -> RiakPlan {
        let node = &self.shared.node;
        if request.body.is_empty() || !node.is_access_on() {
            return plan(request);
        }
        let Some(Ok(resource)) = parse_path(&request.path) else { return plan(request) };
        let need = least_need(&resource, request.method);
        let operation = operation_name(&resource, request.method);
        match node.authorize_any(&mut self.flow, operation, need) {
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

/// Returns the name of the operation that a request is. `None`: it is none.
pub(super) fn operation_name(resource: &Resource, method: Method) -> Option<&'static str> {
    use Method::{Delete, Get, Head, Post, Put};
    Some(match (resource, method) {
        (Resource::Object(..), Get | Head) => "fetch",
        (Resource::Object(..), Put | Post) | (Resource::Keys(_), Post) => "store",
        (Resource::Object(..), Delete) => "remove",
        (Resource::Datatype(..) | Resource::Counter(..), Get | Head) => "fetch_type",
        (Resource::Datatype(..), Delete) => "remove",
        (Resource::Datatype(..) | Resource::Counter(..), Put | Post) => "change",
        (Resource::Keys(_), Get | Head) => "list_keys",
        (Resource::Properties(_), Get | Head) => "describe_bucket",
        (Resource::Keys(_) | Resource::Properties(_), Put) => "alter_bucket",
        (Resource::Properties(_), Delete) => "reset_bucket",
        (Resource::TypeProperties { .. }, Get | Head) => "list_types",
        (Resource::TypeProperties { .. }, Put) => "alter_type",
        (Resource::Index(..), Get | Head) => "query_index",
        (Resource::Owners(..), Get | Head) => "owners",
        (Resource::Buckets { .. }, Get | Head) => "list_buckets",
        (Resource::Statistics, Get | Head) => "show_statistics",
        _ => return None,
    })
}

/// Returns the scope of a resource, as grants have it. Empty: it is about no bucket.
fn scope(resource: &Resource) -> String {
    match resource {
        Resource::Object(bucket, _)
        | Resource::Keys(bucket)
        | Resource::Properties(bucket)
        | Resource::Datatype(bucket, _)
        | Resource::Counter(bucket, _)
        | Resource::Index(bucket, _)
        | Resource::Owners(bucket, _) => bucket.name.full().into(),
        Resource::Buckets { kind } | Resource::TypeProperties { kind } => {
            format!("{}/*", if kind == "default" { TYPE } else { kind })
        }
        Resource::Statistics => "cluster".into(),
        Resource::Ping | Resource::Root | Resource::Unsupported(_) => String::new(),
    }
}
