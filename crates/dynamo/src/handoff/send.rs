//! Sender of a partition: returns its rows page by page to new owners, and estimates its size.

use crate::Available;
use base::Result;
use bytes::Bytes;
use std::sync::Arc;
use vnode_rows::hash_trees::TreeId;
use vnode_rows::slots::SlotSpan;
use vnode_rows::transfer_pages::{RowPage, SizeEstimate, estimate_size, read_row_page};

/// Maximum number of bytes of rows in a page, which has at least one row.
pub(super) const PAGE_BYTES: usize = 256 * 1024;

impl Available {
    /// Returns a page of a partition's rows, for the buckets with one number of copies.
    pub async fn rows_page(
        self: &Arc<Available>,
        tree_id: TreeId,
        after: Option<Bytes>,
        bytes_max: usize,
    ) -> Result<RowPage> {
        let available = self.clone();
        self.read_blocking(move || {
            let (snapshot, copies) = (available.trees.snapshot(), &available.vnode_store.copies);
            read_row_page(&*snapshot, tree_id, after.as_ref(), bytes_max.min(PAGE_BYTES), copies)
        })
        .await
    }

    /// Estimates the data that this node owns.
    pub async fn size_estimate(self: &Arc<Available>) -> Result<SizeEstimate> {
        let Some(ring) = self.schema.ring() else { return Ok(SizeEstimate::default()) };
        let (snapshot, node) = (self.trees.snapshot(), self.node);
        self.read_blocking(move || {
            let is_owned = |span: &SlotSpan| ring.owners(span.partition, ring.n()).contains(&node);
            estimate_size(&*snapshot, SlotSpan::all(&ring).filter(is_owned))
        })
        .await
    }
}
