//! What changes of a bucket while it is copied to another group: the keys that have to be copied
//! again.
//!
//! It listens where values are applied, on whoever copies, and not where they are evaluated: a copy
//! is read from what is applied, so what is noted here is there to be read. While nothing is copied
//! it costs a look at one flag for every value.
//!
//! Promises: every key that was changed since tracking began, and stands at or before what was
//! copied so far, is given out later than it was changed.

use super::group::Group;
use super::layout::{self, Space};
use super::value::read_value;
use base::error::damaged;
use base::{BucketId, Error, GroupId, Reason, Result};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Changed keys are noted up to so many bytes of them; beyond, copying begins anew.
const BYTES_MAX: usize = 64 << 20;
/// What a key costs beside its bytes.
const KEY_OVERHEAD_BYTES: usize = 64;

/// A group's tracker, if something of it is copied.
#[derive(Default)]
pub struct Tracking {
    on: AtomicBool,
    tracker: Mutex<Option<Tracker>>,
}

struct Tracker {
    /// Of the bucket's rows, of sessions, of their outcomes.
    prefixes: [Bytes; 3],
    /// Rows behind this key are still to be copied for the first time.
    upto: Upto,
    rows: BTreeSet<Bytes>,
    /// Of sessions and outcomes.
    others: BTreeSet<Bytes>,
    bytes: usize,
    /// Something was not noted.
    lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Upto {
    Nothing,
    Key(Bytes),
    Everything,
}

/// Held by whoever copies; with it tracking ends.
pub struct Tracked {
    group: Arc<Group>,
}

impl Group {
    /// Begins to note what changes of a bucket; one at a time.
    pub fn track(self: &Arc<Group>, bucket: BucketId) -> Result<Tracked> {
        let tracking = &self.tracking;
        let mut tracker = tracking.tracker();
        if tracker.is_some() {
            return Err(Error::new(Reason::Changed, "another bucket of this group is copied now"));
        }
        let prefixes = prefixes(self.id, bucket);
        *tracker = Some(Tracker {
            prefixes,
            upto: Upto::Nothing,
            rows: BTreeSet::new(),
            others: BTreeSet::new(),
            bytes: 0,
            lost: false,
        });
        tracking.on.store(true, Ordering::Release);
        Ok(Tracked { group: self.clone() })
    }

    /// A value is applied.
    #[inline]
    pub(super) fn track_value(&self, payload: &Bytes) -> Result<()> {
        if self.tracking.on.load(Ordering::Acquire) { self.note_keys(payload) } else { Ok(()) }
    }

    #[cold]
    fn note_keys(&self, payload: &Bytes) -> Result<()> {
        let mut tracker = self.tracking.tracker();
        let Some(tracker) = tracker.as_mut() else { return Ok(()) };
        let (_, changes) = read_value(payload).map_err(damaged)?;
        for change in changes {
            tracker.note(change.map_err(damaged)?.key());
        }
        Ok(())
    }

    /// How many keys are to be copied again.
    pub fn tracked(&self) -> usize {
        let tracker = self.tracking.tracker();
        tracker.as_ref().map_or(0, |tracker| tracker.rows.len() + tracker.others.len())
    }

    /// Rows changed that no value told of: a snapshot was installed.
    pub(super) fn lose_track(&self) {
        if let Some(tracker) = self.tracking.tracker().as_mut() {
            tracker.lost = true;
        }
    }
}

/// The beginnings of all keys that are copied with a bucket, in their order.
pub fn prefixes(group: GroupId, bucket: BucketId) -> [Bytes; 3] {
    let (mut rows, mut sessions, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    layout::row_key(group, bucket, &[], &mut rows);
    layout::space_key(group, Space::Session, &mut sessions);
    layout::space_key(group, Space::Outcome, &mut outcomes);
    [rows.into(), sessions.into(), outcomes.into()]
}

impl Tracking {
    fn tracker(&self) -> MutexGuard<'_, Option<Tracker>> {
        self.tracker.lock().expect("no one panics while holding it")
    }
}

impl Tracker {
    fn note(&mut self, key: &Bytes) {
        let is_row = key.starts_with(&self.prefixes[0]);
        let matters = is_row || self.prefixes[1..].iter().any(|prefix| key.starts_with(prefix));
        let to_come = match &self.upto {
            Upto::Nothing => true,
            Upto::Key(upto) => key > upto,
            Upto::Everything => false,
        };
        // Sessions are noted in any case: an outcome is copied behind the rows it speaks of.
        let keys = if is_row { &mut self.rows } else { &mut self.others };
        if !matters || (is_row && to_come) || keys.contains(key) {
            return;
        }
        self.bytes += bytes_of(key);
        if self.bytes > BYTES_MAX {
            self.lost = true;
            return;
        }
        // A copy: a slice would keep the whole value in memory.
        keys.insert(Bytes::copy_from_slice(key));
    }

    fn settle(&mut self, upto: Upto) {
        if let Upto::Key(last) = &upto {
            let mut behind = self.rows.split_off(last);
            if behind.remove(last) {
                self.rows.insert(last.clone());
            }
            self.bytes -= behind.iter().map(bytes_of).sum::<usize>();
        }
        self.upto = upto;
    }
}

fn bytes_of(key: &Bytes) -> usize {
    key.len() + KEY_OVERHEAD_BYTES
}

impl Tracked {
    /// The next rows are about to be read, no matter how far: whatever changes from here on counts.
    pub fn reads(&self) {
        self.with(|tracker| tracker.settle(Upto::Everything));
    }

    /// They were read up to this key; rows behind it will be read later than now.
    pub fn has_read(&self, upto: Bytes) {
        self.with(|tracker| tracker.settle(Upto::Key(upto)));
    }

    /// Gives out what has changed, rows first, then sessions, then outcomes; an error when
    /// something was not noted: copy everything anew.
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

    fn with(&self, act: impl FnOnce(&mut Tracker)) {
        if let Some(tracker) = self.group.tracking.tracker().as_mut() {
            act(tracker);
        }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.group.tracking.on.store(false, Ordering::Release);
        *self.group.tracking.tracker() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_were_read_are_noted_and_rows_to_come_are_not() {
        let (group, bucket) = (GroupId(3), BucketId(7));
        let key = |bucket, name: &str| {
            let mut key = Vec::new();
            layout::row_key(group, bucket, name.as_bytes(), &mut key);
            Bytes::from(key)
        };
        let mut session = Vec::new();
        layout::session_key(group, base::SessionId(9), &mut session);
        let session = Bytes::from(session);
        let (rows, others, bytes) = (BTreeSet::new(), BTreeSet::new(), 0);
        let prefixes = prefixes(group, bucket);
        let upto = Upto::Nothing;
        let mut tracker = Tracker { prefixes, upto, rows, others, bytes, lost: false };
        let own = |name| key(bucket, name);
        tracker.note(&own("a"));
        tracker.note(&key(BucketId(8), "a"));
        tracker.note(&session);
        assert!(tracker.rows.is_empty(), "everything is read later");
        assert_eq!(tracker.others.len(), 1, "a session may be read before its rows are");
        tracker.settle(Upto::Everything);
        ["a", "b", "c"].into_iter().for_each(|name| tracker.note(&own(name)));
        tracker.settle(Upto::Key(own("b")));
        assert!(tracker.rows.iter().eq([&own("a"), &own("b")]), "c is still to come");
        tracker.note(&own("c"));
        tracker.note(&own("aa"));
        assert!(tracker.rows.iter().eq([&own("a"), &own("aa"), &own("b")]));
        let all = tracker.rows.iter().chain(&tracker.others);
        assert_eq!(tracker.bytes, all.map(bytes_of).sum::<usize>());
        let large = Bytes::from([&own("a")[..], &vec![b'x'; BYTES_MAX]].concat());
        tracker.settle(Upto::Everything);
        tracker.note(&large);
        assert!(tracker.lost, "there is no room for it, and that is known");
    }
}
