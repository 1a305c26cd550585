//! Sender of an import: one connection that sends batch after batch, each as one sequence (in an
//! available bucket: as one batch).

use super::Errors;
use super::batches::ImportBatch;
use super::resume::InputPosition;
use super::skips::Skips;
use crate::client::{Client, HttpCall};
use base::{Kind, Reason};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use program::{Failure, Outcome};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Most tries of a batch that can't be sent now, with growing pauses (about a minute).
const TRIES_MAX: u32 = 12;
const PAUSE_MS: u64 = 50;
const PAUSE_MS_MAX: u64 = 10_000;

/// A batch that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct SentBatch {
    /// Number of its round.
    pub number: u64,
    /// Number of records written.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Number of records left out.
    pub skipped: u64,
    /// Position in the input after the round.
    pub end: InputPosition,
}

/// Destination of records.
pub struct ImportRoute {
    /// Path of the bucket's sequences.
    pub path: String,
    /// True if the bucket is available: it accepts no sequence that applies as a whole.
    pub is_available: bool,
    /// Time to live, in milliseconds. `None`: the records never expire.
    pub ttl: Option<u64>,
}

/// Sender of one connection.
pub struct Sender {
    client: Client,
    route: ImportRoute,
    errors: Errors,
    skips: Arc<Skips>,
}

impl Sender {
    /// Returns a sender along this route.
    pub fn new(client: Client, route: ImportRoute, errors: Errors, skips: Arc<Skips>) -> Sender {
        Sender { client, route, errors, skips }
    }

    /// Sends until there are no more batches.
    pub async fn run(
        mut self,
        mut batches: mpsc::Receiver<ImportBatch>,
        acknowledgements: mpsc::Sender<SentBatch>,
    ) -> Outcome {
        while let Some(batch) = batches.recv().await {
            let acknowledgement = self.send_batch(batch).await?;
            // An error means that the receiver is gone: the import has ended.
            acknowledgements.send(acknowledgement).await.unwrap_or_default();
        }
        Ok(())
    }

    async fn send_batch(&mut self, batch: ImportBatch) -> Outcome<SentBatch> {
        let mut acknowledgement = SentBatch {
            number: batch.number,
            records: batch.records.len() as u64,
            bytes: batch.records.bytes() as u64,
            skipped: batch.skipped,
            end: batch.end,
        };
        if batch.records.is_empty() {
            return Ok(acknowledgement);
        }
        match self.send_records(batch.records.iter()).await {
            Err(failure) if is_record_refused(&failure) => {}
            other => return other.map(|()| acknowledgement),
        }
        // A record was refused (the bucket may have its own limits). Sending each record alone
        // identifies it.
        for (at, (key, value, line)) in batch.records.iter().enumerate() {
            match self.send_records(std::iter::once((key, value, line))).await {
                Err(failure) if is_record_refused(&failure) => {
                    if self.errors == Errors::Stop {
                        let text = format!("line {line}: {failure}: fix it, or --errors skip");
                        return Err(Failure::invalid(text));
                    }
                    let text = batch.records.text(at).unwrap_or_default();
                    self.skips.report(line, &failure.to_string(), text)?;
                    acknowledgement.records -= 1;
                    acknowledgement.bytes -= (key.len() + value.len()) as u64;
                    acknowledgement.skipped += 1;
                }
                other => other?,
            }
        }
        Ok(acknowledgement)
    }

    /// Sends records as one sequence, repeatedly while the node can't accept it. A repeated write
    /// of the same record is harmless, so an unknown outcome is retried, too.
    async fn send_records<'b>(
        &mut self,
        records: impl Iterator<Item = (&'b [u8], &'b [u8], u64)>,
    ) -> Outcome {
        let body = bytes::Bytes::from(sequence(records, &self.route));
        let mut pause = PAUSE_MS;
        for tries_left in (0..TRIES_MAX).rev() {
            let call = HttpCall::json(Method::POST, self.route.path.clone(), body.clone());
            let failure = match self.client.call(call).await {
                Ok(_) => return Ok(()),
                Err(failure) => failure,
            };
            let is_transient = matches!(failure.kind(), Some(Kind::Unavailable | Kind::Unknown));
            if !is_transient || tries_left == 0 {
                return Err(failure);
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            pause = (pause * 2).min(PAUSE_MS_MAX);
        }
        Ok(())
    }
}

/// Returns true if the refusal concerns a record; false if it concerns the bucket, and thus every
/// record.
fn is_record_refused(failure: &Failure) -> bool {
    let bucket_reasons = [Reason::NoSuchBucket, Reason::NoSuchType, Reason::NotSupported].map(Some);
    failure.kind() == Some(Kind::Invalid) && !bucket_reasons.contains(&failure.reason())
}

/// Returns a sequence as JSON, or a batch of independent steps for an available bucket.
fn sequence<'b>(
    records: impl Iterator<Item = (&'b [u8], &'b [u8], u64)>,
    route: &ImportRoute,
) -> Vec<u8> {
    let mut json = Vec::with_capacity(64 * 1024);
    let tail = route.ttl.map_or("}".into(), |ms| format!(",\"ttl_ms\":{ms}}}"));
    if route.is_available {
        json.extend_from_slice(b"{\"mode\":\"batch\",\"steps\":");
    }
    json.push(b'[');
    for (index, (key, value, _)) in records.enumerate() {
        if index > 0 {
            json.push(b',');
        }
        json.extend_from_slice(b"{\"op\":\"set\",\"key\":");
        append_bytes(&mut json, key);
        json.extend_from_slice(b",\"value\":");
        append_bytes(&mut json, value);
        json.extend_from_slice(tail.as_bytes());
    }
    json.push(b']');
    if route.is_available {
        json.push(b'}');
    }
    json
}

fn append_bytes(json: &mut Vec<u8>, bytes: &[u8]) {
    let written = match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::to_writer(json, text).is_ok(),
        Err(_) => write!(json, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes)).is_ok(),
    };
    assert!(written, "memory takes everything");
}
