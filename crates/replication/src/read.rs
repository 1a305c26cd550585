//! Reads of a group's decided state.

use super::budget::{KEYS_AT_ONCE, ROWS_AT_ONCE};
use super::counts::{BucketCount, count_tree_key};
use super::group::Group;
use super::overlay::{is_empty_range, row_bounds};
use crate::bucket::Bucket;
use base::error::{corrupt, shutting_down};
use base::limits::FORWARD_MS_MAX;
use base::{
    Absence, Body, Entry, Error, Key, KeyVersion, LogIndex, Millis, Range, Read, Reason, Reply,
    Result, Row, Version, check,
};
use bytes::Bytes;
use logic::consensus::Event;
use replica_state::layout::{self, Mark, StoredRow};
use replica_state::pager::Pager;
use runtime::log_writer::store_error;
use runtime::world::{self, timeout};
use std::cell::Cell;
use std::time::Duration;
use store::Snapshot;

/// Maximum bytes of values that a read of several keys takes on the thread that received the
/// request; the last value may exceed it. A few of the largest take longer than thousands of small
/// ones.
pub const BYTES_AT_ONCE: usize = 256 << 10;

/// Returns true for a read that belongs on a thread that may block, whatever it finds; a key count
/// may be answered from the bucket's count first.
pub fn is_long(read: &Read) -> bool {
    match read {
        Read::Range(range) => range.rows_max.is_none_or(|rows| rows > ROWS_AT_ONCE),
        Read::Index(query) => query.rows_max.is_none_or(|rows| rows > ROWS_AT_ONCE),
        // Of a page of a feed it is not known how many rows are looked up.
        Read::KeyCount | Read::Feed(_) => true,
        Read::Exists(keys)
        | Read::MultiGet(keys)
        | Read::MultiGetAll(keys)
        | Read::KeyVersions(keys) => keys.len() > KEYS_AT_ONCE,
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
    if *read == Read::KeyCount {
        return RowReader::new(group, bucket, BYTES_AT_ONCE).kept_count().transpose();
    }
    if is_long(read) {
        return None;
    }
    let reader = RowReader::new(group, bucket, BYTES_AT_ONCE);
    let reply = reader.answer(read);
    (!reader.is_truncated.get()).then_some(reply)
}

fn check_assertion(holds: bool, key: &Key) -> Result<Body> {
    if holds { Ok(Body::Done) } else { Err(Error::key(Reason::AssertionFailed, key)) }
}

struct RowReader<'a> {
    group: &'a Group,
    bucket: &'a Bucket,
    /// Index at or above that of every row read so far.
    index: Cell<LogIndex>,
    now: u64,
    /// Remaining bytes of values that may be read.
    bytes_left: Cell<usize>,
    /// True if the read ended because `bytes_left` was used up: the result is incomplete.
    is_truncated: Cell<bool>,
}

impl<'a> RowReader<'a> {
    fn new(group: &'a Group, bucket: &'a Bucket, bytes: usize) -> RowReader<'a> {
        // Both are read before the rows.
        let index = Cell::new(group.applied.index());
        let (now, bytes_left) = (group.applied.time(), Cell::new(bytes));
        RowReader { group, bucket, index, now, bytes_left, is_truncated: Cell::new(false) }
    }

    fn answer(&self, read: &Read) -> Result<Reply> {
        let body = match read {
            Read::Get(key) => Body::Row(self.get(key)?.map(|row| row.into_row(self.now))),
            Read::Assert { key, expected } => {
                let value = self.get(key)?.map(|row| row.value);
                check_assertion(value == *expected, key)?
            }
            Read::AssertExists(key) => check_assertion(self.get(key)?.is_some(), key)?,
            Read::Exists(keys) => Body::Count(self.count(keys)?),
            Read::MultiGet(keys) => Body::Rows(self.multi_get(keys)?),
            Read::MultiGetAll(keys) => {
                let rows = self.multi_get(keys)?;
                if let Some(missing) = rows.iter().position(Option::is_none) {
                    return Err(Error::key(Reason::NotFound, &keys[missing]));
                }
                Body::Rows(rows)
            }
            Read::KeyVersions(keys) => Body::KeyVersions(self.key_versions(keys)?),
            Read::Range(range) => {
                let mut pager = Pager::new(range);
                let now = self.now;
                self.walk(range, |key, row| {
                    pager.push(Entry { key, row: Some(row.into_row(now)) })
                })?;
                Body::Page(pager.page()?)
            }
            Read::KeyCount => {
                if let Some(reply) = self.kept_count()? {
                    return Ok(reply);
                }
                let mut count = 0;
                self.walk(&Range::default(), |_, _| {
                    count += 1;
                    true
                })?;
                Body::Count(count)
            }
            Read::Index(_) => {
                let text = "an index is queried by its number: its name is resolved before";
                return Err(Error::new(Reason::NotSupported, text));
            }
            Read::Feed(_) => {
                let text = "a feed is read by its bucket's name: its token belongs to the name";
                return Err(Error::new(Reason::NotSupported, text));
            }
        };
        Ok(Reply::new(self.index.get(), body))
    }

    /// Answers a key count from the count that the bucket keeps. `None`: it keeps none, or the
    /// count is not complete.
    fn kept_count(&self) -> Result<Option<Reply>> {
        if !self.bucket.properties.counted {
            return Ok(None);
        }
        let mut key = Vec::new();
        count_tree_key(self.group.id, self.bucket.id, &mut key);
        let row = self.group.shared.trees.get(&key).map_err(store_error)?;
        self.index.set(self.group.applied.visible_index());
        let count = row.map(|row| BucketCount::read_row(&row)).transpose()?;
        Ok(count.filter(|count| count.is_complete).map(|BucketCount { keys, bytes, .. }| {
            Reply::new(self.index.get(), Body::Size { keys, bytes })
        }))
    }

    /// Charges the bytes of a row, expired or not, to `bytes_left`. Returns true if more may be
    /// read.
    fn charge(&self, bytes: usize) -> bool {
        match self.bytes_left.get().checked_sub(bytes) {
            Some(rest) => self.bytes_left.set(rest),
            None => self.is_truncated.set(true),
        }
        !self.is_truncated.get()
    }

    fn get(&self, key: &[u8]) -> Result<Option<StoredRow>> {
        // Most keys are short: their tree keys are built on the stack.
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
        self.index.set(self.group.applied.visible_index());
        self.decode_unexpired(row)
    }

    /// Takes a snapshot of the applied rows, at an entry's boundary.
    fn snapshot(&self) -> Box<dyn Snapshot> {
        let snapshot = self.group.shared.trees.snapshot();
        self.index.set(self.group.applied.visible_index());
        snapshot
    }

    fn decode_unexpired(&self, bytes: Option<Bytes>) -> Result<Option<StoredRow>> {
        let Some(bytes) = bytes else { return Ok(None) };
        let row = StoredRow::read(&bytes).map_err(corrupt)?;
        Ok((!row.is_expired(self.now)).then_some(row))
    }

    /// Returns the rows of several keys as of one moment.
    fn multi_get(&self, keys: &[Key]) -> Result<Vec<Option<Row>>> {
        if let [key] = keys {
            return Ok(vec![self.get(key)?.map(|row| row.into_row(self.now))]);
        }
        let mut rows = Vec::with_capacity(keys.len());
        let mut bytes = 0;
        self.for_each_key(keys, |row| {
            bytes += row.as_ref().map_or(0, |row| row.value.len());
            rows.push(row.map(|row| row.into_row(self.now)));
            check::values(bytes)
        })?;
        Ok(rows)
    }

    /// Returns the number of keys that exist at one moment.
    fn count(&self, keys: &[Key]) -> Result<u64> {
        if let [key] = keys {
            return Ok(u64::from(self.get(key)?.is_some()));
        }
        let mut count = 0;
        self.for_each_key(keys, |row| {
            count += u64::from(row.is_some());
            Ok(())
        })?;
        Ok(count)
    }

    /// Returns the versions of several keys as of one moment.
    fn key_versions(&self, keys: &[Key]) -> Result<Vec<KeyVersion>> {
        let snapshot = self.snapshot();
        let mut mark_key = Vec::new();
        layout::mark_key(self.group.id, &mut mark_key);
        // From the same snapshot as the rows: each later write has this version or a higher one,
        // whichever master evaluates it.
        let mark = snapshot.get(&mark_key).map_err(store_error)?;
        let mark = mark.map(|mark| Mark::read(&mark)).transpose().map_err(corrupt)?;
        let since = Version(mark.unwrap_or_default().next_version.max(1));
        let absence = Absence { group: self.group.id, bucket: self.bucket.id, since };
        let mut versions = Vec::with_capacity(keys.len());
        self.for_each_key_in(&*snapshot, keys, |row| {
            versions.push(match row {
                Some(row) => KeyVersion::Present(row.version),
                None => KeyVersion::Absent(absence),
            });
            Ok(())
        })?;
        Ok(versions)
    }

    fn for_each_key(
        &self,
        keys: &[Key],
        visit: impl FnMut(Option<StoredRow>) -> Result<()>,
    ) -> Result<()> {
        self.for_each_key_in(&*self.snapshot(), keys, visit)
    }

    fn for_each_key_in(
        &self,
        snapshot: &dyn Snapshot,
        keys: &[Key],
        mut visit: impl FnMut(Option<StoredRow>) -> Result<()>,
    ) -> Result<()> {
        let mut tree_key = Vec::new();
        for (position, key) in keys.iter().enumerate() {
            layout::row_key(self.group.id, self.bucket.id, key, &mut tree_key);
            let bytes = snapshot.get(&tree_key).map_err(store_error)?;
            let is_last = position + 1 == keys.len();
            let may_continue = is_last || self.charge(bytes.as_ref().map_or(0, Bytes::len));
            visit(self.decode_unexpired(bytes)?)?;
            if !may_continue {
                break;
            }
        }
        Ok(())
    }

    fn walk(&self, range: &Range, mut visit: impl FnMut(Key, StoredRow) -> bool) -> Result<()> {
        let (low, high) = row_bounds(self.group.id, self.bucket.id, range);
        if is_empty_range(&low, &high) {
            return Ok(());
        }
        let snapshot = self.snapshot();
        let reverse = range.direction == base::range::Direction::Descending;
        for row in snapshot.range(low, high, reverse) {
            let (key, bytes) = row.map_err(store_error)?;
            if !self.charge(bytes.len()) {
                break;
            }
            let Some(row) = self.decode_unexpired(Some(bytes))? else { continue };
            if !visit(key.slice(layout::ROW_PREFIX_BYTES..), row) {
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
pub async fn confirm_master(group: &Group) -> Result<()> {
    let confirmation = async {
        let index = group.read_index().await?;
        group.applied.wait_reached(index).await
    };
    timeout(Duration::from_millis(FORWARD_MS_MAX), confirmation).await.unwrap_or_else(|| {
        let text = format!(
            "no majority of group {} confirmed that this node is its master: try again",
            group.id
        );
        Err(Error::new(Reason::NoQuorum, text))
    })
}
