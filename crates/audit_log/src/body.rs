//! JSON of a line, in front of its own hash.

use crate::chain::{ChainHead, LineNotes, TornTail};
use crate::record::{AuditEntry, KEYS_MAX};
use base::utc_time;
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Longest text of a field, in bytes; a longer one is cut. Names of users and buckets are shorter.
const TEXT_BYTES_MAX: usize = 400;

/// Fields of a line but its own hash, in their order.
#[derive(Serialize)]
struct LineBody<'a> {
    before: String,
    seq: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<u64>,
    time: String,
    who: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<&'a str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    protocol: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<IpAddr>,
    operation: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<&'a str>,
    #[serde(skip_serializing_if = "has_none")]
    keys: &'a [String],
    #[serde(skip_serializing_if = "is_zero")]
    more_keys: u64,
    #[serde(skip_serializing_if = "has_no_steps")]
    steps: &'a BTreeMap<&'static str, u64>,
    outcome: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "is_zero")]
    count: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    torn: Option<&'a TornTail>,
}

/// Returns the JSON of a line behind the last one, without its own hash.
pub fn body(last: &ChainHead, entry: &AuditEntry, notes: LineNotes<'_>) -> String {
    let record = &entry.record;
    let (outcome, reason) = record.outcome.names();
    let keys = &record.keys[..record.keys.len().min(KEYS_MAX)];
    let body = LineBody {
        before: last.hash_text(),
        seq: last.seq + 1,
        file: notes.file,
        time: utc_time::rfc3339(entry.at_ms),
        who: cut(&record.who),
        token: record.token.as_deref().map(cut),
        protocol: record.protocol,
        address: record.address,
        operation: record.operation,
        scope: cut(&record.scope),
        target: record.target.as_deref().map(cut),
        keys,
        more_keys: record.more_keys,
        steps: &record.steps,
        outcome,
        reason,
        count: record.count,
        torn: notes.torn,
    };
    serde_json::to_string(&body).expect("texts and numbers have a JSON form")
}

fn has_none(keys: &&[String]) -> bool {
    keys.is_empty()
}

fn has_no_steps(steps: &&BTreeMap<&'static str, u64>) -> bool {
    steps.is_empty()
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Returns the beginning of a text that is too long.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
