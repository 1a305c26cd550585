//! Pages of a range read, bounded by rows and by bytes.

use base::range::{Extent, RowContent};
use base::{Entry, Error, Page, Range, Reason, Result, limits};

/// Collects one page.
pub struct Pager {
    rows_max: usize,
    bytes_max: usize,
    want: RowContent,
    extent: Extent,
    bytes: usize,
    page: Page,
}

impl Pager {
    /// Creates a pager with a range's limits, which never exceed the server's.
    pub fn new(range: &Range) -> Pager {
        let (rows_max, bytes_max) = match range.extent {
            Extent::Whole => (range.rows_max.unwrap_or(usize::MAX), limits::WHOLE_RANGE_BYTES_MAX),
            Extent::Page => {
                let rows = range.rows_max.unwrap_or(limits::PAGE_ROWS_DEFAULT);
                let bytes = range.bytes_max.unwrap_or(limits::PAGE_BYTES_MAX);
                (rows.min(limits::PAGE_ROWS_MAX), bytes.min(limits::PAGE_BYTES_MAX))
            }
        };
        Pager {
            rows_max,
            bytes_max,
            want: range.want,
            extent: range.extent,
            bytes: 0,
            page: Page::default(),
        }
    }

    /// Adds a row. Returns false if the page is full: the row belongs to the next one.
    pub fn push(&mut self, mut entry: Entry) -> bool {
        let full = self.page.entries.len() >= self.rows_max
            || (self.bytes >= self.bytes_max && !self.page.entries.is_empty());
        if full {
            self.page.more = self.rows_max > 0;
            return false;
        }
        if self.want == RowContent::Keys {
            entry.row = None;
        }
        self.bytes += entry.key.len() + entry.row.as_ref().map_or(0, |row| row.value.len());
        if self.extent == Extent::Whole {
            self.bytes += limits::ROW_OVERHEAD_BYTES;
        }
        self.page.entries.push(entry);
        true
    }

    /// Returns the bytes of the page, including the overhead of each row.
    pub fn bytes(&self) -> usize {
        match self.extent {
            Extent::Whole => self.bytes,
            Extent::Page => self.bytes + self.page.entries.len() * limits::ROW_OVERHEAD_BYTES,
        }
    }

    /// Returns the page. `TooLarge`: the whole range was requested and does not fit.
    pub fn page(self) -> Result<Page> {
        let is_cut = self.page.more && self.page.entries.len() < self.rows_max;
        if self.extent == Extent::Whole && is_cut {
            let max = limits::WHOLE_RANGE_BYTES_MAX;
            let text = format!(
                "the range has more than {max} bytes of keys and values (whole_range_bytes_max): \
                 read it in pages"
            );
            return Err(Error::new(Reason::TooLarge, text));
        }
        Ok(Page { more: self.page.more && self.extent == Extent::Page, ..self.page })
    }
}
