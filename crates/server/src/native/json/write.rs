//! Writing of replies as JSON, directly into one buffer.

use super::available;
use crate::native::errors;
use base::{Body, Outcome, Page, Row};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use std::io::Write;

/// Appends bytes: a string if they are UTF-8, else `{"base64": ".."}`.
pub fn bytes_onto(out: &mut Vec<u8>, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(text) => text_onto(out, text),
        Err(_) => {
            out.extend_from_slice(b"{\"base64\":\"");
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.extend_from_slice(b"\"}");
        }
    }
}

/// Appends a JSON string.
pub fn text_onto(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a string always has a JSON form");
}

/// Appends a struct as JSON.
pub fn json_onto(out: &mut Vec<u8>, value: &impl Serialize) {
    serde_json::to_writer(out, value).expect("a struct of texts and numbers has a JSON form");
}

/// Appends a struct as JSON fields, without the outer braces.
fn fields_onto(out: &mut Vec<u8>, value: &impl Serialize) {
    let start = out.len();
    json_onto(out, value);
    out.remove(start);
    out.pop();
}

fn of_type(name: &str, properties: &base::Properties) -> api::BucketType {
    api::BucketType { name: name.into(), properties: properties.into() }
}

/// Appends a decimal number.
pub fn number_onto(out: &mut Vec<u8>, number: impl std::fmt::Display) {
    write!(out, "{number}").expect("a vector takes all that is written");
}

fn maybe_bytes_onto(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => bytes_onto(out, bytes),
        None => out.extend_from_slice(b"null"),
    }
}

fn row_fields_onto(out: &mut Vec<u8>, row: &Row) {
    out.extend_from_slice(b"\"value\":");
    bytes_onto(out, &row.value);
    out.extend_from_slice(b",\"version\":");
    number_onto(out, row.version);
    if let Some(expires) = row.expires_in_ms {
        out.extend_from_slice(b",\"expires_in_ms\":");
        number_onto(out, expires);
    }
}

fn row_onto(out: &mut Vec<u8>, row: Option<&Row>) {
    match row {
        Some(row) => {
            out.push(b'{');
            row_fields_onto(out, row);
            out.push(b'}');
        }
        None => out.extend_from_slice(b"null"),
    }
}

/// Appends a list of items, each as `item_onto` writes it.
pub fn list_onto<T>(out: &mut Vec<u8>, items: &[T], mut item_onto: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        item_onto(out, item);
    }
    out.push(b']');
}

/// Appends a row of a range: `{"key":.., "value":.., ..}`, or only the key if only keys were
/// requested.
pub fn entry_onto(out: &mut Vec<u8>, entry: &base::Entry) {
    let Some(row) = &entry.row else {
        out.extend_from_slice(b"{\"key\":");
        bytes_onto(out, &entry.key);
        out.push(b'}');
        return;
    };
    out.extend_from_slice(b"{\"key\":");
    bytes_onto(out, &entry.key);
    out.push(b',');
    row_fields_onto(out, row);
    out.push(b'}');
}

fn page_onto(out: &mut Vec<u8>, page: &Page) {
    out.extend_from_slice(b"\"entries\":");
    list_onto(out, &page.entries, entry_onto);
    write!(out, ",\"more\":{},\"continue\":", page.more).expect("a vector takes all");
    let last = page.entries.last().filter(|_| page.more);
    maybe_bytes_onto(out, last.map(|entry| &entry.key[..]));
}

/// Appends a reply's body as JSON fields, without the outer braces.
pub fn body_onto(out: &mut Vec<u8>, body: &Body) {
    match body {
        Body::Done => out.extend_from_slice(b"\"done\":true"),
        Body::Row(row) => {
            out.extend_from_slice(b"\"row\":");
            row_onto(out, row.as_ref());
        }
        Body::Rows(rows) => {
            out.extend_from_slice(b"\"rows\":");
            list_onto(out, rows, |out, row| row_onto(out, row.as_ref()));
        }
        Body::Page(page) => page_onto(out, page),
        Body::Count(count) => {
            out.extend_from_slice(b"\"count\":");
            number_onto(out, count);
        }
        Body::Updated(outcome) => outcome_onto(out, outcome),
        // A session's id is text, because many JSON parsers round numbers of more than 53 bits.
        Body::Session(session) => {
            write!(out, "\"session\":\"{session}\"").expect("a vector takes all");
        }
        Body::Buckets(buckets) => {
            out.extend_from_slice(b"\"buckets\":");
            list_onto(out, buckets, |out, bucket| json_onto(out, &api::BucketReply::from(bucket)));
        }
        Body::Types(types) => fields_onto(
            out,
            &api::Types { types: types.iter().map(|(name, of)| of_type(name, of)).collect() },
        ),
        Body::Cluster(known) => fields_onto(out, &api::Members::from(&**known)),
        Body::Joined(known, secret) => fields_onto(out, &api::Joined::new(known, secret)),
        Body::Group(placement) => fields_onto(out, &api::GroupPlacement::from(&**placement)),
        Body::Siblings(siblings) => available::siblings_onto(out, siblings),
        Body::Stored(context) => available::context_onto(out, context),
        Body::Keys(keys) => available::keys_onto(out, keys),
        Body::BucketNames(names) => available::names_onto(out, names),
        Body::Ring(ring) => fields_onto(out, &api::Ring::from(ring)),
        Body::RingPlan(plan) => fields_onto(out, &api::RingPlan::from(&**plan)),
        Body::RingTransfers(transfers) => fields_onto(out, &api::RingTransfers::from(transfers)),
        Body::Typed(found) => available::typed_onto(out, found),
        Body::Owners(owners) => available::owners_onto(out, owners),
    }
}

/// Appends the outcome of an update as JSON fields, without the outer braces.
pub fn outcome_onto(out: &mut Vec<u8>, outcome: &Outcome) {
    let mut begin = |word: &str, field: &str| {
        out.extend_from_slice(b"\"outcome\":\"");
        out.extend_from_slice(word.as_bytes());
        out.extend_from_slice(b"\",\"");
        out.extend_from_slice(field.as_bytes());
        out.extend_from_slice(b"\":");
    };
    match outcome {
        Outcome::Done => out.extend_from_slice(b"\"outcome\":\"done\""),
        Outcome::Applied(applied) => {
            begin("applied", "applied");
            number_onto(out, applied);
        }
        Outcome::Existed(existed) => {
            begin("existed", "existed");
            number_onto(out, existed);
        }
        Outcome::Old(old) => {
            begin("old", "old");
            maybe_bytes_onto(out, old.as_deref());
        }
        Outcome::Swapped { written, old } => {
            begin("swapped", "written");
            number_onto(out, written);
            out.extend_from_slice(b",\"old\":");
            maybe_bytes_onto(out, old.as_deref());
        }
        Outcome::Count(count) => {
            begin("count", "count");
            number_onto(out, count);
        }
        Outcome::Number(number) => {
            begin("number", "number");
            number_onto(out, number);
        }
        Outcome::Text(text) => {
            begin("text", "text");
            bytes_onto(out, text);
        }
        Outcome::Length(length) => {
            begin("length", "length");
            number_onto(out, length);
        }
        Outcome::Read(body) => {
            begin("read", "read");
            out.push(b'{');
            body_onto(out, body);
            out.push(b'}');
        }
        Outcome::Steps(steps) => {
            begin("steps", "steps");
            list_onto(out, steps, step_onto);
        }
        Outcome::AppliedAt(index) => {
            begin("applied_at", "applied_at");
            number_onto(out, index);
        }
    }
}

fn step_onto(out: &mut Vec<u8>, step: &Result<Outcome, base::Error>) {
    out.push(b'{');
    match step {
        Ok(outcome) => outcome_onto(out, outcome),
        Err(error) => {
            out.extend_from_slice(b"\"outcome\":\"error\",");
            errors::error_onto(out, error);
        }
    }
    out.push(b'}');
}
