//! Order of an entry's effects by tree key, for range reads: sorted lists of the effects' offsets.
//!
//! A range read sorts the effects that were written since the last one. In an open entry they
//! become a list, merged with those lists before it that are not much longer (the logarithmic
//! method of Bentley and Saxe, 1980). So the lists are few, and each effect is merged a logarithmic
//! number of times, however many range reads lie between the writes. A closed entry is sorted once,
//! into one list.
//!
//! Promises: an entry has no order before a range is read, so that writes and point reads cost
//! nothing for it; the order of a closed entry is built once, and every later range read uses it.
//! Memory: 4 bytes for each tree key of a closed entry, up to 8 for each effect of an open one. An
//! effect has at least 14 bytes in the entry, and 12 in the journal while the entry is open; a key
//! has 17 in the table.

use crate::effect_layout::{end_at, key_at};

/// A list is merged with the next newer one unless it is more than this many times as long.
const LENGTH_RATIO: usize = 2;

/// See the head of this file.
pub struct EffectOrder {
    /// Offsets of effects: the sorted lists one behind the other, the oldest effects first. Offsets
    /// of effects on the same key ascend in each list.
    offsets: Vec<u32>,
    lists: Vec<OffsetList>,
    /// Offset behind the last effect that is in a list.
    end: usize,
    /// True if the entry is closed, and one list holds the newest effect on each key.
    is_complete: bool,
}

/// One sorted list: the effects that were written one after the other from `start` on, up to the
/// `start` of the next list.
struct OffsetList {
    /// Offset of its oldest effect.
    start: usize,
    /// Position of the list in `offsets`.
    position: usize,
}

impl EffectOrder {
    /// Creates the order of an entry without effects. `start`: offset of its first effect.
    pub fn new(start: usize) -> EffectOrder {
        EffectOrder { offsets: Vec::new(), lists: Vec::new(), end: start, is_complete: false }
    }

    /// Adds the effects that an open entry got since the last call. `bytes`: those of the entry.
    pub fn extend(&mut self, bytes: &[u8]) {
        if self.end == bytes.len() {
            return;
        }
        let mut list = self.push_new(bytes);
        let length = self.offsets.len();
        // The condition holds the lists to a logarithmic number: each is more than `LENGTH_RATIO`
        // times as long as the next. Where it does not hold, each effect of the older list enters
        // a list that is longer by half at least, which it can do a logarithmic number of times.
        while let Some(older) = self.lists.pop_if(|older| {
            list.position - older.position <= LENGTH_RATIO * (length - list.position)
        }) {
            list = older;
        }
        self.push_sorted(list, bytes);
    }

    /// Orders all effects of a closed entry.
    pub fn complete(&mut self, bytes: &[u8]) {
        if self.is_complete {
            return;
        }
        let new = self.push_new(bytes);
        let list = self.lists.drain(..).next().unwrap_or(new);
        self.push_sorted(list, bytes);
        self.offsets.dedup_by(|newer, kept| {
            let is_same_key = key_at(bytes, *newer) == key_at(bytes, *kept);
            if is_same_key {
                *kept = *newer;
            }
            is_same_key
        });
        self.offsets.shrink_to_fit();
        self.is_complete = true;
    }

    /// Appends the offsets of effects that are in no list, and returns their list, unsorted.
    fn push_new(&mut self, bytes: &[u8]) -> OffsetList {
        let list = OffsetList { start: self.end, position: self.offsets.len() };
        while self.end < bytes.len() {
            self.offsets.push(self.end as u32);
            self.end = end_at(bytes, self.end);
        }
        list
    }

    /// Sorts the offsets from a list's position on, and adds it as the last list. The sort is
    /// stable, and merges parts that are sorted already instead of sorting them again.
    fn push_sorted(&mut self, list: OffsetList, bytes: &[u8]) {
        self.offsets[list.position..].sort_by(|a, b| key_at(bytes, *a).cmp(key_at(bytes, *b)));
        self.lists.push(list);
    }

    /// Removes the effects from this offset on, which are undone. Those that they replaced are in
    /// the lists still.
    pub fn truncate(&mut self, offset: usize) {
        while self.end > offset {
            let Some(list) = self.lists.last() else { break };
            if list.start < offset {
                // The list has older effects too. Where savepoints are not nested, this costs no
                // more than the merge that put the newer ones there: without them, the list is
                // not passed over again.
                let mut kept = list.position;
                for position in list.position..self.offsets.len() {
                    if (self.offsets[position] as usize) < offset {
                        self.offsets[kept] = self.offsets[position];
                        kept += 1;
                    }
                }
                self.offsets.truncate(kept);
                self.end = offset;
            } else {
                self.offsets.truncate(list.position);
                self.end = list.start;
                self.lists.pop();
            }
        }
    }

    /// Returns the sorted lists, oldest effects first.
    pub fn lists(&self) -> impl Iterator<Item = &[u32]> {
        let next = self.lists.iter().skip(1).map(|list| list.position);
        let ends = next.chain(std::iter::once(self.offsets.len()));
        self.lists.iter().zip(ends).map(move |(list, end)| &self.offsets[list.position..end])
    }
}

#[cfg(test)]
mod tests;
