//! Cuts a walk over rows into pages, by rows and by bytes.

use base::range::Want;
use base::{Entry, Page, Range, limits};

/// Collects one page.
pub(crate) struct Pager {
    rows_max: usize,
    bytes_max: usize,
    want: Want,
    bytes: usize,
    page: Page,
}

impl Pager {
    /// For a range's limits, which never exceed the house's.
    pub(crate) fn new(range: &Range) -> Pager {
        let rows = range.rows_max.unwrap_or(limits::PAGE_ROWS_DEFAULT);
        let bytes = range.bytes_max.unwrap_or(limits::PAGE_BYTES_MAX);
        Pager {
            rows_max: rows.min(limits::PAGE_ROWS_MAX),
            bytes_max: bytes.min(limits::PAGE_BYTES_MAX),
            want: range.want,
            bytes: 0,
            page: Page::default(),
        }
    }

    /// Takes a row; `false` means the page is full and this row is for the next one.
    pub(crate) fn push(&mut self, mut entry: Entry) -> bool {
        let full = self.page.entries.len() >= self.rows_max
            || (self.bytes >= self.bytes_max && !self.page.entries.is_empty());
        if full {
            self.page.more = self.rows_max > 0;
            return false;
        }
        if self.want == Want::Keys {
            entry.row = None;
        }
        self.bytes += entry.key.len() + entry.row.as_ref().map_or(0, |row| row.value.len());
        self.page.entries.push(entry);
        true
    }

    /// The page.
    pub(crate) fn page(self) -> Page {
        self.page
    }
}
