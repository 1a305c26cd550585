//! Import of records: its route, and the update that a chunk of records becomes.
//!
//! A chunk is a sequence of plain writes, so it has the semantics of writing each record: limits,
//! times to live, consistency. Sending it again changes nothing, which makes an import resumable.

use super::parameters::{Parameter, Query};
use super::routes::{HttpRoute, RequestBody, RouteName, route};
use super::translate::NativeShape;
use crate::counters::OperationKind;
use crate::http::Method;
use base::request::{Call, SequenceMode};
use base::{Error, Update, import_chunk};
use bytes::Bytes;

pub const ROUTE: HttpRoute = HttpRoute {
    query: &[Parameter::Ttl, Parameter::Mode],
    request_body: RequestBody::Chunk,
    errors: &[404, 409, 413, 415],
    operation: OperationKind::Sequence,
    ..route(
        RouteName::Import,
        Method::Post,
        "/v1/buckets/{type}/{bucket}/import",
        "Writes a binary chunk of records, by default atomically and synced.",
    )
};

/// Returns the call for a chunk, and the form of its answer.
pub fn call(query: &Query, chunk: &Bytes) -> Result<(Call, NativeShape), Error> {
    Ok((Call::Update(update(query, chunk)?), NativeShape::Nothing))
}

/// Returns the update that writes the records of a chunk, in their order.
fn update(query: &Query, chunk: &Bytes) -> Result<Update, Error> {
    let expiry = query.expiry;
    let steps = import_chunk::decode(chunk, |key, value| Update::Set { key, value, expiry })?;
    Ok(Update::Sequence { steps, mode: query.mode.unwrap_or(SequenceMode::Synced) })
}
