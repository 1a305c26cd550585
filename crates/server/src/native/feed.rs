//! Feeds of changes: their routes, and the reads that they ask for.

use super::errors::malformed;
use super::parameters::{FeedParameters, Parameter};
use super::routes::{HttpRoute, ResponseBody, RouteName, route};
use super::target::RequestTarget;
use super::translate::NativePlan;
use crate::counters::OperationKind;
use crate::feed_reader::PAGE_WAIT_MS_MAX;
use crate::http::Method;
use base::limits::{FEED_TOKEN_BYTES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use base::request::Call;
use base::{Error, FeedQuery, Read, Request};
use serde_json::{Value, json};

/// Form of the answer to a read of a feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedForm {
    /// One page, after the wait that the query asks for.
    Page,
    /// JSON lines, without an end.
    Lines,
    /// Server-sent events, without an end.
    Events,
}

pub const READ: HttpRoute = HttpRoute {
    query: &[
        Parameter::FeedFrom,
        Parameter::Values,
        Parameter::FeedLimit,
        Parameter::Wait,
        Parameter::Consistency,
    ],
    response_body: ResponseBody::Json("FeedPage"),
    errors: &[404],
    operation: OperationKind::Range,
    ..route(
        RouteName::ReadFeed,
        Method::Get,
        "/v1/buckets/{type}/{bucket}/feed",
        "Returns a page of the bucket's changes behind a token, and waits for one if asked to.",
    )
};

pub const STREAM: HttpRoute = HttpRoute {
    query: &[Parameter::FeedFrom, Parameter::Values, Parameter::Consistency],
    response_body: ResponseBody::Events,
    errors: &[404],
    operation: OperationKind::Range,
    ..route(
        RouteName::StreamFeed,
        Method::Get,
        "/v1/buckets/{type}/{bucket}/feed/stream",
        "Streams the bucket's changes as they happen: lines, or events for `text/event-stream`.",
    )
};

/// Returns the schema and the description of a parameter of these routes alone.
pub fn query_schema(parameter: Parameter) -> (Value, &'static str) {
    let number = |most: usize| json!({ "type": "integer", "minimum": 1, "maximum": most });
    match parameter {
        Parameter::FeedFrom => (
            json!({ "type": "string", "maxLength": FEED_TOKEN_BYTES_MAX, "default": "start" }),
            "Place at which the feed is read: `start`, `now`, or a `token` that it returned.",
        ),
        Parameter::FeedLimit => {
            let mut schema = number(PAGE_ROWS_MAX);
            schema["default"] = PAGE_ROWS_DEFAULT.into();
            (schema, "Maximum number of events; a page also ends when it holds 256 KiB.")
        }
        Parameter::Wait => {
            let mut schema = number(PAGE_WAIT_MS_MAX as usize);
            (schema["minimum"], schema["default"]) = (0.into(), 0.into());
            (schema, "Milliseconds to wait for an event if there is none.")
        }
        _ => (
            json!({ "type": "boolean", "default": false }),
            "Returns the record of each put, which takes the right to read all keys.",
        ),
    }
}

/// Describes the answer of a stream.
pub fn stream_response(headers: Value) -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let message = json!({ "oneOf": [reference("FeedEvent"), reference("FeedToken")] });
    let text = "One message per line: an event (`put`, `delete`), `restart`, or `level` or `token` \
                with the token behind the messages before it; an empty line is a heartbeat. For \
                `accept: text/event-stream` each is a server-sent event of its name, and the token \
                is its id; `last-event-id` goes before `from`. If the feed can't be read any more, \
                the last message is {\"error\": ..} (`failure`), and the body ends without its \
                final chunk.";
    json!({
        "description": text,
        "headers": headers,
        "content": {
            "application/x-ndjson": {
                "schema": { "type": "string" }, "x-credenza-line": message.clone() },
            "text/event-stream": {
                "schema": { "type": "string" }, "x-credenza-line": message },
        },
    })
}

/// Plans the read of a feed. Errors: `malformed` for a parameter beyond its limit;
/// `malformed_token`.
pub fn plan(target: RequestTarget) -> Result<NativePlan, Error> {
    let (level, limit, query) =
        (target.query.read_level, target.query.bounds.limit, target.query.feed);
    let FeedParameters { from, values, wait_ms, as_events } = query;
    if limit.is_some_and(|limit| limit == 0 || limit > PAGE_ROWS_MAX) {
        return Err(malformed(format!("`limit` must be 1 to {PAGE_ROWS_MAX}")));
    }
    if wait_ms > PAGE_WAIT_MS_MAX {
        return Err(malformed(format!("`wait_ms` must be 0 to {PAGE_WAIT_MS_MAX}")));
    }
    let form = match (target.route.name, as_events) {
        (RouteName::ReadFeed, _) => FeedForm::Page,
        (_, false) => FeedForm::Lines,
        (_, true) => FeedForm::Events,
    };
    let query = FeedQuery { from, events_max: limit, values, wait_ms };
    query.check()?;
    let call = Call::Read(Read::Feed(Box::new(query)), level);
    Ok(NativePlan::Feed(Request { bucket: target.bucket, call, retry: None }, form))
}
