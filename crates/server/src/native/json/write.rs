//! Writing of replies as JSON, directly into one buffer.

use super::{available, feed, index};
use crate::native::errors;
use base::{Body, KeyVersion, Outcome, Page, Row};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::io::Write;

/// Appends bytes: a string if they are UTF-8, else `{"base64": ".."}`.
pub fn append_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => append_text(out, text),
        Err(_) => {
            out.extend_from_slice(b"{\"base64\":\"");
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.extend_from_slice(b"\"}");
        }
    }
}

/// Appends a JSON string.
pub fn append_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string always has a JSON form");
}

/// Appends a struct as JSON.
pub fn append_json(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("a struct of texts and numbers has a JSON form");
}

/// Appends a struct as JSON fields, without the outer braces.
fn append_fields(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    append_json(out, value);
    out.remove(start);
    out.pop();
}

fn bucket_type(name: &str, properties: &base::Properties) -> api::BucketType {
    api::BucketType { name: name.into(), properties: properties.into() }
}

/// Appends a decimal number.
pub fn append_number(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    write!(out, "{number}").expect("a vector takes all that is written");
}

/// Appends bytes as [`append_bytes`] does; null if there are none.
pub fn append_optional_bytes(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => append_bytes(out, bytes),
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a row as JSON fields, without the outer braces.
pub fn append_row_fields(out: &mut Vec<u8>, row: &Row) {
    out.extend_from_slice(b"\"value\":");
    append_bytes(out, &row.value);
    out.extend_from_slice(b",\"version\":");
    append_number(out, row.version);
    if let Some(expires_in_ms) = row.expires_in_ms {
        out.extend_from_slice(b",\"expires_in_ms\":");
        append_number(out, expires_in_ms);
    }
}

fn append_row(out: &mut Vec<u8>, row: Option<&Row>) {
    match row {
        Some(row) => {
            out.push(b'{');
            append_row_fields(out, row);
            out.push(b'}');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a list of items, each as `append_item` writes it.
pub fn append_list<T>(
    out: &mut Vec<u8>,
    items: &[T],
    mut append_item: impl FnMut(&mut Vec<u8>, &T),
) {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        append_item(out, item);
    }
    out.push(b']');
}

/// Appends a row of a range: `{"key":.., "value":.., ..}`, or only the key if only keys were
/// requested.
pub fn append_entry(out: &mut Vec<u8>, entry: &base::Entry) {
    let Some(row) = &entry.row else {
        out.extend_from_slice(b"{\"key\":");
        append_bytes(out, &entry.key);
        out.push(b'}');
        return;
    };
    out.extend_from_slice(b"{\"key\":");
    append_bytes(out, &entry.key);
    out.push(b',');
    append_row_fields(out, row);
    out.push(b'}');
}

fn append_page(out: &mut Vec<u8>, page: &Page) {
    out.extend_from_slice(b"\"entries\":");
    append_list(out, &page.entries, append_entry);
    write!(out, ",\"more\":{},\"continue\":", page.more).expect("a vector takes all");
    let last = page.entries.last().filter(|_| page.more);
    append_optional_bytes(out, last.map(|entry| &entry.key[..]));
}

/// Appends a reply's body as JSON fields, without the outer braces.
pub fn append_body(out: &mut Vec<u8>, body: &Body) {
    match body {
        Body::Done => out.extend_from_slice(b"\"done\":true"),
        Body::Row(row) => {
            out.extend_from_slice(b"\"row\":");
            append_row(out, row.as_ref());
        }
        Body::Rows(rows) => {
            out.extend_from_slice(b"\"rows\":");
            append_list(out, rows, |out, row| append_row(out, row.as_ref()));
        }
        Body::Page(page) => append_page(out, page),
        Body::Count(count) => {
            out.extend_from_slice(b"\"count\":");
            append_number(out, count);
        }
        Body::Size { keys, bytes } => {
            out.extend_from_slice(b"\"count\":");
            append_number(out, keys);
            out.extend_from_slice(b",\"bytes\":");
            append_number(out, bytes);
        }
        Body::Updated(outcome) => append_outcome(out, outcome),
        // A session's id is text, because many JSON parsers round numbers of more than 53 bits.
        Body::Session(session) => {
            write!(out, "\"session\":\"{session}\"").expect("a vector takes all");
        }
        Body::Buckets(buckets) => {
            out.extend_from_slice(b"\"buckets\":");
            append_list(out, buckets, |out, bucket| {
                append_json(out, &api::BucketReply::from(bucket))
            });
        }
        Body::Types(types) => append_fields(
            out,
            &api::Types {
                types: types
                    .iter()
                    .map(|(name, properties)| bucket_type(name, properties))
                    .collect(),
            },
        ),
        Body::Cluster(cluster) => append_fields(out, &api::Members::from(&**cluster)),
        Body::Joined(cluster, secret) => append_fields(out, &api::JoinReply::new(cluster, secret)),
        Body::Group(placement) => append_fields(out, &api::GroupPlacement::from(&**placement)),
        Body::Siblings(siblings) => available::append_siblings(out, siblings),
        Body::Stored(context) => available::append_context(out, context),
        Body::Keys(keys) => available::append_keys(out, keys),
        Body::BucketNames(names) => available::append_names(out, names),
        Body::Ring(ring) => append_fields(out, &api::Ring::from(ring)),
        Body::RingPlan(plan) => append_fields(out, &api::RingPlan::from(&**plan)),
        Body::RingTransfers(transfers) => append_fields(out, &api::RingTransfers::from(transfers)),
        Body::Typed(found) => available::append_typed(out, found),
        Body::Owners(owners) => available::append_owners(out, owners),
        Body::Indexes(indexes) => append_fields(out, &api::Indexes::from(&indexes[..])),
        Body::IndexPage(page) => index::append_index_page(out, page),
        Body::FeedPage(page) => feed::append_feed_page(out, page),
        Body::KeyVersions(versions) => {
            out.extend_from_slice(b"\"versions\":");
            append_list(out, versions, append_key_version);
        }
    }
}

/// Appends the version of a key; null if the key is absent.
fn append_key_version(out: &mut Vec<u8>, version: &KeyVersion) {
    match version {
        KeyVersion::Present(version) => append_number(out, version),
        KeyVersion::Absent(_) => out.extend_from_slice(b"null"),
    }
}

/// Appends the outcome of an update as JSON fields, without the outer braces.
pub fn append_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    let mut begin = |name: &str, field: &str| {
        out.extend_from_slice(b"\"outcome\":\"");
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\",\"");
        out.extend_from_slice(field.as_bytes());
        out.extend_from_slice(b"\":");
    };
    match outcome {
        Outcome::Done => out.extend_from_slice(b"\"outcome\":\"done\""),
        Outcome::Applied(applied) => {
            begin("applied", "applied");
            append_number(out, applied);
        }
        Outcome::Existed(existed) => {
            begin("existed", "existed");
            append_number(out, existed);
        }
        Outcome::Old(old) => {
            begin("old", "old");
            append_optional_bytes(out, old.as_deref());
        }
        Outcome::Swapped { written, old } => {
            begin("swapped", "written");
            append_number(out, written);
            out.extend_from_slice(b",\"old\":");
            append_optional_bytes(out, old.as_deref());
        }
        Outcome::Count(count) => {
            begin("count", "count");
            append_number(out, count);
        }
        Outcome::Number(number) => {
            begin("number", "number");
            append_number(out, number);
        }
        Outcome::Text(text) => {
            begin("text", "text");
            append_bytes(out, text);
        }
        Outcome::Length(length) => {
            begin("length", "length");
            append_number(out, length);
        }
        Outcome::Read(body) => {
            begin("read", "read");
            out.push(b'{');
            append_body(out, body);
            out.push(b'}');
        }
        Outcome::Steps(steps) => {
            begin("steps", "steps");
            append_list(out, steps, append_step);
        }
        Outcome::AppliedAt(index) => {
            begin("applied_at", "applied_at");
            append_number(out, index);
        }
    }
}

fn append_step(out: &mut Vec<u8>, step: &Result<Outcome, base::Error>) {
    out.push(b'{');
    match step {
        Ok(outcome) => append_outcome(out, outcome),
        Err(error) => {
            out.extend_from_slice(b"\"outcome\":\"error\",");
            errors::append_error(out, error);
        }
    }
    out.push(b'}');
}
