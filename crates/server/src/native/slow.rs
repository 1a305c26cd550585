//! Slow log over HTTP: its routes, and its answer.

use super::routes::{HttpRoute, ResponseBody, RouteName, route};
use crate::counters::OperationKind;
use crate::http::Method;
use crate::shared::Shared;
use node::{EntryStages, SlowEntry, SlowRequest};
use std::time::Duration;

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
    let SlowRequest { protocol, command, bucket, key_digest, requests, took, stages, client } =
        entry.request;
    api::SlowRequest {
        id: entry.id,
        at_ms: entry.at_ms,
        took_us: microseconds(took),
        stages: api::SlowStages {
            evaluate_us: microseconds(stages.evaluate),
            decide_us: microseconds(stages.decide),
            entry: stages.entry.map(entry_stages),
            reply_us: microseconds(stages.reply),
            send_us: microseconds(stages.send),
        },
        protocol: protocol.into(),
        command: command.into(),
        bucket,
        key_digest: key_digest.map(|digest| format!("{digest:016x}")),
        requests,
        client: client.map(|client| client.to_string()),
    }
}

fn entry_stages(stages: EntryStages) -> api::EntryStages {
    let EntryStages { batch_ms, log_ms, replicas_ms, apply_ms } = stages;
    api::EntryStages { batch_ms, log_ms, replicas_ms, apply_ms }
}

fn microseconds(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
