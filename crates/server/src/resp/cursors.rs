//! Cursors of scans: a table from the numbers that clients see to keys.
//!
//! Redis' clients expect a cursor to be a number, but a scan in key order continues after a key.
//! The table is bounded in entries and bytes. When it is full, the oldest cursor of the user who
//! holds more than half of it is evicted, or the oldest of all if nobody does: one user can't end
//! the scans of the others. A client that uses an evicted cursor gets an error, never a wrong page.
//!
//! A cursor belongs to a user and a bucket, not to a connection: clients continue a scan on any
//! connection of their pool. While nobody logs in, its random number is all that protects it.

use base::{BucketName, Key};
use std::collections::BTreeMap;

/// Most open cursors of all connections together.
pub const CURSORS_MAX: usize = 10_000;
/// Most bytes of keys they hold.
pub const CURSOR_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Exclusive upper bound of cursors: clients that keep numbers as doubles don't round them.
const CURSOR_END: u64 = 1 << 53;

/// User and bucket of a scan. Nobody else can use or close its cursors.
#[derive(Clone, Copy, Debug)]
pub struct ScanOwner<'a> {
    /// Name of the user. `None`: the client has not logged in, or access is off.
    pub user: Option<&'a str>,
    /// Bucket that is scanned.
    pub bucket: &'a BucketName,
}

#[derive(Debug)]
struct OpenCursor {
    user: Option<String>,
    bucket: BucketName,
    /// Last key that the scan returned.
    after: Key,
    /// Previous cursor, which stays open in case the answer with this one was lost.
    previous: u64,
    /// Number in the order of opening.
    sequence: u64,
}

impl OpenCursor {
    fn is_of(&self, owner: ScanOwner<'_>) -> bool {
        self.user.as_deref() == owner.user && self.bucket == *owner.bucket
    }
}

/// Open cursors of one user, or of all.
#[derive(Debug, Default)]
struct CursorList {
    /// Cursors in the order of opening.
    order: BTreeMap<u64, u64>,
    /// Bytes of their keys.
    bytes: usize,
}

impl CursorList {
    fn add(&mut self, number: u64, sequence: u64, bytes: usize) {
        self.order.insert(sequence, number);
        self.bytes += bytes;
    }

    fn remove(&mut self, sequence: u64, bytes: usize) {
        self.order.remove(&sequence);
        self.bytes -= bytes;
    }

    fn oldest(&self) -> Option<u64> {
        self.order.values().next().copied()
    }

    /// Returns true if they are more than the table has room for, divided by this.
    fn exceeds_part(&self, divisor: usize) -> bool {
        self.order.len() > CURSORS_MAX / divisor || self.bytes > CURSOR_BYTES_MAX / divisor
    }
}

/// Table of open cursors.
#[derive(Debug, Default)]
pub struct Cursors {
    next_sequence: u64,
    open: BTreeMap<u64, OpenCursor>,
    all: CursorList,
    /// Those of each user who has some.
    by_user: BTreeMap<Option<String>, CursorList>,
    /// User who last opened a cursor while it held more than half of the table.
    largest_user: Option<String>,
}

impl Cursors {
    /// Opens a cursor behind the key `after`. `previous` is the request's cursor; 0: none.
    pub fn open(&mut self, owner: ScanOwner<'_>, after: &[u8], previous: u64) -> u64 {
        let number = self.draw();
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        let ScanOwner { user, bucket } = owner;
        let (user, bucket) = (user.map(String::from), bucket.clone());
        let after = Key::copy_from_slice(after);
        self.all.add(number, sequence, after.len());
        let own = self.by_user.entry(user.clone()).or_default();
        own.add(number, sequence, after.len());
        if own.exceeds_part(2) {
            self.largest_user.clone_from(&user);
        }
        self.open.insert(number, OpenCursor { user, bucket, after, previous, sequence });
        while self.all.exceeds_part(1)
            && let Some(evicted) = self.next_evicted()
        {
            self.remove(evicted);
        }
        number
    }

    fn next_evicted(&self) -> Option<u64> {
        // It may have closed some since.
        let largest = self.by_user.get(&self.largest_user).filter(|list| list.exceeds_part(2));
        largest.unwrap_or(&self.all).oldest()
    }

    /// Returns the key behind which a cursor continues. `None`: this owner has no such cursor open.
    /// The client's use of it shows that its answer arrived, so the previous cursor is closed.
    pub fn resume(&mut self, owner: ScanOwner<'_>, cursor: u64) -> Option<Key> {
        let found = self.open.get(&cursor).filter(|found| found.is_of(owner))?;
        let (after, previous) = (found.after.clone(), found.previous);
        self.close(owner, previous);
        Some(after)
    }

    /// Closes a cursor of this owner: its scan has ended.
    pub fn close(&mut self, owner: ScanOwner<'_>, cursor: u64) {
        if self.open.get(&cursor).is_some_and(|found| found.is_of(owner)) {
            self.remove(cursor);
        }
    }

    /// Returns the number of open cursors.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Draws an unguessable number that is not in use. 0 begins a scan, and ends one.
    fn draw(&self) -> u64 {
        loop {
            let number = rand::random::<u64>() % CURSOR_END;
            if number != 0 && !self.open.contains_key(&number) {
                return number;
            }
        }
    }

    fn remove(&mut self, cursor: u64) {
        let Some(removed) = self.open.remove(&cursor) else { return };
        let (sequence, bytes) = (removed.sequence, removed.after.len());
        self.all.remove(sequence, bytes);
        if let Some(own) = self.by_user.get_mut(&removed.user) {
            own.remove(sequence, bytes);
            if own.order.is_empty() {
                self.by_user.remove(&removed.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn scan_cursor_stays_valid_until_its_successor_is_used() {
        let bucket = BucketName::default();
        let owner = ScanOwner { user: None, bucket: &bucket };
        let mut cursors = Cursors::default();
        let first = cursors.open(owner, b"a", 0);
        let second = cursors.open(owner, b"b", first);
        assert_eq!(cursors.resume(owner, first), Some("a".into()));
        assert_eq!(cursors.resume(owner, second), Some("b".into()));
        assert_eq!(cursors.resume(owner, first), None, "its answer has arrived");
        assert_eq!(cursors.resume(owner, second), Some("b".into()));
        cursors.close(owner, second);
        let all = &cursors.all;
        assert_eq!((cursors.len(), all.order.len(), all.bytes), (0, 0, 0));
        assert!(cursors.by_user.is_empty());
    }

    #[test]
    fn cursor_of_another_user_or_bucket_is_neither_used_nor_closed() {
        let (bucket, other) = (BucketName::default(), BucketName::parse("other").expect("plain"));
        let ada = ScanOwner { user: Some("ada"), bucket: &bucket };
        let mut cursors = Cursors::default();
        let first = cursors.open(ada, b"a", 0);
        let second = cursors.open(ada, b"b", first);
        let strangers = [
            ScanOwner { user: Some("eve"), ..ada },
            ScanOwner { user: None, ..ada },
            ScanOwner { bucket: &other, ..ada },
        ];
        for stranger in strangers {
            assert_eq!(cursors.resume(stranger, second), None, "{stranger:?}");
            cursors.close(stranger, second);
            // A stranger's cursor that names it as the previous one does not close it.
            let forged = cursors.open(stranger, b"x", second);
            assert_eq!(cursors.resume(stranger, forged), Some("x".into()));
            assert_eq!(cursors.resume(ada, forged), None);
        }
        assert_eq!(cursors.resume(ada, second), Some("b".into()));
        assert_eq!(cursors.resume(ada, first), None, "its answer has arrived");
    }

    #[test]
    fn cursors_are_not_guessable_and_exact_as_doubles() {
        let bucket = BucketName::default();
        let owner = ScanOwner { user: None, bucket: &bucket };
        let mut cursors = Cursors::default();
        let numbers: Vec<u64> = (0..16).map(|_| cursors.open(owner, b"k", 0)).collect();
        assert!(numbers.iter().all(|number| (1..CURSOR_END).contains(number)), "{numbers:?}");
        // Numbers that follow each other have one upper part. Of sixteen draws two have the same
        // once in 2^25.
        let upper: BTreeSet<_> = numbers.iter().map(|number| number >> 21).collect();
        assert!(upper.len() >= 15, "{numbers:?}");
    }

    #[test]
    fn cursor_table_evicts_oldest_beyond_entry_and_byte_limits() {
        let bucket = BucketName::default();
        let owner = ScanOwner { user: None, bucket: &bucket };
        let mut cursors = Cursors::default();
        let first = cursors.open(owner, b"first", 0);
        let all: Vec<u64> = (0..CURSORS_MAX).map(|_| cursors.open(owner, b"x", 0)).collect();
        assert_eq!(cursors.len(), CURSORS_MAX);
        assert_eq!(cursors.resume(owner, first), None, "the oldest went");
        assert!(cursors.resume(owner, all[0]).is_some());
        let long = vec![b'k'; base::limits::KEY_BYTES_MAX];
        for _ in 0..2 * CURSOR_BYTES_MAX / long.len() {
            cursors.open(owner, &long, 0);
        }
        assert!(cursors.all.bytes <= CURSOR_BYTES_MAX);
        assert_eq!(cursors.len(), CURSOR_BYTES_MAX / long.len());
        assert_eq!(cursors.all.order.len(), cursors.len());
    }

    #[test]
    fn user_with_more_than_half_of_the_cursors_loses_its_own_before_others_do() {
        let bucket = BucketName::default();
        let [ada, bob, eve] =
            ["ada", "bob", "eve"].map(|user| ScanOwner { user: Some(user), bucket: &bucket });
        let long = vec![b'k'; base::limits::KEY_BYTES_MAX];
        for (key, rounds) in
            [(&b"x"[..], 2 * CURSORS_MAX), (&long[..], 2 * CURSOR_BYTES_MAX / long.len())]
        {
            let mut cursors = Cursors::default();
            let oldest = cursors.open(ada, b"a", 0);
            let first = cursors.open(eve, key, 0);
            (0..rounds).for_each(|_| _ = cursors.open(eve, key, 0));
            let others = cursors.open(bob, key, 0);
            assert_eq!(cursors.resume(ada, oldest), Some("a".into()), "eve evicts her own");
            assert_eq!(cursors.resume(eve, first), None);
            // Nobody has more than half any more: the oldest of all goes.
            while cursors.next_evicted() != Some(oldest) {
                cursors.open(bob, key, 0);
            }
            cursors.open(ada, key, 0);
            assert_eq!(cursors.resume(ada, oldest), None);
            assert_eq!(cursors.resume(bob, others), Some(Key::copy_from_slice(key)));
            let lists = || cursors.by_user.values();
            assert_eq!(lists().map(|list| list.order.len()).sum::<usize>(), cursors.len());
            assert_eq!(lists().map(|list| list.bytes).sum::<usize>(), cursors.all.bytes);
        }
    }
}
