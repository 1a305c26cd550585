//! Ranges of keys: both bounds, inclusive or not, in either direction.

use crate::Key;

/// One end of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// The start or the end of the key space.
    #[default]
    Open,
    /// With the key itself.
    Included(Key),
    /// Without it.
    Excluded(Key),
}

/// What a range gives for every row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Want {
    /// Keys alone.
    Keys,
    /// Keys, values and versions.
    #[default]
    Entries,
}

/// How much of a range one answer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// A page; what follows it is asked for anew, and may have changed meanwhile.
    #[default]
    Page,
    /// Everything up to `rows_max`, as of one moment; more than
    /// [`crate::limits::WHOLE_RANGE_BYTES_MAX`] is `too_large`.
    Whole,
}

/// Which way a range is walked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Lowest key first.
    #[default]
    Ascending,
    /// Highest key first.
    Descending,
}

/// A question for a page of rows in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The lower bound, whatever the direction.
    pub low: Bound,
    /// The upper bound, whatever the direction.
    pub high: Bound,
    /// Which way.
    pub direction: Direction,
    /// Most rows; `None` is [`crate::limits::PAGE_ROWS_DEFAULT`].
    pub rows_max: Option<usize>,
    /// Most bytes of keys and values; `None` is [`crate::limits::PAGE_BYTES_MAX`]. One row is
    /// always given.
    pub bytes_max: Option<usize>,
    /// Keys or entries.
    pub want: Want,
    /// A page, or all of it.
    pub extent: Extent,
}

impl Range {
    /// All keys that begin with `prefix`.
    pub fn prefix(prefix: Key) -> Range {
        let high = match prefix_end(&prefix) {
            Some(end) => Bound::Excluded(end.into()),
            None => Bound::Open,
        };
        Range { low: Bound::Included(prefix), high, ..Range::default() }
    }

    /// The rest of this range behind `last`, the last key of the page before.
    pub fn after(&self, last: Key) -> Range {
        let mut rest = self.clone();
        match self.direction {
            Direction::Ascending => rest.low = Bound::Excluded(last),
            Direction::Descending => rest.high = Bound::Excluded(last),
        }
        rest
    }
}

/// The first key after all keys that begin with `prefix`; `None` when there is none (empty or all
/// 0xFF).
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_is_the_next_key_that_does_not_begin_with_it() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
