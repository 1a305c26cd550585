//! Expiry index: a hint for each row that expires, in the order of their due times, and the
//! position of the sweep over them.
//!
//! Promises: a sweep costs only the due hints; no hint is put where a sweep has been.

use super::layout::{self, Space};
use super::overlay::Overlay;
use base::range::Direction;
use base::{BucketId, Result};
use bytes::Bytes;
use runtime::mutants::Mutant;
use std::ops::Bound;

impl Overlay<'_> {
    /// Adds an expiry hint, never before the open entry's time: earlier ones may have been swept
    /// already. Only rows from another group can be due that early.
    pub(super) fn put_hint(&mut self, expires: u64, bucket: BucketId, key: &[u8]) {
        let at = expires.max(self.open.time.saturating_add(1));
        layout::expiry_key(self.group, at, bucket, key, self.scratch);
        self.open.put_raw(self.scratch, &[]);
        self.open.earliest_expiry = self.open.earliest_expiry.min(at);
    }

    /// Removes the expiry hint of a row that is overwritten or removed.
    pub fn forget_hint(&mut self, bucket: BucketId, key: &[u8], expires: Option<u64>) {
        // Due hints belong to the sweep.
        if let Some(expires) = expires.filter(|expires| *expires > self.open.time) {
            layout::expiry_key(self.group, expires, bucket, key, self.scratch);
            self.open.remove(self.scratch);
        }
    }

    /// Returns the key at which the sweep of expiry hints continues. All hints before it are gone,
    /// and no new one comes there.
    pub fn swept(&mut self) -> Result<Bytes> {
        layout::space_key(self.group, Space::Swept, self.scratch);
        let behind = self.raw()?.filter(|_| !Mutant::SweepsFromTheStart.is_active());
        let behind = behind.unwrap_or_default();
        layout::space_key(self.group, Space::Expiry, self.scratch);
        self.scratch.extend_from_slice(&behind);
        Ok(Bytes::copy_from_slice(self.scratch))
    }

    /// Stores the key at which the next sweep continues, on any master.
    pub fn put_swept(&mut self, swept: &Bytes) {
        layout::space_key(self.group, Space::Swept, self.scratch);
        let behind = swept.get(self.scratch.len()..).unwrap_or_default();
        self.open.put_raw(self.scratch, behind);
    }

    /// Returns expiry hints from `swept` on that are due, oldest first, and the key at which the
    /// next sweep continues.
    pub fn due(&mut self, swept: &Bytes, max: usize) -> Result<(Vec<Bytes>, Bytes)> {
        let now = self.open.time;
        layout::space_key(self.group, Space::Expiry, self.scratch);
        self.scratch.extend_from_slice(&now.saturating_add(1).to_be_bytes());
        let high = Bytes::copy_from_slice(self.scratch);
        let mut due = Vec::new();
        let low = Bound::Included(swept.clone());
        self.walk(low, Bound::Excluded(high.clone()), Direction::Ascending, |key, _| {
            due.push(key.clone());
            Ok(due.len() < max)
        })?;
        let last = due.last().filter(|_| due.len() == max);
        let next = last.map_or(high, |last| Bytes::from([&last[..], &[0]].concat()));
        Ok((due, next.max(swept.clone())))
    }

    /// Returns the time of the next expiry hint behind `swept`, if it is due within `ahead_ms`
    /// milliseconds. Touches leave deleted hints behind; none further ahead is walked over.
    pub fn next_hint(&mut self, swept: &Bytes, ahead_ms: u64) -> Result<Option<u64>> {
        let until = self.open.time.saturating_add(ahead_ms);
        layout::space_key(self.group, Space::Expiry, self.scratch);
        self.scratch.extend_from_slice(&until.saturating_add(1).to_be_bytes());
        let end = Bytes::copy_from_slice(self.scratch).max(swept.clone());
        let (low, high) = (Bound::Included(swept.clone()), Bound::Excluded(end));
        let mut next = None;
        self.walk(low, high, Direction::Ascending, |key, _| {
            next = layout::read_expiry_key(key).map(|(expires, _, _)| expires);
            Ok(false)
        })?;
        Ok(next)
    }

    /// Forgets an expiry hint.
    pub fn remove_hint(&mut self, hint: &[u8]) {
        self.open.remove(hint);
    }
}
