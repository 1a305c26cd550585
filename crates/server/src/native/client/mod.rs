//! A client of the native front-end in the house's own words: requests of `base` go out, replies
//! and errors of `base` come back.
//!
//! Promises: an error means what its kind says; a connection that breaks under an update is
//! `Unknown`, under a read `Unavailable`.
//! Never: repeats a request by itself; keeps more of an answer than `ANSWER_BYTES_MAX`.
//! Read next: `wire.rs` (one connection), `replies.rs` (JSON to replies).

mod replies;
mod requests;
mod steps;
mod wire;

#[cfg(test)]
mod tests;

use crate::http::percent::encode_onto;
use base::properties::Changes;
use base::request::{Call, DirectoryCall, Expiry, SessionCall, When};
use base::{
    Body, BucketName, Error, GroupId, JoinToken, LogIndex, Outcome, Read, ReadLevel, Reason, Reply,
    Request, Result, Row, Update,
};
use bytes::Bytes;
use serde_json::Value;
use std::time::Duration;
use wire::Wire;
pub use wire::{SentRequest, WireResponse};

/// A client over one kept connection: one request after the other.
pub struct NativeClient {
    wire: Wire,
    token: Option<JoinToken>,
}

impl NativeClient {
    /// Of the node at `http://HOST:PORT`; `wait_max` bounds each request. Nothing is connected yet.
    ///
    /// Errors: `Malformed` when the address is none.
    pub fn new(url: &str, wait_max: Duration) -> Result<NativeClient> {
        let malformed = || Error::new(Reason::Malformed, "an address reads http://HOST:PORT");
        let authority = url.strip_prefix("http://").ok_or_else(malformed)?.trim_end_matches('/');
        if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ', '\r', '\n']) {
            return Err(malformed());
        }
        Ok(NativeClient { wire: Wire::new(authority.to_string(), wait_max), token: None })
    }

    /// Shows this join token with whatever it asks of the cluster from now on.
    pub fn show(&mut self, token: JoinToken) {
        self.token = Some(token);
    }

    /// Asks anything, and gives the reply as the node gave it.
    ///
    /// Reads of one key come back as `Body::Row`, updates as `Body::Updated`, as they do from the
    /// node itself.
    pub async fn ask(&mut self, request: &Request) -> Result<Reply> {
        let mut sent = requests::sent(request);
        if let Some(retry) = request.retry {
            sent.headers.push(("x-credenza-session", retry.session.to_string()));
            sent.headers.push(("x-credenza-request", retry.number.to_string()));
        }
        let is_of_cluster = matches!(request.call, Call::Directory(DirectoryCall::Cluster(_)));
        if let Some(token) = self.token.as_ref().filter(|_| is_of_cluster) {
            sent.headers.push(("authorization", format!("Bearer {}", token.text())));
        }
        let answer = self.wire.exchange(&sent).await?;
        replies::reply(&request.call, &answer)
    }

    /// Sends what is not a request of the node: status, metrics, administration.
    pub async fn send(&mut self, sent: &SentRequest) -> Result<WireResponse> {
        let answer = self.wire.exchange(sent).await?;
        if answer.status < 400 { Ok(answer) } else { Err(replies::error(&answer)) }
    }

    /// The row of a key.
    pub async fn get(&mut self, bucket: &BucketName, key: &[u8]) -> Result<Option<Row>> {
        let read = Read::Get(key.to_vec().into());
        match self.read(bucket, read, ReadLevel::Consistent).await?.body {
            Body::Row(row) => Ok(row),
            _ => Err(replies::strange()),
        }
    }

    /// A read of any kind.
    pub async fn read(
        &mut self,
        bucket: &BucketName,
        read: Read,
        level: ReadLevel,
    ) -> Result<Reply> {
        let call = Call::Read(read, level);
        self.ask(&Request { bucket: bucket.clone(), call, retry: None }).await
    }

    /// Writes a value if the condition holds; whether it did.
    pub async fn put(
        &mut self,
        bucket: &BucketName,
        key: &[u8],
        value: &[u8],
        expiry: Expiry,
        when: When,
    ) -> Result<bool> {
        let (key, value) = (key.to_vec().into(), value.to_vec().into());
        let update = match when {
            When::Always => Update::Set { key, value, expiry },
            when => Update::SetIf { key, value, expiry, when },
        };
        match self.update(bucket, update).await?.body {
            Body::Updated(Outcome::Swapped { written, .. }) => Ok(written),
            _ => Ok(true),
        }
    }

    /// Deletes a key; whether it was there.
    pub async fn delete(&mut self, bucket: &BucketName, key: &[u8]) -> Result<bool> {
        let missing = base::request::Missing::Skipped;
        let update = Update::Delete { key: key.to_vec().into(), missing };
        match self.update(bucket, update).await?.body {
            Body::Updated(Outcome::Existed(existed)) => Ok(existed),
            _ => Ok(true),
        }
    }

    /// An update of any kind, a sequence too.
    pub async fn update(&mut self, bucket: &BucketName, update: Update) -> Result<Reply> {
        let call = Call::Update(update);
        self.ask(&Request { bucket: bucket.clone(), call, retry: None }).await
    }

    /// Something of the directory.
    pub async fn directory(&mut self, bucket: &BucketName, call: DirectoryCall) -> Result<Reply> {
        let call = Call::Directory(call);
        self.ask(&Request { bucket: bucket.clone(), call, retry: None }).await
    }

    /// A value of a group's log, of a member that knows it to be decided.
    pub async fn decided_value(&mut self, group: GroupId, index: LogIndex) -> Result<Bytes> {
        let mut sent =
            SentRequest::new("GET", format!("/v1/cluster/groups/{group}/values/{index}"));
        if let Some(token) = &self.token {
            sent.headers.push(("authorization", format!("Bearer {}", token.text())));
        }
        self.send(&sent).await.map(|answer| answer.body)
    }

    /// Opens or closes a session.
    pub async fn session(&mut self, bucket: &BucketName, call: SessionCall) -> Result<Reply> {
        let call = Call::Session(call);
        self.ask(&Request { bucket: bucket.clone(), call, retry: None }).await
    }

    /// `/status`.
    pub async fn status(&mut self) -> Result<Value> {
        self.send(&SentRequest::new("GET", "/status")).await?.json()
    }

    /// Makes a checkpoint under this name; where it is.
    pub async fn checkpoint(&mut self, name: &str) -> Result<String> {
        let body = serde_json::json!({ "target": name }).to_string();
        let sent = SentRequest::json("POST", "/v1/admin/checkpoint", body.into_bytes());
        let answer = self.send(&sent).await?.json()?;
        answer["target"].as_str().map(String::from).ok_or_else(replies::strange)
    }

    /// The log's levels, after these changes.
    pub async fn log_levels(&mut self, changes: &Changes) -> Result<Value> {
        const PATH: &str = "/v1/admin/log-levels";
        if changes.is_empty() {
            return self.send(&SentRequest::new("GET", PATH)).await?.json();
        }
        let body: serde_json::Map<String, Value> =
            changes.iter().map(|(name, text)| (name.clone(), text.as_str().into())).collect();
        let body = Value::Object(body).to_string();
        self.send(&SentRequest::json("PUT", PATH, body.into_bytes())).await?.json()
    }
}

/// The path of something in a bucket.
fn path(bucket: &BucketName, rest: &str) -> String {
    let mut path = format!("/v1/buckets/{}/", bucket.kind());
    encode_onto(&mut path, bucket.name().as_bytes());
    path + rest
}

/// The path of a key.
fn key_path(bucket: &BucketName, key: &[u8]) -> String {
    let mut path = path(bucket, "/keys/");
    // Dots alone would be taken for a step up the path by whoever stands in between.
    match key {
        b"." => path.push_str("%2E"),
        b".." => path.push_str("%2E%2E"),
        key => encode_onto(&mut path, key),
    }
    path
}
