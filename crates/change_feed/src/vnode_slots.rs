//! Sets of slots: the 1,024 equal parts of the ring's points (`vnode_rows/slots.rs`), of which a
//! reader of a feed asks each of one node.
//!
//! ```text
//! set = runs, varint | for each run: slots left out before it, varint | its slots, varint
//! ```
//!
//! Guarantees: a set has one encoding; the number of a slot outside of the ring is in no set.

use base::codec::{Malformed, Reader};
use base::limits::PARTITIONS_MAX;
use base::varint;
use std::ops::Range;

/// Number of slots of the ring.
pub const SLOTS: u32 = PARTITIONS_MAX as u32;

const WORDS: usize = PARTITIONS_MAX / u64::BITS as usize;

/// Set of slots.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotSet([u64; WORDS]);

impl SlotSet {
    /// Returns the set of all slots.
    pub fn all() -> SlotSet {
        SlotSet([u64::MAX; WORDS])
    }

    /// Adds a slot. A number outside of the ring is ignored.
    pub fn insert(&mut self, slot: u32) {
        if let Some(word) = self.0.get_mut(slot as usize / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    /// Returns true if the slot is in the set.
    pub fn contains(&self, slot: u32) -> bool {
        let word = self.0.get(slot as usize / 64).copied().unwrap_or_default();
        word >> (slot % 64) & 1 == 1
    }

    /// Returns true if no slot is in the set.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; WORDS]
    }

    /// Returns the number of slots.
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the slots of both sets.
    pub fn union(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one | other)
    }

    /// Returns the slots that are in both sets.
    pub fn intersection(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one & other)
    }

    /// Returns the slots that are not in the other set.
    pub fn difference(&self, other: &SlotSet) -> SlotSet {
        self.combine(other, |one, other| one & !other)
    }

    fn combine(&self, other: &SlotSet, of_words: impl Fn(u64, u64) -> u64) -> SlotSet {
        SlotSet(std::array::from_fn(|at| of_words(self.0[at], other.0[at])))
    }

    /// Returns the slots in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..SLOTS).filter(|slot| self.contains(*slot))
    }

    /// Returns the longest runs of slots in a row, in order.
    pub fn runs(&self) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for slot in self.iter() {
            match runs.last_mut() {
                Some(run) if run.end == slot => run.end += 1,
                _ => runs.push(slot..slot + 1),
            }
        }
        runs
    }

    /// Encodes the set.
    pub fn put(&self, out: &mut Vec<u8>) {
        let (runs, mut end) = (self.runs(), 0);
        varint::put(runs.len() as u64, out);
        for run in runs {
            varint::put(u64::from(run.start - end), out);
            varint::put(u64::from(run.end - run.start), out);
            end = run.end;
        }
    }

    /// Decodes a set.
    pub fn take(from: &mut Reader<'_>) -> Result<SlotSet, Malformed> {
        const RUN: Malformed = Malformed("a run of slots");
        let (mut set, mut end) = (SlotSet::default(), 0_u64);
        for at in 0..varint::take_count(from, 2, "the runs of slots")? {
            let gap = varint::take(from, "a run of slots")?;
            let length = varint::take(from, "a run of slots")?;
            // Runs that touch are one run.
            if length == 0 || (gap == 0 && at > 0) {
                return Err(RUN);
            }
            let start = end.checked_add(gap).ok_or(RUN)?;
            end = start.checked_add(length).filter(|end| *end <= SLOTS.into()).ok_or(RUN)?;
            (start..end).for_each(|slot| set.insert(slot as u32));
        }
        Ok(set)
    }
}

impl FromIterator<u32> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u32>>(slots: I) -> SlotSet {
        let mut set = SlotSet::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.runs()).finish()
    }
}
