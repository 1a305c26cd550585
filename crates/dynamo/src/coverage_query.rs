//! Queries of coverage reads (`coverage_read.rs`): the question to each node, and the page of its
//! rows, read here or decoded.

use super::message::VnodeQuestion;
use crate::Available;
use base::Result;
use base::range::Direction;
use bytes::Bytes;
use logic::coverage::StreamPage;
use std::sync::Arc;
use vnode_rows::slots::SlotSpan;

/// Part of a stream that a node is asked for.
#[derive(Clone, Debug)]
pub(super) struct PageRequest<P> {
    /// Partitions that the node answers for.
    pub(super) spans: Vec<SlotSpan>,
    /// Position after which the page begins. `None`: at the first row.
    pub(super) after: Option<P>,
    /// Maximum number of rows.
    pub(super) rows_max: usize,
}

/// Page of the rows that a query asks for.
pub(super) type QueryPage<Q> =
    StreamPage<<Q as CoverageQuery>::Position, <Q as CoverageQuery>::Value>;

/// Query that nodes answer with rows of the partitions that they are asked for.
pub(super) trait CoverageQuery: Clone + Send + 'static {
    /// Position of a row in the order of the read.
    type Position: Ord + Clone + Send + 'static;
    /// Rest of a row, which is compared between its replicas.
    type Value: PartialEq + Send + 'static;

    /// Builds the question for a page.
    fn question(self, page: PageRequest<Self::Position>) -> VnodeQuestion;

    /// Decodes the answer to it. Errors: that of a node that can't answer yet, as
    /// [`CoverageQuery::read_page`]; `corrupt`.
    fn take_page(bytes: &Bytes) -> Result<QueryPage<Self>>;

    /// Reads a page from this node's rows. Errors: `index_building` if this node has the rows and
    /// can't answer yet: others are asked in its place.
    fn read_page(
        self,
        available: Arc<Available>,
        page: PageRequest<Self::Position>,
    ) -> impl Future<Output = Result<QueryPage<Self>>> + Send + 'static;

    /// Returns the order of the rows.
    fn direction(&self) -> Direction {
        Direction::Ascending
    }

    /// Returns true if the rows of the partitions that are reached are enough.
    fn allows_partial(&self) -> bool {
        false
    }
}
