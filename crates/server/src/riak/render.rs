//! Rendering of a node's reply as Riak's HTTP answer.

use super::answer::RiakResponse;
use super::datatypes::{self, TypedOptions};
use super::headers::{VCLOCK, content_type, index_headers, link_header, meta_headers, vclock};
use super::index_answer::{self, IndexForm};
use super::negotiate::{Preferences, SiblingFormat, accept_weight, siblings as sibling_format};
use super::path::{PathBucket, client_name};
use super::request::RiakRequest;
use super::translate::RiakShape;
use super::{errors, parts, properties};
use crate::http::date;
use base::codec::checksum;
use base::{Body, Context, Error, Kind, Owner, Reply, Sibling, Siblings, Vtag};
use bytes::Bytes;
use serde_json::{Value, json};

/// Representation of a reply.
#[derive(Debug)]
pub(super) enum Form {
    /// The values of a key.
    Object {
        bucket: PathBucket,
        vtag: Option<String>,
        preferences: Preferences,
        conditions: Conditions,
    },
    /// The outcome of a write, followed by the key's values if the client requested them.
    Stored {
        bucket: PathBucket,
        location: Option<String>,
        preferences: Preferences,
        unmet_status: u16,
    },
    /// The outcome of a delete.
    Removed,
    /// A page of keys, after the bucket's properties if the path shows them.
    Keys { list: ListOptions, properties: Option<Value> },
    /// A page of buckets.
    Buckets { list: ListOptions },
    /// Rows of an index.
    Index(Box<IndexForm>),
    /// The properties of a bucket.
    Properties,
    /// The properties of a bucket type, and the name of the node that answers.
    TypeProperties { kind: String, claimant: String },
    /// The outcome of a change to these properties.
    Altered(Vec<String>),
    /// A data type.
    Typed(TypedOptions),
    /// A legacy counter.
    Counter,
    /// The owners of a key.
    Owners,
}

/// Options of a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListOptions {
    pub(super) stream: bool,
    /// Maximum time for the complete list in milliseconds. `None`: no maximum.
    pub(super) timeout_ms: Option<u64>,
}

/// Preconditions of a request.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    if_match: Option<Vec<String>>,
    if_none_match: Option<Vec<String>>,
    modified_since: Option<u64>,
    unmodified_since: Option<u64>,
}

impl Conditions {
    pub(super) fn from_request(request: &RiakRequest) -> Conditions {
        let tags = |name: &str| {
            let text = request.text(name)?;
            let tag = |tag: &str| tag.trim().trim_matches('"').to_string();
            Some(text.split(',').map(tag).collect())
        };
        let date = |name: &str| request.text(name).and_then(date::parse);
        Conditions {
            if_match: tags("if-match"),
            if_none_match: tags("if-none-match"),
            modified_since: date("if-modified-since"),
            unmodified_since: date("if-unmodified-since"),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.if_match.is_none()
            && self.if_none_match.is_none()
            && self.modified_since.is_none()
            && self.unmodified_since.is_none()
    }

    /// Returns true for `If-None-Match: *` without other conditions on a write.
    pub(super) fn only_if_absent(&self) -> bool {
        self.if_none_match.as_ref().is_some_and(|tags| tags[..] == ["*"])
            && self.if_match.is_none()
            && self.unmodified_since.is_none()
    }

    /// Returns the status of the answer if the values do not meet the conditions; else `None`.
    pub(super) fn unmet_status(&self, found: &Siblings, is_read: bool) -> Option<u16> {
        if found.without_tombstones().next().is_none() {
            return self.if_match.is_some().then_some(412);
        }
        let (tag, modified) = (entity_tag(found), modified(found) / 1_000);
        let has =
            |tags: &Vec<String>| tags.iter().any(|expected| expected == "*" || *expected == tag);
        if self.if_match.as_ref().is_some_and(|tags| !has(tags))
            || self.unmodified_since.is_some_and(|since| modified > since)
        {
            return Some(412);
        }
        if self.if_none_match.as_ref().is_some_and(has) {
            return Some(if is_read { 304 } else { 412 });
        }
        let is_unmodified = self.modified_since.is_some_and(|since| modified <= since);
        (is_read && is_unmodified).then_some(304)
    }
}

/// Returns the entity tag: the value's own, or one derived from the context if there are several.
fn entity_tag(found: &Siblings) -> String {
    match &found.values[..] {
        [value] => value.vtag.to_string(),
        _ => {
            let half = |salt| u128::from(checksum(&found.context.0, salt));
            Vtag(half(1) << 64 | half(2)).to_string()
        }
    }
}

fn modified(found: &Siblings) -> u64 {
    found.values.iter().map(|value| value.written_ms).max().unwrap_or(0)
}

/// Renders a reply as an answer.
pub fn render(shape: &RiakShape, reply: &Result<Reply, Error>) -> RiakResponse {
    match (&shape.0, reply) {
        (Form::Stored { unmet_status, .. }, Err(error)) if error.kind() == Kind::Conflict => {
            RiakResponse::text(*unmet_status, "")
        }
        (Form::Altered(changed), Err(error)) if error.kind() == Kind::Invalid => {
            properties::refusal(&error.text(), changed)
        }
        (form @ (Form::Typed(_) | Form::Counter), Err(error)) => {
            datatypes::render_error(form, error)
        }
        (Form::Index(_), Err(error)) => index_answer::render_error(error),
        (_, Err(error)) => errors::answer(error),
        (form, Ok(reply)) => render_body(form, &reply.body)
            .unwrap_or_else(|| RiakResponse::text(500, "Error:\nan answer to another request\n")),
    }
}

fn render_body(form: &Form, body: &Body) -> Option<RiakResponse> {
    Some(match (form, body) {
        (Form::Object { bucket, vtag, preferences, conditions }, Body::Siblings(found)) => {
            object(found, bucket, vtag.as_deref(), preferences, conditions)
        }
        (Form::Stored { bucket, location, preferences, .. }, Body::Siblings(found)) => {
            let answer = values(found, bucket, preferences, SiblingFormat::Parts);
            let answer = if answer.status == 200 && answer.body.is_empty() {
                RiakResponse { status: 204, ..answer }
            } else {
                answer
            };
            match location {
                Some(location) => {
                    RiakResponse { status: 201, ..answer.with_header("Location", location.clone()) }
                }
                None => answer,
            }
        }
        (Form::Stored { location: Some(location), .. }, Body::Stored(_)) => {
            RiakResponse::text(201, "").with_header("Location", location.clone())
        }
        (Form::Stored { .. } | Form::Removed, Body::Stored(_)) | (Form::Altered(_), Body::Done) => {
            RiakResponse::text(204, "")
        }
        (Form::Keys { properties, .. }, Body::Keys(page)) => {
            let mut document = list("keys", page.keys.iter().cloned());
            if let (Some(properties), Some(fields)) = (properties, document.as_object_mut()) {
                fields.shift_insert(0, "props".into(), properties.clone());
            }
            json(&document)
        }
        (Form::Buckets { .. }, Body::BucketNames(page)) => {
            json(&list("buckets", page.names.iter().map(client_name)))
        }
        (Form::Index(form), Body::IndexPage(page)) => form.answer(page),
        (Form::Properties, Body::Buckets(buckets)) => {
            let bucket = buckets.first()?;
            json(&json!({ "props": properties::bucket_document(&bucket.name, &bucket.properties) }))
        }
        (Form::TypeProperties { kind, claimant }, Body::Types(types)) => {
            match types.iter().find(|(name, _)| name == kind) {
                Some((_, found)) => {
                    json(&json!({ "props": properties::type_document(found, claimant) }))
                }
                None => RiakResponse::text(404, format!("Unknown bucket type: {kind}\n")),
            }
        }
        (Form::Owners, Body::Owners(owners)) => json(&preference_list(owners)),
        (Form::Typed(options), body) => datatypes::render_body(options, body)?,
        (Form::Counter, body) => datatypes::render_counter(body)?,
        _ => return None,
    })
}

fn json(document: &Value) -> RiakResponse {
    RiakResponse::with_body(200, "application/json", document.to_string())
}

/// Returns a preference list as JSON. Nodes are named after their machine: `riak@10.0.0.3`.
fn preference_list(owners: &[Owner]) -> Value {
    let entry = |owner: &Owner| {
        let node = super::statistics::node_name(&owner.address);
        json!({ "partition": owner.partition.0, "node": node, "primary": owner.primary })
    };
    json!({ "preflist": owners.iter().map(entry).collect::<Vec<_>>() })
}

/// Returns names as the JSON document that Riak's clients read.
fn list(name: &str, all: impl Iterator<Item = Bytes>) -> Value {
    let names: Vec<String> = all.map(|bytes| printable(&bytes)).collect();
    json!({ name: names })
}

/// Returns a name or term as text. What is not UTF-8 is percent-encoded.
pub(super) fn printable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_string(),
        Err(_) => {
            let mut text = String::new();
            crate::http::percent::append_encoded(&mut text, bytes);
            text
        }
    }
}

/// Returns the answer for an absent key. A tombstone has the header `X-Riak-Deleted` and its
/// context, which the next write needs.
pub(super) fn not_found(found: &Siblings) -> RiakResponse {
    let answer = RiakResponse::text(404, "not found\n");
    if found.values.is_empty() {
        return answer;
    }
    answer.with_header("X-Riak-Deleted", "true").with_header(VCLOCK, vclock(&found.context))
}

fn object(
    found: &Siblings,
    bucket: &PathBucket,
    vtag: Option<&str>,
    preferences: &Preferences,
    conditions: &Conditions,
) -> RiakResponse {
    if let Some(status) = conditions.unmet_status(found, true) {
        let answer = RiakResponse::empty(status);
        return answer.with_header("ETag", format!("\"{}\"", entity_tag(found)));
    }
    if found.without_tombstones().next().is_none() {
        return not_found(found);
    }
    match vtag {
        None => values(found, bucket, preferences, SiblingFormat::Tags),
        Some(vtag) => match found.values.iter().find(|value| value.vtag.to_string() == vtag) {
            Some(value) => single_value(value, &found.context, bucket, preferences),
            None => RiakResponse::text(404, "not found\n"),
        },
    }
}

/// Renders the only value, or all siblings.
fn values(
    found: &Siblings,
    bucket: &PathBucket,
    preferences: &Preferences,
    default_format: SiblingFormat,
) -> RiakResponse {
    if let [value] = &found.values[..] {
        return single_value(value, &found.context, bucket, preferences);
    }
    let all: Vec<&Sibling> = found.values.iter().collect();
    let head = RiakResponse::empty(300)
        .with_header(VCLOCK, vclock(&found.context))
        .with_header("Vary", "Accept, Accept-Encoding")
        .with_header("ETag", format!("\"{}\"", entity_tag(found)))
        .with_header("Last-Modified", date::format(modified(found)));
    match sibling_format(preferences.accept(), default_format) {
        None => RiakResponse::text(406, ""),
        Some(SiblingFormat::Parts) => {
            let boundary = parts::boundary(&all);
            let kind = format!("multipart/mixed; boundary={boundary}");
            let body = parts::body(&all, bucket, &boundary);
            RiakResponse { body, ..head.with_header("Content-Type", kind) }
        }
        Some(SiblingFormat::Tags) => {
            let mut text = String::from("Siblings:\n");
            all.iter().for_each(|value| text.push_str(&format!("{}\n", value.vtag)));
            RiakResponse { body: text.into(), ..head.with_header("Content-Type", "text/plain") }
        }
    }
}

/// Renders one value with its metadata.
fn single_value(
    value: &Sibling,
    context: &Context,
    bucket: &PathBucket,
    preferences: &Preferences,
) -> RiakResponse {
    let headers = &value.content.headers;
    let kind = content_type(headers);
    let name = String::from_utf8_lossy(&kind);
    let name = name.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if accept_weight(preferences.accept(), &name) == 0 || preferences.refuses(&headers.encoding) {
        return RiakResponse::text(406, "");
    }
    let mut answer = RiakResponse::empty(200)
        .with_header(VCLOCK, vclock(context))
        .with_header("Vary", "Accept-Encoding")
        .with_header("ETag", format!("\"{}\"", value.vtag))
        .with_header("Last-Modified", date::format(value.written_ms))
        .with_header("Link", link_header(value, bucket));
    if value.tombstone {
        answer = answer.with_header("X-Riak-Deleted", "true");
    }
    answer.headers.extend(meta_headers(headers));
    answer.headers.extend(index_headers(headers));
    answer = answer.with_header("Content-Type", kind);
    if !headers.encoding.is_empty() {
        answer = answer.with_header("Content-Encoding", headers.encoding.clone());
    }
    RiakResponse { body: value.content.value.clone(), ..answer }
}
