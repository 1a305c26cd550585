//! Entries of an index as a coverage read asks for them: the question to each node, and its pages.
//!
//! A node whose build of the index is not complete refuses, and others are asked in its place.

use super::coverage_query::{CoverageQuery, PageRequest, QueryPage};
use super::message::VnodeQuestion;
use crate::Available;
use base::error::corrupt;
use base::range::Direction;
use base::{BucketName, Error, Reason, Result};
use bytes::Bytes;
use indexes::{IndexField, TermRange};
use std::sync::Arc;
use vnode_rows::index_rows::{EntryPosition, IndexAnswer, IndexContent, IndexPage, IndexQuery};

/// Entries to read.
#[derive(Clone)]
pub(super) struct IndexEntries {
    pub(super) bucket: BucketName,
    pub(super) field: IndexField,
    pub(super) terms: TermRange,
    pub(super) direction: Direction,
    pub(super) content: IndexContent,
    /// True if the entries of the partitions that are reached are enough.
    pub(super) allows_partial: bool,
}

impl IndexEntries {
    /// Returns the query for a page.
    fn query(self, after: Option<EntryPosition>, rows_max: usize) -> IndexQuery {
        let IndexEntries { field, terms, direction, content, .. } = self;
        IndexQuery { field, terms, after, direction, content, rows_max }
    }
}

impl CoverageQuery for IndexEntries {
    type Position = EntryPosition;
    type Value = Option<Bytes>;

    fn question(self, page: PageRequest<EntryPosition>) -> VnodeQuestion {
        let PageRequest { spans, after, rows_max } = page;
        let bucket = self.bucket.clone();
        VnodeQuestion::Index { spans, bucket, query: self.query(after, rows_max) }
    }

    fn take_page(bytes: &Bytes) -> Result<QueryPage<IndexEntries>> {
        to_page(IndexAnswer::read(bytes).map_err(corrupt)?)
    }

    async fn read_page(
        self,
        available: Arc<Available>,
        PageRequest { spans, after, rows_max }: PageRequest<EntryPosition>,
    ) -> Result<QueryPage<IndexEntries>> {
        let bucket = self.bucket.clone();
        to_page(available.local_index_page(spans, bucket, self.query(after, rows_max)).await?)
    }

    fn direction(&self) -> Direction {
        self.direction
    }

    fn allows_partial(&self) -> bool {
        self.allows_partial
    }
}

/// Returns the page of an answer. Errors: `index_building`.
fn to_page(answer: IndexAnswer) -> Result<IndexPage> {
    let (done, slots) = match answer {
        IndexAnswer::Page(page) => return Ok(page),
        IndexAnswer::Building(done, slots) => (done, slots),
        // The node has not learned of the index yet, or has learned that it was dropped.
        IndexAnswer::Absent => (0, 0),
    };
    let text = format!(
        "{done}/{slots} parts of the rows at a node are in the index, and too few other nodes can \
         answer for them: wait, then ask again"
    );
    Err(Error::new(Reason::IndexBuilding, text))
}
