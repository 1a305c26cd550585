//! Client of the native front-end, in terms of `base`: it sends requests and returns replies and
//! errors of `base`.
//!
//! Promises: an error has the kind that its meaning demands; a connection that breaks during an
//! update gives `Unknown`, during a read `Unavailable`.
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

/// Client with one persistent connection, which carries one request at a time.
pub struct NativeClient {
    wire: Wire,
    token: Option<JoinToken>,
}

impl NativeClient {
    /// Returns a client of the node at `http://HOST:PORT`. `wait_max` limits the duration of each
    /// request. The first request opens the connection.
    ///
    /// Errors: `Malformed` if `url` is not such an address.
    pub fn new(url: &str, wait_max: Duration) -> Result<NativeClient> {
        let malformed = || Error::new(Reason::Malformed, "an address reads http://HOST:PORT");
        let authority = url.strip_prefix("http://").ok_or_else(malformed)?.trim_end_matches('/');
        if authority.is_empty() || authority.contains(['/', '?', '#', '@', ' ', '\r', '\n']) {
            return Err(malformed());
        }
        Ok(NativeClient { wire: Wire::new(authority.to_string(), wait_max), token: None })
    }

    /// Presents this join token with every later request about the cluster.
    pub fn show(&mut self, token: JoinToken) {
        self.token = Some(token);
    }

    /// Sends any request and returns the node's reply.
    ///
    /// Reads of one key return `Body::Row`, updates `Body::Updated`, as the node itself does.
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

    /// Sends a request that is none of `base`: status, metrics, administration.
    pub async fn send(&mut self, sent: &SentRequest) -> Result<WireResponse> {
        let answer = self.wire.exchange(sent).await?;
        if answer.status < 400 { Ok(answer) } else { Err(replies::error(&answer)) }
    }

    /// Returns the row of a key. `None`: the key does not exist.
    pub async fn get(&mut self, bucket: &BucketName, key: &[u8]) -> Result<Option<Row>> {
        let read = Read::Get(key.to_vec().into());
        match self.read(bucket, read, ReadLevel::Consistent).await?.body {
            Body::Row(row) => Ok(row),
            _ => Err(replies::strange()),
        }
    }

    /// Sends a read of any kind.
    pub async fn read(
        &mut self,
        bucket: &BucketName,
        read: Read,
        level: ReadLevel,
    ) -> Result<Reply> {
        let call = Call::Read(read, level);
        self.ask(&Request { bucket: bucket.clone(), call, retry: None }).await
    }

    /// Writes a value if the condition holds. Returns true if it did.
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

    /// Deletes a key. Returns true if it existed.
    pub async fn delete(&mut self, bucket: &BucketName, key: &[u8]) -> Result<bool> {
        let missing = base::request::Missing::Skipped;
        let update = Update::Delete { key: key.to_vec().into(), missing };
        match self.update(bucket, update).await?.body {
            Body::Updated(Outcome::Existed(existed)) => Ok(existed),
            _ => Ok(true),
        }
    }

    /// Sends an update of any kind, including a sequence.
    pub async fn update(&mut self, bucket: &BucketName, update: Update) -> Result<Reply> {
        let call = Call::Update(update);
        self.ask(&Request { bucket: bucket.clone(), call, retry: None }).await
    }

    /// Sends a call to the directory.
    pub async fn directory(&mut self, bucket: &BucketName, call: DirectoryCall) -> Result<Reply> {
        let call = Call::Directory(call);
        self.ask(&Request { bucket: bucket.clone(), call, retry: None }).await
    }

    /// Returns an entry of a group's log, from a member that knows it to be decided.
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

    /// Returns `/status`.
    pub async fn status(&mut self) -> Result<Value> {
        self.send(&SentRequest::new("GET", "/status")).await?.json()
    }

    /// Makes a checkpoint of this name. Returns its path.
    pub async fn checkpoint(&mut self, name: &str) -> Result<String> {
        let body = serde_json::json!({ "target": name }).to_string();
        let sent = SentRequest::json("POST", "/v1/admin/checkpoint", body.into_bytes());
        let answer = self.send(&sent).await?.json()?;
        answer["target"].as_str().map(String::from).ok_or_else(replies::strange)
    }

    /// Applies these changes to the log levels. Returns the levels.
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

/// Returns the path of a resource in a bucket.
fn path(bucket: &BucketName, rest: &str) -> String {
    let mut path = format!("/v1/buckets/{}/", bucket.kind());
    encode_onto(&mut path, bucket.name().as_bytes());
    path + rest
}

/// Returns the path of a key.
fn key_path(bucket: &BucketName, key: &[u8]) -> String {
    let mut path = path(bucket, "/keys/");
    // Encode dots: intermediaries would resolve a segment of dots alone as a step up the path.
    match key {
        b"." => path.push_str("%2E"),
        b".." => path.push_str("%2E%2E"),
        key => encode_onto(&mut path, key),
    }
    path
}
