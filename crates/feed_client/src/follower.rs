//! Follower of a feed: its pages one after the other, from any node that answers.

use crate::cluster_client::ClusterClient;
use api::FeedPageReply;
use base::BucketName;
use base::limits::PAGE_ROWS_MAX;
use client::{HttpCall, encode};
use hyper::Method;
use program::Outcome;

/// Number of events in a page; it ends earlier at its bytes.
const PAGE_EVENTS: usize = PAGE_ROWS_MAX / 10;
/// Longest wait of a request for an event, in milliseconds. The shorter of this and of half of the
/// wait for an answer counts.
const WAIT_MS_MAX: u64 = 20_000;

/// Follower of the feed of a bucket.
pub struct FeedFollower {
    nodes: ClusterClient,
    bucket: BucketName,
    /// Place of the next page: `start`, `now` or a token.
    from: String,
    values: bool,
}

impl FeedFollower {
    /// Returns a follower that begins here: at `start`, `now` or a token. `values`: events have
    /// their records.
    pub fn new(
        nodes: ClusterClient,
        bucket: BucketName,
        from: String,
        values: bool,
    ) -> FeedFollower {
        FeedFollower { nodes, bucket, from, values }
    }

    /// Returns the place of the next page.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// Goes on at another place.
    pub fn go_to(&mut self, from: String) {
        self.from = from;
    }

    /// Returns the client of the bucket's cluster.
    pub fn nodes(&mut self) -> &mut ClusterClient {
        &mut self.nodes
    }

    /// Returns the bucket.
    pub fn bucket(&self) -> &BucketName {
        &self.bucket
    }

    /// Returns the next page. `waits`: it may come without events only after a wait for one.
    pub async fn next(&mut self, waits: bool) -> Outcome<FeedPageReply> {
        let longest_ms = self.nodes.timeout().as_millis() as u64 / 2;
        let wait_ms = if waits { WAIT_MS_MAX.min(longest_ms) } else { 0 };
        let path = format!(
            "/v1/buckets/{}/feed?from={}&values={}&limit={PAGE_EVENTS}&wait_ms={wait_ms}",
            self.bucket,
            encode(self.from.as_bytes()),
            self.values
        );
        let answer = self.nodes.call(&HttpCall::new(Method::GET, path)).await?;
        let page: FeedPageReply = answer.read()?;
        self.from.clone_from(&page.token);
        Ok(page)
    }
}
