//! Data types and Riak's legacy counters: requests, and answers.

use super::answer::RiakResponse;
use super::errors;
use super::headers::vclock;
use super::parameters::{Options, Query};
use super::path::PathBucket;
use super::render::Form;
use super::request::RiakRequest;
use super::translate::{RiakPlan, RiakShape, ask};
use crate::http::Method;
use crate::http::percent::encode_onto;
use crate::typed;
use base::available::{TypeChange, TypeFound};
use base::datatype::{FieldKind, TypeOperation, TypeValue};
use base::{AvailableCall, Body, Error, Key, Reason, Vtag};
use serde_json::json;

/// Options of the answer to a request about a data type.
#[derive(Debug)]
pub(super) struct Telling {
    /// True if the answer includes the context.
    context: bool,
    /// Path of the value, if the request did not name a key.
    location: Option<String>,
    /// True if the request could be meant for a legacy counter. Buckets of plain values that keep
    /// siblings have these.
    counts: bool,
}

/// Plans a request to `/types/T/buckets/B/datatypes`, with or without a key.
pub(super) fn datatype(
    asked: &RiakRequest,
    query: &Query,
    bucket: &PathBucket,
    key: Option<Key>,
) -> Result<RiakPlan, RiakResponse> {
    if !bucket.typed {
        let mut path = bucket.path() + "/counters";
        if let Some(key) = key {
            path.push('/');
            encode_onto(&mut path, &key);
        }
        return Err(RiakResponse::text(301, "").header("Location", path));
    }
    let context = query.get("include_context") != Some("false");
    match (asked.method, key) {
        (Method::Get | Method::Head, Some(key)) => {
            let mut options = Options::of(query);
            let fetch = options.fetch();
            options.end()?;
            let call = AvailableCall::FetchType { key, options: fetch };
            let form = Form::Typed(Telling { context, location: None, counts: true });
            Ok(RiakPlan::Ask(ask(&bucket.name, call), RiakShape(form)))
        }
        (Method::Post, key) => change(asked, query, bucket, key, context),
        (_, Some(_)) => Err(RiakResponse::text(405, "").header("Allow", "GET, HEAD, POST")),
        (_, None) => Err(RiakResponse::text(405, "").header("Allow", "POST")),
    }
}

fn change(
    asked: &RiakRequest,
    query: &Query,
    bucket: &PathBucket,
    key: Option<Key>,
    context: bool,
) -> Result<RiakPlan, RiakResponse> {
    let kind = asked.text("content-type").unwrap_or_default();
    if kind.split(';').next().map(str::trim) != Some("application/json") {
        return Err(RiakResponse::text(406, "a change of a data type is application/json\n"));
    }
    let mut options = Options::of(query);
    let mut store = options.store();
    store.return_body |= query.is_true("return_body");
    options.end()?;
    let (operation, seen) =
        typed::operation(&asked.body).map_err(|words| RiakResponse::text(400, words + "\n"))?;
    let fresh = key.is_none();
    let key = key.unwrap_or_else(|| Vtag(asked.chance).to_string().into());
    let location = fresh.then(|| bucket.datatype_path(&key));
    let counts = matches!(operation, TypeOperation::Add(_));
    let change = TypeChange { key, operation, context: seen, options: store };
    let call = AvailableCall::Change(Box::new(change));
    let form = Form::Typed(Telling { context, location, counts });
    Ok(RiakPlan::Ask(ask(&bucket.name, call), RiakShape(form)))
}

/// Plans a request to `/buckets/B/counters/K`.
pub(super) fn counter(
    asked: &RiakRequest,
    query: &Query,
    bucket: &PathBucket,
    key: Key,
) -> Result<RiakPlan, RiakResponse> {
    let mut options = Options::of(query);
    let (fetch, mut store) = (options.fetch(), options.store());
    options.end()?;
    let call = match asked.method {
        Method::Get | Method::Head => AvailableCall::FetchType { key, options: fetch },
        Method::Post | Method::Put => {
            let text = std::str::from_utf8(&asked.body).unwrap_or_default();
            let by = text.trim().parse();
            let by: i64 =
                by.map_err(|_| RiakResponse::text(400, "a counter is changed by a number\n"))?;
            store.return_body = query.is_true("returnvalue");
            let operation = TypeOperation::Add(by);
            let change = TypeChange { key, operation, context: None, options: store };
            AvailableCall::Change(Box::new(change))
        }
        _ => return Err(RiakResponse::text(405, "").header("Allow", "GET, HEAD, POST, PUT")),
    };
    Ok(RiakPlan::Ask(ask(&bucket.name, call), RiakShape(Form::Counter)))
}

/// Renders the reply about a data type. Returns `None` if the reply does not fit the request.
pub(super) fn told(telling: &Telling, body: &Body) -> Option<RiakResponse> {
    let located = |answer: RiakResponse| match &telling.location {
        Some(location) => {
            RiakResponse { status: 201, ..answer }.header("Location", location.clone())
        }
        None => answer,
    };
    match body {
        Body::Typed(found) if found.value.is_some() => {
            Some(located(RiakResponse::with_body(200, "application/json", shown(found, telling))))
        }
        Body::Typed(found) => {
            let document = json!({ "type": found.kind.word(), "error": "notfound" });
            let answer = RiakResponse::with_body(404, "application/json", document.to_string());
            let deleted = |answer: RiakResponse| answer.header("X-Riak-Deleted", "true");
            Some(if found.tombstone { deleted(answer) } else { answer })
        }
        Body::Stored(_) => Some(located(RiakResponse::text(204, ""))),
        _ => None,
    }
}

fn shown(found: &TypeFound, telling: &Telling) -> String {
    let mut text = format!("{{\"type\":\"{}\",\"value\":", found.kind.word());
    if let Some(value) = &found.value {
        typed::value_onto(&mut text, value);
    }
    // Every other type that removes or disables anything is inside one of these.
    if telling.context && matches!(found.kind, FieldKind::Set | FieldKind::Map) {
        let context = vclock(&found.context);
        text.push_str(&format!(",\"context\":\"{}\"", String::from_utf8_lossy(&context)));
    }
    text.push('}');
    text
}

/// Renders the reply about a legacy counter. Returns `None` if the reply does not fit the request.
pub(super) fn counted(body: &Body) -> Option<RiakResponse> {
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
pub(super) fn refused(form: &Form, error: &Error) -> RiakResponse {
    let answer = errors::answer(error);
    match (form, error.reason) {
        (Form::Counter, Reason::NotSupported) => {
            let words = "Counters require bucket property 'allow_mult=true'";
            RiakResponse { status: 409, body: words.into(), ..answer }
        }
        (Form::Typed(telling), Reason::NotSupported) => {
            let plain = error.text().contains("bucket of plain values");
            let body = match telling.counts {
                _ if !plain => answer.body,
                true => "Bucket must be allow_mult=true\n".into(),
                false => "Bucket datatype 'undefined' is not a supported type.\n".into(),
            };
            RiakResponse { status: 403, body, ..answer }
        }
        _ => answer,
    }
}
