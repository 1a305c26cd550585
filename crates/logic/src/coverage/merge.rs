//! Merge of the streams of a coverage query: one stream in order, each row once, with the rows on
//! which its replicas differ.
//!
//! R nodes answer for each partition, so a row comes in R streams. A stream arrives page by page
//! and says through which position it has reported. The *frontier* is the earliest of these
//! positions: no stream has a row at or before it that has not arrived. Rows up to the frontier are
//! final, so only they are returned.
//!
//! A row is *agreed* if as many streams as were asked for it have it, with equal values. The caller
//! reads the key of any other row as a whole: it may be outdated at some replicas, or missing.
//!
//! Guarantees: rows are returned in order, each once; a page that does not continue its stream is
//! refused and changes nothing; what is buffered is what was pushed and not returned yet, so a
//! caller that asks only [`StreamMerge::awaited`] streams buffers one page of each.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

/// Position through which a stream has reported its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum StreamProgress<P> {
    /// None yet.
    Unstarted,
    /// All rows at or before this position.
    Through(P),
    /// All rows.
    Complete,
}

/// End of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageEnd<P> {
    /// The page has all rows through this position, and more may follow.
    Through(P),
    /// The page ends its stream.
    Complete,
}

/// Page of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamPage<P, V> {
    /// Rows in the order of the merge, each position once.
    pub rows: Vec<(P, V)>,
    /// End of the page.
    pub end: PageEnd<P>,
}

/// Row of the merged stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedRow<P, V> {
    /// Position of the row, such as (term, key).
    pub position: P,
    /// Value of one replica.
    pub value: V,
    /// True if all replicas that were asked have the row, with this value.
    pub is_agreed: bool,
}

/// Page of the merged stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergedPage<P, V> {
    /// Rows in order.
    pub rows: Vec<MergedRow<P, V>>,
    /// True if rows may follow.
    pub more: bool,
}

/// Error of a page that does not continue its stream: its sender is at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamError {
    /// There is no such stream, or it has ended.
    NoStream,
    /// A row is at or before the one before it, or at or before the end of the previous page.
    RowOrder,
    /// The page ends before its last row, or not after the previous page.
    PageEnd,
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamError::NoStream => "the page belongs to no stream that goes on",
            StreamError::RowOrder => "the rows of the page are not in order",
            StreamError::PageEnd => "the page ends before its rows, or does not go on",
        })
    }
}

/// Row that has arrived in some streams.
#[derive(Clone, Debug)]
struct BufferedRow<V> {
    /// Value of the first stream.
    value: V,
    /// Number of streams that have it.
    count: usize,
    /// True if their values are equal.
    is_equal: bool,
}

/// Merge of streams; see the head of this file. `P` is a position, ordered as the rows are; `V` is
/// the rest of a row, compared between replicas.
#[derive(Clone, Debug)]
pub struct StreamMerge<P, V> {
    /// True if rows come in descending order.
    reverse: bool,
    streams: Vec<StreamProgress<P>>,
    /// Earliest progress of all streams.
    frontier: StreamProgress<P>,
    buffered: BTreeMap<P, BufferedRow<V>>,
    /// Position of the last row that was returned; at the beginning, where the merge begins.
    position: Option<P>,
}

impl<P: Ord + Clone, V: PartialEq> StreamMerge<P, V> {
    /// Creates a merge of this many streams, numbered from 0, of the rows after a position, in
    /// ascending or descending (`reverse`) order. `None`: of all rows.
    pub fn new(streams: usize, after: Option<P>, reverse: bool) -> StreamMerge<P, V> {
        let start = after.clone().map_or(StreamProgress::Unstarted, StreamProgress::Through);
        let streams = vec![start; streams];
        let (frontier, buffered) = (StreamProgress::Complete, BTreeMap::new());
        let mut merge = StreamMerge { reverse, streams, frontier, buffered, position: after };
        merge.move_frontier();
        merge
    }

    /// Takes the next page of a stream.
    pub fn push(&mut self, stream: usize, page: StreamPage<P, V>) -> Result<(), StreamError> {
        self.check(stream, &page)?;
        for (position, value) in page.rows {
            let first = |value| BufferedRow { value, count: 1, is_equal: true };
            match self.buffered.get_mut(&position) {
                None => {
                    self.buffered.insert(position, first(value));
                }
                Some(row) => {
                    row.count += 1;
                    row.is_equal &= row.value == value;
                }
            }
        }
        self.streams[stream] = match page.end {
            PageEnd::Through(position) => StreamProgress::Through(position),
            PageEnd::Complete => StreamProgress::Complete,
        };
        self.move_frontier();
        Ok(())
    }

    /// Replaces a stream whose node was lost by this many streams, which continue after its end
    /// ([`StreamMerge::start_of`]). The rows that it has reported count. Returns the number of the
    /// first new stream; the others follow it.
    ///
    /// With no replacement, the rows that only it had are missing from here on: the caller marks
    /// the answer as incomplete.
    pub fn replace(&mut self, lost: usize, replacements: usize) -> Result<usize, StreamError> {
        let next = self.streams.len();
        let lost = self.streams.get_mut(lost).filter(|it| **it != StreamProgress::Complete);
        let lost = lost.ok_or(StreamError::NoStream)?;
        let end = std::mem::replace(lost, StreamProgress::Complete);
        self.streams.extend(std::iter::repeat_n(end, replacements));
        self.move_frontier();
        Ok(next)
    }

    /// Returns the position after which the next page of a stream begins. `None`: at its first row.
    pub fn start_of(&self, stream: usize) -> Option<&P> {
        match self.streams.get(stream)? {
            StreamProgress::Through(position) => Some(position),
            StreamProgress::Unstarted | StreamProgress::Complete => None,
        }
    }

    /// Returns the streams that must report more before the frontier moves.
    pub fn awaited(&self) -> Vec<usize> {
        let is_awaited = |stream: &usize| {
            let progress = &self.streams[*stream];
            *progress != StreamProgress::Complete && *progress == self.frontier
        };
        (0..self.streams.len()).filter(is_awaited).collect()
    }

    /// Returns true if every row was returned.
    pub fn is_complete(&self) -> bool {
        self.buffered.is_empty() && self.frontier == StreamProgress::Complete
    }

    /// Returns the position of the last row that was returned, after which the query continues.
    pub fn position(&self) -> Option<&P> {
        self.position.as_ref()
    }

    /// Returns the next row if it is final. `replicas`: number of streams that were asked for a
    /// row at this position. `None`: [`StreamMerge::awaited`] streams must report more, or all rows
    /// were returned.
    pub fn next_row(&mut self, replicas: impl Fn(&P) -> usize) -> Option<MergedRow<P, V>> {
        let first = if self.reverse {
            self.buffered.last_key_value()
        } else {
            self.buffered.first_key_value()
        };
        if !self.is_final(first?.0) {
            return None;
        }
        let first = if self.reverse { self.buffered.pop_last() } else { self.buffered.pop_first() };
        let (position, BufferedRow { value, count, is_equal }) = first?;
        self.position = Some(position.clone());
        // More than were asked: a stream that was lost without a replacement had it, too.
        let is_agreed = is_equal && count >= replicas(&position);
        Some(MergedRow { position, value, is_agreed })
    }

    /// Returns up to this many final rows.
    pub fn next_page(
        &mut self,
        rows_max: usize,
        replicas: impl Fn(&P) -> usize,
    ) -> MergedPage<P, V> {
        let rows = std::iter::from_fn(|| self.next_row(&replicas)).take(rows_max).collect();
        MergedPage { rows, more: !self.is_complete() }
    }

    fn check(&self, stream: usize, page: &StreamPage<P, V>) -> Result<(), StreamError> {
        let progress = self.streams.get(stream).ok_or(StreamError::NoStream)?;
        let start = match progress {
            StreamProgress::Complete => return Err(StreamError::NoStream),
            StreamProgress::Through(position) => Some(position),
            StreamProgress::Unstarted => None,
        };
        let is_after = |one: &P, other: Option<&P>| {
            other.is_none_or(|other| self.compare(one, other) == Ordering::Greater)
        };
        let mut last = start;
        for (position, _) in &page.rows {
            if !is_after(position, last) {
                return Err(StreamError::RowOrder);
            }
            last = Some(position);
        }
        if let PageEnd::Through(end) = &page.end {
            // Without progress the stream would be asked for the same page for ever.
            let is_before_last = last.is_some_and(|it| self.compare(end, it) == Ordering::Less);
            if is_before_last || !is_after(end, start) {
                return Err(StreamError::PageEnd);
            }
        }
        Ok(())
    }

    fn is_final(&self, position: &P) -> bool {
        match &self.frontier {
            StreamProgress::Unstarted => false,
            StreamProgress::Through(end) => self.compare(position, end) != Ordering::Greater,
            StreamProgress::Complete => true,
        }
    }

    fn move_frontier(&mut self) {
        let least = self.streams.iter().min_by(|one, other| self.compare_progress(one, other));
        self.frontier = least.cloned().unwrap_or(StreamProgress::Complete);
    }

    fn compare_progress(&self, one: &StreamProgress<P>, other: &StreamProgress<P>) -> Ordering {
        let rank = |progress: &StreamProgress<P>| match progress {
            StreamProgress::Unstarted => 0,
            StreamProgress::Through(_) => 1,
            StreamProgress::Complete => 2,
        };
        match (one, other) {
            (StreamProgress::Through(one), StreamProgress::Through(other)) => {
                self.compare(one, other)
            }
            _ => rank(one).cmp(&rank(other)),
        }
    }

    /// Compares positions in the order of the merge.
    fn compare(&self, one: &P, other: &P) -> Ordering {
        if self.reverse { other.cmp(one) } else { one.cmp(other) }
    }
}
