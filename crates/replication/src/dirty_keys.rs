//! Keys of a bucket that changed while it is copied, and must be copied again.

use base::{BucketId, GroupId};
use bytes::Bytes;
use replica_state::layout::{self, Space};
use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};

/// Maximum number of bytes of recorded keys. Beyond it the copy starts again.
const BYTES_MAX: usize = 64 << 20;
/// Memory of a recorded key in addition to its bytes.
const KEY_OVERHEAD_BYTES: usize = 64;

/// Tracker of a group's changes. It exists while a bucket of the group is copied.
#[derive(Default)]
pub struct DirtyKeyTracking {
    pub(super) is_active: AtomicBool,
    tracker: Mutex<Option<DirtyKeys>>,
}

pub(super) struct DirtyKeys {
    /// Prefixes of the bucket's rows, of sessions, and of their outcomes.
    pub(super) prefixes: [Bytes; 3],
    /// Position of the copy: rows behind it are yet to be read for the first time.
    pub(super) position: CopyPosition,
    /// Changed keys of rows.
    pub(super) rows: BTreeSet<Bytes>,
    /// Changed keys of sessions and outcomes.
    pub(super) session_keys: BTreeSet<Bytes>,
    /// Memory of all recorded keys, in bytes.
    pub(super) bytes: usize,
    /// True if a change was not recorded.
    pub(super) is_incomplete: bool,
}

/// Position of a copy among the bucket's rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CopyPosition {
    /// No row has been read.
    Start,
    /// Rows up to this key have been read.
    Key(Bytes),
    /// Every row may have been read.
    End,
}

/// Returns the prefixes of all keys that are copied with a bucket, in their order.
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
    pub(super) fn record(&mut self, key: &Bytes) {
        let is_row = key.starts_with(&self.prefixes[0]);
        let is_copied = is_row || self.prefixes[1..].iter().any(|prefix| key.starts_with(prefix));
        let is_unread = match &self.position {
            CopyPosition::Start => true,
            CopyPosition::Key(last) => key > last,
            CopyPosition::End => false,
        };
        // Sessions are recorded in any case: an outcome is copied behind the rows to which it
        // refers.
        let keys = if is_row { &mut self.rows } else { &mut self.session_keys };
        if !is_copied || (is_row && is_unread) || keys.contains(key) {
            return;
        }
        self.bytes += bytes_of(key);
        if self.bytes > BYTES_MAX {
            self.is_incomplete = true;
            return;
        }
        // A copy of the key: a slice would keep the whole entry in memory.
        keys.insert(Bytes::copy_from_slice(key));
    }

    pub(super) fn set_position(&mut self, position: CopyPosition) {
        if let CopyPosition::Key(last) = &position {
            let mut unread = self.rows.split_off(last);
            if unread.remove(last) {
                self.rows.insert(last.clone());
            }
            self.bytes -= unread.iter().map(bytes_of).sum::<usize>();
        }
        self.position = position;
    }
}

fn bytes_of(key: &Bytes) -> usize {
    key.len() + KEY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_row_is_tracked_only_if_the_copy_has_read_it() {
        let (group, bucket) = (GroupId(3), BucketId(7));
        let key = |bucket, name: &str| {
            let mut key = Vec::new();
            layout::row_key(group, bucket, name.as_bytes(), &mut key);
            Bytes::from(key)
        };
        let mut session = Vec::new();
        layout::session_key(group, base::SessionId(9), &mut session);
        let session = Bytes::from(session);
        let (rows, session_keys, bytes) = (BTreeSet::new(), BTreeSet::new(), 0);
        let prefixes = prefixes(group, bucket);
        let position = CopyPosition::Start;
        let mut tracker =
            DirtyKeys { prefixes, position, rows, session_keys, bytes, is_incomplete: false };
        let own = |name| key(bucket, name);
        tracker.record(&own("a"));
        tracker.record(&key(BucketId(8), "a"));
        tracker.record(&session);
        assert!(tracker.rows.is_empty(), "everything is read later");
        assert_eq!(tracker.session_keys.len(), 1, "a session may be read before its rows are");
        tracker.set_position(CopyPosition::End);
        ["a", "b", "c"].into_iter().for_each(|name| tracker.record(&own(name)));
        tracker.set_position(CopyPosition::Key(own("b")));
        assert!(tracker.rows.iter().eq([&own("a"), &own("b")]), "c is still to come");
        tracker.record(&own("c"));
        tracker.record(&own("aa"));
        assert!(tracker.rows.iter().eq([&own("a"), &own("aa"), &own("b")]));
        let all = tracker.rows.iter().chain(&tracker.session_keys);
        assert_eq!(tracker.bytes, all.map(bytes_of).sum::<usize>());
        let large = Bytes::from([&own("a")[..], &vec![b'x'; BYTES_MAX]].concat());
        tracker.set_position(CopyPosition::End);
        tracker.record(&large);
        assert!(tracker.is_incomplete, "there is no room for it, and that is known");
    }
}
