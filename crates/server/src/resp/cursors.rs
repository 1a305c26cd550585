//! Cursors of scans: a table from the numbers that clients see to keys.
//!
//! Redis' clients expect a cursor to be a number, but a scan in key order continues after a key.
//! The table is bounded in entries and bytes and evicts the oldest cursors. A client that uses an
//! evicted cursor gets an error, never a wrong page.

use base::{BucketName, Key};
use std::collections::BTreeMap;

/// Most open cursors of all connections together.
pub const CURSORS_MAX: usize = 10_000;
/// Most bytes of keys they hold.
pub const CURSOR_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Exclusive upper bound of cursors: clients that keep numbers as doubles don't round them.
const CURSOR_END: u64 = 1 << 53;

/// Position at which a scan continues.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// Bucket of the scan.
    pub bucket: BucketName,
    /// Last key that the scan returned.
    pub after: Key,
    /// Previous cursor, which stays open in case the answer with this one was lost.
    previous: u64,
}

/// Table of open cursors.
#[derive(Debug)]
pub struct Cursors {
    next: u64,
    open: BTreeMap<u64, Position>,
    bytes: usize,
}

impl Cursors {
    /// Returns an empty table. The first number derives from the time, so that a cursor from before
    /// a restart is not mistaken for a new one.
    pub fn new(unix_ms: u64) -> Cursors {
        Cursors { next: (unix_ms << 11) % CURSOR_END, open: BTreeMap::new(), bytes: 0 }
    }

    /// Opens a cursor behind the key `after`. `previous` is the request's cursor; 0: none.
    pub fn open(&mut self, bucket: &BucketName, after: &[u8], previous: u64) -> u64 {
        self.next = (self.next + 1) % CURSOR_END;
        if self.next == 0 {
            self.next = 1;
        }
        let after = Key::copy_from_slice(after);
        self.bytes += after.len();
        self.open.insert(self.next, Position { bucket: bucket.clone(), after, previous });
        while self.open.len() > CURSORS_MAX || self.bytes > CURSOR_BYTES_MAX {
            let oldest = *self.open.keys().next().expect("over its bounds, so not empty");
            self.close(oldest);
        }
        self.next
    }

    /// Returns the position of a cursor of this bucket, or `None` if it is not open. The client's
    /// use of it shows that its answer arrived, so the previous cursor is closed.
    pub fn resume(&mut self, bucket: &BucketName, cursor: u64) -> Option<Position> {
        let position = self.open.get(&cursor).filter(|position| position.bucket == *bucket)?;
        let position = position.clone();
        self.close(position.previous);
        Some(position)
    }

    /// Closes a cursor: its scan has ended.
    pub fn close(&mut self, cursor: u64) {
        if let Some(position) = self.open.remove(&cursor) {
            self.bytes -= position.after.len();
        }
    }

    /// Returns the number of open cursors.
    pub fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scan_cursor_stays_valid_until_its_successor_is_used() {
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
    fn cursor_table_evicts_oldest_beyond_entry_and_byte_limits() {
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
