//! Cursors: rows of a range or of an index, read from the host in pages.

use crate::error::HostError;
use crate::host::{FunctionHost, IndexSpan, PageRow, RowSpan};
use crate::limits::{CURSOR_PAGE_BYTES, CURSOR_PAGE_ROWS, CURSORS_MAX};
use std::collections::VecDeque;

/// Flag of a range: the last row comes first.
pub const RANGE_REVERSE: u32 = 1;
/// Flag of a range: rows at the lower bound are left out.
pub const RANGE_LOW_EXCLUSIVE: u32 = 2;
/// Flag of a range: rows at the upper bound are in it.
pub const RANGE_HIGH_INCLUSIVE: u32 = 4;
/// Flag of a range: it has no upper bound, whatever is passed.
pub const RANGE_UNBOUNDED: u32 = 8;
/// Flag of a range: values are left out.
pub const RANGE_KEYS: u32 = 16;

/// Range that a function asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CursorRange<'a> {
    /// Name of the index. `None`: the range is of keys.
    pub index: Option<&'a str>,
    pub low: &'a [u8],
    pub high: &'a [u8],
    /// Flags `RANGE_*`.
    pub flags: u32,
    /// Most rows.
    pub rows_max: u32,
}

/// Rows of a range that are read row by row.
///
/// It keeps no place at the host: a page begins behind the last row of the page before, so a
/// function that writes may see its own writes behind the rows of the page.
#[derive(Debug)]
pub(crate) struct RowCursor {
    index: Option<String>,
    low: Vec<u8>,
    high: Vec<u8>,
    flags: u32,
    rows_left: usize,
    page: VecDeque<PageRow>,
    last: Option<PageRow>,
    has_more: bool,
    /// The row that `next` came to.
    pub row: PageRow,
}

impl RowCursor {
    pub fn new(range: &CursorRange<'_>) -> RowCursor {
        RowCursor {
            index: range.index.map(String::from),
            low: range.low.to_vec(),
            high: range.high.to_vec(),
            flags: range.flags,
            rows_left: range.rows_max as usize,
            page: VecDeque::new(),
            last: None,
            has_more: true,
            row: PageRow::default(),
        }
    }

    /// Returns true if the next row is not in memory.
    pub fn needs_page(&self) -> bool {
        self.page.is_empty() && self.has_more && self.rows_left > 0
    }

    /// Reads a page, and returns the bytes of its rows.
    pub fn read_page(&mut self, host: &mut dyn FunctionHost) -> Result<usize, HostError> {
        let has = |flag| self.flags & flag != 0;
        let rows_max = self.rows_left.min(CURSOR_PAGE_ROWS);
        let span = RowSpan {
            low: &self.low,
            includes_low: !has(RANGE_LOW_EXCLUSIVE),
            high: (!has(RANGE_UNBOUNDED)).then_some(self.high.as_slice()),
            includes_high: has(RANGE_HIGH_INCLUSIVE),
            is_reverse: has(RANGE_REVERSE),
            wants_values: !has(RANGE_KEYS),
            after: self.last.as_ref(),
            rows_max,
            bytes_max: CURSOR_PAGE_BYTES,
        };
        let mut page = match &self.index {
            None => host.range(&span)?,
            Some(index) => host.index(&IndexSpan { index, span })?,
        };
        page.rows.truncate(rows_max);
        // A page without rows would be asked for without end.
        self.has_more = page.has_more && !page.rows.is_empty();
        self.last = page.rows.last().cloned();
        self.page = page.rows.into();
        Ok(self.page.iter().map(|row| row.key.len() + row.value.len()).sum())
    }

    /// Steps to the next row of the page, and returns true if there is one.
    pub fn step(&mut self) -> bool {
        let next = if self.rows_left == 0 { None } else { self.page.pop_front() };
        self.rows_left -= usize::from(next.is_some());
        let is_row = next.is_some();
        self.row = next.unwrap_or_default();
        is_row
    }
}

/// Open cursors of a call.
#[derive(Debug, Default)]
pub(crate) struct CursorTable {
    places: Vec<Option<RowCursor>>,
}

impl CursorTable {
    /// Adds a cursor, and returns its number. `None`: too many are open.
    pub fn insert(&mut self, cursor: RowCursor) -> Option<usize> {
        if let Some(free) = self.places.iter().position(Option::is_none) {
            self.places[free] = Some(cursor);
            return Some(free);
        }
        if self.places.len() == CURSORS_MAX {
            return None;
        }
        self.places.push(Some(cursor));
        Some(self.places.len() - 1)
    }

    pub fn get_mut(&mut self, number: u32) -> Option<&mut RowCursor> {
        self.places.get_mut(number as usize)?.as_mut()
    }

    /// Removes a cursor, and returns true if it was open.
    pub fn remove(&mut self, number: u32) -> bool {
        self.places.get_mut(number as usize).is_some_and(|place| place.take().is_some())
    }
}
