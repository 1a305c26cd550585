//! Set of known counters of one actor: ranges, nearly always one.
//!
//! Bytes, as varints, from the highest range down: twice its upper end (of later ranges: the number
//! of counters missing below the range above, minus one), plus one if another range follows; then
//! the length of the range minus one.

use crate::codec::{Malformed, Reader};
use crate::varint;

/// Highest counter of a dot. An actor that reaches it continues as another; a higher one from
/// outside is refused.
pub const COUNT_MAX: u64 = 1 << 53;

/// Range of counters from `from` to `to`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CounterRange {
    from: u64,
    to: u64,
}

/// Set of one actor's counters, never empty: ascending ranges with a gap between any two. The first
/// is kept inline, since there is rarely a second.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CounterSet {
    first: CounterRange,
    rest: Vec<CounterRange>,
}

impl CounterSet {
    /// Fewest bytes of one set.
    pub const BYTES_MIN: usize = 2;
    /// Most bytes of each range: two varints.
    pub const RANGE_BYTES_MAX: usize = 20;

    /// Returns the counters from 1 to `count`. `None` if `count` is 0.
    pub fn up_to(count: u64) -> Option<CounterSet> {
        CounterSet::range(1, count)
    }

    /// Returns the set of one counter.
    pub fn single(count: u64) -> Option<CounterSet> {
        CounterSet::range(count, count)
    }

    /// Returns a range, ends included. `None` if it is empty or leaves `1..=COUNT_MAX`.
    pub fn range(from: u64, to: u64) -> Option<CounterSet> {
        let fits = 1 <= from && from <= to && to <= COUNT_MAX;
        fits.then_some(CounterSet { first: CounterRange { from, to }, rest: Vec::new() })
    }

    /// Builds a set from ascending ranges with a gap between any two. `None` for any other list.
    pub fn from_ranges(ranges: &[(u64, u64)]) -> Option<CounterSet> {
        let (&(from, to), rest) = ranges.split_first()?;
        let mut seen = CounterSet::range(from, to)?;
        let mut last = to;
        for &(from, to) in rest {
            if from <= last.saturating_add(1) {
                return None;
            }
            seen.rest.push(CounterSet::range(from, to)?.first);
            last = to;
        }
        Some(seen)
    }

    fn spans(&self) -> impl DoubleEndedIterator<Item = CounterRange> + Clone + '_ {
        std::iter::once(self.first).chain(self.rest.iter().copied())
    }

    /// Returns the ranges, ascending.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + '_ {
        self.spans().map(|span| (span.from, span.to))
    }

    /// Returns the number of ranges.
    pub fn range_count(&self) -> usize {
        1 + self.rest.len()
    }

    /// Returns the highest counter.
    pub fn highest(&self) -> u64 {
        self.rest.last().unwrap_or(&self.first).to
    }

    /// Returns true if the counter is in the set.
    pub fn contains(&self, count: u64) -> bool {
        self.spans().any(|span| span.from <= count && count <= span.to)
    }

    /// Returns true if the set contains every counter of the other.
    pub fn covers(&self, other: &CounterSet) -> bool {
        // No range of the other can span two of ours: a gap lies between them.
        let is_covered =
            |span: CounterRange| self.spans().any(|own| own.from <= span.from && span.to <= own.to);
        other.spans().all(is_covered)
    }

    /// Adds all counters of the other set.
    pub fn union(&mut self, other: &CounterSet) {
        if self.covers(other) {
            return;
        }
        let mut ranges: Vec<CounterRange> = self.spans().chain(other.spans()).collect();
        ranges.sort_unstable_by_key(|span| span.from);
        let mut merged: Vec<CounterRange> = Vec::with_capacity(ranges.len());
        for span in ranges {
            match merged.last_mut() {
                Some(last) if span.from <= last.to + 1 => last.to = last.to.max(span.to),
                _ => merged.push(span),
            }
        }
        self.first = merged.remove(0);
        self.rest = merged;
    }

    /// Adds one counter; does nothing if it leaves `1..=COUNT_MAX`.
    pub fn add(&mut self, count: u64) {
        if let Some(single) = CounterSet::single(count) {
            self.union(&single);
        }
    }

    /// Appends a set of counters.
    pub fn put(&self, out: &mut Vec<u8>) {
        let mut above = None;
        let mut remaining = self.range_count();
        for (from, to) in self.ranges().rev() {
            remaining -= 1;
            let end = match above {
                None => to,
                Some(above) => above - to - 2,
            };
            varint::put(end << 1 | u64::from(remaining > 0), out);
            varint::put(to - from, out);
            above = Some(from);
        }
    }

    /// Reads a set of counters.
    pub fn take(from: &mut Reader<'_>) -> Result<CounterSet, Malformed> {
        const FIELD: &str = "counters";
        let mut ranges: Vec<(u64, u64)> = Vec::with_capacity(1);
        loop {
            let head = varint::take(from, FIELD)?;
            let to = match ranges.last() {
                None => Some(head >> 1),
                Some((above, _)) => above.checked_sub(2).and_then(|end| end.checked_sub(head >> 1)),
            };
            let to = to.filter(|to| (1..=COUNT_MAX).contains(to)).ok_or(Malformed(FIELD))?;
            let extent = varint::take(from, FIELD)?;
            let first =
                to.checked_sub(extent).filter(|first| *first > 0).ok_or(Malformed(FIELD))?;
            ranges.push((first, to));
            if head & 1 == 0 {
                break;
            }
        }
        ranges.reverse();
        CounterSet::from_ranges(&ranges).ok_or(Malformed(FIELD))
    }
}
