//! Queries of the indexes of this node: one page of a field, for the slots that are asked for.

use crate::Available;
use base::{BucketName, Result};
use runtime::world;
use std::sync::Arc;
use vnode_rows::index_rows::{IndexAnswer, IndexQuery, read_answer};
use vnode_rows::slots::SlotSpan;

impl Available {
    /// Answers a query of a bucket's index with a page for these partitions. `epoch`: that of the
    /// ring by which the sender chose this node. Errors: `changed` if the owners of one of them
    /// have changed since: replicas by different rings may together lack a write that enough owners
    /// have, as in a read of one key.
    pub async fn index_page(
        self: &Arc<Available>,
        epoch: u64,
        spans: Vec<SlotSpan>,
        bucket: BucketName,
        query: IndexQuery,
    ) -> Result<IndexAnswer> {
        self.check_spans_epoch(epoch, &spans)?;
        self.local_index_page(spans, bucket, query).await
    }

    /// Reads a page of an index from these partitions of this node.
    pub(super) async fn local_index_page(
        self: &Arc<Available>,
        spans: Vec<SlotSpan>,
        bucket: BucketName,
        query: IndexQuery,
    ) -> Result<IndexAnswer> {
        let (available, now_ms) = (self.clone(), world::unix_ms());
        self.read_blocking(move || {
            read_answer(&*available.trees.snapshot(), (&bucket, &spans), &query, now_ms)
        })
        .await
    }
}
