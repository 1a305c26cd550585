//! Rows of a bucket, read without its index and its feed.

use super::document::{DocumentRows, living_values};
use super::shared::{DocumentBucket, SharedState};
use crate::client::{Http, HttpResponse};
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;

const ANSWER_TIMEOUT: Duration = Duration::from_secs(12);

/// Reads all rows of a bucket at a node: those of a consistent one as a stream, those of an
/// available one key by key, each by a quorum. Fails with the answer of the node.
pub(super) fn read_rows(shared: &SharedState, address: SocketAddr) -> Result<DocumentRows, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut client = Http::with_timeout(address, ANSWER_TIMEOUT).map_err(text)?;
    let mut get = |path: String| client.request("GET", &path, b"").map_err(text);
    let path = shared.bucket.path();
    if shared.bucket == DocumentBucket::Consistent {
        return rows_of_stream(&get(format!("{path}/stream"))?);
    }
    let mut rows = DocumentRows::new();
    for key in shared.record.readable_keys() {
        let answer = get(format!("{path}/siblings/{key}"))?;
        match (answer.status, living_values(&answer.json())) {
            (200, Some(values)) if values.is_empty() => {}
            (200, Some(values)) => drop(rows.insert(key, values)),
            (404, _) if answer.reason() == "not_found" => {}
            _ => return Err(format!("{key}: {} {}", answer.status, answer.text())),
        }
    }
    Ok(rows)
}

fn rows_of_stream(answer: &HttpResponse) -> Result<DocumentRows, String> {
    let mut rows = DocumentRows::new();
    for line in answer.text().lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_default();
        match (row["key"].as_str(), living_values(&row)) {
            (Some(key), Some(values)) => drop(rows.insert(key.into(), values)),
            _ => return Err(format!("{} {line}", answer.status)),
        }
    }
    if answer.status == 200 { Ok(rows) } else { Err(answer.text()) }
}
