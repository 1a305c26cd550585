//! Keys of a bucket that were changed while it is copied, and have to be copied again.

use super::layout::{self, Space};
use base::{BucketId, GroupId};
use bytes::Bytes;
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};

/// Maximum number of bytes of noted keys. Beyond it the copy starts again.
const BYTES_MAX: usize = 64 << 20;
/// Memory of a noted key in addition to its bytes.
const KEY_OVERHEAD_BYTES: usize = 64;

/// A group's tracker, if something of it is copied.
#[derive(Default)]
pub struct DirtyKeyTracking {
    pub(super) on: AtomicBool,
    tracker: Mutex<Option<DirtyKeys>>,
}

pub(super) struct DirtyKeys {
    /// Prefixes of the bucket's rows, of sessions, of their outcomes.
    pub(super) prefixes: [Bytes; 3],
    /// Rows behind this key are still to be copied for the first time.
    pub(super) upto: Upto,
    pub(super) rows: BTreeSet<Bytes>,
    /// Changed keys of sessions and outcomes.
    pub(super) others: BTreeSet<Bytes>,
    pub(super) bytes: usize,
    /// Something was not noted.
    pub(super) lost: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Upto {
    Nothing,
    Key(Bytes),
    Everything,
}

/// The beginnings of all keys that are copied with a bucket, in their order.
pub fn prefixes(group: GroupId, bucket: BucketId) -> [Bytes; 3] {
    let (mut rows, mut sessions, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
    layout::row_key(group, bucket, &[], &mut rows);
    layout::space_key(group, Space::Session, &mut sessions);
    layout::space_key(group, Space::Outcome, &mut outcomes);
    [rows.into(), sessions.into(), outcomes.into()]
}

impl DirtyKeyTracking {
    pub(super) fn tracker(&self) -> MutexGuard<'_, Option<DirtyKeys>> {
        self.tracker.lock().expect("no one panics while holding it")
    }
}

impl DirtyKeys {
    pub(super) fn note(&mut self, key: &Bytes) {
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

    pub(super) fn settle(&mut self, upto: Upto) {
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
        let mut tracker = DirtyKeys { prefixes, upto, rows, others, bytes, lost: false };
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
