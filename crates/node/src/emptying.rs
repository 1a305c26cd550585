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
use base::request::{Missing, Steps};
use base::{
    Body, Bound, BucketName, Call, Error, Key, Outcome, Page, Range, Read, ReadLevel, Reason,
    Request, Result, Update, Want,
};
use runtime::world;
use std::time::Duration;

/// Keys of the first part, and of the largest: they grow as long as they are taken.
const PART_ROWS: (usize, usize) = (125, 1_000);
/// Behind so much time a call ends with a cursor: its caller sees that it goes on.
const CALL_MS: u64 = 1_000;
/// Time after which a call ends with a cursor, in milliseconds.
const PAUSE_MS_MIN: u64 = 1;

/// Cursor at which a removal continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptyingCursor {
    /// Last key that was passed.
    pub after: Key,
    /// Last key to remove.
    pub until: Key,
}

/// Outcome of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emptied {
    /// Number of keys that this call removed.
    pub removed: u64,
    /// Cursor of the next call. `None`: all keys are removed.
    pub next: Option<EmptyingCursor>,
}

impl Node {
    /// Removes keys under a prefix, from a cursor on or from the first, for about a second.
    ///
    /// Errors: those of updates, if nothing was done before; `NotSupported` in an available bucket.
    pub async fn empty_prefix(
        &self,
        bucket: &BucketName,
        prefix: &Key,
        from: Option<EmptyingCursor>,
    ) -> Result<Emptied> {
        let work = Emptying { node: self, bucket, prefix };
        let mut cursor = match from {
            Some(cursor) => cursor,
            None => match work.last().await? {
                Some(until) => EmptyingCursor { after: Key::new(), until },
                None => return Ok(Emptied { removed: 0, next: None }),
            },
        };
        let ends = world::milliseconds() + CALL_MS;
        let (mut removed, mut moved) = (0, false);
        let (mut rows, mut rows_max) = PART_ROWS;
        loop {
            let began = world::milliseconds();
            match work.part(&cursor, rows).await {
                Ok((count, None)) => return Ok(Emptied { removed: removed + count, next: None }),
                Ok((count, Some(after))) => {
                    removed += count;
                    cursor.after = after;
                    (moved, rows) = (true, (2 * rows).min(rows_max));
                }
                // Large values: fewer of them at a time.
                Err(error) if error.reason == Reason::TooLarge && rows > 1 => {
                    rows /= 2;
                    rows_max = rows;
                }
                // The next call begins with it.
                Err(_) if moved => return Ok(Emptied { removed, next: Some(cursor) }),
                Err(error) => return Err(error),
            }
            let now = world::milliseconds();
            if now >= ends && moved {
                return Ok(Emptied { removed, next: Some(cursor) });
            }
            let pause = now.saturating_sub(began).max(PAUSE_MS_MIN);
            world::sleep(Duration::from_millis(pause)).await;
        }
    }
}

struct Emptying<'a> {
    node: &'a Node,
    bucket: &'a BucketName,
    prefix: &'a Key,
}

impl Emptying<'_> {
    async fn ask(&self, call: Call) -> Result<Body> {
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        self.node.handle(request).await.map(|reply| reply.body).map_err(|error| {
            match error.reason {
                Reason::NotSupported => self.unsupported(),
                _ => error,
            }
        })
    }

    fn unsupported(&self) -> Error {
        let text = format!(
            "bucket `{}` is available: nothing is deleted in it together; list its keys and delete \
             each of them",
            self.bucket
        );
        Error::new(Reason::NotSupported, text)
    }

    async fn page(&self, range: Range) -> Result<Page> {
        let range = Range { want: Want::Keys, ..range };
        match self.ask(Call::Read(Read::Range(range), ReadLevel::Consistent)).await? {
            Body::Page(page) => Ok(page),
            _ => Err(self.unsupported()),
        }
    }

    /// The last key under the prefix.
    async fn last(&self) -> Result<Option<Key>> {
        let all = Range::prefix(self.prefix.clone());
        let range = Range { direction: Direction::Descending, rows_max: Some(1), ..all };
        Ok(self.page(range).await?.entries.into_iter().next().map(|entry| entry.key))
    }

    /// Removes up to `rows` keys. Returns their number, and the last one if more may follow.
    async fn part(&self, cursor: &EmptyingCursor, rows: usize) -> Result<(u64, Option<Key>)> {
        let all = Range::prefix(self.prefix.clone());
        let low = match cursor.after.is_empty() {
            true => all.low.clone(),
            false => Bound::Excluded(cursor.after.clone()),
        };
        let high = Bound::Included(cursor.until.clone());
        let page = self.page(Range { low, high, rows_max: Some(rows), ..all }).await?;
        let last = page.entries.last().map(|entry| entry.key.clone()).filter(|_| page.more);
        let delete = |key| Update::Delete { key, missing: Missing::Skipped };
        let steps: Vec<_> = page.entries.into_iter().map(|entry| delete(entry.key)).collect();
        if steps.is_empty() {
            return Ok((0, last));
        }
        let deletes = Update::Sequence { steps, mode: Steps::Batch };
        let Body::Updated(Outcome::Steps(outcomes)) = self.ask(Call::Update(deletes)).await? else {
            return Ok((0, last)); // Applied, and its outcome was not told.
        };
        let there = outcomes.iter().filter(|one| **one == Ok(Outcome::Existed(true))).count();
        Ok((there as u64, last))
    }
}
