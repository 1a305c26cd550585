//! Slow log over HTTP: its routes, and its answer.

use super::routes::{HttpRoute, ResponseBody, RouteName, route};
use crate::counters::OperationKind;
use crate::http::Method;
use crate::shared::Shared;
use node::{SlowEntry, SlowRequest};

pub const LIST: HttpRoute = HttpRoute {
    response_body: ResponseBody::Json("SlowRequests"),
    operation: OperationKind::Admin,
    ..route(
        RouteName::ListSlowRequests,
        Method::Get,
        "/v1/admin/slow-requests",
        "Returns the slowest requests above `slow_ms` of this node, the slowest first.",
    )
};

pub const RESET: HttpRoute = HttpRoute {
    operation: OperationKind::Admin,
    ..route(
        RouteName::ResetSlowRequests,
        Method::Delete,
        "/v1/admin/slow-requests",
        "Removes all entries of this node's slow log.",
    )
};

/// Returns the slow log.
pub fn list(shared: &Shared) -> api::SlowRequests {
    api::SlowRequests { requests: shared.node.slow_requests().into_iter().map(entry).collect() }
}

fn entry(entry: SlowEntry) -> api::SlowRequest {
    let SlowRequest { protocol, command, bucket, key_digest, requests, took, client } =
        entry.request;
    api::SlowRequest {
        id: entry.id,
        at_ms: entry.at_ms,
        took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        protocol: protocol.into(),
        command: command.into(),
        bucket,
        key_digest: key_digest.map(|digest| format!("{digest:016x}")),
        requests,
        client: client.map(|client| client.to_string()),
    }
}
