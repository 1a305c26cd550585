//! Expiry index: a hint for each row that expires, in the order of their due times, and the
//! position of the sweep over them.
//!
//! Promises: a sweep costs only the due hints; no hint is added before the sweep's position.

use super::overlay::Overlay;
use base::range::Direction;
use base::{BucketId, Result};
use bytes::Bytes;
use replica_state::layout::{self, Space};
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

    /// Returns the key at which the sweep of expiry hints continues. There is no hint before it,
    /// and none is added there.
    pub fn sweep_position(&mut self) -> Result<Bytes> {
        layout::space_key(self.group, Space::SweepPosition, self.scratch);
        let suffix = self.get_raw()?.filter(|_| !Mutant::RestartExpirySweep.is_active());
        let suffix = suffix.unwrap_or_default();
        layout::space_key(self.group, Space::Expiry, self.scratch);
        self.scratch.extend_from_slice(&suffix);
        Ok(Bytes::copy_from_slice(self.scratch))
    }

    /// Stores the key at which the next sweep continues, on any master.
    pub fn put_sweep_position(&mut self, position: &Bytes) {
        layout::space_key(self.group, Space::SweepPosition, self.scratch);
        let suffix = position.get(self.scratch.len()..).unwrap_or_default();
        self.open.put_raw(self.scratch, suffix);
    }

    /// Returns the due expiry hints from `position` on, oldest first and at most `max`, and the key
    /// at which the next sweep continues.
    pub fn due_hints(&mut self, position: &Bytes, max: usize) -> Result<(Vec<Bytes>, Bytes)> {
        let now = self.open.time;
        layout::space_key(self.group, Space::Expiry, self.scratch);
        self.scratch.extend_from_slice(&now.saturating_add(1).to_be_bytes());
        let high = Bytes::copy_from_slice(self.scratch);
        let mut hints = Vec::new();
        let low = Bound::Included(position.clone());
        self.walk(low, Bound::Excluded(high.clone()), Direction::Ascending, |key, _| {
            hints.push(key.clone());
            Ok(hints.len() < max)
        })?;
        let last = hints.last().filter(|_| hints.len() == max);
        let next = last.map_or(high, |last| Bytes::from([&last[..], &[0]].concat()));
        Ok((hints, next.max(position.clone())))
    }

    /// Returns the time of the next expiry hint from `position` on, if it is due within `ahead_ms`
    /// milliseconds. The bound limits the number of deleted hints that are skipped.
    pub fn next_hint(&mut self, position: &Bytes, ahead_ms: u64) -> Result<Option<u64>> {
        let until = self.open.time.saturating_add(ahead_ms);
        layout::space_key(self.group, Space::Expiry, self.scratch);
        self.scratch.extend_from_slice(&until.saturating_add(1).to_be_bytes());
        let end = Bytes::copy_from_slice(self.scratch).max(position.clone());
        let (low, high) = (Bound::Included(position.clone()), Bound::Excluded(end));
        let mut next = None;
        self.walk(low, high, Direction::Ascending, |key, _| {
            next = layout::read_expiry_key(key).map(|(expires, _, _)| expires);
            Ok(false)
        })?;
        Ok(next)
    }

    /// Removes an expiry hint.
    pub fn remove_hint(&mut self, hint: &[u8]) {
        self.open.remove(hint);
    }
}
