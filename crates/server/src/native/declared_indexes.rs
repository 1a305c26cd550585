//! Declared indexes of a bucket: their routes, their calls, and the queries that they answer.

use super::errors::malformed;
use super::json::bodies::read_plain;
use super::parameters::{Parameter, Query};
use super::ranges::{Bounds, bound};
use super::routes::{HttpRoute, RequestBody, ResponseBody, RouteName, route};
use super::target::RequestTarget;
use super::translate::NativeShape;
use crate::counters::OperationKind;
use crate::http::{Method, StatusCode};
use base::index::{IndexCall, IndexContent, IndexQuery, TermSelection};
use base::limits::PAGE_ROWS_MAX;
use base::range::Direction;
use base::{DirectoryCall, Error, Read};
use bytes::Bytes;
use serde_json::{Value, json};

const INDEXES: &str = "/v1/buckets/{type}/{bucket}/indexes";
const INDEX: &str = "/v1/buckets/{type}/{bucket}/indexes/{index_name}";
/// Quorum as a client writes it; a number has 8 bits.
const QUORUM_PATTERN: &str = "^(one|quorum|all|25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])$";

/// Parameters of a query. A stream takes all but the last, since it has no limit.
const PARAMETERS: &[Parameter] = &[
    Parameter::Equals,
    Parameter::TermPrefix,
    Parameter::TermFrom,
    Parameter::TermTo,
    Parameter::FromExclusive,
    Parameter::ToInclusive,
    Parameter::Reverse,
    Parameter::AfterRow,
    Parameter::WantOfRow,
    Parameter::Consistency,
    Parameter::R,
    Parameter::Partial,
    Parameter::Timeout,
    Parameter::Limit,
];

pub const CREATE: HttpRoute = HttpRoute {
    request_body: RequestBody::Json("NewIndex"),
    response_body: ResponseBody::CreatedJson("Index"),
    errors: &[404, 409, 413, 415],
    operation: OperationKind::Directory,
    ..route(
        RouteName::CreateIndex,
        Method::Post,
        INDEXES,
        "Creates an index, which is then built; the same definition again changes nothing.",
    )
};

pub const LIST: HttpRoute = HttpRoute {
    response_body: ResponseBody::Json("Indexes"),
    errors: &[404],
    operation: OperationKind::Directory,
    ..route(RouteName::ListIndexes, Method::Get, INDEXES, "Lists the indexes of a bucket.")
};

pub const DESCRIBE: HttpRoute = HttpRoute {
    response_body: ResponseBody::Json("Index"),
    errors: &[404],
    operation: OperationKind::Directory,
    ..route(
        RouteName::DescribeIndex,
        Method::Get,
        INDEX,
        "Returns an index, its state and the progress of its build.",
    )
};

// No data are lost: so it need not be confirmed.
pub const DROP: HttpRoute = HttpRoute {
    errors: &[404],
    operation: OperationKind::Directory,
    ..route(
        RouteName::DropIndex,
        Method::Delete,
        INDEX,
        "Drops an index; its entries are then removed. Records stay as they are.",
    )
};

pub const QUERY: HttpRoute = HttpRoute {
    query: PARAMETERS,
    response_body: ResponseBody::Json("IndexPage"),
    errors: &[404, 409, 413],
    operation: OperationKind::Range,
    ..route(
        RouteName::QueryIndex,
        Method::Get,
        "/v1/buckets/{type}/{bucket}/index/{index_name}",
        "Returns a page of an index's rows in the order of terms and keys.",
    )
};

pub const STREAM: HttpRoute = HttpRoute {
    query: PARAMETERS.split_last().expect("the limit is the last").1,
    response_body: ResponseBody::JsonLines("IndexRow"),
    errors: &[404, 409, 413],
    operation: OperationKind::Range,
    ..route(
        RouteName::StreamIndex,
        Method::Get,
        "/v1/buckets/{type}/{bucket}/index/{index_name}/stream",
        "Streams all rows of a query of an index, one JSON object per line, with back-pressure.",
    )
};

/// Returns the schema and the description of a parameter of these routes alone.
pub fn query_schema(parameter: Parameter) -> (Value, &'static str) {
    let text = json!({ "type": "string" });
    match parameter {
        Parameter::Equals => (
            text,
            "Returns only rows with this term: an integer or number in decimal, `true` or `false`, \
             a string or bytes as they are, percent-encoded. It excludes bounds and a prefix.",
        ),
        Parameter::TermPrefix => (
            text,
            "Returns only rows whose term, a string or bytes, has this prefix. It excludes bounds.",
        ),
        Parameter::TermFrom => {
            (text, "Lower bound of the terms, in the form of `equals`; inclusive by default.")
        }
        Parameter::TermTo => {
            (text, "Upper bound of the terms, in the form of `equals`; exclusive by default.")
        }
        Parameter::AfterRow => (
            json!({ "type": "string", "pattern": "^[A-Za-z0-9_-]*$" }),
            "Continuation: `continue` of the previous page of the same query.",
        ),
        Parameter::R => (
            json!({ "type": "string", "pattern": QUORUM_PATTERN }),
            "Number of owners of each partition that must answer, at most `n_val`; by default a \
             quorum, and one if `consistency` is `dirty`. Only in an available bucket.",
        ),
        Parameter::Partial => (
            json!({ "type": "boolean", "default": false }),
            "Allows an answer without the partitions of which too few owners answer; it says so. \
             Only in an available bucket.",
        ),
        Parameter::Timeout => (
            json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX, "default": 10_000 }),
            "Timeout of a page in milliseconds; at most a minute counts. Only in an available \
             bucket.",
        ),
        _ => (
            json!({ "enum": IndexContent::ALL.map(IndexContent::name), "default": "keys" }),
            "Content of a row: its key alone, key and term, or key, term and record.",
        ),
    }
}

/// Returns the call to the directory of one of these routes, and the form of its answer.
pub fn directory_call(
    target: &mut RequestTarget,
    body: &[u8],
) -> Result<(DirectoryCall, NativeShape), Error> {
    let name = std::mem::take(&mut target.index_name);
    let (call, shape) = match target.route.name {
        RouteName::CreateIndex => {
            let index = read_plain::<api::NewIndex>(body)?;
            (IndexCall::Create(index.into()), NativeShape::Index(StatusCode::Created))
        }
        RouteName::DescribeIndex => {
            (IndexCall::Describe { name }, NativeShape::Index(StatusCode::Ok))
        }
        RouteName::DropIndex => (IndexCall::Drop { name }, NativeShape::Nothing),
        _ => (IndexCall::List, NativeShape::Json),
    };
    Ok((DirectoryCall::Index(call), shape))
}

/// Returns the read of a query's route. Errors: `malformed` for parameters that exclude each other
/// or lack another one, each by its name; `too_large`.
pub fn read(target: &mut RequestTarget) -> Result<Read, Error> {
    let Query { bounds, equals, content, r, allows_partial, timeout_ms, .. } =
        std::mem::take(&mut target.query);
    if bounds.limit.is_some_and(|limit| limit == 0 || limit > PAGE_ROWS_MAX) {
        return Err(malformed(format!("`limit` must be 1 to {PAGE_ROWS_MAX}")));
    }
    let direction = if bounds.reverse { Direction::Descending } else { Direction::Ascending };
    let query = IndexQuery {
        index: std::mem::take(&mut target.index_name).into(),
        direction,
        after: bounds.after.clone(),
        rows_max: bounds.limit,
        want: content,
        terms: selection(bounds, equals)?,
        regex: None,
        r,
        allows_partial,
        timeout_ms,
    };
    query.check()?;
    Ok(Read::Index(query.into()))
}

/// Returns the terms that a query selects: one, a range, a prefix, or all.
fn selection(bounds: Bounds, equals: Option<Bytes>) -> Result<TermSelection, Error> {
    let Bounds { prefix, from, to, from_exclusive, to_inclusive, .. } = bounds;
    let named = [
        ("equals", equals.is_some()),
        ("prefix", prefix.is_some()),
        ("from` and `to", from.is_some() || to.is_some()),
    ];
    let mut named = named.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name);
    if let (Some(one), Some(other)) = (named.next(), named.next()) {
        let text = format!("`{one}` excludes `{other}`: give one of them");
        return Err(malformed(text));
    }
    for (flag, is_set, bound) in
        [("from_exclusive", from_exclusive, &from), ("to_inclusive", to_inclusive, &to)]
    {
        if is_set && bound.is_none() {
            let name = flag.split('_').next().unwrap_or_default();
            return Err(malformed(format!("`{flag}` needs `{name}`")));
        }
    }
    Ok(match (equals, prefix) {
        (Some(term), _) => TermSelection::Equal(term),
        (None, Some(prefix)) => TermSelection::Prefix(prefix),
        (None, None) => {
            TermSelection::Between(bound(from, !from_exclusive), bound(to, to_inclusive))
        }
    })
}
