//! Sender of a partition: gives its rows page by page to new owners, and reports its size.

use crate::Available;
use crate::hash_trees::{TreeId, which};
use crate::layout::row_tail;
use crate::message::{MessageResult, TAIL_BYTES_MAX};
use crate::slots::SlotSpan;
use crate::span_rows::rows_of;
use base::Result;
use base::codec::{Malformed, Reader, Writer};
use base::limits::PEER_CALL_BYTES_MAX;
use bytes::Bytes;
use std::sync::Arc;

/// Maximum number of bytes of rows in a page, which has one row at least.
pub(super) const PAGE_BYTES: usize = 256 * 1024;
/// Maximum number of rows read for a page, whether they belong to it or not.
const LOOKED_AT_MAX: usize = 8_192;
/// Bytes that are read to estimate how much is here.
const WEIGHED_BYTES: u64 = 64 << 20;

/// Rows of a partition in the order of their keys.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RowPage {
    /// Rows, each with its key behind the partition's prefix.
    pub rows: Vec<(Bytes, Bytes)>,
    /// Last key of the page. `None`: it reaches to the end.
    pub upto: Option<Bytes>,
}

impl RowPage {
    /// Appends the page as it is sent.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_u8(self.upto.is_some().into());
        if let Some(upto) = &self.upto {
            out.put_string(upto);
        }
        out.put_u32(self.rows.len() as u32);
        for (tail, row) in &self.rows {
            out.put_string(tail);
            out.put_string(row);
        }
    }

    /// Reads a page that another node sent.
    pub fn read(bytes: &Bytes) -> MessageResult<RowPage> {
        let mut from = Reader::new(bytes);
        let tail = |from: &mut Reader<'_>| {
            from.string(TAIL_BYTES_MAX, "a row's key").map(|tail| bytes.slice_ref(tail))
        };
        let upto = match from.u8("whether more rows follow")? {
            0 => None,
            1 => Some(tail(&mut from)?),
            _ => return Err(Malformed("whether more rows follow")),
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
        Ok(RowPage { rows, upto })
    }
}

/// About how much a node keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionWeight {
    /// Copies of partitions that were read to the end, or as far as was read.
    pub copies: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of these rows.
    pub bytes: u64,
}

impl PartitionWeight {
    /// Appends it as it is sent.
    pub fn write(&self, out: &mut Vec<u8>) {
        [self.copies, self.rows, self.bytes].into_iter().for_each(|number| out.put_u64(number));
    }

    /// Reads what another node sent.
    pub fn read(bytes: &Bytes) -> MessageResult<PartitionWeight> {
        let mut from = Reader::new(bytes);
        let mut number = || from.u64("weight");
        let weight = PartitionWeight { copies: number()?, rows: number()?, bytes: number()? };
        from.end("weight")?;
        Ok(weight)
    }
}

impl Available {
    /// Returns a page of a partition's rows, of the buckets with so many copies.
    pub async fn rows_to_give(
        self: &Arc<Available>,
        of: TreeId,
        after: Option<Bytes>,
        bytes_max: usize,
    ) -> Result<RowPage> {
        let available = self.clone();
        self.unhurried(move || available.read_page(of, after.as_ref(), bytes_max.min(PAGE_BYTES)))
            .await
    }

    fn read_page(&self, of: TreeId, after: Option<&Bytes>, bytes_max: usize) -> Result<RowPage> {
        let snapshot = self.trees.snapshot();
        let (mut page, mut bytes) = (RowPage::default(), 0);
        let rows = rows_of(&*snapshot, of.0, after.map(|after| &after[..]));
        for (looked_at, row) in rows.enumerate() {
            let (key, row) = row?;
            let tail = key.slice_ref(row_tail(&key));
            if bytes >= bytes_max || looked_at == LOOKED_AT_MAX {
                return Ok(page);
            }
            if which(&key, of.0.of, &self.vnode_store.copies) == Some(of) {
                bytes += tail.len() + row.len();
                page.rows.push((tail.clone(), row));
            }
            page.upto = Some(tail);
        }
        Ok(RowPage { upto: None, ..page })
    }

    /// About how much is here of what this node owns.
    pub async fn weight(self: &Arc<Available>) -> Result<PartitionWeight> {
        let available = self.clone();
        self.unhurried(move || available.weigh()).await
    }

    fn weigh(&self) -> Result<PartitionWeight> {
        let Some(ring) = self.schema.ring() else { return Ok(PartitionWeight::default()) };
        let snapshot = self.trees.snapshot();
        let mut weight = PartitionWeight::default();
        for span in SlotSpan::all(&ring) {
            if !ring.owners(span.partition, ring.n()).contains(&self.node) {
                continue;
            }
            weight.copies += 1;
            for row in rows_of(&*snapshot, span, None) {
                let (key, row) = row?;
                weight.rows += 1;
                weight.bytes += (row_tail(&key).len() + row.len()) as u64;
                if weight.bytes >= WEIGHED_BYTES {
                    return Ok(weight);
                }
            }
        }
        Ok(weight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_read_back_and_their_bytes_are_for_ever() {
        let text = |text: &'static str| Bytes::from_static(text.as_bytes());
        let page = RowPage { rows: vec![(text("k"), text("row"))], upto: Some(text("k")) };
        let mut bytes = Vec::new();
        page.write(&mut bytes);
        assert_eq!(bytes, b"\x01\x01\0\0\0k\x01\0\0\0\x01\0\0\0k\x03\0\0\0row");
        let bytes = Bytes::from(bytes);
        assert_eq!(RowPage::read(&bytes), Ok(page));
        for end in 0..bytes.len() {
            assert!(RowPage::read(&bytes.slice(..end)).is_err(), "cut at {end}");
        }
        let mut bytes = Vec::new();
        let weight = PartitionWeight { copies: 1, rows: 2, bytes: 3 };
        weight.write(&mut bytes);
        assert_eq!(PartitionWeight::read(&bytes.into()), Ok(weight));
    }
}
