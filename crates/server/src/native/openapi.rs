//! OpenAPI document, built from the table of routes, so that the two can't differ.

use super::constants;
use super::declared_indexes;
use super::feed;
use super::parameters::{BUCKETS_PER_PAGE_MAX, Parameter};
use super::routes::{HttpRoute, RequestBody, ResponseBody, RouteName};
use super::schemas;
use super::table;
use api::schema::{CHECKPOINT_PATTERN, MEMBER_PATTERN};
use base::limits::{
    IMPORT_CHUNK_BYTES_MAX, KEY_BYTES_MAX, PAGE_ROWS_MAX, SEQUENCE_STEPS_MAX, VALUE_BYTES_MAX,
};
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Returns the document as JSON. `sections`: sections of the log whose levels can be changed.
pub fn document(sections: &[String]) -> Bytes {
    Bytes::from(build(sections).to_string())
}

const DESCRIPTION: &str = "Keys and values are arbitrary bytes. They are percent-encoded in paths \
                           and queries. In JSON they are strings if they are UTF-8, and \
                           {\"base64\": \"..\"} otherwise. A response that reflects the log has \
                           its index in `x-credenza-index`. If the node forwarded the request to \
                           the master, `x-credenza-master` names the master. The `kind` of an \
                           error tells the client what to do: `invalid`: correct the request; \
                           `denied`: use other credentials; `conflict`: read again, then decide; \
                           `unavailable`: nothing was changed, retry; `unknown`: the request may \
                           have been applied, read before retrying; `corrupt`: data is damaged, \
                           call the operator.";

/// Error statuses that every route may return: a bad request, a foreign `host`, a quota,
/// unavailability, an unknown outcome, corruption.
const ERRORS_EVERYWHERE: [u16; 11] = [400, 401, 403, 408, 414, 421, 429, 431, 500, 503, 504];

fn build(sections: &[String]) -> Value {
    let mut paths = Map::new();
    for route in table::all() {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.name().to_ascii_lowercase()] = operation(route);
    }
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Credenza",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": { "schemas": schemas::all(sections) },
    });
    constants::add_types(&mut document);
    document
}

fn operation(route: &HttpRoute) -> Value {
    let mut operation = json!({
        "operationId": format!("{:?}", route.name),
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": responses(route),
    });
    if let Some(body) = request_body(route.request_body) {
        operation["requestBody"] = body;
    }
    operation
}

fn parameters(route: &HttpRoute) -> Vec<Value> {
    let mut parameters = Vec::new();
    for part in route.path.split('/') {
        if let Some(name) = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": path_schema(name),
            }));
        }
    }
    for parameter in route.query {
        let (schema, text) = query_schema(*parameter);
        let is_required = *parameter == Parameter::Confirm && !depends_on_body(route.name);
        parameters.push(json!({
            "name": parameter.name(), "in": "query", "description": text, "schema": schema,
            "required": is_required,
        }));
    }
    parameters.extend(header_parameters(route));
    parameters
}

/// Returns true if the body of a route's request says whether it must be confirmed.
fn depends_on_body(name: RouteName) -> bool {
    matches!(name, RouteName::SwitchAccess | RouteName::ReplaceMember | RouteName::SetPart)
}

fn path_schema(name: &str) -> Value {
    match name {
        "key" => json!({
            "type": "string",
            "description":
                format!("Key, percent-encoded; at most {KEY_BYTES_MAX} bytes before encoding."),
        }),
        "checkpoint" => json!({ "type": "string", "pattern": CHECKPOINT_PATTERN }),
        "name" | "label" => json!({ "type": "string", "pattern": MEMBER_PATTERN }),
        "group" => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        "id" => schemas::sessions::id(),
        "index_name" => json!({ "type": "string", "description": "Name of a declared index." }),
        "index" => json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX }),
        _ => json!({ "type": "string", "pattern": "^[a-z0-9][a-z0-9_-]{0,62}$" }),
    }
}

fn query_schema(parameter: Parameter) -> (Value, &'static str) {
    let key = json!({ "type": "string" });
    let flag = json!({ "type": "boolean", "default": false });
    match parameter {
        Parameter::Consistency => (
            json!({
                "type": "string",
                "pattern": "^(consistent|dirty|at_least:[0-9]{1,19})$",
                "default": "consistent",
            }),
            "Read level: `consistent` reflects every write acknowledged before the read; `dirty` \
             reads the local replica; `at_least:N` reads the local replica if it has applied index \
             N, and returns 503 otherwise.",
        ),
        Parameter::Ttl => {
            (schemas::ttl(), "Time to live in milliseconds, or `keep`, `never` or `default`.")
        }
        Parameter::Mode => (
            json!({ "enum": ["synced", "batch"], "default": "synced" }),
            "`synced`: all records or none, on disk before the answer. `batch`: in an available \
             bucket each record by itself; as durable as the bucket's properties say.",
        ),
        Parameter::Prefix => (key, "Returns only keys with this prefix."),
        Parameter::From => (key, "Lower bound, inclusive by default."),
        Parameter::To => (key, "Upper bound, exclusive by default."),
        Parameter::FromExclusive => (flag, "Excludes the lower bound."),
        Parameter::ToInclusive => (flag, "Includes the upper bound."),
        Parameter::Reverse => (flag, "Returns rows in descending order."),
        Parameter::Limit => (
            json!({ "type": "integer", "minimum": 1, "maximum": PAGE_ROWS_MAX, "default": 1000 }),
            "Maximum number of rows; a page also ends when it holds 4 MiB.",
        ),
        Parameter::After => (key, "Last key of the previous page (its `continue`)."),
        Parameter::Want => (
            json!({ "enum": ["keys", "entries"], "default": "entries" }),
            "Content of a row: its key alone, or key, value and version.",
        ),
        Parameter::Equals
        | Parameter::TermPrefix
        | Parameter::TermFrom
        | Parameter::TermTo
        | Parameter::AfterRow
        | Parameter::WantOfRow
        | Parameter::R
        | Parameter::Partial
        | Parameter::Timeout => declared_indexes::query_schema(parameter),
        Parameter::AfterBucket => (
            json!({ "type": "string", "pattern": schemas::SHORT_BUCKET_PATTERN }),
            "Last bucket of the previous page (its `continue`).",
        ),
        Parameter::Context => (
            json!({ "type": "string", "pattern": schemas::ANY_CONTEXT_PATTERN }),
            "Causal context: the `context` that an earlier read or write of this key returned.",
        ),
        Parameter::Confirm => (
            json!({ "type": "string" }),
            "Name of what is destroyed, again: `TYPE/BUCKET`, a user, role, member, checkpoint or \
             group; the plan's epoch to commit the ring, `off` to turn access off. Needed to \
             replace a member `by` another one, and for the part `none`. Without it the answer is \
             400, and nothing is done.",
        ),
        Parameter::FeedFrom | Parameter::FeedLimit | Parameter::Values | Parameter::Wait => {
            feed::query_schema(parameter)
        }
        Parameter::LimitBuckets => (
            json!({ "type": "integer", "minimum": 1, "maximum": BUCKETS_PER_PAGE_MAX }),
            "Maximum number of buckets.",
        ),
    }
}

fn header_parameters(route: &HttpRoute) -> Vec<Value> {
    let header = |name: &str, schema: Value, text: &str| -> Value {
        json!({ "name": name, "in": "header", "description": text, "schema": schema })
    };
    let condition = json!({
        "type": "string", "pattern": "^(\\*|\"[0-9]{1,19}\")$", "examples": ["\"17\""],
    });
    let mut parameters = Vec::new();
    if route.headers.has_conditions() {
        let text = "Requires that the row has this version (quoted, like the ETag), or with `*` \
                     that it exists.";
        parameters.push(header("if-match", condition.clone(), text));
        if route.name == RouteName::PutKey {
            let text = "Requires that the row is absent.";
            parameters.push(header("if-none-match", json!({ "enum": ["*"] }), text));
        } else if route.name != RouteName::DeleteKey {
            let text = "Returns 304 if the row has this version.";
            parameters.push(header("if-none-match", condition, text));
        }
    }
    if route.headers.has_retry() {
        parameters.push(header(
            "x-credenza-session",
            schemas::sessions::id(),
            "Session id; with x-credenza-request it identifies the update, so that a retry is \
             applied only once. Each of the two headers without the other returns 400.",
        ));
        let number = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
        let text = "Number of the request in its session, ascending; 400 without \
                     x-credenza-session.";
        parameters.push(header("x-credenza-request", number, text));
    }
    parameters
}

fn request_body(request_body: RequestBody) -> Option<Value> {
    let json_body = |name: &str, required: bool| {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        json!({ "required": required, "content": { "application/json": { "schema": schema } } })
    };
    match request_body {
        RequestBody::Nothing => None,
        RequestBody::Value => Some(json!({
            "required": true,
            "description": format!("Value; at most {VALUE_BYTES_MAX} bytes."),
            "content": { "application/octet-stream": { "schema": {} } },
        })),
        RequestBody::Chunk => Some(json!({
            "required": true,
            "description": format!(
                "Chunk of at most {SEQUENCE_STEPS_MAX} records and {IMPORT_CHUNK_BYTES_MAX} \
                 bytes, numbers little-endian: `crchunk1`, xxh3 (64 bits) of all bytes behind it, \
                 number of records (32 bits); for each record the lengths of key and value (32 \
                 bits each), key, value."
            ),
            "content": { "application/octet-stream": { "schema": {} } },
        })),
        RequestBody::Json(name) => Some(json_body(name, true)),
        RequestBody::MaybeJson(name) => Some(json_body(name, false)),
    }
}

fn responses(route: &HttpRoute) -> Value {
    let (status, success_response) = success_response(route);
    let mut responses = Map::new();
    responses.insert(status.into(), success_response);
    let has_body = route.request_body != RequestBody::Nothing;
    let body_statuses = if has_body { &[411u16, 417][..] } else { &[][..] };
    let mut statuses: Vec<u16> =
        ERRORS_EVERYWHERE.iter().chain(route.errors).chain(body_statuses).copied().collect();
    statuses.sort_unstable();
    statuses.dedup();
    for status in statuses {
        let response = match status {
            304 => json!({ "description": "Not modified: the row still has this version." }),
            _ if route.method == crate::http::Method::Head => {
                json!({ "description": error_description(status) })
            }
            _ => json!({
                "description": error_description(status),
                "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Error" } } },
            }),
        };
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

fn error_description(status: u16) -> &'static str {
    match status {
        400 => "Malformed or invalid request.",
        401 => "No login, or a wrong one; only while access is on.",
        403 => "Forbidden.",
        404 => "The key, bucket, type, member or group does not exist.",
        408 => "The request did not arrive completely in time.",
        409 => "Conflict: the object already exists, or an assertion failed.",
        411 => "The body has no content-length and is not chunked.",
        412 => "The condition of if-match or if-none-match does not hold.",
        413 => "The body, key or value exceeds its limit.",
        414 => "The path and query are too long.",
        415 => "The body has an unsupported content-type.",
        417 => "Unsupported expect header.",
        421 => "The name in the `host` header is not an allowed host.",
        429 => "A quota of the user is used up: nothing was changed; retry, or close a session.",
        431 => "The headers are too large.",
        500 => "Damaged data or an internal error; call the operator.",
        503 => "Unavailable: nothing was changed; retry.",
        504 => "Timeout: the request may have been applied; read before retrying.",
        _ => "An error.",
    }
}

fn success_response(route: &HttpRoute) -> (&'static str, Value) {
    let index = json!({ "x-credenza-index": {
        "description": "Log index that the response reflects.",
        "schema": { "type": "integer", "minimum": 0 },
    }, "x-credenza-master": {
        "description": "Name of the master that answered, if the node forwarded the request.",
        "schema": { "type": "string" },
    } });
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let json_content = |name: &str| json!({ "application/json": { "schema": reference(name) } });
    match route.response_body {
        ResponseBody::Nothing if route.name == RouteName::PutKey => {
            let mut headers = index;
            headers["etag"] = etag(
                "Version of the written row, in quotes; absent if the row expired at once, or if \
                 an earlier attempt of this request wrote it.",
            );
            ("204", json!({ "description": "Success.", "headers": headers }))
        }
        ResponseBody::Nothing => ("204", json!({ "description": "Success.", "headers": index })),
        ResponseBody::Created => ("201", json!({ "description": "Created.", "headers": index })),
        ResponseBody::Json(name) => (
            "200",
            json!({ "description": "Success.", "headers": index, "content": json_content(name) }),
        ),
        ResponseBody::CreatedJson(name) => (
            "201",
            json!({ "description": "Made.", "headers": index, "content": json_content(name) }),
        ),
        ResponseBody::JsonLines(name) => (
            "200",
            json!({
                "description": lines_description(route),
                "headers": index,
                "content": { "application/x-ndjson": {
                    "schema": { "type": "string" }, "x-credenza-line": reference(name) } },
            }),
        ),
        ResponseBody::Events => ("200", feed::stream_response(index)),
        ResponseBody::Text(media_type) => (
            "200",
            json!({
                "description": "Success.",
                "content": { media_type: { "schema": text_schema(media_type) } },
            }),
        ),
        ResponseBody::Value => ("200", value_response(index, route)),
    }
}

fn lines_description(route: &HttpRoute) -> String {
    let mut text = String::from(
        "One row per line. If an error occurs during the scan, the last line is {\"error\": ..} \
         and the body ends without its final chunk.",
    );
    if route.query.contains(&Parameter::Partial) {
        text.push_str(" If rows may be missing, the last line is {\"partial\": true}.");
    }
    text
}

fn text_schema(media_type: &str) -> Value {
    if media_type == "application/json" {
        json!({ "type": "object" })
    } else {
        json!({ "type": "string" })
    }
}

fn etag(text: &str) -> Value {
    json!({
        "description": text, "schema": { "type": "string", "pattern": "^\"[0-9]+\"$" },
    })
}

fn value_response(mut headers: Value, route: &HttpRoute) -> Value {
    headers["etag"] = etag("Version of the row, in quotes.");
    headers["x-credenza-expires-in-ms"] = json!({
        "description": "Milliseconds until the row expires; absent if it has no expiry time.",
        "schema": { "type": "integer", "minimum": 0 },
    });
    let mut response = json!({ "description": "The value.", "headers": headers });
    if route.method == crate::http::Method::Get {
        response["content"] = json!({ "application/octet-stream": { "schema": {} } });
    }
    response
}
