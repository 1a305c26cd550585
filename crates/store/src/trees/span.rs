//! A dead span: a stretch of keys without a row, its earlier extents, and its dead rows.

use bytes::Bytes;

/// Number of batches by which a reader may lag and still use a span that grows with each.
const LAG_BATCHES: u64 = if cfg!(test) { 4 } else { 256 };
/// Maximum number of extents that a span records: the current one and two earlier ones.
const EXTENTS_MAX: usize = 3;

/// Extent of a span: a stretch of keys without a row, for readers that see the batch `since`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub start: Bytes,
    /// End of the extent, exclusive.
    pub end: Bytes,
    pub since: u64,
}

/// Dead rows found between two bounds: their number, and the first and last of them. Without dead
/// rows `first` and `last` have no meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadStretch {
    pub start: Bytes,
    pub end: Bytes,
    pub first: Bytes,
    pub last: Bytes,
    pub dead: u64,
}

/// A stretch with its growth.
#[derive(Clone)]
pub(super) struct Span {
    /// Newest first.
    extents: Vec<Extent>,
    /// First and last dead row in it.
    first: Bytes,
    last: Bytes,
    /// Approximate number of dead rows in it.
    pub dead: u64,
}

impl Extent {
    pub fn contains(&self, key: &[u8]) -> bool {
        self.start <= key && self.end > key
    }
}

impl DeadStretch {
    /// Returns true if keys with the prefix may lie in the stretch.
    pub fn overlaps(&self, prefix: &[u8]) -> bool {
        let ends_above = self.end > prefix;
        ends_above && (self.start < prefix || self.start.starts_with(prefix))
    }
}

impl Span {
    pub fn new(found: DeadStretch, since: u64) -> Span {
        let DeadStretch { start, end, first, last, dead } = found;
        Span { extents: vec![Extent { start, end, since }], first, last, dead }
    }

    pub fn newest(&self) -> &Extent {
        &self.extents[0]
    }

    pub fn start(&self) -> Bytes {
        self.newest().start.clone()
    }

    pub fn to_stretch(&self) -> DeadStretch {
        let Span { first, last, dead, .. } = self.clone();
        let Extent { start, end, .. } = self.newest().clone();
        DeadStretch { start, end, first, last, dead }
    }

    /// Returns the newest extent that satisfies `matches` and is valid for a reader at this batch.
    pub fn newest_visible(
        &self,
        sequence: u64,
        matches: impl Fn(&Extent) -> bool,
    ) -> Option<&Extent> {
        self.extents.iter().find(|extent| extent.since <= sequence && matches(extent))
    }

    /// Joins two spans. Keeps the earlier extents of the one with more dead rows.
    pub fn join(self, other: Span) -> Span {
        let (mut joined, smaller) =
            if self.dead >= other.dead { (self, other) } else { (other, self) };
        let (before, added) = (joined.newest().clone(), smaller.newest());
        let extent = Extent {
            start: before.start.clone().min(added.start.clone()),
            end: before.end.clone().max(added.end.clone()),
            since: before.since.max(added.since),
        };
        joined.extents[0] = extent;
        let due = |second: &Extent| before.since >= second.since + LAG_BATCHES;
        if joined.extents.get(1).is_none_or(due) {
            joined.extents.insert(1, before);
            joined.extents.truncate(EXTENTS_MAX);
        }
        if smaller.dead > 0 {
            joined.first = joined.first.min(smaller.first);
            joined.last = joined.last.max(smaller.last);
            joined.dead += smaller.dead;
        }
        joined
    }

    /// Returns the part of the span between two keys. `None`: it has no dead row. The number of
    /// dead rows is exact only if all lie in the part.
    pub fn slice(&self, start: &Bytes, end: &Bytes) -> Option<Span> {
        let clip = |extent: &Extent| {
            let start = extent.start.clone().max(start.clone());
            let end = extent.end.clone().min(end.clone());
            (start < end).then_some(Extent { start, end, since: extent.since })
        };
        let newest = clip(self.newest())?;
        let (first, last) = (self.first.clone(), self.last.clone());
        if first >= newest.end || last < newest.start {
            return None;
        }
        let is_whole = first >= newest.start && last < newest.end;
        let dead = if is_whole { self.dead } else { self.dead / 2 };
        let (first, last) = (first.max(newest.start), last.min(newest.end));
        Some(Span { extents: self.extents.iter().filter_map(clip).collect(), first, last, dead })
    }
}

/// Returns the direct successor of a key.
pub(super) fn successor(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// Returns true if `next` is the direct successor of `key`.
pub(super) fn is_successor(next: &[u8], key: &[u8]) -> bool {
    next.split_last() == Some((&0, key))
}
