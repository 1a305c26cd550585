//! Data types and Riak's legacy counters: requests, and answers.

use super::answer::RiakResponse;
use super::errors;
use super::headers::vclock;
use super::parameters::{Options, Query};
use super::path::PathBucket;
use super::render::Form;
use super::request::RiakRequest;
use super::translate::{RiakPlan, RiakShape, call_on};
use crate::http::Method;
use crate::http::percent::append_encoded;
use crate::typed;
use base::available::{TypeChange, TypeFound};
use base::datatype::{FieldKind, TypeOperation, TypeValue};
use base::{AvailableCall, Body, Error, Key, Reason, Vtag};
use serde_json::json;

/// Options of the answer to a request about a data type.
#[derive(Debug)]
pub(super) struct TypedOptions {
    /// True if the answer includes the context.
    context: bool,
    /// Path of the value, if the request did not name a key.
    location: Option<String>,
    /// True if the request is valid for a legacy counter, too. Buckets of plain values that keep
    /// siblings have legacy counters.
    may_be_counter: bool,
}

/// Plans a request to `/types/T/buckets/B/datatypes`, with or without a key.
pub(super) fn datatype(
    request: &RiakRequest,
    query: &Query,
    bucket: &PathBucket,
    key: Option<Key>,
) -> Result<RiakPlan, RiakResponse> {
    if !bucket.has_type {
        let mut path = bucket.path() + "/counters";
        if let Some(key) = key {
            path.push('/');
            append_encoded(&mut path, &key);
        }
        return Err(RiakResponse::text(301, "").with_header("Location", path));
    }
    let context = query.get("include_context") != Some("false");
    match (request.method, key) {
        (Method::Get | Method::Head, Some(key)) => {
            let mut options = Options::new(query);
            let fetch = options.fetch();
            options.finish()?;
            let call = AvailableCall::FetchType { key, options: fetch };
            let form = Form::Typed(TypedOptions { context, location: None, may_be_counter: true });
            Ok(RiakPlan::Submit(call_on(&bucket.name, call), RiakShape(form)))
        }
        (Method::Post, key) => change(request, query, bucket, key, context),
        (_, Some(_)) => Err(RiakResponse::text(405, "").with_header("Allow", "GET, HEAD, POST")),
        (_, None) => Err(RiakResponse::text(405, "").with_header("Allow", "POST")),
    }
}

fn change(
    request: &RiakRequest,
    query: &Query,
    bucket: &PathBucket,
    key: Option<Key>,
    context: bool,
) -> Result<RiakPlan, RiakResponse> {
    let kind = request.text("content-type").unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(RiakResponse::text(406, "an update of a data type must be application/json\n"));
    }
    let mut options = Options::new(query);
    let mut store = options.store();
    store.return_body |= query.is_true("return_body");
    options.finish()?;
    let (operation, seen) =
        typed::operation(&request.body).map_err(|text| RiakResponse::text(400, text + "\n"))?;
    let generates_key = key.is_none();
    let key = key.unwrap_or_else(|| Vtag(request.random_key).to_string().into());
    let location = generates_key.then(|| bucket.datatype_path(&key));
    let may_be_counter = matches!(operation, TypeOperation::Add(_));
    let change = TypeChange { key, operation, context: seen, options: store };
    let call = AvailableCall::Change(Box::new(change));
    let form = Form::Typed(TypedOptions { context, location, may_be_counter });
    Ok(RiakPlan::Submit(call_on(&bucket.name, call), RiakShape(form)))
}

/// Plans a request to `/buckets/B/counters/K`.
pub(super) fn counter(
    request: &RiakRequest,
    query: &Query,
    bucket: &PathBucket,
    key: Key,
) -> Result<RiakPlan, RiakResponse> {
    let mut options = Options::new(query);
    let (fetch, mut store) = (options.fetch(), options.store());
    options.finish()?;
    let call = match request.method {
        Method::Get | Method::Head => AvailableCall::FetchType { key, options: fetch },
        Method::Post | Method::Put => {
            let text = std::str::from_utf8(&request.body).unwrap_or_default();
            let delta = text.trim().parse();
            let delta: i64 = delta.map_err(|_| {
                RiakResponse::text(400, "the body must be an integer to add to the counter\n")
            })?;
            store.return_body = query.is_true("returnvalue");
            let operation = TypeOperation::Add(delta);
            let change = TypeChange { key, operation, context: None, options: store };
            AvailableCall::Change(Box::new(change))
        }
        _ => return Err(RiakResponse::text(405, "").with_header("Allow", "GET, HEAD, POST, PUT")),
    };
    Ok(RiakPlan::Submit(call_on(&bucket.name, call), RiakShape(Form::Counter)))
}

/// Renders the reply about a data type. Returns `None` if the reply does not fit the request.
pub(super) fn render_body(options: &TypedOptions, body: &Body) -> Option<RiakResponse> {
    let with_location = |answer: RiakResponse| match &options.location {
        Some(location) => {
            RiakResponse { status: 201, ..answer }.with_header("Location", location.clone())
        }
        None => answer,
    };
    match body {
        Body::Typed(found) if found.value.is_some() => Some(with_location(
            RiakResponse::with_body(200, "application/json", render_value(found, options)),
        )),
        Body::Typed(found) => {
            let document = json!({ "type": found.kind.name(), "error": "notfound" });
            let answer = RiakResponse::with_body(404, "application/json", document.to_string());
            let with_deleted_header =
                |answer: RiakResponse| answer.with_header("X-Riak-Deleted", "true");
            Some(if found.tombstone { with_deleted_header(answer) } else { answer })
        }
        Body::Stored(_) => Some(with_location(RiakResponse::text(204, ""))),
        _ => None,
    }
}

fn render_value(found: &TypeFound, options: &TypedOptions) -> String {
    let mut text = format!("{{\"type\":\"{}\",\"value\":", found.kind.name());
    if let Some(value) = &found.value {
        typed::append_value(&mut text, value);
    }
    // Only removals need the context, and other types with removals occur only inside of these.
    if options.context && matches!(found.kind, FieldKind::Set | FieldKind::Map) {
        let context = vclock(&found.context);
        text.push_str(&format!(",\"context\":\"{}\"", String::from_utf8_lossy(&context)));
    }
    text.push('}');
    text
}

/// Renders the reply about a legacy counter. Returns `None` if the reply does not fit the request.
pub(super) fn render_counter(body: &Body) -> Option<RiakResponse> {
    match body {
        Body::Typed(found) => Some(match &found.value {
            Some(TypeValue::Counter(sum)) => RiakResponse::text(200, sum.to_string()),
            _ => RiakResponse::text(404, "not found\n"),
        }),
        Body::Stored(_) => Some(RiakResponse::text(204, "")),
        _ => None,
    }
}

/// Renders an error, with Riak's own texts where data types and counters have some.
pub(super) fn render_error(form: &Form, error: &Error) -> RiakResponse {
    let answer = errors::answer(error);
    match (form, error.reason) {
        (Form::Counter, Reason::NotSupported) => {
            RiakResponse { status: 409, body: NO_COUNTERS.into(), ..answer }
        }
        (Form::Typed(options), Reason::NotSupported) => {
            let text = plain_values_text(error, options.may_be_counter);
            let body = text.map_or(answer.body.clone(), |text| format!("{text}\n").into());
            RiakResponse { status: 403, body, ..answer }
        }
        _ => answer,
    }
}

/// Refusal of a legacy counter in a bucket that keeps one value.
pub(super) const NO_COUNTERS: &str = "Counters require bucket property 'allow_mult=true'";

/// Returns Riak's text if the error is that a bucket of plain values has no data types.
/// `may_be_counter`: the request is valid for a legacy counter, too.
pub(super) fn plain_values_text(error: &Error, may_be_counter: bool) -> Option<&'static str> {
    let has_plain_values = error.text().contains("bucket of plain values");
    has_plain_values.then_some(match may_be_counter {
        true => "Bucket must be allow_mult=true",
        false => "Bucket datatype 'undefined' is not a supported type.",
    })
}
