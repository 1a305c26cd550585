//! One dead span: a stretch of keys without a row, its earlier extents, and its dead rows.

use bytes::Bytes;

/// Number of batches by which a reader may lag and still profit from a span that grows with each.
const LAG_BATCHES: u64 = if cfg!(test) { 4 } else { 256 };
/// Extents that a span remembers: now, lately, and before that.
const EXTENTS_MAX: usize = 3;

/// A stretch of keys without a row, for readers that see the batch `since`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub start: Bytes,
    /// The first key that is not in it.
    pub end: Bytes,
    pub since: u64,
}

/// Dead rows found between two bounds: their number, and the outermost of them. Without dead rows
/// `first` and `last` mean nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeadStretch {
    pub start: Bytes,
    pub end: Bytes,
    pub first: Bytes,
    pub last: Bytes,
    pub dead: u64,
}

/// A stretch as it grew.
#[derive(Clone)]
pub(super) struct Span {
    /// Newest first.
    extents: Vec<Extent>,
    /// The outermost dead rows in it.
    first: Bytes,
    last: Bytes,
    /// Dead rows in it, about.
    pub dead: u64,
}

impl Extent {
    pub fn has(&self, key: &[u8]) -> bool {
        self.start <= key && self.end > key
    }
}

impl DeadStretch {
    pub fn meets(&self, prefix: &[u8]) -> bool {
        let ends_above = self.end > prefix;
        ends_above && (self.start < prefix || self.start.starts_with(prefix))
    }
}

impl Span {
    pub fn of(found: DeadStretch, since: u64) -> Span {
        let DeadStretch { start, end, first, last, dead } = found;
        Span { extents: vec![Extent { start, end, since }], first, last, dead }
    }

    pub fn newest(&self) -> &Extent {
        &self.extents[0]
    }

    pub fn start(&self) -> Bytes {
        self.newest().start.clone()
    }

    pub fn found(&self) -> DeadStretch {
        let Span { first, last, dead, .. } = self.clone();
        let Extent { start, end, .. } = self.newest().clone();
        DeadStretch { start, end, first, last, dead }
    }

    /// Returns the newest extent that satisfies `asked` and holds for a reader at this batch.
    pub fn seen_by(&self, sequence: u64, asked: impl Fn(&Extent) -> bool) -> Option<&Extent> {
        self.extents.iter().find(|extent| extent.since <= sequence && asked(extent))
    }

    /// Joins two spans. The earlier extents are those of the larger one.
    pub fn join(self, other: Span) -> Span {
        let (mut all, one) = if self.dead >= other.dead { (self, other) } else { (other, self) };
        let (now, new) = (all.newest().clone(), one.newest());
        let extent = Extent {
            start: now.start.clone().min(new.start.clone()),
            end: now.end.clone().max(new.end.clone()),
            since: now.since.max(new.since),
        };
        all.extents[0] = extent;
        let due = |second: &Extent| now.since >= second.since + LAG_BATCHES;
        if all.extents.get(1).is_none_or(due) {
            all.extents.insert(1, now);
            all.extents.truncate(EXTENTS_MAX);
        }
        if one.dead > 0 {
            all.first = all.first.min(one.first);
            all.last = all.last.max(one.last);
            all.dead += one.dead;
        }
        all
    }

    /// Returns the part of the span between two keys. `None`: no dead row may lie there. The number
    /// of dead rows is exact if all lie on one side of the cut.
    pub fn part(&self, start: &Bytes, end: &Bytes) -> Option<Span> {
        let inside = |extent: &Extent| {
            let start = extent.start.clone().max(start.clone());
            let end = extent.end.clone().min(end.clone());
            (start < end).then_some(Extent { start, end, since: extent.since })
        };
        let newest = inside(self.newest())?;
        let (first, last) = (self.first.clone(), self.last.clone());
        if first >= newest.end || last < newest.start {
            return None;
        }
        let whole = first >= newest.start && last < newest.end;
        let dead = if whole { self.dead } else { self.dead / 2 };
        let (first, last) = (first.max(newest.start), last.min(newest.end));
        Some(Span { extents: self.extents.iter().filter_map(inside).collect(), first, last, dead })
    }
}

/// The key behind this one.
pub(super) fn after(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}

/// Returns true if `next` is the direct successor of `key`.
pub(super) fn is_after(next: &[u8], key: &[u8]) -> bool {
    next.split_last() == Some((&0, key))
}
