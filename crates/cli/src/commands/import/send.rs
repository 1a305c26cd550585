//! Sender of an import: one connection that sends batch after batch, each as one chunk
//! (`base::import_chunk`), which is written as a whole (in an available bucket: record by record).

use super::Errors;
use super::batches::ImportBatch;
use super::resume::InputPosition;
use super::skips::Skips;
use base::{Kind, Reason, import_chunk};
use bytes::Bytes;
use client::{Client, HttpCall};
use hyper::Method;
use program::{Failure, Outcome};
use record_files::RecordBatch;
use std::ops::Range;
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

/// Returns the path and query of a bucket's chunks. `path`: the route without a query;
/// `is_available`: true if the bucket accepts no sequence that applies as a whole; `ttl`: time to
/// live in milliseconds, if the records expire.
pub fn chunk_path(path: &str, is_available: bool, ttl: Option<u64>) -> String {
    let mode = if is_available { "batch" } else { "synced" };
    let ttl = ttl.map_or(String::new(), |ms| format!("&ttl_ms={ms}"));
    format!("{path}?mode={mode}{ttl}")
}

/// Sender of one connection.
pub struct Sender {
    client: Client,
    /// Path and query of the bucket's chunks.
    path: String,
    errors: Errors,
    skips: Arc<Skips>,
}

impl Sender {
    /// Returns a sender of chunks to this path.
    pub fn new(client: Client, path: String, errors: Errors, skips: Arc<Skips>) -> Sender {
        Sender { client, path, errors, skips }
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
        // Records that are not acknowledged yet, the next ones last. A range in which a record is
        // refused (the bucket may have its own limits) is halved until only that record is left.
        // The order of the input is kept, so that of two records with one key the later stays.
        let mut remaining: Vec<_> = std::iter::once(0..batch.records.len()).collect();
        while let Some(range) = remaining.pop().filter(|range| !range.is_empty()) {
            match self.send_records(&batch.records, &range).await {
                Ok(()) => {}
                Err(failure) if !is_record_refused(&failure) => return Err(failure),
                Err(_) if range.len() > 1 => {
                    let middle = range.start + range.len() / 2;
                    remaining.extend([middle..range.end, range.start..middle]);
                }
                Err(failure) => {
                    self.skip_record(&batch.records, range.start, &failure)?;
                    acknowledgement.records -= 1;
                    acknowledgement.bytes -= batch.records.range_bytes(&range) as u64;
                    acknowledgement.skipped += 1;
                }
            }
        }
        Ok(acknowledgement)
    }

    /// Skips a record that the node refused, or fails and ends the import.
    fn skip_record(&self, records: &RecordBatch, at: usize, failure: &Failure) -> Outcome {
        let line = records.range(at..at + 1).next().map_or(0, |(_, _, line)| line);
        if self.errors == Errors::Stop {
            let text = format!("line {line}: {failure}: fix it, or --errors skip");
            return Err(Failure::invalid(text));
        }
        self.skips.report(line, &failure.to_string(), records.text(at).unwrap_or_default())
    }

    /// Sends records as one chunk, repeatedly while the node can't accept it. A repeated write of
    /// the same record is harmless, so an unknown outcome is retried, too.
    async fn send_records(&mut self, records: &RecordBatch, range: &Range<usize>) -> Outcome {
        let pairs = records.range(range.clone()).map(|(key, value, _)| (key, value));
        let bytes = import_chunk::records_bytes(range.len(), records.range_bytes(range));
        let chunk = Bytes::from(import_chunk::encode(pairs, bytes));
        let mut pause = PAUSE_MS;
        for tries_left in (0..TRIES_MAX).rev() {
            let mut call = HttpCall::new(Method::POST, self.path.clone());
            call.headers.push(("content-type", "application/octet-stream".into()));
            call.body = chunk.clone();
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

/// Returns true if the refusal concerns a record: its key or value is too large for the bucket.
/// Other refusals concern the request or the bucket, and thus every record.
fn is_record_refused(failure: &Failure) -> bool {
    failure.reason() == Some(Reason::TooLarge)
}
