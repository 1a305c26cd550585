//! Lists of keys and buckets, page by page: each partition is read once, at a node that keeps it.
//!
//! If a node is lost during the list, another takes its place. A list shows the rows of the
//! replicas that were read: a key that a replica missed while it was down is listed once it has
//! been repaired.

use super::key_owners::{RingTarget, no_ring};
use super::layout::{bucket_prefix, read_row, read_row_key, row_key_in, rows_prefix};
use super::message::VnodeQuestion;
use super::reply;
use super::slots::{Slot, SlotSpan};
use super::vnode_ops::has_live_value;
use crate::Available;
use base::codec::Malformed;
use base::error::corrupt;
use base::limits::{FORWARD_MS_MAX, PAGE_BYTES_MAX, PAGE_ROWS_MAX};
use base::{
    BucketName, BucketNames, Error, Key, Keys, Kind, NodeId, Reason, Result, Share, Shortfall,
};
use bytes::Bytes;
use runtime::log_writer::store_error;
use runtime::world;
use runtime::world::sleep;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of retries of a list while the ring changes, and the pause before each.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Names in order, and true if more follow.
type NamePage = (Vec<Bytes>, bool);

/// Names to list.
#[derive(Clone)]
pub enum ListedNames {
    /// Keys of a bucket that have a value.
    Keys {
        /// The bucket.
        bucket: BucketName,
        /// Last key of the previous page.
        after: Option<Key>,
    },
    /// Buckets of a type that have such a key.
    Buckets {
        /// Name of the type.
        kind: String,
        /// Last bucket of the previous page.
        after: Option<String>,
    },
}

impl ListedNames {
    fn question(self, spans: Vec<SlotSpan>, rows_max: usize) -> VnodeQuestion {
        match self {
            ListedNames::Keys { bucket, after } => {
                VnodeQuestion::Keys { spans, bucket, after, rows_max }
            }
            ListedNames::Buckets { kind, after } => {
                VnodeQuestion::Buckets { spans, kind, after, rows_max }
            }
        }
    }
}

/// Plan of a list: the nodes to ask, each for its partitions.
pub struct Coverage {
    /// Epoch of the ring that the plan was made from.
    pub epoch: u64,
    /// Spans that each node answers for.
    pub plan: BTreeMap<NodeId, Vec<SlotSpan>>,
}

impl Available {
    pub(super) async fn list_keys(
        self: &Arc<Available>,
        bucket: &BucketName,
        after: Option<Key>,
        rows_max: usize,
    ) -> Result<Keys> {
        let names = ListedNames::Keys { bucket: bucket.clone(), after };
        let (keys, more) = self.list_names(self.copies_of(bucket)?, names, rows_max).await?;
        Ok(Keys { keys, more })
    }

    pub(super) async fn list_buckets(
        self: &Arc<Available>,
        kind: &str,
        after: Option<BucketName>,
        rows_max: usize,
    ) -> Result<BucketNames> {
        let after = after.map(|after| after.full().to_string());
        let names = ListedNames::Buckets { kind: kind.to_string(), after };
        let (names, more) = self.list_names(self.fewest_copies(), names, rows_max).await?;
        let name = |bytes: &Bytes| {
            let text = std::str::from_utf8(bytes).ok();
            text.and_then(|text| BucketName::from_full(text).ok())
        };
        let names = names.iter().map(|bytes| name(bytes).ok_or(Malformed("bucket")));
        let names = names.collect::<std::result::Result<_, _>>().map_err(corrupt)?;
        Ok(BucketNames { names, more })
    }

    /// Reads a page of names from the whole ring, at the owners of `copies` copies. A list changes
    /// nothing: if a node is lost, another owner of the same partitions is asked.
    async fn list_names(
        self: &Arc<Available>,
        copies: usize,
        names: ListedNames,
        rows_max: usize,
    ) -> Result<NamePage> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let until_ms = world::milliseconds() + FORWARD_MS_MAX;
        let (mut lost, mut retries) = (BTreeSet::new(), 0);
        loop {
            match self.try_list_names(&lost, copies, &names, rows_max).await {
                Ok(page) => return Ok(page),
                // The asked node has a newer ring.
                Err((_, error)) if error.reason == Reason::Changed && retries < ATTEMPTS => {
                    retries += 1;
                    sleep(PAUSE).await;
                }
                Err((Some(node), error)) if error.kind() == Kind::Unavailable => {
                    if world::milliseconds() >= until_ms || !lost.insert(node) {
                        return Err(error);
                    }
                }
                // A retryable error: the client repeats the list.
                Err((_, error)) if error.reason == Reason::Changed => {
                    return Err(Error { reason: Reason::MetadataChanged, ..error });
                }
                Err((_, error)) => return Err(error),
            }
        }
    }

    /// Reads a page once, without the lost nodes. An error names the node at which it failed.
    async fn try_list_names(
        self: &Arc<Available>,
        lost: &BTreeSet<NodeId>,
        copies: usize,
        names: &ListedNames,
        rows_max: usize,
    ) -> std::result::Result<NamePage, (Option<NodeId>, Error)> {
        let coverage = self.plan_coverage(copies, lost).map_err(|error| (None, error))?;
        self.read_coverage(coverage, copies, names, rows_max).await
    }

    /// Reads a page of names from the nodes of a plan. An error names the remote node at which it
    /// failed.
    pub async fn read_coverage(
        self: &Arc<Available>,
        Coverage { epoch, plan }: Coverage,
        copies: usize,
        names: &ListedNames,
        rows_max: usize,
    ) -> std::result::Result<NamePage, (Option<NodeId>, Error)> {
        let mut merged = NamePage::default();
        for (node, spans) in plan {
            let names = names.clone();
            let page = if node != self.node {
                self.remote_names(RingTarget { node, epoch }, names.question(spans, rows_max)).await
            } else {
                // Checked now: the ring may have changed while the nodes before answered.
                match self.check_list_epoch(epoch, &spans, copies) {
                    Ok(()) => self.local_names(spans, names, rows_max).await,
                    Err(error) => Err(error),
                }
            };
            let page = page.map_err(|error| (Some(node).filter(|it| *it != self.node), error))?;
            merged = merge_pages([merged, page], rows_max);
        }
        Ok(merged)
    }

    /// Number of copies of a bucket's keys. An error if there is no such bucket.
    pub(super) fn copies_of(&self, bucket: &BucketName) -> Result<usize> {
        let copies = (self.vnode_store.copies)(bucket).map(usize::from);
        copies.ok_or_else(|| base::bucket::no_such_bucket(bucket))
    }

    /// Smallest number of copies of any bucket. The owners of this many copies keep all buckets.
    pub(super) fn fewest_copies(&self) -> usize {
        self.schema.n_vals().first().copied().map_or(1, usize::from)
    }

    /// Assigns each partition to one of its owners that is reachable and not in `lost`. Prefers
    /// this node.
    pub fn plan_coverage(&self, copies: usize, lost: &BTreeSet<NodeId>) -> Result<Coverage> {
        let ring = self.schema.ring().ok_or_else(no_ring)?;
        let mut plan: BTreeMap<NodeId, Vec<SlotSpan>> = BTreeMap::new();
        for span in SlotSpan::all(&ring) {
            let partition = span.partition;
            let owners = ring.owners(partition, copies);
            let local = owners.iter().find(|node| **node == self.node);
            let is_available = |node: &&NodeId| !lost.contains(node) && self.reaches(**node);
            let node = local.or_else(|| owners.iter().find(is_available));
            let Some(node) = node else {
                let short = Shortfall { share: Share::R, got: 0, needed: 1 };
                let text = format!("no owner of partition {partition} is reached");
                return Err(short.read_error(&text));
            };
            plan.entry(*node).or_default().push(span);
        }
        Ok(Coverage { epoch: ring.epoch(), plan })
    }

    /// Reads a page of names from another node. The request names the ring by which the node was
    /// chosen: that may be outdated when it arrives, and the node may have removed the partition.
    async fn remote_names(&self, chosen: RingTarget, question: VnodeQuestion) -> Result<NamePage> {
        let (node, within) = (chosen.node, Duration::from_millis(FORWARD_MS_MAX));
        let request = self.ask_ring_target(chosen, question.write(), within);
        let answer = self
            .wait_unless_silent(node, request)
            .await
            .unwrap_or_else(|| Err(self.node_lost(node)));
        // For a read, an unknown outcome is the same as none.
        let answer = answer.map_err(|error| match error.kind() {
            Kind::Unknown => self.node_lost(node),
            _ => error,
        });
        reply::take_names(&answer?).map_err(corrupt)
    }

    fn node_lost(&self, node: NodeId) -> Error {
        let name = self.members.name_of(node);
        let text = format!("the connection to `{name}` was lost before it answered: try again");
        Error::new(Reason::NoQuorum, text)
    }

    /// Reads a page of names from these partitions of this node.
    pub(super) async fn local_names(
        self: &Arc<Available>,
        spans: Vec<SlotSpan>,
        names: ListedNames,
        rows_max: usize,
    ) -> Result<NamePage> {
        let available = self.clone();
        self.read_blocking(move || match names {
            ListedNames::Keys { bucket, after } => {
                available.scan_keys(&spans, &bucket, after.as_ref(), rows_max)
            }
            ListedNames::Buckets { kind, after } => {
                available.scan_buckets(&spans, &kind, after.as_deref(), rows_max)
            }
        })
        .await
    }

    fn scan_keys(
        &self,
        spans: &[SlotSpan],
        bucket: &BucketName,
        after: Option<&Key>,
        rows_max: usize,
    ) -> Result<NamePage> {
        let snapshot = self.trees.snapshot();
        let mut merged = NamePage::default();
        for slot in slots_of(spans) {
            let prefix = bucket_prefix(slot, bucket);
            let low = match after {
                Some(after) => Bound::Excluded(row_key_in(slot, bucket, after)),
                None => Bound::Included(prefix.clone().into()),
            };
            let (mut keys, mut bytes, mut more) = (Vec::new(), 0, false);
            for row in snapshot.range(low, Bound::Unbounded, false) {
                let (key, row) = row.map_err(store_error)?;
                // Rows after the end of a full page are not needed.
                let last = merged.0.last().filter(|_| merged.1);
                if !key.starts_with(&prefix) || last.is_some_and(|it| key[prefix.len()..] > it[..])
                {
                    break;
                }
                if !has_live_value(&read_row(&row).map_err(corrupt)?) {
                    continue;
                }
                if keys.len() >= rows_max || bytes >= PAGE_BYTES_MAX {
                    more = true;
                    break;
                }
                bytes += key.len();
                keys.push(key.slice(prefix.len()..));
            }
            merged = merge_pages([merged, (keys, more)], rows_max);
        }
        Ok(merged)
    }

    /// Lists buckets with a live value. The rows of a slot are ordered by bucket (shorter names
    /// first): the scan skips from each bucket's first live key to the next bucket.
    fn scan_buckets(
        &self,
        spans: &[SlotSpan],
        kind: &str,
        after: Option<&str>,
        rows_max: usize,
    ) -> Result<NamePage> {
        let snapshot = self.trees.snapshot();
        let (mut names, mut more) = (BTreeSet::new(), false);
        for slot in slots_of(spans) {
            let slot_prefix = rows_prefix(slot);
            let mut low = Bound::Included(Bytes::from(slot_prefix.clone()));
            'buckets: loop {
                let mut found = None;
                for row in snapshot.range(low.clone(), Bound::Unbounded, false) {
                    let (key, row) = row.map_err(store_error)?;
                    if !key.starts_with(&slot_prefix) {
                        break 'buckets;
                    }
                    let bucket = read_row_key(&key).ok_or(Malformed("row's key"));
                    let (bucket, _) = bucket.map_err(corrupt)?;
                    let matches =
                        bucket.kind() == kind && after.is_none_or(|it| bucket.full() > it);
                    if !matches || has_live_value(&read_row(&row).map_err(corrupt)?) {
                        found = Some((bucket, matches));
                        break;
                    }
                }
                let Some((bucket, matches)) = found else { break };
                // After every key of this bucket.
                let prefix = bucket_prefix(slot, &bucket);
                let Some(next) = base::range::prefix_end(&prefix) else { break };
                low = Bound::Included(next.into());
                if matches {
                    names.insert(bucket.full().to_string());
                }
                if names.len() > rows_max {
                    names.pop_last();
                    more = true;
                }
            }
        }
        let names = names.into_iter().map(Bytes::from).collect();
        Ok((names, more))
    }
}

/// Returns the slots of spans, in order.
fn slots_of(spans: &[SlotSpan]) -> impl Iterator<Item = Slot> {
    spans.iter().flat_map(|span| span.slots()).map(Slot)
}

/// Merges pages of different partitions into one page, up to the earliest end of an incomplete
/// page.
fn merge_pages<const N: usize>(pages: [NamePage; N], rows_max: usize) -> NamePage {
    let ends = pages.iter().filter(|(_, more)| *more).filter_map(|(names, _)| names.last());
    let end = ends.min().cloned();
    let mut more = end.is_some();
    let mut names: Vec<Bytes> = pages.into_iter().flat_map(|(names, _)| names).collect();
    names.sort_unstable();
    names.dedup();
    if let Some(end) = end {
        names.retain(|name| *name <= end);
    }
    let mut bytes = 0;
    let fitting = names.iter().take_while(|name| {
        let fits = bytes < PAGE_BYTES_MAX;
        bytes += name.len();
        fits
    });
    let count = fitting.count().min(rows_max);
    if names.len() > count {
        names.truncate(count);
        more = true;
    }
    (names, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_list_page_stops_at_the_earliest_end_of_a_partial_page() {
        let page = |names: &str, more| {
            let names = names.bytes().map(|byte| Bytes::from(vec![byte])).collect();
            (names, more)
        };
        assert_eq!(merge_pages([], 3), page("", false));
        assert_eq!(merge_pages([page("ace", false), page("bd", false)], 9), page("abcde", false));
        assert_eq!(merge_pages([page("ace", true), page("bdf", false)], 9), page("abcde", true));
        assert_eq!(merge_pages([page("ac", true), page("bdf", false)], 9), page("abc", true));
        assert_eq!(merge_pages([page("ab", false), page("abc", false)], 2), page("ab", true));
        assert_eq!(merge_pages([page("", false), page("x", true)], 2), page("x", true));
        // Merging one by one equals merging all at once; and a page is bounded in bytes.
        let two = merge_pages([page("ace", true), page("bdf", false)], 9);
        assert_eq!(merge_pages([two, page("c", true)], 9), page("abc", true));
        let long = |byte: u8| Bytes::from(vec![byte; PAGE_BYTES_MAX]);
        let many = (vec![long(1), long(2)], false);
        assert_eq!(merge_pages([many, page("", false)], 9), (vec![long(1)], true));
    }
}
