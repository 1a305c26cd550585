//! Removal of all keys under a prefix of any size, in parts.
//!
//! `Update::DeletePrefix` deletes all keys at one instant, so it is bounded. Here many small
//! updates follow each other, each atomic by itself. Between two of them the group is free for
//! other requests for as long as the last one took. The only state between two calls is the cursor
//! that the caller brings back. So if this node, the group's master or the caller fails, the next
//! call continues where the last one ended.
//!
//! Promises: every key that was there when it began, and is there when the cursor passes it, is
//! removed; it ends, because its end is fixed when it begins.
//! Never: removes what lies behind the cursor, where keys may be added meanwhile, nor what lies
//! beyond the end.

use crate::Node;
use base::range::Direction;
use base::request::{OnMissing, SequenceMode};
use base::{
    Body, Bound, BucketName, Call, Error, Key, Outcome, Page, Principal, Range, Read, ReadLevel,
    Reason, Request, Result, RowContent, Update,
};
use runtime::world;
use std::time::Duration;

/// Number of keys of the first batch and of the largest one; batches grow while they succeed.
const BATCH_ROWS: (usize, usize) = (125, 1_000);
/// Time after which a call returns a cursor, in milliseconds, so that its caller observes progress.
const CALL_MS: u64 = 1_000;
/// Minimum pause between two batches, in milliseconds.
const PAUSE_MS_MIN: u64 = 1;

/// Cursor at which a removal continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyPrefixCursor {
    /// Last key that was passed.
    pub after: Key,
    /// Last key to remove.
    pub until: Key,
}

/// Outcome of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyPrefixProgress {
    /// Number of keys that this call removed.
    pub removed: u64,
    /// Cursor of the next call. `None`: all keys are removed.
    pub next: Option<EmptyPrefixCursor>,
}

impl Node {
    /// Removes keys under a prefix for a principal, from a cursor on or from the first, for about a
    /// second.
    ///
    /// Errors: those of updates, if nothing was done before; `NotSupported` in an available bucket.
    pub async fn empty_prefix(
        &self,
        principal: &Principal,
        bucket: &BucketName,
        prefix: &Key,
        from: Option<EmptyPrefixCursor>,
    ) -> Result<EmptyPrefixProgress> {
        let removal = PrefixRemoval { node: self, principal, bucket, prefix };
        let mut cursor = match from {
            Some(cursor) => cursor,
            None => match removal.last_key().await? {
                Some(until) => EmptyPrefixCursor { after: Key::new(), until },
                None => return Ok(EmptyPrefixProgress { removed: 0, next: None }),
            },
        };
        let deadline_ms = world::milliseconds() + CALL_MS;
        let (mut removed, mut has_progress) = (0, false);
        let (mut rows, mut rows_max) = BATCH_ROWS;
        loop {
            let began_ms = world::milliseconds();
            match removal.remove_batch(&cursor, rows).await {
                Ok((count, None)) => {
                    return Ok(EmptyPrefixProgress { removed: removed + count, next: None });
                }
                Ok((count, Some(after))) => {
                    removed += count;
                    cursor.after = after;
                    (has_progress, rows) = (true, (2 * rows).min(rows_max));
                }
                // Large values: fewer of them in a batch.
                Err(error) if error.reason == Reason::TooLarge && rows > 1 => {
                    rows /= 2;
                    rows_max = rows;
                }
                // The next call meets the error first.
                Err(_) if has_progress => {
                    return Ok(EmptyPrefixProgress { removed, next: Some(cursor) });
                }
                Err(error) => return Err(error),
            }
            let now = world::milliseconds();
            if now >= deadline_ms && has_progress {
                return Ok(EmptyPrefixProgress { removed, next: Some(cursor) });
            }
            let pause = now.saturating_sub(began_ms).max(PAUSE_MS_MIN);
            world::sleep(Duration::from_millis(pause)).await;
        }
    }
}

struct PrefixRemoval<'a> {
    node: &'a Node,
    principal: &'a Principal,
    bucket: &'a BucketName,
    prefix: &'a Key,
}

impl PrefixRemoval<'_> {
    async fn execute(&self, call: Call) -> Result<Body> {
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        self.node.handle(self.principal, request).await.map(|reply| reply.body).map_err(|error| {
            match error.reason {
                Reason::NotSupported => self.unsupported(),
                _ => error,
            }
        })
    }

    fn unsupported(&self) -> Error {
        let text = format!(
            "bucket `{}` is available: it has no prefix delete; list its keys and delete each of \
             them",
            self.bucket
        );
        Error::new(Reason::NotSupported, text)
    }

    async fn page(&self, range: Range) -> Result<Page> {
        let range = Range { want: RowContent::Keys, ..range };
        match self.execute(Call::Read(Read::Range(range), ReadLevel::Consistent)).await? {
            Body::Page(page) => Ok(page),
            _ => Err(self.unsupported()),
        }
    }

    /// Returns the last key under the prefix.
    async fn last_key(&self) -> Result<Option<Key>> {
        let prefix_range = Range::prefix(self.prefix.clone());
        let range = Range { direction: Direction::Descending, rows_max: Some(1), ..prefix_range };
        Ok(self.page(range).await?.entries.into_iter().next().map(|entry| entry.key))
    }

    /// Removes up to `rows` keys. Returns their number, and the last one if more may follow.
    async fn remove_batch(
        &self,
        cursor: &EmptyPrefixCursor,
        rows: usize,
    ) -> Result<(u64, Option<Key>)> {
        let prefix_range = Range::prefix(self.prefix.clone());
        let low = match cursor.after.is_empty() {
            true => prefix_range.low.clone(),
            false => Bound::Excluded(cursor.after.clone()),
        };
        let high = Bound::Included(cursor.until.clone());
        let page = self.page(Range { low, high, rows_max: Some(rows), ..prefix_range }).await?;
        let last = page.entries.last().map(|entry| entry.key.clone()).filter(|_| page.more);
        let delete = |key| Update::Delete { key, missing: OnMissing::Skip };
        let steps: Vec<_> = page.entries.into_iter().map(|entry| delete(entry.key)).collect();
        if steps.is_empty() {
            return Ok((0, last));
        }
        let deletes = Update::Sequence { steps, mode: SequenceMode::Batch };
        let Body::Updated(Outcome::Steps(outcomes)) = self.execute(Call::Update(deletes)).await?
        else {
            return Ok((0, last)); // Applied, but its outcome was not returned.
        };
        let existed =
            outcomes.iter().filter(|outcome| **outcome == Ok(Outcome::Existed(true))).count();
        Ok((existed as u64, last))
    }
}
