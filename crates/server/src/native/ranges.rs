//! Ranges as clients write them: a prefix or two bounds, and the last key of the previous page.

use super::errors::malformed;
use base::limits::PAGE_ROWS_MAX;
use base::range::Direction;
use base::{Bound, Error, Key, Range, RowContent};

/// Fields of a range, in query parameters and in steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Prefix of all keys.
    pub prefix: Option<Key>,
    /// Lower bound.
    pub from: Option<Key>,
    /// Upper bound.
    pub to: Option<Key>,
    /// True if the lower bound is exclusive.
    pub from_exclusive: bool,
    /// True if the upper bound is inclusive.
    pub to_inclusive: bool,
    /// True if the keys are in descending order.
    pub reverse: bool,
    /// Maximum number of rows. `None`: as many as fit into a page.
    pub limit: Option<usize>,
    /// Last key of the previous page.
    pub after: Option<Key>,
    /// Only keys, or entries.
    pub want: RowContent,
}

/// Parses the text of `want`.
pub fn parse_want(name: &str) -> Result<RowContent, Error> {
    match name {
        "keys" => Ok(RowContent::Keys),
        "entries" => Ok(RowContent::Entries),
        _ => Err(malformed("`want` must be keys or entries")),
    }
}

impl Bounds {
    /// Converts the fields into a range of `base`.
    pub fn into_range(self) -> Result<Range, Error> {
        if self.limit.is_some_and(|limit| limit == 0 || limit > PAGE_ROWS_MAX) {
            return Err(malformed(format!("`limit` must be 1 to {PAGE_ROWS_MAX}")));
        }
        let mut range = Range {
            low: bound(self.from, !self.from_exclusive),
            high: bound(self.to, self.to_inclusive),
            ..Range::default()
        };
        if let Some(prefix) = self.prefix {
            let within = Range::prefix(prefix);
            range.low = higher(range.low, within.low);
            range.high = lower(range.high, within.high);
        }
        range.direction = if self.reverse { Direction::Descending } else { Direction::Ascending };
        range.rows_max = self.limit;
        range.want = self.want;
        Ok(match self.after {
            Some(after) => start_after(range, after),
            None => range,
        })
    }
}

/// Returns a bound; open without a key or term.
pub fn bound(key: Option<Key>, is_inclusive: bool) -> Bound {
    match key {
        None => Bound::Open,
        Some(key) if is_inclusive => Bound::Included(key),
        Some(key) => Bound::Excluded(key),
    }
}

/// Returns the more restrictive of two lower bounds.
fn higher(one: Bound, other: Bound) -> Bound {
    let is_excluded = |bound: &Bound| matches!(bound, Bound::Excluded(_));
    match (key_of(&one), key_of(&other)) {
        (None, _) => other,
        (_, None) => one,
        (Some(a), Some(b)) if a > b || (a == b && is_excluded(&one)) => one,
        _ => other,
    }
}

/// Returns the more restrictive of two upper bounds.
fn lower(one: Bound, other: Bound) -> Bound {
    let is_excluded = |bound: &Bound| matches!(bound, Bound::Excluded(_));
    match (key_of(&one), key_of(&other)) {
        (None, _) => other,
        (_, None) => one,
        (Some(a), Some(b)) if a < b || (a == b && is_excluded(&one)) => one,
        _ => other,
    }
}

fn key_of(bound: &Bound) -> Option<&Key> {
    match bound {
        Bound::Open => None,
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
    }
}

/// Restricts a range to the keys beyond `after`, in its direction. A key outside of the range never
/// widens it.
fn start_after(mut range: Range, after: Key) -> Range {
    match range.direction {
        Direction::Ascending => range.low = higher(range.low, Bound::Excluded(after)),
        Direction::Descending => range.high = lower(range.high, Bound::Excluded(after)),
    }
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        Key::copy_from_slice(text.as_bytes())
    }

    fn range(bounds: Bounds) -> (Bound, Bound) {
        let range = bounds.into_range().expect("a range");
        (range.low, range.high)
    }

    #[test]
    fn continuation_never_extends_the_range() {
        let prefix = |after: &str, reverse| {
            let bounds = Bounds {
                prefix: Some(key("b")),
                after: Some(key(after)),
                reverse,
                ..Bounds::default()
            };
            range(bounds)
        };
        let full = (Bound::Included(key("b")), Bound::Excluded(key("c")));
        assert_eq!(prefix("b5", false), (Bound::Excluded(key("b5")), full.1.clone()));
        assert_eq!(prefix("b5", true), (full.0.clone(), Bound::Excluded(key("b5"))));
        assert_eq!(prefix("a", false), full);
        assert_eq!(prefix("d", true), full);
    }

    #[test]
    fn range_is_half_open_by_default_and_its_limit_is_bounded() {
        let half_open = Bounds { from: Some(key("a")), to: Some(key("c")), ..Bounds::default() };
        assert_eq!(
            range(half_open.clone()),
            (Bound::Included(key("a")), Bound::Excluded(key("c")))
        );
        let flipped = Bounds { from_exclusive: true, to_inclusive: true, ..half_open.clone() };
        assert_eq!(range(flipped), (Bound::Excluded(key("a")), Bound::Included(key("c"))));
        assert_eq!(range(Bounds::default()), (Bound::Open, Bound::Open));
        let both = Bounds { prefix: Some(key("b")), ..half_open };
        assert_eq!(range(both.clone()), (Bound::Included(key("b")), Bound::Excluded(key("c"))));
        let narrow = Bounds { from: Some(key("b1")), to: Some(key("b2")), ..both };
        assert_eq!(range(narrow), (Bound::Included(key("b1")), Bound::Excluded(key("b2"))));
        for limit in [0, PAGE_ROWS_MAX + 1, usize::MAX] {
            assert!(Bounds { limit: Some(limit), ..Bounds::default() }.into_range().is_err());
        }
    }
}
