//! Change capture of a bucket while it is copied to another group: the keys that have to be copied
//! again.
//!
//! It runs where entries are applied, on the node that copies, and not where they are evaluated: a
//! copy is read from applied rows, so a change recorded here is visible to it. While nothing is
//! copied it costs a check of one flag for every entry.
//!
//! Promises: every key that changed since the capture began, and lies at or before the last key
//! copied, is returned after its change.

use super::dirty_keys::{CopyPosition, DirtyKeys};
use super::group::Group;
use base::error::corrupt;
use base::{BucketId, Error, Reason, Result};
use bytes::Bytes;
use replica_state::entry::read_entry;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use super::dirty_keys::prefixes;

/// Handle of the node that copies. Dropping it ends the capture.
pub struct ChangeCapture {
    group: Arc<Group>,
}

impl Group {
    /// Begins to record the changed keys of a bucket. `Changed`: another bucket of the group is
    /// being copied.
    pub fn capture_changes_of(self: &Arc<Group>, bucket: BucketId) -> Result<ChangeCapture> {
        let tracking = &self.tracking;
        let mut tracker = tracking.tracker();
        if tracker.is_some() {
            return Err(Error::new(
                Reason::Changed,
                "another bucket of this group is being copied",
            ));
        }
        let prefixes = prefixes(self.id, bucket);
        *tracker = Some(DirtyKeys {
            prefixes,
            position: CopyPosition::Start,
            rows: BTreeSet::new(),
            session_keys: BTreeSet::new(),
            bytes: 0,
            is_incomplete: false,
        });
        tracking.is_active.store(true, Ordering::Release);
        Ok(ChangeCapture { group: self.clone() })
    }

    /// Records the keys that an applied entry changes, if a bucket is being copied.
    #[inline]
    pub(super) fn capture_changes(&self, payload: &Bytes) -> Result<()> {
        if self.tracking.is_active.load(Ordering::Acquire) {
            self.record_keys(payload)
        } else {
            Ok(())
        }
    }

    #[cold]
    fn record_keys(&self, payload: &Bytes) -> Result<()> {
        let mut tracker = self.tracking.tracker();
        let Some(tracker) = tracker.as_mut() else { return Ok(()) };
        let (_, changes) = read_entry(payload).map_err(corrupt)?;
        for change in changes {
            tracker.record(change.map_err(corrupt)?.key());
        }
        Ok(())
    }

    /// Returns the number of keys to copy again.
    pub fn captured_keys(&self) -> usize {
        let tracker = self.tracking.tracker();
        tracker.as_ref().map_or(0, |tracker| tracker.rows.len() + tracker.session_keys.len())
    }

    /// Notes that rows changed without an entry, because a snapshot was installed.
    pub(super) fn mark_capture_incomplete(&self) {
        if let Some(tracker) = self.tracking.tracker().as_mut() {
            tracker.is_incomplete = true;
        }
    }
}

impl ChangeCapture {
    /// Notes that the copy is about to read rows, up to an unknown key: every change from here on
    /// is recorded.
    pub fn begin_read(&self) {
        self.with(|tracker| tracker.set_position(CopyPosition::End));
    }

    /// Notes that the copy has read rows up to this key. Rows behind it will be read later, with
    /// their changes.
    pub fn end_read(&self, last: Bytes) {
        self.with(|tracker| tracker.set_position(CopyPosition::Key(last)));
    }

    /// Returns the changed keys: rows first, then sessions, then outcomes. `Changed`: a change was
    /// not recorded, and the copy must start again.
    pub fn take(&self) -> Result<Vec<Bytes>> {
        let mut keys = Err(Error::new(Reason::Changed, "too many changes during the copy"));
        self.with(|tracker| {
            if !tracker.is_incomplete {
                tracker.bytes = 0;
                let (rows, session_keys) = (&mut tracker.rows, &mut tracker.session_keys);
                let rows = std::mem::take(rows).into_iter();
                keys = Ok(rows.chain(std::mem::take(session_keys)).collect());
            }
        });
        keys
    }

    fn with(&self, update: impl FnOnce(&mut DirtyKeys)) {
        if let Some(tracker) = self.group.tracking.tracker().as_mut() {
            update(tracker);
        }
    }
}

impl Drop for ChangeCapture {
    fn drop(&mut self) {
        self.group.tracking.is_active.store(false, Ordering::Release);
        *self.group.tracking.tracker() = None;
    }
}
