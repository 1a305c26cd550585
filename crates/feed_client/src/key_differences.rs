//! Keys that one bucket has and another lacks, found by their ordered lists: a page of each is in
//! memory.

use crate::cluster_client::ClusterClient;
use api::KeyPage;
use base::BucketName;
use bytes::Bytes;
use client::{HttpCall, encode};
use hyper::Method;
use program::Outcome;
use std::collections::VecDeque;

/// Number of keys in a page of a list.
const PAGE_KEYS: usize = 1_000;

/// List of the keys of a bucket, read page by page.
pub struct KeyList {
    path: String,
    after: Option<Bytes>,
    page: VecDeque<Bytes>,
    has_more: bool,
}

impl KeyList {
    /// Returns the list of all keys of a bucket.
    pub fn new(bucket: &BucketName) -> KeyList {
        let path = format!("/v1/buckets/{bucket}/keys");
        KeyList { path, after: None, page: VecDeque::new(), has_more: true }
    }

    /// Returns the next key, and leaves it in the list. `None`: the end.
    pub async fn peek(&mut self, nodes: &mut ClusterClient) -> Outcome<Option<&Bytes>> {
        while self.page.is_empty() && self.has_more {
            let after = self.after.iter().map(|key| format!("&after={}", encode(key)));
            let path = format!("{}?limit={PAGE_KEYS}{}", self.path, after.collect::<String>());
            let answer = nodes.call(&HttpCall::new(Method::GET, path)).await?;
            let KeyPage { keys, r#continue, .. } = answer.read()?;
            self.has_more = r#continue.is_some();
            self.after = r#continue.map(|key| key.0);
            self.page.extend(keys.into_iter().map(|key| key.0));
        }
        Ok(self.page.front())
    }

    /// Removes the next key.
    pub fn pop(&mut self) -> Option<Bytes> {
        self.page.pop_front()
    }
}

/// Keys of the target of a copy that its source lacks.
pub struct KeyDifferences {
    source: KeyList,
    target: KeyList,
}

impl KeyDifferences {
    /// Compares the keys of these buckets.
    pub fn new(source: &BucketName, target: &BucketName) -> KeyDifferences {
        KeyDifferences { source: KeyList::new(source), target: KeyList::new(target) }
    }

    /// Returns the next key of the target that the list of the source lacks. `None`: the end.
    pub async fn next(
        &mut self,
        source: &mut ClusterClient,
        target: &mut ClusterClient,
    ) -> Outcome<Option<Bytes>> {
        loop {
            self.target.peek(target).await?;
            let Some(key) = self.target.pop() else { return Ok(None) };
            while self.source.peek(source).await?.is_some_and(|other| *other < key) {
                self.source.pop();
            }
            if self.source.peek(source).await? != Some(&key) {
                return Ok(Some(key));
            }
        }
    }
}
