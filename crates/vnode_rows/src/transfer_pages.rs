//! Pages in which a partition is transferred, and estimates of what there is to transfer.

use crate::hash_trees::{CopyCount, TreeId, tree_of_row};
use crate::layout::{TAIL_BYTES_MAX, row_tail};
use crate::slots::SlotSpan;
use crate::span_rows::rows_in_span;
use base::Result;
use base::codec::{Malformed, Reader, Writer};
use base::limits::PEER_CALL_BYTES_MAX;
use bytes::Bytes;
use store::Snapshot;

/// Maximum number of rows read for a page, including rows of other trees.
const PAGE_ROWS_READ_MAX: usize = 8_192;
/// Bytes that are read to estimate the size of the local data.
const SIZE_SAMPLE_BYTES: u64 = 64 << 20;

/// Rows of a partition in the order of their keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RowPage {
    /// Rows, each with its tail: the tree key without slot and space.
    pub rows: Vec<(Bytes, Bytes)>,
    /// Last tail that was read for the page. `None`: the page reaches the end of the partition.
    pub last: Option<Bytes>,
}

impl RowPage {
    /// Encodes the page.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(self.last.is_some().into());
        if let Some(last) = &self.last {
            out.put_string(last);
        }
        out.put_u32(self.rows.len() as u32);
        for (tail, row) in &self.rows {
            out.put_string(tail);
            out.put_string(row);
        }
    }

    /// Decodes a page of another node.
    pub fn read(bytes: &Bytes) -> std::result::Result<RowPage, Malformed> {
        let mut from = Reader::new(bytes);
        let tail = |from: &mut Reader<'_>| {
            from.string(TAIL_BYTES_MAX, "a row's key").map(|tail| bytes.slice_ref(tail))
        };
        let last = match from.u8("flag of more rows")? {
            0 => None,
            1 => Some(tail(&mut from)?),
            _ => return Err(Malformed("flag of more rows")),
        };
        let count = from.u32("rows")? as usize;
        if count > from.rest().len() / 8 {
            return Err(Malformed("rows"));
        }
        let mut rows = Vec::with_capacity(count);
        for _ in 0..count {
            let tail = tail(&mut from)?;
            rows.push((tail, bytes.slice_ref(from.string(PEER_CALL_BYTES_MAX, "a row")?)));
        }
        from.end("rows")?;
        Ok(RowPage { rows, last })
    }
}

/// Estimate of a node's data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeEstimate {
    /// Number of partitions' copies that were read.
    pub copies: u64,
    /// Number of rows in them.
    pub rows: u64,
    /// Number of bytes of these rows.
    pub bytes: u64,
}

impl SizeEstimate {
    /// Encodes the estimate.
    pub fn write(&self, out: &mut Vec<u8>) {
        [self.copies, self.rows, self.bytes].into_iter().for_each(|number| out.put_u64(number));
    }

    /// Decodes the estimate of another node.
    pub fn read(bytes: &Bytes) -> std::result::Result<SizeEstimate, Malformed> {
        let mut from = Reader::new(bytes);
        let mut number = || from.u64("weight");
        let estimate = SizeEstimate { copies: number()?, rows: number()?, bytes: number()? };
        from.end("weight")?;
        Ok(estimate)
    }
}

/// Reads a page of a tree's rows after a tail, of up to so many bytes and one row more.
pub fn read_row_page(
    snapshot: &dyn Snapshot,
    tree_id: TreeId,
    after: Option<&Bytes>,
    bytes_max: usize,
    copies: &CopyCount,
) -> Result<RowPage> {
    let (mut page, mut bytes) = (RowPage::default(), 0);
    let rows = rows_in_span(snapshot, tree_id.0, after.map(|after| &after[..]));
    for (rows_read, row) in rows.enumerate() {
        let (key, row) = row?;
        let tail = key.slice_ref(row_tail(&key));
        if bytes >= bytes_max || rows_read == PAGE_ROWS_READ_MAX {
            return Ok(page);
        }
        if tree_of_row(&key, tree_id.0.partitions, copies) == Some(tree_id) {
            bytes += tail.len() + row.len();
            page.rows.push((tail.clone(), row));
        }
        page.last = Some(tail);
    }
    Ok(RowPage { last: None, ..page })
}

/// Estimates the data of these partitions.
pub fn estimate_size(
    snapshot: &dyn Snapshot,
    spans: impl IntoIterator<Item = SlotSpan>,
) -> Result<SizeEstimate> {
    let mut estimate = SizeEstimate::default();
    for span in spans {
        estimate.copies += 1;
        for row in rows_in_span(snapshot, span, None) {
            let (key, row) = row?;
            estimate.rows += 1;
            estimate.bytes += (row_tail(&key).len() + row.len()) as u64;
            if estimate.bytes >= SIZE_SAMPLE_BYTES {
                return Ok(estimate);
            }
        }
    }
    Ok(estimate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_page_round_trips_and_matches_golden_bytes() {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let page = RowPage { rows: vec![(text("k"), text("row"))], last: Some(text("k")) };
        let mut bytes = Vec::new();
        page.write(&mut bytes);
        assert_eq!(bytes, b"\x01\x01\0\0\0k\x01\0\0\0\x01\0\0\0k\x03\0\0\0row");
        let bytes = Bytes::from(bytes);
        assert_eq!(RowPage::read(&bytes), Ok(page));
        for end in 0..bytes.len() {
            assert!(RowPage::read(&bytes.slice(..end)).is_err(), "cut at {end}");
        }
        let mut bytes = Vec::new();
        let estimate = SizeEstimate { copies: 1, rows: 2, bytes: 3 };
        estimate.write(&mut bytes);
        assert_eq!(SizeEstimate::read(&bytes.into()), Ok(estimate));
    }
}
