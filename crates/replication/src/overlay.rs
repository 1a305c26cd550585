//! Overlay for the evaluation of updates: the store, and over it every entry that is proposed and
//! not yet applied.
//!
//! Promises: a later update sees the effects of every earlier one, decided or not. So the master
//! evaluates conditions once, when it proposes.
//! Never: shows rows that are expired by the open entry's group time.

use super::budget::Budget;
use super::layout::{self, StoredRow, StoredSession};
use super::pending_entry::{EFFECT_HEAD_BYTES, PendingEntry};
use base::error::corrupt;
use base::range::Direction;
use base::{BucketId, GroupId, Key, Result, SessionId, Version, limits};
use bytes::Bytes;
use runtime::log_writer::store_error;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use store::{Snapshot, StoreError, Trees};

/// The store under the undecided values, and the value being made on top.
pub struct Overlay<'a> {
    /// Group that is read.
    pub group: GroupId,
    /// Rows that are applied.
    pub store: StoreSource<'a>,
    /// Entries that are not applied yet, oldest first.
    pub pending: &'a VecDeque<PendingEntry>,
    /// The value that is being made.
    pub open: &'a mut PendingEntry,
    /// Budget of the present update.
    pub budget: Budget,
    /// True if a row was treated as gone because it has expired.
    pub saw_expired: bool,
    /// A buffer for tree keys, so that looking costs no allocation.
    pub scratch: &'a mut Vec<u8>,
}

/// View of the store.
#[derive(Clone, Copy)]
pub enum StoreSource<'a> {
    /// Rows as they are now. Only under the group's lock they are the same from read to read.
    Now(&'a dyn Trees),
    /// Rows at one moment.
    Then(&'a dyn Snapshot),
}

impl StoreSource<'_> {
    fn get(&self, key: &[u8]) -> std::result::Result<Option<Bytes>, StoreError> {
        match self {
            StoreSource::Now(trees) => trees.get(key),
            StoreSource::Then(snapshot) => snapshot.get(key),
        }
    }

    fn get_to_write(&self, key: &[u8]) -> std::result::Result<Option<Bytes>, StoreError> {
        match self {
            StoreSource::Now(trees) => trees.get_to_write(key),
            StoreSource::Then(snapshot) => snapshot.get(key),
        }
    }
}

impl Overlay<'_> {
    /// Returns the row under the tree key in `scratch`.
    pub(super) fn raw(&mut self) -> Result<Option<Bytes>> {
        self.find(|store, key| store.get(key))
    }

    fn find(
        &mut self,
        stored: impl Fn(&StoreSource<'_>, &[u8]) -> std::result::Result<Option<Bytes>, StoreError>,
    ) -> Result<Option<Bytes>> {
        let key = &self.scratch[..];
        let pending = || self.pending.iter().rev().find_map(|batch| batch.get(key));
        let found = match self.open.get(key).or_else(pending) {
            Some(found) => found,
            None => stored(&self.store, key).map_err(store_error)?,
        };
        self.budget.look(found.as_ref().map_or(0, Bytes::len))?;
        Ok(found)
    }

    /// The row of a key, if it is there and not expired.
    pub fn row(&mut self, bucket: BucketId, key: &[u8]) -> Result<Option<StoredRow>> {
        layout::row_key(self.group, bucket, key, self.scratch);
        let Some(bytes) = self.raw()? else { return Ok(None) };
        let row = StoredRow::read(&bytes).map_err(corrupt)?;
        let expired = row.expired(self.open.time);
        self.saw_expired |= expired;
        Ok((!expired).then_some(row))
    }

    /// The expiry, expired or not, of a row that is about to be written.
    pub fn expires_at(&mut self, bucket: BucketId, key: &[u8]) -> Result<Option<u64>> {
        layout::row_key(self.group, bucket, key, self.scratch);
        let Some(bytes) = self.find(|store, key| store.get_to_write(key))? else { return Ok(None) };
        Ok(StoredRow::read(&bytes).map_err(corrupt)?.expires)
    }

    /// Writes a row; its value may come in parts. `expires` is a point of group time. The hint of a
    /// row that expires replaces the former one. If the new row never expires, the former row is
    /// not read: its hint, if it has one, is checked when it is due.
    pub fn put(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        expires: Option<u64>,
        parts: &[&[u8]],
    ) -> Result<()> {
        if let Some(expires) = expires {
            let before = self.expires_at(bucket, key)?;
            self.forget_hint(bucket, key, before.filter(|before| *before != expires));
            self.put_hint(expires, bucket, key);
        }
        layout::row_key(self.group, bucket, key, self.scratch);
        let written = self.open.value_bytes();
        self.open.put(self.scratch, self.open.version(), expires, parts);
        self.budget.write(self.open.value_bytes() - written);
        Ok(())
    }

    /// Writes a row that has its version already.
    pub fn put_as(&mut self, bucket: BucketId, key: &[u8], row: &StoredRow) {
        layout::row_key(self.group, bucket, key, self.scratch);
        self.open.put(self.scratch, row.version, row.expires, &[&row.value]);
        if let Some(expires) = row.expires {
            self.put_hint(expires, bucket, key);
        }
    }

    /// Deletes a row that expires then, and its hint.
    pub fn remove(&mut self, bucket: BucketId, key: &[u8], expires: Option<u64>) {
        self.forget_hint(bucket, key, expires);
        self.remove_row(bucket, key);
    }

    /// Deletes a row whose hint was looked at.
    pub fn remove_row(&mut self, bucket: BucketId, key: &[u8]) {
        layout::row_key(self.group, bucket, key, self.scratch);
        self.open.remove(self.scratch);
        self.budget.write(EFFECT_HEAD_BYTES + self.scratch.len());
    }

    /// The version the present update gives to the rows it writes.
    pub fn version(&self) -> Version {
        self.open.version()
    }

    /// A session, expired or not.
    pub fn session(&mut self, session: SessionId) -> Result<Option<StoredSession>> {
        layout::session_key(self.group, session, self.scratch);
        let Some(bytes) = self.raw()? else { return Ok(None) };
        StoredSession::read(&bytes).map(Some).map_err(corrupt)
    }

    /// Writes a session.
    pub fn put_session(&mut self, session: SessionId, stored: StoredSession) {
        layout::session_key(self.group, session, self.scratch);
        self.open.put_raw(self.scratch, &stored.write());
    }

    /// Forgets a session and every outcome it kept; `highest` is its highest number.
    pub fn remove_session(&mut self, session: SessionId, highest: u64) -> Result<()> {
        self.forget_outcomes(session, oldest_kept(highest), u64::MAX)?;
        layout::session_key(self.group, session, self.scratch);
        self.open.remove(self.scratch);
        Ok(())
    }

    /// Makes the session's expiry be looked at when group time reaches `expires`.
    pub fn put_session_expiry(&mut self, session: SessionId, expires: u64) {
        let name = session.0.to_be_bytes();
        self.put_hint(expires, layout::SESSION_BUCKET, &name);
    }

    /// A kept outcome.
    pub fn outcome(&mut self, session: SessionId, number: u64) -> Result<Option<Bytes>> {
        layout::outcome_key(self.group, session, number, self.scratch);
        self.raw()
    }

    /// Keeps an outcome.
    pub fn put_outcome(&mut self, session: SessionId, number: u64, outcome: &[u8]) {
        layout::outcome_key(self.group, session, number, self.scratch);
        self.open.put_raw(self.scratch, outcome);
    }

    /// Forgets the outcomes that a session's window leaves behind when its highest number goes up:
    /// those below were forgotten before.
    pub fn slide_window(&mut self, session: SessionId, from: u64, to: u64) -> Result<()> {
        self.forget_outcomes(session, oldest_kept(from), oldest_kept(to))
    }

    fn forget_outcomes(&mut self, session: SessionId, from: u64, to: u64) -> Result<()> {
        layout::outcome_key(self.group, session, from, self.scratch);
        let low = Bytes::copy_from_slice(self.scratch);
        layout::outcome_key(self.group, session, to, self.scratch);
        let high = Bytes::copy_from_slice(self.scratch);
        let mut outcomes = Vec::new();
        self.walk(Bound::Included(low), Bound::Excluded(high), Direction::Ascending, |key, _| {
            outcomes.push(key.clone());
            Ok(true)
        })?;
        outcomes.iter().for_each(|outcome| self.open.remove(outcome));
        Ok(())
    }

    /// Walks the rows of a bucket between two keys until `each` returns false.
    pub fn rows(
        &mut self,
        bucket: BucketId,
        range: &base::Range,
        mut each: impl FnMut(Key, StoredRow) -> Result<bool>,
    ) -> Result<()> {
        let (low, high) = row_bounds(self.group, bucket, range);
        let (now, mut saw_expired) = (self.open.time, false);
        let walked = self.walk(low, high, range.direction, |key, bytes| {
            let row = StoredRow::read(bytes).map_err(corrupt)?;
            if row.expired(now) {
                saw_expired = true;
                return Ok(true);
            }
            each(key.slice(layout::ROW_PREFIX_BYTES..), row)
        });
        self.saw_expired |= saw_expired;
        walked
    }

    pub(super) fn walk(
        &mut self,
        low: Bound<Bytes>,
        high: Bound<Bytes>,
        direction: Direction,
        mut each: impl FnMut(&Bytes, &Bytes) -> Result<bool>,
    ) -> Result<()> {
        if is_empty(&low, &high) {
            return Ok(());
        }
        let budget = &mut self.budget;
        budget.walk()?;
        let mut over = BTreeMap::new();
        // Oldest first: the row of a later entry replaces that of an earlier one.
        for batch in self.pending.iter().chain(std::iter::once(&*self.open)) {
            budget.pass(batch.rows())?;
            for (key, row) in batch.select(|key| within(key, &low, &high)) {
                budget.look(row.as_ref().map_or(0, Bytes::len))?;
                over.insert(key, row);
            }
        }
        let taken;
        let snapshot = match self.store {
            StoreSource::Now(trees) => {
                taken = trees.snapshot();
                &*taken
            }
            StoreSource::Then(snapshot) => snapshot,
        };
        let reverse = direction == Direction::Descending;
        let mut under = snapshot.range(low, high, reverse).peekable();
        let mut over: Box<dyn Iterator<Item = (Bytes, Option<Bytes>)>> =
            if reverse { Box::new(over.into_iter().rev()) } else { Box::new(over.into_iter()) };
        let mut above = over.next();
        loop {
            let below = match under.peek() {
                Some(Ok((key, _))) => Some(key),
                Some(Err(_)) => {
                    let Some(Err(error)) = under.next() else { return Ok(()) };
                    return Err(store_error(error));
                }
                None => None,
            };
            let order = match (&above, below) {
                (None, None) => return Ok(()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((a, _)), Some(b)) if reverse => b.cmp(a),
                (Some((a, _)), Some(b)) => a.cmp(b),
            };
            if order.is_le() {
                if order.is_eq() {
                    under.next();
                    budget.look(0)?;
                }
                if let Some((key, Some(row))) = &above
                    && !each(key, row)?
                {
                    return Ok(());
                }
                above = over.next();
            } else if let Some(Ok((key, row))) = under.next() {
                budget.look(row.len())?;
                if !each(&key, &row)? {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns the lowest number whose outcome is kept in a session with this highest one.
fn oldest_kept(highest: u64) -> u64 {
    highest.saturating_sub(limits::SESSION_WINDOW - 1)
}

/// Returns true if no key can lie between these bounds, which some iterators do not accept.
pub fn is_empty(low: &Bound<Bytes>, high: &Bound<Bytes>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

fn within(key: &[u8], low: &Bound<Bytes>, high: &Bound<Bytes>) -> bool {
    (match low {
        Bound::Included(low) => key >= &low[..],
        Bound::Excluded(low) => key > &low[..],
        Bound::Unbounded => true,
    }) && (match high {
        Bound::Included(high) => key <= &high[..],
        Bound::Excluded(high) => key < &high[..],
        Bound::Unbounded => true,
    })
}

/// The tree's bounds for a range of a bucket's rows.
pub fn row_bounds(
    group: GroupId,
    bucket: BucketId,
    range: &base::Range,
) -> (Bound<Bytes>, Bound<Bytes>) {
    let key = |name: &[u8]| {
        let mut key = Vec::with_capacity(layout::ROW_PREFIX_BYTES + name.len());
        layout::row_key(group, bucket, name, &mut key);
        Bytes::from(key)
    };
    let low = match &range.low {
        base::Bound::Open => Bound::Included(key(&[])),
        base::Bound::Included(low) => Bound::Included(key(low)),
        base::Bound::Excluded(low) => Bound::Excluded(key(low)),
    };
    let high = match &range.high {
        base::Bound::Open => {
            let end = base::range::prefix_end(&key(&[])).expect("a row's prefix is not all 0xFF");
            Bound::Excluded(Bytes::from(end))
        }
        base::Bound::Included(high) => Bound::Included(key(high)),
        base::Bound::Excluded(high) => Bound::Excluded(key(high)),
    };
    (low, high)
}
