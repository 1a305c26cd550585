//! Places in scans: small numbers for clients, keys for us.
//!
//! Redis' clients want a cursor to be a number, but a scan in key order goes on behind a key. The
//! table that joins the two is bounded in entries and bytes: the cursors used least recently go
//! first, and whoever comes back with one that went is told so, never given a wrong page.

use base::{BucketName, Key};
use std::collections::BTreeMap;

/// Most open cursors of all connections together.
pub const CURSORS_MAX: usize = 10_000;
/// Most bytes of keys they hold.
pub const CURSOR_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Cursors are smaller, so that clients that keep numbers as doubles don't round them.
const CURSOR_END: u64 = 1 << 53;

/// Where a scan goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// In which bucket.
    pub bucket: BucketName,
    /// Behind which key.
    pub after: Key,
    /// The cursor that led here, kept in case its answer was lost.
    before: u64,
}

/// The table.
#[derive(Debug)]
pub struct Cursors {
    next: u64,
    open: BTreeMap<u64, Position>,
    bytes: usize,
}

impl Cursors {
    /// An empty table. Numbers begin at a place drawn from the hour, so that a cursor from before a
    /// restart is not taken for one of today's.
    pub fn new(unix_ms: u64) -> Cursors {
        Cursors { next: (unix_ms << 11) % CURSOR_END, open: BTreeMap::new(), bytes: 0 }
    }

    /// A cursor for the place behind `after`, reached from cursor `before` (0: the beginning).
    pub fn open(&mut self, bucket: &BucketName, after: &[u8], before: u64) -> u64 {
        self.next = (self.next + 1) % CURSOR_END;
        if self.next == 0 {
            self.next = 1;
        }
        let after = Key::copy_from_slice(after);
        self.bytes += after.len();
        self.open.insert(self.next, Position { bucket: bucket.clone(), after, before });
        while self.open.len() > CURSORS_MAX || self.bytes > CURSOR_BYTES_MAX {
            let oldest = *self.open.keys().next().expect("over its bounds, so not empty");
            self.close(oldest);
        }
        self.next
    }

    /// Where a cursor of this bucket stands. Using it shows that its answer arrived, so the cursor
    /// before it goes.
    pub fn resume(&mut self, bucket: &BucketName, cursor: u64) -> Option<Position> {
        let position = self.open.get(&cursor).filter(|position| position.bucket == *bucket)?;
        let position = position.clone();
        self.close(position.before);
        Some(position)
    }

    /// The scan is over.
    pub fn close(&mut self, cursor: u64) {
        if let Some(position) = self.open.remove(&cursor) {
            self.bytes -= position.after.len();
        }
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_holds_two_cursors_at_most_and_each_can_be_used_again() {
        let bucket = BucketName::default();
        let mut cursors = Cursors::new(1_700_000_000_000);
        let first = cursors.open(&bucket, b"a", 0);
        assert!(first < CURSOR_END);
        let second = cursors.open(&bucket, b"b", first);
        assert_eq!(cursors.resume(&bucket, first).map(|p| p.after), Some("a".into()));
        assert_eq!(cursors.resume(&bucket, second).map(|p| p.after), Some("b".into()));
        assert_eq!(cursors.resume(&bucket, first), None, "its answer has arrived");
        assert_eq!(cursors.resume(&bucket, second).map(|p| p.after), Some("b".into()));
        let other = BucketName::parse("other").expect("plain");
        assert_eq!(cursors.resume(&other, second), None, "a cursor belongs to its bucket");
        cursors.close(second);
        assert_eq!((cursors.len(), cursors.bytes), (0, 0));
    }

    #[test]
    fn the_table_is_bounded_in_entries_and_in_bytes() {
        let bucket = BucketName::default();
        let mut cursors = Cursors::new(0);
        let first = cursors.open(&bucket, b"first", 0);
        let all: Vec<u64> = (0..CURSORS_MAX).map(|_| cursors.open(&bucket, b"x", 0)).collect();
        assert_eq!(cursors.len(), CURSORS_MAX);
        assert_eq!(cursors.resume(&bucket, first), None, "the oldest went");
        assert!(cursors.resume(&bucket, all[0]).is_some());
        let long = vec![b'k'; base::limits::KEY_BYTES_MAX];
        for _ in 0..2 * CURSOR_BYTES_MAX / long.len() {
            cursors.open(&bucket, &long, 0);
        }
        assert!(cursors.bytes <= CURSOR_BYTES_MAX);
        assert_eq!(cursors.len(), CURSOR_BYTES_MAX / long.len());
    }
}
