//! OpenAPI document, built from the table of routes, so that the two can't differ.

use super::constants;
use super::parameters::{BUCKETS_PER_PAGE_MAX, Parameter};
use super::routes::{Gives, HttpRoute, RouteName, Takes};
use super::schemas;
use super::table::ROUTES;
use api::schema::{CHECKPOINT_PATTERN, MEMBER_PATTERN};
use base::limits::{KEY_BYTES_MAX, PAGE_ROWS_MAX, VALUE_BYTES_MAX};
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Returns the document as JSON. `sections`: sections of the log whose levels can be changed.
pub fn document(sections: &[String]) -> Bytes {
    Bytes::from(build(sections).to_string())
}

const DESCRIPTION: &str = "Keys and values are any bytes. In paths and queries keys are \
    percent-encoded; in JSON they are strings where they are UTF-8, and {\"base64\": \"..\"} \
    elsewhere. Every answer that reflects the log carries its index in `x-credenza-index`; one \
    that another node gave, the master, names it in `x-credenza-master`. \
    An error's `kind` says what to do: `invalid` mend the request, `denied` bring other \
    credentials, `conflict` read again and decide again, `unavailable` nothing happened, retry, \
    `unknown` it may have happened, read before retrying, `corrupt` call the operator.";

/// Error statuses that every route may return: a bad request, a foreign `host`, unavailability, an
/// unknown outcome, corruption.
const ERRORS_EVERYWHERE: [u16; 9] = [400, 403, 408, 414, 421, 431, 500, 503, 504];

fn build(sections: &[String]) -> Value {
    let mut paths = Map::new();
    for route in &ROUTES {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.word().to_ascii_lowercase()] = operation(route);
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
    if let Some(body) = body(route.takes) {
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
        let (schema, words) = query_schema(*parameter);
        parameters.push(json!({
            "name": parameter.name(), "in": "query", "description": words, "schema": schema,
        }));
    }
    parameters.extend(header_parameters(route));
    parameters
}

fn path_schema(name: &str) -> Value {
    match name {
        "key" => json!({
            "type": "string",
            "description":
                format!("The key, percent-encoded byte by byte; at most {KEY_BYTES_MAX} bytes."),
        }),
        "checkpoint" => json!({ "type": "string", "pattern": CHECKPOINT_PATTERN }),
        "name" => json!({ "type": "string", "pattern": MEMBER_PATTERN }),
        "group" => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        "id" => schemas::sessions::id(),
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
            "How fresh the answer must be: `consistent` sees everything acknowledged before, \
             `dirty` whatever this node has, `at_least:N` that if it has index N, else 503.",
        ),
        Parameter::Ttl => (schemas::ttl(), "Time to live in milliseconds, or a word."),
        Parameter::Prefix => (key, "Only keys that begin with it."),
        Parameter::From => (key, "The lower end."),
        Parameter::To => (key, "The upper end, left out."),
        Parameter::FromExclusive => (flag, "Leaves the lower end out."),
        Parameter::ToInclusive => (flag, "Takes the upper end in."),
        Parameter::Reverse => (flag, "Highest key first."),
        Parameter::Limit => (
            json!({ "type": "integer", "minimum": 1, "maximum": PAGE_ROWS_MAX, "default": 1000 }),
            "Most rows; a page also ends when it holds 4 MiB.",
        ),
        Parameter::After => (key, "The last key of the page before: `continue`."),
        Parameter::Want => {
            (json!({ "enum": ["keys", "entries"], "default": "entries" }), "What a row shows.")
        }
        Parameter::AfterBucket => (
            json!({ "type": "string", "pattern": schemas::SHORT_BUCKET_PATTERN }),
            "The last bucket of the page before: `continue`.",
        ),
        Parameter::Context => (
            json!({ "type": "string", "pattern": schemas::ANY_CONTEXT_PATTERN }),
            "What you have seen of the key: the `context` that a read or a write of yours gave.",
        ),
        Parameter::LimitBuckets => (
            json!({ "type": "integer", "minimum": 1, "maximum": BUCKETS_PER_PAGE_MAX }),
            "Most buckets.",
        ),
    }
}

fn header_parameters(route: &HttpRoute) -> Vec<Value> {
    let header = |name: &str, schema: Value, words: &str| -> Value {
        json!({ "name": name, "in": "header", "description": words, "schema": schema })
    };
    let condition = json!({
        "type": "string", "pattern": "^(\\*|\"[0-9]{1,19}\")$", "examples": ["\"17\""],
    });
    let mut parameters = Vec::new();
    if route.headers.has_conditions() {
        let words = "Only if the row has this version (in quotes, as the ETag is), or is there.";
        parameters.push(header("if-match", condition.clone(), words));
        if route.name == RouteName::PutKey {
            let words = "Only if the row is absent.";
            parameters.push(header("if-none-match", json!({ "enum": ["*"] }), words));
        } else if route.name != RouteName::DeleteKey {
            let words = "304 if the row has this version.";
            parameters.push(header("if-none-match", condition, words));
        }
    }
    if route.headers.has_retry() {
        parameters.push(header(
            "x-credenza-session",
            schemas::sessions::id(),
            "A session: with x-credenza-request it names the attempt; a retry applies once. 400 \
             without that.",
        ));
        let number = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
        let words = "The request's number, going up; 400 without x-credenza-session.";
        parameters.push(header("x-credenza-request", number, words));
    }
    parameters
}

fn body(takes: Takes) -> Option<Value> {
    let json_body = |name: &str, required: bool| {
        let schema = json!({ "$ref": format!("#/components/schemas/{name}") });
        json!({ "required": required, "content": { "application/json": { "schema": schema } } })
    };
    match takes {
        Takes::Nothing => None,
        Takes::Value => Some(json!({
            "required": true,
            "description": format!("The value; at most {VALUE_BYTES_MAX} bytes."),
            "content": { "application/octet-stream": { "schema": {} } },
        })),
        Takes::Json(name) => Some(json_body(name, true)),
        Takes::MaybeJson(name) => Some(json_body(name, false)),
    }
}

fn responses(route: &HttpRoute) -> Value {
    let (status, good) = good(route);
    let mut responses = Map::new();
    responses.insert(status.into(), good);
    let takes_body = route.takes != Takes::Nothing;
    let more = if takes_body { &[411u16, 417][..] } else { &[][..] };
    let mut statuses: Vec<u16> =
        ERRORS_EVERYWHERE.iter().chain(route.errors).chain(more).copied().collect();
    statuses.sort_unstable();
    statuses.dedup();
    for status in statuses {
        let response = match status {
            304 => json!({ "description": "The row has this version still." }),
            _ if route.method == crate::http::Method::Head => {
                json!({ "description": error_words(status) })
            }
            _ => json!({
                "description": error_words(status),
                "content": { "application/json": {
                    "schema": { "$ref": "#/components/schemas/Error" } } },
            }),
        };
        responses.insert(status.to_string(), response);
    }
    Value::Object(responses)
}

fn error_words(status: u16) -> &'static str {
    match status {
        400 => "The request says nothing that is understood here.",
        403 => "Not allowed.",
        404 => "There is no such key, bucket, type, member or group.",
        408 => "The request did not arrive in time.",
        409 => "Something is there already, or is not as asserted.",
        411 => "A length is missing.",
        412 => "The condition does not hold.",
        413 => "Something is larger than its limit.",
        414 => "The path is too long.",
        415 => "The body is of another type.",
        417 => "An expectation is not known.",
        421 => "The server is not known under the name in `host`.",
        431 => "The headers are too large.",
        500 => "Damage; call the operator.",
        503 => "Nothing happened; try again.",
        504 => "It may have happened; read before retrying.",
        _ => "An error.",
    }
}

fn good(route: &HttpRoute) -> (&'static str, Value) {
    let index = json!({ "x-credenza-index": {
        "description": "The index of the log that the answer reflects.",
        "schema": { "type": "integer", "minimum": 0 },
    }, "x-credenza-master": {
        "description": "The node that gave the answer, if it was passed on.",
        "schema": { "type": "string" },
    } });
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let json_content = |name: &str| json!({ "application/json": { "schema": reference(name) } });
    match route.gives {
        Gives::Nothing if route.name == RouteName::PutKey => {
            let mut headers = index;
            headers["etag"] = etag(
                "The version that the write gave the row, in quotes; left out \
                where the row expired at once, or where an earlier attempt wrote it.",
            );
            ("204", json!({ "description": "It is so.", "headers": headers }))
        }
        Gives::Nothing => ("204", json!({ "description": "It is so.", "headers": index })),
        Gives::Created => ("201", json!({ "description": "It is made.", "headers": index })),
        Gives::Json(name) => (
            "200",
            json!({ "description": "It is so.", "headers": index, "content": json_content(name) }),
        ),
        Gives::CreatedJson(name) => (
            "201",
            json!({ "description": "Made.", "headers": index, "content": json_content(name) }),
        ),
        Gives::JsonLines(name) => (
            "200",
            json!({
                "description": "The rows, a line each. An error on the way stands in a last line \
                    {\"error\": ..}, and the body then breaks off.",
                "headers": index,
                "content": { "application/x-ndjson": {
                    "schema": { "type": "string" }, "x-credenza-line": reference(name) } },
            }),
        ),
        Gives::Text(kind) => (
            "200",
            json!({ "description": "The answer.", "content": { kind: { "schema": text(kind) } } }),
        ),
        Gives::Value => ("200", value_response(index, route)),
    }
}

fn text(kind: &str) -> Value {
    if kind == "application/json" {
        json!({ "type": "object" })
    } else {
        json!({ "type": "string" })
    }
}

fn etag(words: &str) -> Value {
    json!({
        "description": words, "schema": { "type": "string", "pattern": "^\"[0-9]+\"$" },
    })
}

fn value_response(mut headers: Value, route: &HttpRoute) -> Value {
    headers["etag"] = etag("The row's version, in quotes.");
    headers["x-credenza-expires-in-ms"] = json!({
        "description": "Milliseconds until the row expires, if it does.",
        "schema": { "type": "integer", "minimum": 0 },
    });
    let mut response = json!({ "description": "The value.", "headers": headers });
    if route.method == crate::http::Method::Get {
        response["content"] = json!({ "application/octet-stream": { "schema": {} } });
    }
    response
}
