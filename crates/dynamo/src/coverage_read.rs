//! Coverage read: a read of all partitions of the ring, from R replicas of each, as one stream of
//! rows in order.
//!
//! `logic::coverage` plans which node answers for which partitions, and merges the nodes' streams.
//! Here the nodes are asked: those whose pages the merge awaits, all at once. Each question names
//! the epoch of the plan's ring. A node with a newer ring, in which it has lost one of the
//! partitions, refuses; then a new plan is made, and the read continues after the last row that it
//! has returned. If a node is lost, others answer for its partitions only, from where its stream
//! ended.
//!
//! Promises: rows are returned in order, each once; a row that enough of its partition's replicas
//! have throughout the read is returned, whichever nodes are lost and however the ring changes
//! meanwhile; at most one page of each node is kept.
//! Never: answers with fewer than R replicas of a partition, unless the query allows it (it fails,
//! and names the partitions); asks a node again that was lost during the read or can't answer.

use super::coverage_plans::CoverageNeeds;
use super::coverage_query::{CoverageQuery, PageRequest, QueryPage};
use super::key_owners::{RingTarget, no_ring};
use crate::Available;
use base::codec::Malformed;
use base::error::corrupt;
use base::limits::{FORWARD_MS_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use base::range::Direction;
use base::{Error, Kind, NodeId, Partition, Reason, Result};
use bytes::Bytes;
use logic::coverage::{
    CoveragePlan, CoverageShare, CoverageShares, IncompleteCoverage, MergedRow, StreamMerge,
};
use runtime::join_set::JoinSet;
use runtime::world;
use runtime::world::sleep;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::slots::{Slot, SlotSpan};

/// Maximum number of new plans between two rows while the ring changes.
const REPLANS_MAX: usize = 20;
/// Pause before a new plan if no newer ring is known here yet.
const RING_PAUSE: Duration = Duration::from_millis(50);

/// Maximum number of rows that a read asks of all nodes together at a time, unless there are so
/// many nodes that each would be asked for fewer than a usual page.
const ROUND_ROWS_MAX: usize = 2 * PAGE_ROWS_MAX;

/// Stream of a plan: a node and the partitions that it answers for.
type NodeStream = (NodeId, Vec<SlotSpan>);

/// Coverage read in progress; see the head of this file.
pub(super) struct CoverageRead<Q: CoverageQuery> {
    available: Arc<Available>,
    query: Q,
    needs: CoverageNeeds,
    plan: Arc<CoveragePlan>,
    merge: StreamMerge<Q::Position, Q::Value>,
    /// Streams of the merge, by their numbers.
    streams: Vec<NodeStream>,
    /// Number of replicas whose equal rows agree: as many as answer for a partition.
    replicas: usize,
    /// Nodes that were lost during the read, or could not answer.
    lost: BTreeSet<NodeId>,
    /// Refusal of a node that could not answer.
    unready: Option<Error>,
    /// True if a partition had too few replicas, as the query allows.
    is_partial: bool,
    /// Number of new plans since a row was returned.
    replans: usize,
}

impl CoverageNeeds {
    /// Refuses a page by an outdated ring. One replica is enough if it still keeps the partitions.
    /// Several must be owners by one ring, or together they may lack a write that enough owners
    /// have, as in a read of one key.
    pub(super) fn check_epoch(
        self,
        available: &Available,
        epoch: u64,
        spans: &[SlotSpan],
    ) -> Result<()> {
        match self.replicas {
            0 | 1 => available.check_list_epoch(epoch, spans, self.copies),
            _ => available.check_spans_epoch(epoch, spans),
        }
    }
}

impl<Q: CoverageQuery> CoverageRead<Q> {
    /// Plans a read of the rows after a position. `None`: of all rows. Errors: there is no ring,
    /// or a partition has too few replicas.
    pub(super) fn plan(
        available: &Arc<Available>,
        query: Q,
        needs: CoverageNeeds,
        after: Option<Q::Position>,
    ) -> Result<CoverageRead<Q>> {
        let lost = BTreeSet::new();
        let plan = available.coverage_plan(needs, &lost)?;
        let (streams, merge) = open_streams(&plan, after, query.direction());
        let mut read = CoverageRead {
            available: available.clone(),
            query,
            needs,
            merge,
            streams,
            replicas: most_answers(&plan),
            plan,
            lost,
            unready: None,
            is_partial: false,
            replans: 0,
        };
        read.check_plan()?;
        Ok(read)
    }

    /// Refuses a plan that lacks replicas of a partition, unless the query allows it.
    fn check_plan(&mut self) -> Result<()> {
        let Err(incomplete) = self.plan.check_complete() else { return Ok(()) };
        if self.query.allows_partial() && !self.plan.shares().is_empty() {
            self.is_partial = true;
            return Ok(());
        }
        Err(self.unready.clone().unwrap_or_else(|| no_quorum(&incomplete)))
    }

    /// Returns the next row. `None`: there is none. `rows_max`: number of rows that the caller
    /// wants at most, so that no node reads more.
    pub(super) async fn next(
        &mut self,
        rows_max: usize,
    ) -> Result<Option<MergedRow<Q::Position, Q::Value>>> {
        let mut end_ms = None;
        loop {
            let replicas = self.replicas;
            if let Some(row) = self.merge.next_row(|_| replicas) {
                self.replans = 0;
                return Ok(Some(row));
            }
            if self.merge.is_complete() {
                return Ok(None);
            }
            let end_ms = *end_ms.get_or_insert_with(|| world::milliseconds() + FORWARD_MS_MAX);
            self.ask_awaited(rows_max, end_ms).await?;
        }
    }

    /// Returns true if rows may follow.
    pub(super) fn has_more(&self) -> bool {
        !self.merge.is_complete()
    }

    /// Returns the position of the last row that was returned. `None`: the read is at its
    /// beginning.
    pub(super) fn position(&self) -> Option<&Q::Position> {
        self.merge.position()
    }

    /// Returns the number of owners that answer for the rows of a slot.
    pub(super) fn owners_of(&self, slot: Slot) -> usize {
        self.plan.owners(SlotSpan::containing(slot, self.plan.partitions()).partition)
    }

    /// Returns true if rows of some partition may be missing, as the query allows.
    pub(super) fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Asks for the next page of each stream that the merge awaits, and handles the answers. A
    /// node that is lost after `end_ms` ends the read.
    async fn ask_awaited(&mut self, rows_max: usize, end_ms: u64) -> Result<()> {
        let rows_max = page_rows(rows_max, self.plan.shares().len());
        let (mut tasks, mut waiting) = (JoinSet::new(), 0);
        for stream in self.merge.awaited() {
            tasks.push(self.ask(stream, rows_max));
            waiting += 1;
        }
        let (mut lost, mut refusal) = (None, None);
        for _ in 0..waiting {
            let (stream, answer) = tasks.next().await;
            let node = self.streams[stream].0;
            match answer {
                Ok(page) => {
                    let taken = self.merge.push(stream, page);
                    taken.map_err(|_| corrupt(Malformed("order of a page")))?;
                }
                Err(error) if error.reason == Reason::Changed => refusal = Some(error),
                Err(error) if error.reason == Reason::IndexBuilding => {
                    self.lost.insert(node);
                    self.unready = Some(error);
                    // It is up, and takes writes itself: a fallback has none of them.
                    self.needs.use_fallbacks = false;
                }
                Err(error) if node != self.available.node && error.kind() == Kind::Unavailable => {
                    self.lost.insert(node);
                    lost = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = lost.filter(|_| world::milliseconds() >= end_ms) {
            return Err(error);
        }
        match refusal {
            Some(error) => self.replan(error).await,
            None => self.replace_lost().await,
        }
    }

    /// Asks the node of a stream for its next page.
    fn ask(
        &self,
        stream: usize,
        rows_max: usize,
    ) -> impl Future<Output = (usize, Result<QueryPage<Q>>)> + Send + use<Q> {
        let (node, spans) = self.streams[stream].clone();
        let after = self.merge.start_of(stream).cloned();
        let page = PageRequest { spans, after, rows_max };
        let (available, query) = (self.available.clone(), self.query.clone());
        let (epoch, needs) = (self.plan.epoch(), self.needs);
        async move {
            let answer = if node == available.node {
                // This node's ring may have changed since the plan was made.
                match needs.check_epoch(&available, epoch, &page.spans) {
                    Ok(()) => query.read_page(available, page).await,
                    Err(error) => Err(error),
                }
            } else {
                let question = query.question(page).write();
                let answer = available.ask_for_page(RingTarget { node, epoch }, question).await;
                answer.and_then(|bytes| Q::take_page(&bytes))
            };
            (stream, answer)
        }
    }

    /// Makes a new plan after a node has refused the old one, and continues after the last row
    /// that was returned.
    async fn replan(&mut self, refusal: Error) -> Result<()> {
        if self.replans == REPLANS_MAX {
            // A retryable error: the client repeats the request.
            return Err(Error { reason: Reason::MetadataChanged, ..refusal });
        }
        self.replans += 1;
        if !self.available.has_newer_ring(self.plan.epoch()) {
            sleep(RING_PAUSE).await;
        }
        self.plan = self.available.coverage_plan(self.needs, &self.lost)?;
        self.check_plan()?;
        self.replicas = most_answers(&self.plan);
        let after = self.merge.position().cloned();
        let direction = self.query.direction();
        (self.streams, self.merge) = open_streams(&self.plan, after, direction);
        Ok(())
    }

    /// Gives the partitions of lost nodes to others.
    async fn replace_lost(&mut self) -> Result<()> {
        let lost = self.lost.iter().copied();
        let lost: Vec<_> = lost.filter(|node| self.plan.shares().contains_key(node)).collect();
        for node in lost {
            let ring = self.available.schema.ring().ok_or_else(no_ring)?;
            let request = self.needs.request(&ring, self.available.node);
            let is_down = |node| self.lost.contains(&node) || !self.available.reaches(node);
            let plan = Arc::make_mut(&mut self.plan);
            let Some(shares) = plan.replace(node, &request, is_down) else {
                let text = "the ring has changed: try again";
                return self.replan(Error::new(Reason::Changed, text)).await;
            };
            self.check_plan()?;
            self.replace_streams(node, &shares);
        }
        Ok(())
    }

    /// Replaces the streams of a lost node by those of other nodes, which continue them.
    fn replace_streams(&mut self, lost: NodeId, shares: &CoverageShares) {
        for stream in 0..self.streams.len() {
            let (node, spans) = &self.streams[stream];
            if *node != lost {
                continue;
            }
            // A node that had replaced another has two streams, which may end at two positions.
            let part = |(node, share): (&NodeId, &CoverageShare)| {
                let spans = spans.iter().copied().filter(|span| share.contains(span.partition));
                (*node, spans.collect::<Vec<_>>())
            };
            let parts = shares.iter().map(part).filter(|(_, spans)| !spans.is_empty());
            let parts: Vec<_> = parts.collect();
            // A stream that has ended needs no replacement.
            if self.merge.replace(stream, parts.len()).is_ok() {
                self.streams.extend(parts);
            }
        }
    }
}

/// Returns the number of rows to ask of each of so many nodes, for a caller who wants `rows_max`.
/// Any node may have all of them, so that many make one round enough. Of a large page from many
/// nodes, each most likely has a small part, and all at once would take much memory.
fn page_rows(rows_max: usize, nodes: usize) -> usize {
    rows_max.min((ROUND_ROWS_MAX / nodes.max(1)).max(PAGE_ROWS_DEFAULT))
}

/// Returns the streams of a plan, and their merge, of the rows after a position.
fn open_streams<P: Ord + Clone, V: PartialEq>(
    plan: &CoveragePlan,
    after: Option<P>,
    direction: Direction,
) -> (Vec<NodeStream>, StreamMerge<P, V>) {
    let partitions = plan.partitions();
    let stream = |(node, share): (&NodeId, &CoverageShare)| {
        let span = |partition| SlotSpan { partition, partitions };
        let mut spans: Vec<_> = share.partitions().map(span).collect();
        spans.sort_unstable();
        (*node, spans)
    };
    let streams: Vec<_> = plan.shares().iter().map(stream).collect();
    let is_descending = direction == Direction::Descending;
    let merge = StreamMerge::new(streams.len(), after, is_descending);
    (streams, merge)
}

/// Returns the most nodes that answer for a partition. While the first nodes join, one partition
/// may have more owners than another: rows of that one then count as not agreed, and are verified.
fn most_answers(plan: &CoveragePlan) -> usize {
    let partitions = (0..plan.partitions()).map(Partition);
    partitions.map(|partition| plan.answers(partition)).max().unwrap_or(1)
}

fn no_quorum(incomplete: &IncompleteCoverage) -> Error {
    incomplete.shortfall.read_error(&format!("{incomplete}: start the nodes that are down"))
}

impl Available {
    /// Returns a plan by the current ring, without the lost nodes. Errors: there is no ring.
    pub(super) fn coverage_plan(
        &self,
        needs: CoverageNeeds,
        lost: &BTreeSet<NodeId>,
    ) -> Result<Arc<CoveragePlan>> {
        let table = self.schema.owners().ok_or_else(no_ring)?;
        let ring = table.ring();
        let next = ring.pending().into_iter().flat_map(|pending| pending.layout().nodes().keys());
        let nodes = ring.layout().nodes().keys().chain(next).copied();
        let is_down = |node: &NodeId| lost.contains(node) || !self.reaches(*node);
        let down = nodes.filter(is_down).collect();
        Ok(table.coverage_plan(needs, self.node, down))
    }

    /// Asks another node for a page, by the ring by which it was chosen. That may be outdated when
    /// the question arrives, and the node may have removed the partitions.
    pub(super) async fn ask_for_page(&self, chosen: RingTarget, question: Bytes) -> Result<Bytes> {
        let (node, within) = (chosen.node, Duration::from_millis(FORWARD_MS_MAX));
        let request = self.ask_ring_target(chosen, question, within);
        let answer = self.wait_unless_silent(node, request).await;
        let answer = answer.unwrap_or_else(|| Err(self.node_lost(node)));
        // For a read, an unknown outcome is the same as none.
        answer.map_err(|error| match error.kind() {
            Kind::Unknown => self.node_lost(node),
            _ => error,
        })
    }

    fn node_lost(&self, node: NodeId) -> Error {
        let name = self.members.name_of(node);
        let text = format!("the connection to `{name}` was lost before it answered: try again");
        Error::new(Reason::NoQuorum, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_page_is_asked_of_many_nodes_in_parts() {
        let pages = [(7, 1), (1_000, 500), (100_000, 2), (100_000, 20), (100_000, 1_000)];
        let rows = pages.map(|(rows_max, nodes)| page_rows(rows_max, nodes));
        assert_eq!(rows, [7, 1_000, 100_000, 10_000, 1_000]);
    }
}
