//! Merge of undecided entries over a range of tree keys: the newest effect on each key, in the
//! order of the keys.
//!
//! Cost: a binary search in each sorted list of each entry (`effect_order.rs`), then one step for
//! each effect on the keys that are passed. Effects outside the range, and behind the key at which
//! the caller stops, are not touched.

use super::budget::Budget;
use base::Result;
use base::range::Direction;
use bytes::Bytes;
use replica_state::pending_entry::PendingEntry;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Bound;

/// See the head of this file.
pub struct EffectMerge<'a> {
    range: KeyRange,
    /// Cursors with an effect in the range; the next key's newest effect is on top.
    cursors: BinaryHeap<EffectCursor<'a>>,
}

/// Newest effect on a tree key.
pub struct NewestEffect<'a> {
    pub(super) key: &'a [u8],
    /// Row that it writes. `None`: it removes the key.
    pub(super) row: Option<Bytes>,
}

struct KeyRange {
    low: Bound<Bytes>,
    high: Bound<Bytes>,
    is_reverse: bool,
}

impl KeyRange {
    fn is_below(&self, key: &[u8]) -> bool {
        match &self.low {
            Bound::Included(low) => key < &low[..],
            Bound::Excluded(low) => key <= &low[..],
            Bound::Unbounded => false,
        }
    }

    fn is_above(&self, key: &[u8]) -> bool {
        match &self.high {
            Bound::Included(high) => key > &high[..],
            Bound::Excluded(high) => key >= &high[..],
            Bound::Unbounded => false,
        }
    }

    fn is_past(&self, key: &[u8]) -> bool {
        if self.is_reverse { self.is_below(key) } else { self.is_above(key) }
    }
}

/// Position in a sorted list of an entry's effects.
struct EffectCursor<'a> {
    entry: &'a PendingEntry,
    /// Rank among the lists of all entries: the newest effects have the highest.
    rank: usize,
    is_reverse: bool,
    key: &'a [u8],
    /// Offset of the list's newest effect on `key`.
    offset: u32,
    /// Offsets that are not passed yet, in the order of their keys.
    rest: &'a [u32],
}

impl<'a> EffectCursor<'a> {
    /// Creates a cursor in front of a list's first effect in a range.
    fn new(
        entry: &'a PendingEntry,
        rank: usize,
        list: &'a [u32],
        range: &KeyRange,
    ) -> EffectCursor<'a> {
        let rest = if range.is_reverse {
            &list[..list.partition_point(|offset| !range.is_above(entry.key_at(*offset)))]
        } else {
            &list[list.partition_point(|offset| range.is_below(entry.key_at(*offset)))..]
        };
        EffectCursor { entry, rank, is_reverse: range.is_reverse, key: &[], offset: 0, rest }
    }

    /// Moves to the next key. Returns false if the list has none in the range.
    fn advance(&mut self, range: &KeyRange) -> bool {
        let next = if self.is_reverse { self.rest.last() } else { self.rest.first() };
        let Some(next) = next else { return false };
        self.key = self.entry.key_at(*next);
        if range.is_past(self.key) {
            return false;
        }
        let count = self.count_on_key();
        let (on_key, rest) = if self.is_reverse {
            let (rest, on_key) = self.rest.split_at(self.rest.len() - count);
            (on_key, rest)
        } else {
            self.rest.split_at(count)
        };
        // Offsets of effects on the same key ascend, in either direction of the range.
        self.offset = on_key[count - 1];
        self.rest = rest;
        true
    }

    /// Returns the number of effects on `key` at the near end of `rest`. The search is exponential:
    /// a counter that an open entry changed thousands of times costs a few steps.
    fn count_on_key(&self) -> usize {
        let length = self.rest.len();
        let is_on_key = |distance: usize| {
            let position = if self.is_reverse { length - 1 - distance } else { distance };
            self.entry.key_at(self.rest[position]) == self.key
        };
        let mut step = 1;
        while step < length && is_on_key(step) {
            step *= 2;
        }
        let (mut inside, mut outside) = (step / 2, step.min(length));
        while outside - inside > 1 {
            let middle = inside.midpoint(outside);
            if is_on_key(middle) { inside = middle } else { outside = middle }
        }
        outside
    }
}

impl Ord for EffectCursor<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = self.key.cmp(other.key);
        let nearest_last = if self.is_reverse { keys } else { keys.reverse() };
        nearest_last.then(self.rank.cmp(&other.rank))
    }
}

impl PartialOrd for EffectCursor<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for EffectCursor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for EffectCursor<'_> {}

impl<'a> EffectMerge<'a> {
    /// Creates a merge of entries whose effects are ordered, oldest entry first.
    pub(super) fn new(
        entries: impl Iterator<Item = &'a PendingEntry>,
        (low, high): (Bound<Bytes>, Bound<Bytes>),
        direction: Direction,
    ) -> EffectMerge<'a> {
        let range = KeyRange { low, high, is_reverse: direction == Direction::Descending };
        let lists = entries.flat_map(|entry| entry.sorted_lists().map(move |list| (entry, list)));
        let in_range = lists.enumerate().filter_map(|(rank, (entry, list))| {
            let mut cursor = EffectCursor::new(entry, rank, list, &range);
            cursor.advance(&range).then_some(cursor)
        });
        let cursors = in_range.collect();
        EffectMerge { range, cursors }
    }

    /// Returns the newest effect on the next key. Counts a row for it, and one for each older entry
    /// with an effect on the same key.
    pub(super) fn next(&mut self, budget: &mut Budget) -> Result<Option<NewestEffect<'a>>> {
        let mut newest: Option<NewestEffect<'a>> = None;
        let mut last_entry: Option<&PendingEntry> = None;
        while let Some(mut cursor) = self.cursors.peek_mut() {
            // How many lists an open entry has depends on earlier range reads: it counts once.
            let is_other = !last_entry.is_some_and(|last| std::ptr::eq(last, cursor.entry));
            match &newest {
                None => {
                    let row = cursor.entry.row_at(cursor.offset);
                    budget.count_row(row.as_ref().map_or(0, Bytes::len))?;
                    newest = Some(NewestEffect { key: cursor.key, row });
                }
                Some(newest) if newest.key != cursor.key => break,
                Some(_) if is_other => budget.count_row(0)?,
                Some(_) => {}
            }
            last_entry = Some(cursor.entry);
            if !cursor.advance(&self.range) {
                PeekMut::pop(cursor);
            }
        }
        Ok(newest)
    }
}
