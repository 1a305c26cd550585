//! Ranges of keys: both bounds, inclusive or not, in either direction.

use crate::Key;

/// One end of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Bound {
    /// Unbounded: the start or the end of the key space.
    #[default]
    Open,
    /// The key itself is part of the range.
    Included(Key),
    /// The key itself is not part of the range.
    Excluded(Key),
}

/// Content of each row of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RowContent {
    /// Keys alone.
    Keys,
    /// Keys, values and versions.
    #[default]
    Entries,
}

/// Extent of a range that one answer holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// A page. The next page is a request of its own, and rows may change between the two.
    #[default]
    Page,
    /// All rows up to `rows_max`, as of one moment; more than
    /// [`crate::limits::WHOLE_RANGE_BYTES_MAX`] bytes is `too_large`.
    Whole,
}

/// Direction of a range scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Lowest key first.
    #[default]
    Ascending,
    /// Highest key first.
    Descending,
}

/// Query for a page of rows in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The lower bound, whatever the direction.
    pub low: Bound,
    /// The upper bound, whatever the direction.
    pub high: Bound,
    /// Direction of the scan.
    pub direction: Direction,
    /// Most rows. `None`: [`crate::limits::PAGE_ROWS_DEFAULT`].
    pub rows_max: Option<usize>,
    /// Most bytes of keys and values. `None`: [`crate::limits::PAGE_BYTES_MAX`]. One row is always
    /// returned.
    pub bytes_max: Option<usize>,
    /// Keys only, or entries.
    pub want: RowContent,
    /// One page, or all rows.
    pub extent: Extent,
}

impl Range {
    /// Returns the range of all keys that begin with `prefix`.
    pub fn prefix(prefix: Key) -> Range {
        let high = match prefix_end(&prefix) {
            Some(end) => Bound::Excluded(end.into()),
            None => Bound::Open,
        };
        Range { low: Bound::Included(prefix), high, ..Range::default() }
    }

    /// Returns the rest of this range after `last`, the last key of the previous page.
    pub fn after(&self, last: Key) -> Range {
        let mut rest = self.clone();
        match self.direction {
            Direction::Ascending => rest.low = Bound::Excluded(last),
            Direction::Descending => rest.high = Bound::Excluded(last),
        }
        rest
    }
}

/// Returns the first key after all keys that begin with `prefix`. `None` if there is none (the
/// prefix is empty or all 0xFF).
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
    fn prefix_end_bounds_all_keys_with_prefix() {
        assert_eq!(prefix_end(b"ab"), Some(b"ac".to_vec()));
        assert_eq!(prefix_end(b"a\xff\xff"), Some(b"b".to_vec()));
        assert_eq!(prefix_end(b"\xff\xff"), None);
        assert_eq!(prefix_end(b""), None);
    }
}
