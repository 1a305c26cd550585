//! Copier of a bucket by the feed of its changes.
//!
//! A page of the feed is written to the target together with its token. After a `restart` keys that
//! were deleted meanwhile do not come again: once the copier has reached `level`, it removes the
//! keys of the target that the source lacks. That this is due is part of the state in the target,
//! so a copier that is killed before does it later.

use crate::changes::{NewRecord, last_changes};
use crate::cluster_client::ClusterClient;
use crate::follower::FeedFollower;
use crate::key_differences::KeyDifferences;
use crate::target::{CopyState, CopyTarget, STATE_KEY_PREFIX, SiblingsRule, is_available};
use api::{FeedPageReply, SiblingsReply};
use base::{BucketName, Kind};
use bytes::Bytes;
use client::{HttpCall, encode};
use hyper::Method;
use program::{Failure, Outcome};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Least time between two states that are stored without records: an idle copy stays within what
/// the feed keeps, and writes next to nothing.
const IDLE_STATE: Duration = Duration::from_secs(60);
/// Number of keys that are removed together.
const REMOVED_KEYS: usize = 500;
/// Number of times that a copier goes on where another one was. What a copier that was killed had
/// under way may come once; another one that runs comes again and again.
const OVERTAKEN_MAX: u32 = 2;

/// Way in which a copy treats its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyMode {
    /// True if a target with other keys is taken; those that the source lacks are removed.
    pub overwrites: bool,
    /// Rule for siblings that the target can't hold.
    pub siblings: SiblingsRule,
}

/// Number of records that a copier wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopyCounts {
    /// Keys that got a record.
    pub written: u64,
    /// Keys that were deleted, as their source was.
    pub deleted: u64,
    /// Keys that were removed after a restart, because the source lacks them.
    pub removed: u64,
}

/// Copier of a bucket.
pub struct Copier {
    follower: FeedFollower,
    target: CopyTarget,
    state: CopyState,
    stored_at: Instant,
    /// Number of times that another copier had stored a state.
    overtaken: u32,
    counts: CopyCounts,
}

impl Copier {
    /// Opens the copy of a bucket, which goes on where it was, or begins at the start. Fails if the
    /// target has keys, and neither a state of this copy nor leave to overwrite them.
    pub async fn open(
        (mut nodes, source): (ClusterClient, BucketName),
        (target_nodes, target): (ClusterClient, BucketName),
        mode: CopyMode,
    ) -> Outcome<Copier> {
        is_available(&mut nodes, &source).await?;
        let mut target = CopyTarget::open(target_nodes, (&source, target), mode.siblings).await?;
        let state = match target.state()? {
            Some(state) => state,
            None => {
                if !mode.overwrites && !target.is_empty().await? {
                    return Err(has_other_keys(&source, target.bucket()));
                }
                CopyState::new("start".into(), mode.overwrites)
            }
        };
        let follower = FeedFollower::new(nodes, source, state.token.clone(), true);
        let (stored_at, overtaken, counts) = (Instant::now(), 0, CopyCounts::default());
        Ok(Copier { follower, target, state, stored_at, overtaken, counts })
    }

    /// Returns the number of records that were written.
    pub fn counts(&self) -> CopyCounts {
        self.counts
    }

    /// Copies the next page. `waits`: a page without changes may come after a wait. Returns true if
    /// the target has every change that was decided when the page was read.
    pub async fn copy_page(&mut self, waits: bool) -> Outcome<bool> {
        let FeedPageReply { events, token, level, restart } = self.follower.next(waits).await?;
        let is_first = !self.target.has_state();
        // Before the first record: a target with records and without a state would be refused.
        if is_first && !self.store(BTreeMap::new(), self.state.clone()).await? {
            return Ok(false);
        }
        let changes = last_changes(events, STATE_KEY_PREFIX.as_bytes());
        let is_sweep_due = self.state.is_sweep_due || restart;
        let state = CopyState::new(token, is_sweep_due);
        let is_news = !changes.is_empty() || is_sweep_due != self.state.is_sweep_due;
        let is_moved = state != self.state && self.stored_at.elapsed() >= IDLE_STATE;
        if is_news || is_moved || is_first {
            let is_delete = |record: &&NewRecord| **record == NewRecord::Absent;
            let deleted = changes.values().filter(is_delete).count() as u64;
            let written = changes.len() as u64 - deleted;
            if !self.store(changes, state).await? {
                return Ok(false);
            }
            self.counts.written += written;
            self.counts.deleted += deleted;
        }
        if level && self.state.is_sweep_due {
            self.sweep().await?;
        }
        Ok(level && !self.state.is_sweep_due)
    }

    /// Writes records with the state that covers them. Returns false if another copier has stored
    /// a state since: nothing was written, and this one goes on from there.
    async fn store(
        &mut self,
        changes: BTreeMap<Bytes, NewRecord>,
        state: CopyState,
    ) -> Outcome<bool> {
        if self.target.write(changes, &state).await? {
            (self.state, self.stored_at) = (state, Instant::now());
            return Ok(true);
        }
        self.overtaken += 1;
        let other = self.target.state()?.filter(|_| self.overtaken <= OVERTAKEN_MAX);
        let Some(other) = other else {
            let bucket = self.target.bucket();
            let text = format!("another copy writes to `{bucket}`: let one of them end");
            return Err(Failure::new(Kind::Conflict, text));
        };
        self.follower.go_to(other.token.clone());
        self.state = other;
        Ok(false)
    }

    /// Removes the keys of the target that the source lacks. A key that the source gets meanwhile
    /// comes with a later page.
    async fn sweep(&mut self) -> Outcome {
        let source = self.follower.bucket().clone();
        let mut differences = KeyDifferences::new(&source, self.target.bucket());
        let (mut absent, token) = (BTreeMap::new(), self.state.token.clone());
        loop {
            let next = differences.next(self.follower.nodes(), self.target.nodes()).await?;
            let is_end = next.is_none();
            if let Some(key) = next
                && !key.starts_with(STATE_KEY_PREFIX.as_bytes())
                && !self.source_has(&key).await?
            {
                absent.insert(key, NewRecord::Absent);
            }
            if absent.len() < REMOVED_KEYS && !is_end {
                continue;
            }
            let (removed, state) = (absent.len() as u64, CopyState::new(token.clone(), !is_end));
            if !self.store(std::mem::take(&mut absent), state).await? {
                return Ok(());
            }
            self.counts.removed += removed;
            if is_end {
                return Ok(());
            }
        }
    }

    /// Returns true if the source has a key: a list of an available bucket, which asks one replica
    /// of each key, may lack it.
    async fn source_has(&mut self, key: &Bytes) -> Outcome<bool> {
        let bucket = self.follower.bucket();
        let path = format!("/v1/buckets/{bucket}/siblings/{}", encode(key));
        let read = HttpCall::new(Method::GET, path);
        let nodes = self.follower.nodes();
        let answer = nodes.attempt(async |client| client.call_key(read.clone()).await).await?;
        let Some(answer) = answer else { return Ok(false) };
        let found: SiblingsReply = answer.read()?;
        Ok(found.siblings.iter().any(|sibling| sibling.value.is_some()))
    }
}

fn has_other_keys(source: &BucketName, target: &BucketName) -> Failure {
    let text = format!(
        "`{target}` has keys, and no copy of `{source}` wrote them: copy to an empty bucket, or \
         --overwrite this one: keys that the source lacks are removed"
    );
    Failure::new(Kind::Conflict, text)
}
