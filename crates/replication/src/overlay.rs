//! Overlay for the evaluation of updates: the store, and over it every entry that is proposed and
//! not yet applied.
//!
//! Promises: a later update sees the effects of every earlier one, decided or not. So the master
//! evaluates conditions once, when it proposes.
//! Never: returns rows that are expired by the open entry's group time.

use super::budget::Budget;
use super::counts::BucketCounts;
use super::effect_merge::{EffectMerge, NewestEffect};
use super::group_indexes::GroupIndexes;
use super::recent_removals::RecentRemovals;
use base::error::corrupt;
use base::range::Direction;
use base::{BucketId, GroupId, Key, Result, SessionId, Version, limits};
use bytes::Bytes;
use replica_state::layout::{self, StoredRow, StoredSession};
use replica_state::pending_entry::PendingEntry;
use runtime::log_writer::store_error;
use std::collections::VecDeque;
use std::ops::Bound;
use store::{Snapshot, StoreError, Trees};

/// View of the store, the undecided entries above it, and the open entry on top.
pub struct Overlay<'a> {
    /// Group that is read.
    pub group: GroupId,
    /// Applied rows.
    pub store: StoreSource<'a>,
    /// Entries that are not applied yet, oldest first.
    pub pending: &'a mut VecDeque<PendingEntry>,
    /// Open entry, which the update is written into.
    pub open: &'a mut PendingEntry,
    /// Budget of the current update.
    pub budget: Budget,
    /// True if a row was treated as absent because it has expired.
    pub saw_expired: bool,
    /// Counts of the group, changed with the rows that are written.
    pub counts: &'a mut BucketCounts,
    /// Indexes in force, whose entries change with the rows that are written.
    pub indexes: &'a mut GroupIndexes,
    /// Versions of removed rows, noted with each removal.
    pub removals: &'a mut RecentRemovals,
    /// Buffer for tree keys, so that lookups allocate nothing.
    pub scratch: &'a mut Vec<u8>,
}

/// View of the store.
#[derive(Clone, Copy)]
pub enum StoreSource<'a> {
    /// Current rows. Reads repeat only under the group's lock.
    Live(&'a dyn Trees),
    /// Rows as of one moment.
    Snapshot(&'a dyn Snapshot),
}

impl StoreSource<'_> {
    fn get(&self, key: &[u8]) -> std::result::Result<Option<Bytes>, StoreError> {
        match self {
            StoreSource::Live(trees) => trees.get(key),
            StoreSource::Snapshot(snapshot) => snapshot.get(key),
        }
    }

    fn get_for_update(&self, key: &[u8]) -> std::result::Result<Option<Bytes>, StoreError> {
        match self {
            StoreSource::Live(trees) => trees.get_for_update(key),
            StoreSource::Snapshot(snapshot) => snapshot.get(key),
        }
    }
}

impl Overlay<'_> {
    /// Returns the row under the tree key in `scratch`.
    pub(super) fn get_raw(&mut self) -> Result<Option<Bytes>> {
        self.find(|store, key| store.get(key))
    }

    /// Returns the row under the tree key in `scratch`, which is about to be written.
    pub(super) fn get_for_update(&mut self) -> Result<Option<Bytes>> {
        self.find(|store, key| store.get_for_update(key))
    }

    fn find(
        &mut self,
        lookup: impl Fn(&StoreSource<'_>, &[u8]) -> std::result::Result<Option<Bytes>, StoreError>,
    ) -> Result<Option<Bytes>> {
        let key = &self.scratch[..];
        let pending = || self.pending.iter().rev().find_map(|entry| entry.get(key));
        let found = match self.open.get(key).or_else(pending) {
            Some(found) => found,
            None => lookup(&self.store, key).map_err(store_error)?,
        };
        self.budget.count_row(found.as_ref().map_or(0, Bytes::len))?;
        self.note_lookup(found.as_ref());
        Ok(found)
    }

    /// Returns the row of a key. `None`: it is absent or has expired.
    pub fn row(&mut self, bucket: BucketId, key: &[u8]) -> Result<Option<StoredRow>> {
        layout::row_key(self.group, bucket, key, self.scratch);
        let Some(bytes) = self.get_raw()? else { return Ok(None) };
        let row = StoredRow::read(&bytes).map_err(corrupt)?;
        let expired = row.is_expired(self.open.time);
        self.saw_expired |= expired;
        Ok((!expired).then_some(row))
    }

    /// Returns true if a key has been absent since every later write got this version or a higher
    /// one. A row that was written since and has expired counts as a change, removed or not.
    pub(super) fn is_absent_since(
        &mut self,
        bucket: BucketId,
        key: &[u8],
        since: Version,
    ) -> Result<bool> {
        layout::row_key(self.group, bucket, key, self.scratch);
        let Some(bytes) = self.get_raw()? else {
            return Ok(!self.removals.may_have(self.scratch, since));
        };
        let row = StoredRow::read(&bytes).map_err(corrupt)?;
        let expired = row.is_expired(self.open.time);
        self.saw_expired |= expired;
        Ok(expired && row.version < since)
    }

    /// Returns a row that is about to be written, expired or not.
    pub(super) fn stored_row(&mut self, bucket: BucketId, key: &[u8]) -> Result<Option<StoredRow>> {
        layout::row_key(self.group, bucket, key, self.scratch);
        let bytes = self.get_for_update()?;
        bytes.as_ref().map(StoredRow::read).transpose().map_err(corrupt)
    }

    /// Returns the expiry of a row that is about to be written, expired or not.
    pub fn expires_at(&mut self, bucket: BucketId, key: &[u8]) -> Result<Option<u64>> {
        Ok(self.stored_row(bucket, key)?.and_then(|row| row.expires))
    }

    /// Returns the version of the rows that the current update writes.
    pub fn version(&self) -> Version {
        self.open.version()
    }

    /// Returns a session, expired or not.
    pub fn session(&mut self, session: SessionId) -> Result<Option<StoredSession>> {
        layout::session_key(self.group, session, self.scratch);
        let Some(bytes) = self.get_raw()? else { return Ok(None) };
        StoredSession::read(&bytes).map(Some).map_err(corrupt)
    }

    /// Writes a session.
    pub fn put_session(&mut self, session: SessionId, stored: StoredSession) {
        layout::session_key(self.group, session, self.scratch);
        self.open.put_raw(self.scratch, &stored.write());
    }

    /// Removes a session and its stored outcomes. `highest`: its highest request number.
    pub fn remove_session(&mut self, session: SessionId, highest: u64) -> Result<()> {
        self.remove_outcomes(session, oldest_outcome(highest), u64::MAX)?;
        layout::session_key(self.group, session, self.scratch);
        self.open.remove(self.scratch);
        Ok(())
    }

    /// Adds the session's expiry hint, which is due when group time reaches `expires`.
    pub fn put_session_expiry(&mut self, session: SessionId, expires: u64) {
        let key = session.0.to_be_bytes();
        self.put_hint(expires, layout::SESSION_BUCKET, &key);
    }

    /// Returns a stored outcome.
    pub fn outcome(&mut self, session: SessionId, number: u64) -> Result<Option<Bytes>> {
        layout::outcome_key(self.group, session, number, self.scratch);
        self.get_raw()
    }

    /// Stores an outcome.
    pub fn put_outcome(&mut self, session: SessionId, number: u64, outcome: &[u8]) {
        layout::outcome_key(self.group, session, number, self.scratch);
        self.open.put_raw(self.scratch, outcome);
    }

    /// Removes the outcomes that leave a session's window when its highest number rises from `from`
    /// to `to`. Earlier ones were removed before.
    pub fn slide_window(&mut self, session: SessionId, from: u64, to: u64) -> Result<()> {
        self.remove_outcomes(session, oldest_outcome(from), oldest_outcome(to))
    }

    fn remove_outcomes(&mut self, session: SessionId, from: u64, to: u64) -> Result<()> {
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

    /// Walks the rows of a bucket between two keys until `visit` returns false.
    pub fn rows(
        &mut self,
        bucket: BucketId,
        range: &base::Range,
        mut visit: impl FnMut(Key, StoredRow) -> Result<bool>,
    ) -> Result<()> {
        let (low, high) = row_bounds(self.group, bucket, range);
        let (now, mut saw_expired) = (self.open.time, false);
        let walked = self.walk(low, high, range.direction, |key, bytes| {
            let row = StoredRow::read(bytes).map_err(corrupt)?;
            if row.is_expired(now) {
                saw_expired = true;
                return Ok(true);
            }
            visit(key.slice(layout::ROW_PREFIX_BYTES..), row)
        });
        self.saw_expired |= saw_expired;
        walked
    }

    pub(super) fn walk(
        &mut self,
        low: Bound<Bytes>,
        high: Bound<Bytes>,
        direction: Direction,
        mut visit: impl FnMut(&Bytes, &Bytes) -> Result<bool>,
    ) -> Result<()> {
        if is_empty_range(&low, &high) {
            return Ok(());
        }
        let budget = &mut self.budget;
        budget.count_seek()?;
        for entry in self.pending.iter_mut().chain(std::iter::once(&mut *self.open)) {
            entry.order_effects();
        }
        let entries = self.pending.iter().chain(std::iter::once(&*self.open));
        budget.count_searches(entries.clone().map(PendingEntry::rows))?;
        let mut newer = EffectMerge::new(entries, (low.clone(), high.clone()), direction);
        let live_snapshot;
        let snapshot = match self.store {
            StoreSource::Live(trees) => {
                live_snapshot = trees.snapshot();
                &*live_snapshot
            }
            StoreSource::Snapshot(snapshot) => snapshot,
        };
        let reverse = direction == Direction::Descending;
        let mut stored_rows = snapshot.range(low, high, reverse).peekable();
        let mut next_newer = newer.next(budget)?;
        loop {
            let next_stored = match stored_rows.peek() {
                Some(Ok((key, _))) => Some(key),
                Some(Err(_)) => {
                    let Some(Err(error)) = stored_rows.next() else { return Ok(()) };
                    return Err(store_error(error));
                }
                None => None,
            };
            let order = match (&next_newer, next_stored) {
                (None, None) => return Ok(()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(effect), Some(stored)) if reverse => stored[..].cmp(effect.key),
                (Some(effect), Some(stored)) => effect.key.cmp(stored),
            };
            if order.is_le() {
                if order.is_eq() {
                    stored_rows.next();
                    budget.count_row(0)?;
                }
                if let Some(NewestEffect { key, row: Some(row) }) = &next_newer
                    && !visit(&Bytes::copy_from_slice(key), row)?
                {
                    return Ok(());
                }
                next_newer = newer.next(budget)?;
            } else if let Some(Ok((key, row))) = stored_rows.next() {
                budget.count_row(row.len())?;
                if !visit(&key, &row)? {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns the lowest number whose outcome is stored for a session with this highest number.
fn oldest_outcome(highest: u64) -> u64 {
    highest.saturating_sub(limits::SESSION_WINDOW - 1)
}

/// Returns true if no key can lie between these bounds, which some iterators do not accept.
pub fn is_empty_range(low: &Bound<Bytes>, high: &Bound<Bytes>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Included(low) | Bound::Excluded(low), Bound::Excluded(high))
        | (Bound::Excluded(low), Bound::Included(high)) => low >= high,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}

/// Returns the tree's bounds for a range of a bucket's rows.
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

#[cfg(test)]
mod tests;
