//! Retention of a feed: which entries are removed, and what a reader that is behind has missed.
//!
//! Entries are examined from the oldest on, each once it is old enough: dead ones and deletes are
//! removed, living ones stay, each key once. Those that stayed may die later. So when as many new
//! entries were examined as had stayed of the older ones, a new *round* begins at the oldest. A
//! feed has hardly more dead entries than living ones then, beside those that are kept for their
//! age, and an entry costs three examinations at most on average, however many there are.
//!
//! ```text
//! Meta | bucket | r -> format u8 (1) | floor | oldest | cursor | round end: 14 bytes each
//!     | kept u64 LE | fresh u64 LE | removed entries u64 LE | removed bytes u64 LE
//!     | examined bytes u64 LE
//! ```

use crate::position::FeedPosition;
use crate::totals::FeedTotals;
use base::codec::{Malformed, Reader, Writer};

/// Name of the row within the numbers of its bucket.
pub const RETENTION_NAME: &[u8] = b"r";
const FORMAT: u8 = 1;
/// Minimum number of entries that are examined between two rounds.
const ROUND_ENTRIES_MIN: u64 = 1_000;

/// See the head of this file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// Highest position of a removed entry that no later entry makes up for: a delete, or a value
    /// of a feed that keeps values.
    pub floor: FeedPosition,
    /// Position at or before which there is no entry.
    pub oldest: FeedPosition,
    /// Last position that was examined in this round.
    pub cursor: FeedPosition,
    /// Last position that was examined in an earlier round.
    pub round_end: FeedPosition,
    /// Number of entries that were examined again in this round, and stayed.
    pub kept: u64,
    /// Number of entries that were examined for the first time in this round.
    pub fresh: u64,
    /// Entries that were removed, with the bytes of their tree keys and rows.
    pub removed: FeedTotals,
    /// Bytes of all entries that were examined.
    pub examined_bytes: u64,
}

/// Bounds by which entries are kept, and the state of the feed that they apply to.
#[derive(Clone, Copy, Debug)]
pub struct RetentionBounds {
    /// Group time, milliseconds.
    pub now: u64,
    /// Time for which deletes and dead entries are kept, in milliseconds.
    pub keep_ms: u64,
    /// Bytes of entries that are kept for their age. 0: no bound.
    pub keep_bytes: u64,
    /// Totals of all entries that were ever added to the feed.
    pub totals: FeedTotals,
}

/// Entry that is examined.
#[derive(Clone, Copy, Debug)]
pub struct KeptEntry {
    /// Position of the entry.
    pub position: FeedPosition,
    /// Group time of the change, milliseconds.
    pub time: u64,
    /// Bytes of its tree key and row.
    pub bytes: usize,
    /// True if it is a delete.
    pub is_delete: bool,
    /// True if it is a put, and the row of its key has its version.
    pub is_living: bool,
}

impl Retention {
    /// Begins a new round if one is due. Returns true if it began.
    pub fn begin_round_if_due(&mut self) -> bool {
        let is_due =
            self.cursor >= self.round_end && self.fresh >= self.kept.max(ROUND_ENTRIES_MIN);
        if is_due {
            (self.round_end, self.cursor) = (self.cursor, self.oldest);
            (self.kept, self.fresh) = (0, 0);
        }
        is_due
    }

    /// Returns the last position that was ever examined.
    pub fn examined(&self) -> FeedPosition {
        self.round_end.max(self.cursor)
    }

    /// Returns true if the next entry is to be examined now.
    pub fn is_due(&self, position: FeedPosition, time: u64, bounds: &RetentionBounds) -> bool {
        let waiting_bytes = bounds.totals.bytes.saturating_sub(self.examined_bytes);
        position <= self.round_end
            || time.saturating_add(bounds.keep_ms) <= bounds.now
            || (bounds.keep_bytes > 0 && waiting_bytes > bounds.keep_bytes)
    }

    /// Examines the next entry behind the cursor, which is due. Returns true if it is to be
    /// removed. `has_values`: true if the feed keeps values.
    pub fn examine(&mut self, entry: KeptEntry, has_values: bool) -> bool {
        let is_fresh = entry.position > self.round_end;
        if is_fresh {
            self.fresh += 1;
            self.examined_bytes = self.examined_bytes.wrapping_add(entry.bytes as u64);
        }
        // All before it in this round were removed.
        let is_oldest = self.cursor <= self.oldest;
        self.cursor = entry.position;
        if entry.is_living {
            self.kept += u64::from(!is_fresh);
            return false;
        }
        if is_oldest {
            self.oldest = entry.position;
        }
        self.removed.add(entry.bytes);
        if entry.is_delete || has_values {
            self.floor = self.floor.max(entry.position);
        }
        true
    }

    /// Returns true if a reader that has passed this position may have missed a removed entry.
    /// `scan_end`: see [`crate::ConsistentToken::scan_end`].
    pub fn has_passed(&self, position: FeedPosition, scan_end: Option<FeedPosition>) -> bool {
        self.floor > position && scan_end.is_none_or(|end| self.floor > end)
    }

    /// Encodes it for the store.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        for position in [self.floor, self.oldest, self.cursor, self.round_end] {
            out.extend_from_slice(&position.encode());
        }
        let FeedTotals { entries, bytes } = self.removed;
        for number in [self.kept, self.fresh, entries, bytes, self.examined_bytes] {
            out.put_u64(number);
        }
        out
    }

    /// Decodes what the store holds.
    pub fn decode(bytes: &[u8]) -> Result<Retention, Malformed> {
        const WHAT: &str = "retention of a feed";
        let mut reader = Reader::new(bytes);
        if reader.u8(WHAT)? != FORMAT {
            return Err(Malformed(WHAT));
        }
        let mut position = || FeedPosition::decode(reader.take(FeedPosition::BYTES, WHAT)?);
        let (floor, oldest) = (position()?, position()?);
        let (cursor, round_end) = (position()?, position()?);
        let mut number = || reader.u64(WHAT);
        let (kept, fresh) = (number()?, number()?);
        let removed = FeedTotals { entries: number()?, bytes: number()? };
        let examined_bytes = number()?;
        reader.end(WHAT)?;
        Ok(Retention { floor, oldest, cursor, round_end, kept, fresh, removed, examined_bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::LogIndex;
    use std::collections::{BTreeMap, BTreeSet};

    fn position(index: u64) -> FeedPosition {
        FeedPosition { era: 0, index: LogIndex(index), ordinal: 0 }
    }

    #[test]
    fn retention_round_trips_and_keeps_its_bytes() {
        let retention = Retention {
            floor: position(1),
            oldest: position(2),
            cursor: position(3),
            round_end: position(4),
            kept: 5,
            fresh: 6,
            removed: FeedTotals { entries: 7, bytes: 8 },
            examined_bytes: 9,
        };
        let mut kept = vec![1];
        for index in 1..=4 {
            kept.extend([0, 0, 0, 0, 0, 0, 0, 0, 0, index, 0, 0, 0, 0]);
        }
        for number in 5..=9 {
            kept.extend([number, 0, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(retention.encode(), kept);
        assert_eq!(Retention::decode(&kept), Ok(retention));
        for end in 0..kept.len() {
            assert!(Retention::decode(&kept[..end]).is_err(), "{end} bytes");
        }
    }

    #[test]
    fn entries_are_due_by_age_by_bytes_and_in_later_rounds() {
        let totals = FeedTotals { entries: 9, bytes: 100 };
        let bounds = RetentionBounds { now: 50, keep_ms: 10, keep_bytes: 0, totals };
        let mut retention = Retention::default();
        assert!(retention.is_due(position(1), 40, &bounds));
        assert!(!retention.is_due(position(1), 41, &bounds));
        let tight = RetentionBounds { keep_bytes: 60, ..bounds };
        assert!(retention.is_due(position(1), 41, &tight));
        retention.examined_bytes = 40;
        assert!(!retention.is_due(position(1), 41, &tight));
        retention.round_end = position(1);
        assert!(retention.is_due(position(1), 41, &bounds));
    }

    #[test]
    fn reader_misses_deletes_behind_its_position_unless_it_began_after_them() {
        let mut retention = Retention::default();
        let removed = |index, is_delete| KeptEntry {
            position: position(index),
            time: 0,
            bytes: 1,
            is_delete,
            is_living: false,
        };
        assert!(retention.examine(removed(3, false), false));
        assert!(!retention.has_passed(position(1), None), "a later entry makes up for it");
        assert!(retention.examine(removed(5, true), false));
        assert!(retention.has_passed(position(4), None));
        assert!(!retention.has_passed(position(5), None));
        assert!(!retention.has_passed(position(2), Some(position(5))));
        assert!(retention.has_passed(position(2), Some(position(4))));
        assert!(retention.examine(removed(7, false), true));
        assert!(retention.has_passed(position(6), None), "a value of a feed that keeps values");
    }

    /// A feed of `keys` keys that are written in turn, for a long time.
    #[test]
    fn dead_entries_are_bounded_and_each_entry_is_examined_three_times_on_average() {
        let keys = 1_500_u64;
        let (mut retention, mut examined) = (Retention::default(), 0_u64);
        let mut entries: BTreeMap<FeedPosition, u64> = BTreeMap::new();
        let mut latest: BTreeMap<u64, FeedPosition> = BTreeMap::new();
        let mut writes = 0;
        for index in 1..40_000 {
            // Half of the keys are hardly ever written again.
            let key =
                if index % 97 == 0 { keys / 2 + index % keys / 2 } else { index % (keys / 2) };
            let at = position(index);
            entries.insert(at, key);
            latest.insert(key, at);
            writes += 1;
            retention.begin_round_if_due();
            let next = entries
                .range((std::ops::Bound::Excluded(retention.cursor), std::ops::Bound::Unbounded));
            for (at, key) in next.take(3).map(|(at, key)| (*at, *key)).collect::<Vec<_>>() {
                let is_living = latest[&key] == at;
                let entry =
                    KeptEntry { position: at, time: 0, bytes: 1, is_delete: false, is_living };
                examined += 1;
                if retention.examine(entry, false) {
                    entries.remove(&at);
                }
            }
            let oldest = entries.keys().next().copied().expect("the last one lives");
            assert!(retention.oldest < oldest);
        }
        let living: BTreeSet<_> = latest.values().collect();
        assert!(living.iter().all(|at| entries.contains_key(at)), "the living stay");
        assert!(entries.len() as u64 <= 3 * keys, "{} entries", entries.len());
        assert!(examined <= 3 * writes, "{examined} of {writes}");
        let FeedTotals { entries: removed, bytes } = retention.removed;
        assert_eq!((removed, bytes), (writes - entries.len() as u64, removed));
    }
}
