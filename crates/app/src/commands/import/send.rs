//! One connection that sends parcel after parcel, each as one sequence.

use super::Errors;
use super::parcels::Parcel;
use super::resume::Reached;
use crate::client::{Call, Client};
use crate::failure::{Failure, Outcome};
use base::{Kind, Reason};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::Method;
use std::io::Write;
use std::time::Duration;
use tokio::sync::mpsc;

/// A parcel that cannot be sent now is tried again this often, with growing pauses (about a
/// minute).
const TRIES_MAX: u32 = 12;
const PAUSE_MS: u64 = 50;
const PAUSE_MS_MAX: u64 = 10_000;

/// A parcel that was acknowledged.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// The parcel's number.
    pub number: u64,
    /// Records written.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// Records left out.
    pub skipped: u64,
    /// Where the input stood behind it.
    pub end: Reached,
}

/// One connection.
pub struct Sender {
    client: Client,
    path: String,
    ttl: Option<u64>,
    errors: Errors,
}

impl Sender {
    /// To this sequence route.
    pub fn new(client: Client, path: String, ttl: Option<u64>, errors: Errors) -> Sender {
        Sender { client, path, ttl, errors }
    }

    /// Sends until there are no more parcels.
    pub async fn run(
        mut self,
        mut waiting: mpsc::Receiver<Parcel>,
        report: mpsc::Sender<Sent>,
    ) -> Outcome {
        while let Some(parcel) = waiting.recv().await {
            let sent = self.parcel(parcel).await?;
            // An error means that nobody counts any more: the import is over.
            report.send(sent).await.unwrap_or_default();
        }
        Ok(())
    }

    async fn parcel(&mut self, parcel: Parcel) -> Outcome<Sent> {
        let mut sent = Sent {
            number: parcel.number,
            records: parcel.batch.len() as u64,
            bytes: parcel.batch.bytes() as u64,
            skipped: parcel.skipped,
            end: parcel.end,
        };
        if parcel.batch.is_empty() {
            return Ok(sent);
        }
        match self.records(parcel.batch.iter()).await {
            Err(failure) if is_of_record(&failure) => {}
            other => return other.map(|()| sent),
        }
        // Some record is refused (the bucket has limits of its own, say): find out which.
        for (key, value, line) in parcel.batch.iter() {
            match self.records(std::iter::once((key, value, line))).await {
                Err(failure) if is_of_record(&failure) => {
                    let text = format!("line {line}: {failure}");
                    if self.errors == Errors::Stop {
                        return Err(Failure::invalid(format!("{text}: mend it, or --errors skip")));
                    }
                    eprintln!("credenza: {text}: skipped");
                    sent.records -= 1;
                    sent.bytes -= (key.len() + value.len()) as u64;
                    sent.skipped += 1;
                }
                other => other?,
            }
        }
        Ok(sent)
    }

    /// Sends records as one sequence, again and again while the node can't take it. Writing the
    /// same record twice is harmless, so an unknown outcome is tried again too.
    async fn records<'b>(
        &mut self,
        records: impl Iterator<Item = (&'b [u8], &'b [u8], u64)>,
    ) -> Outcome {
        let body = bytes::Bytes::from(steps(records, self.ttl));
        let mut pause = PAUSE_MS;
        for left in (0..TRIES_MAX).rev() {
            let call = Call::json(Method::POST, self.path.clone(), body.clone());
            let failure = match self.client.call(call).await {
                Ok(_) => return Ok(()),
                Err(failure) => failure,
            };
            let passing = matches!(failure.kind(), Some(Kind::Unavailable | Kind::Unknown));
            if !passing || left == 0 {
                return Err(failure);
            }
            tokio::time::sleep(Duration::from_millis(pause)).await;
            pause = (pause * 2).min(PAUSE_MS_MAX);
        }
        Ok(())
    }
}

/// True where a record was refused by itself; false where its bucket, the same for all, was.
fn is_of_record(failure: &Failure) -> bool {
    let of_bucket = [Reason::NoSuchBucket, Reason::NoSuchType, Reason::NotSupported].map(Some);
    failure.kind() == Some(Kind::Invalid) && !of_bucket.contains(&failure.reason())
}

/// The steps of a sequence as JSON.
fn steps<'b>(
    records: impl Iterator<Item = (&'b [u8], &'b [u8], u64)>,
    ttl: Option<u64>,
) -> Vec<u8> {
    let mut json = Vec::with_capacity(64 * 1024);
    let tail = ttl.map_or("}".into(), |ms| format!(",\"ttl_ms\":{ms}}}"));
    json.push(b'[');
    for (key, value, _) in records {
        if json.len() > 1 {
            json.push(b',');
        }
        json.extend_from_slice(b"{\"op\":\"set\",\"key\":");
        append(&mut json, key);
        json.extend_from_slice(b",\"value\":");
        append(&mut json, value);
        json.extend_from_slice(tail.as_bytes());
    }
    json.push(b']');
    json
}

fn append(json: &mut Vec<u8>, bytes: &[u8]) {
    let written = match std::str::from_utf8(bytes) {
        Ok(text) => serde_json::to_writer(json, text).is_ok(),
        Err(_) => write!(json, "{{\"base64\":\"{}\"}}", STANDARD.encode(bytes)).is_ok(),
    };
    assert!(written, "memory takes everything");
}
