//! Change capture of a bucket while it is copied to another group: the keys that have to be copied
//! again.
//!
//! It listens where entries are applied, on the node that copies, and not where they are evaluated:
//! a copy is read from applied rows, so a change noted here is visible there. While nothing is
//! copied it costs a check of one flag for every entry.
//!
//! Promises: every key that changed since the capture began, and lies at or before the last key
//! copied, is returned after its change.

use super::dirty_keys::{DirtyKeys, Upto};
use super::entry::read_entry;
use super::group::Group;
use base::error::corrupt;
use base::{BucketId, Error, Reason, Result};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub use super::dirty_keys::prefixes;

/// Handle of the node that copies. Dropping it ends the capture.
pub struct ChangeCapture {
    group: Arc<Group>,
}

impl Group {
    /// Begins to note what changes of a bucket; one at a time.
    pub fn track(self: &Arc<Group>, bucket: BucketId) -> Result<ChangeCapture> {
        let tracking = &self.tracking;
        let mut tracker = tracking.tracker();
        if tracker.is_some() {
            return Err(Error::new(Reason::Changed, "another bucket of this group is copied now"));
        }
        let prefixes = prefixes(self.id, bucket);
        *tracker = Some(DirtyKeys {
            prefixes,
            upto: Upto::Nothing,
            rows: BTreeSet::new(),
            others: BTreeSet::new(),
            bytes: 0,
            lost: false,
        });
        tracking.on.store(true, Ordering::Release);
        Ok(ChangeCapture { group: self.clone() })
    }

    /// An entry is applied.
    #[inline]
    pub(super) fn track_value(&self, payload: &Bytes) -> Result<()> {
        if self.tracking.on.load(Ordering::Acquire) { self.note_keys(payload) } else { Ok(()) }
    }

    #[cold]
    fn note_keys(&self, payload: &Bytes) -> Result<()> {
        let mut tracker = self.tracking.tracker();
        let Some(tracker) = tracker.as_mut() else { return Ok(()) };
        let (_, changes) = read_entry(payload).map_err(corrupt)?;
        for change in changes {
            tracker.note(change.map_err(corrupt)?.key());
        }
        Ok(())
    }

    /// Number of keys to copy again.
    pub fn tracked(&self) -> usize {
        let tracker = self.tracking.tracker();
        tracker.as_ref().map_or(0, |tracker| tracker.rows.len() + tracker.others.len())
    }

    /// Notes that rows changed without an entry: a snapshot was installed.
    pub(super) fn lose_track(&self) {
        if let Some(tracker) = self.tracking.tracker().as_mut() {
            tracker.lost = true;
        }
    }
}

impl ChangeCapture {
    /// The next rows are about to be read, no matter how far: whatever changes from here on counts.
    pub fn reads(&self) {
        self.with(|tracker| tracker.settle(Upto::Everything));
    }

    /// Notes that the copy has read rows up to this key. Rows behind it will be read later, with
    /// their changes.
    pub fn has_read(&self, upto: Bytes) {
        self.with(|tracker| tracker.settle(Upto::Key(upto)));
    }

    /// Returns the changed keys: rows first, then sessions, then outcomes. `Changed` if a change
    /// was not noted: the copy has to start again.
    pub fn take(&self) -> Result<Vec<Bytes>> {
        let mut taken = Err(Error::new(Reason::Changed, "too much changed to be copied again"));
        self.with(|tracker| {
            if !tracker.lost {
                tracker.bytes = 0;
                let (rows, others) = (&mut tracker.rows, &mut tracker.others);
                let rows = std::mem::take(rows).into_iter();
                taken = Ok(rows.chain(std::mem::take(others)).collect());
            }
        });
        taken
    }

    fn with(&self, act: impl FnOnce(&mut DirtyKeys)) {
        if let Some(tracker) = self.group.tracking.tracker().as_mut() {
            act(tracker);
        }
    }
}

impl Drop for ChangeCapture {
    fn drop(&mut self) {
        self.group.tracking.on.store(false, Ordering::Release);
        *self.group.tracking.tracker() = None;
    }
}
