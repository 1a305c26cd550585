//! Reads of a group's decided state.

use super::budget::{KEYS_AT_ONCE, ROWS_AT_ONCE};
use super::group::Group;
use super::layout::{self, StoredRow};
use super::overlay::{is_empty, row_bounds};
use super::pager::Pager;
use crate::bucket::Bucket;
use base::error::{corrupt, shutting_down};
use base::limits::FORWARD_MS_MAX;
use base::{
    Body, Entry, Error, Key, LogIndex, Millis, Range, Read, Reason, Reply, Result, Row, check,
};
use bytes::Bytes;
use logic::consensus::Event;
use runtime::log_writer::store_error;
use runtime::world::{self, timeout};
use std::cell::Cell;
use std::time::Duration;
use store::Snapshot;

/// Several values are read where the request came in up to so many bytes together, and one more: a
/// few of the largest take longer than thousands of small ones.
pub const BYTES_AT_ONCE: usize = 256 << 10;

/// True for a read that belongs on a thread that may wait, whatever it finds.
pub fn is_long(read: &Read) -> bool {
    match read {
        Read::Range(range) => range.rows_max.is_none_or(|rows| rows > ROWS_AT_ONCE),
        Read::KeyCount => true,
        Read::Exists(keys) | Read::MultiGet(keys) | Read::MultiGetAll(keys) => {
            keys.len() > KEYS_AT_ONCE
        }
        Read::Get(_) | Read::Assert { .. } | Read::AssertExists(_) => false,
    }
}

/// Answers a read from the applied rows.
pub fn read(group: &Group, bucket: &Bucket, read: &Read) -> Result<Reply> {
    RowReader::new(group, bucket, usize::MAX).answer(read)
}

/// Reads like `read`, but at once. `None`: the read takes so long that it belongs on a thread that
/// may block.
pub fn read_at_once(group: &Group, bucket: &Bucket, read: &Read) -> Option<Result<Reply>> {
    if is_long(read) {
        return None;
    }
    let reader = RowReader::new(group, bucket, BYTES_AT_ONCE);
    let reply = reader.answer(read);
    (!reader.is_cut.get()).then_some(reply)
}
fn holds(held: bool, key: &Key) -> Result<Body> {
    if held { Ok(Body::Done) } else { Err(Error::key(Reason::AssertionFailed, key)) }
}

fn shown(row: StoredRow, now: u64) -> Row {
    Row {
        value: row.value,
        version: row.version,
        expires_in_ms: row.expires.map(|expires| expires.saturating_sub(now)),
    }
}

struct RowReader<'a> {
    group: &'a Group,
    bucket: &'a Bucket,
    /// Index that is not behind anything that was read.
    index: Cell<LogIndex>,
    now: u64,
    /// Bytes of values that may still be read.
    room: Cell<usize>,
    /// True if the read ended because `room` was used up: the result is incomplete.
    is_cut: Cell<bool>,
}

impl<'a> RowReader<'a> {
    fn new(group: &'a Group, bucket: &'a Bucket, bytes: usize) -> RowReader<'a> {
        // Both before the rows.
        let index = Cell::new(group.applied.index());
        let (now, room) = (group.applied.time(), Cell::new(bytes));
        RowReader { group, bucket, index, now, room, is_cut: Cell::new(false) }
    }

    fn answer(&self, read: &Read) -> Result<Reply> {
        let body = match read {
            Read::Get(key) => Body::Row(self.get(key)?.map(|row| shown(row, self.now))),
            Read::Assert { key, expected } => {
                let value = self.get(key)?.map(|row| row.value);
                holds(value == *expected, key)?
            }
            Read::AssertExists(key) => holds(self.get(key)?.is_some(), key)?,
            Read::Exists(keys) => Body::Count(self.count(keys)?),
            Read::MultiGet(keys) => Body::Rows(self.many(keys)?),
            Read::MultiGetAll(keys) => {
                let rows = self.many(keys)?;
                if let Some(missing) = rows.iter().position(Option::is_none) {
                    return Err(Error::key(Reason::NotFound, &keys[missing]));
                }
                Body::Rows(rows)
            }
            Read::Range(range) => {
                let mut pager = Pager::new(range);
                let now = self.now;
                self.walk(range, |key, row| pager.push(Entry { key, row: Some(shown(row, now)) }))?;
                Body::Page(pager.page()?)
            }
            Read::KeyCount => {
                let mut count = 0;
                self.walk(&Range::default(), |_, _| {
                    count += 1;
                    true
                })?;
                Body::Count(count)
            }
        };
        Ok(Reply::new(self.index.get(), body))
    }

    /// Takes the bytes of a row, expired or not, from `room`. Returns true if more may be read.
    fn goes_on_after(&self, bytes: usize) -> bool {
        match self.room.get().checked_sub(bytes) {
            Some(left) => self.room.set(left),
            None => self.is_cut.set(true),
        }
        !self.is_cut.get()
    }

    fn get(&self, key: &[u8]) -> Result<Option<StoredRow>> {
        // Keys are short as a rule: theirs are built on the stack.
        let length = layout::ROW_PREFIX_BYTES + key.len();
        let mut short = [0; 128];
        if let Some(tree_key) = short.get_mut(..length) {
            tree_key[..4].copy_from_slice(&self.group.id.0.to_be_bytes());
            tree_key[4] = layout::Space::Row as u8;
            tree_key[5..9].copy_from_slice(&self.bucket.id.0.to_be_bytes());
            tree_key[9..].copy_from_slice(key);
            return self.row(tree_key);
        }
        let mut tree_key = Vec::with_capacity(length);
        layout::row_key(self.group.id, self.bucket.id, key, &mut tree_key);
        self.row(&tree_key)
    }

    fn row(&self, tree_key: &[u8]) -> Result<Option<StoredRow>> {
        let row = self.group.shared.trees.get(tree_key).map_err(store_error)?;
        self.index.set(self.group.applied.shown());
        self.live(row)
    }

    /// Takes a snapshot of the applied rows, at an entry's boundary.
    fn snapshot(&self) -> Box<dyn Snapshot> {
        let snapshot = self.group.shared.trees.snapshot();
        self.index.set(self.group.applied.shown());
        snapshot
    }

    fn live(&self, bytes: Option<Bytes>) -> Result<Option<StoredRow>> {
        let Some(bytes) = bytes else { return Ok(None) };
        let row = StoredRow::read(&bytes).map_err(corrupt)?;
        Ok((!row.expired(self.now)).then_some(row))
    }

    /// Several keys as of one moment.
    fn many(&self, keys: &[Key]) -> Result<Vec<Option<Row>>> {
        if let [key] = keys {
            return Ok(vec![self.get(key)?.map(|row| shown(row, self.now))]);
        }
        let mut rows = Vec::with_capacity(keys.len());
        let mut bytes = 0;
        self.each(keys, |row| {
            bytes += row.as_ref().map_or(0, |row| row.value.len());
            rows.push(row.map(|row| shown(row, self.now)));
            check::values(bytes)
        })?;
        Ok(rows)
    }

    /// Counts the keys that exist, at one moment.
    fn count(&self, keys: &[Key]) -> Result<u64> {
        if let [key] = keys {
            return Ok(u64::from(self.get(key)?.is_some()));
        }
        let mut count = 0;
        self.each(keys, |row| {
            count += u64::from(row.is_some());
            Ok(())
        })?;
        Ok(count)
    }

    fn each(
        &self,
        keys: &[Key],
        mut take: impl FnMut(Option<StoredRow>) -> Result<()>,
    ) -> Result<()> {
        let snapshot = self.snapshot();
        let mut tree_key = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            layout::row_key(self.group.id, self.bucket.id, key, &mut tree_key);
            let bytes = snapshot.get(&tree_key).map_err(store_error)?;
            let is_last = at + 1 == keys.len();
            let goes_on = is_last || self.goes_on_after(bytes.as_ref().map_or(0, Bytes::len));
            take(self.live(bytes)?)?;
            if !goes_on {
                break;
            }
        }
        Ok(())
    }

    fn walk(&self, range: &Range, mut each: impl FnMut(Key, StoredRow) -> bool) -> Result<()> {
        let (low, high) = row_bounds(self.group.id, self.bucket.id, range);
        if is_empty(&low, &high) {
            return Ok(());
        }
        let snapshot = self.snapshot();
        let reverse = range.direction == base::range::Direction::Descending;
        for row in snapshot.range(low, high, reverse) {
            let (key, bytes) = row.map_err(store_error)?;
            if !self.goes_on_after(bytes.len()) {
                break;
            }
            let Some(row) = self.live(Some(bytes))? else { continue };
            if !each(key.slice(layout::ROW_PREFIX_BYTES..), row) {
                break;
            }
        }
        Ok(())
    }
}

impl Group {
    /// Returns the index that a consistent read must see, confirmed by a majority if there is no
    /// lease. Once it is applied here, this node's state answers the read.
    pub async fn read_index(&self) -> Result<LogIndex> {
        let answer = {
            let mut guard = self.state();
            let state = &mut *guard;
            let (token, answer) = state.reads.begin();
            let now = Millis(world::milliseconds());
            self.step(state, Event::Read { token, now }, &[]);
            self.driver.wake();
            answer
        };
        answer.await.unwrap_or_else(|_| Err(shutting_down()))
    }
}

/// Confirms by a majority that this node is master, and waits until it has applied all that was
/// decided before.
pub async fn still_master(group: &Group) -> Result<()> {
    let asking = async {
        let index = group.read_index().await?;
        group.applied.reached(index).await
    };
    timeout(Duration::from_millis(FORWARD_MS_MAX), asking).await.unwrap_or_else(|| {
        let text = format!(
            "no majority of group {} confirmed that this node is its master: try again",
            group.id
        );
        Err(Error::new(Reason::NoQuorum, text))
    })
}
