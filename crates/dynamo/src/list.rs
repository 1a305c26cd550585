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
use super::vnode_ops::living;
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

/// Maximum number of attempts of a list while the ring changes, after such a pause each.
const ATTEMPTS: usize = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// Names in order, and whether more follow.
type NamePage = (Vec<Bytes>, bool);

/// Names to list.
#[derive(Clone)]
pub enum ListedNames {
    /// A bucket's keys that have a value.
    Keys {
        /// The bucket.
        bucket: BucketName,
        /// The last key that the client has.
        after: Option<Key>,
    },
    /// A type's buckets that have one.
    Buckets {
        /// Name of the type.
        kind: String,
        /// The last bucket that the client has.
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

/// The nodes that a list asks, each for its partitions.
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
        let (keys, more) = self.walk(self.copies_of(bucket)?, names, rows_max).await?;
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
        let (names, more) = self.walk(self.fewest_copies(), names, rows_max).await?;
        let name = |bytes: &Bytes| {
            let text = std::str::from_utf8(bytes).ok();
            text.and_then(|text| BucketName::from_full(text).ok())
        };
        let names = names.iter().map(|bytes| name(bytes).ok_or(Malformed("bucket")));
        let names = names.collect::<std::result::Result<_, _>>().map_err(corrupt)?;
        Ok(BucketNames { names, more })
    }

    /// Reads a page of names from all around the ring, at nodes that keep so many copies. A list
    /// changes nothing: if a node is lost, another that keeps the same partitions is asked.
    async fn walk(
        self: &Arc<Available>,
        copies: usize,
        names: ListedNames,
        rows_max: usize,
    ) -> Result<NamePage> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let until_ms = world::milliseconds() + FORWARD_MS_MAX;
        let (mut lost, mut changes) = (BTreeSet::new(), 0);
        loop {
            match self.walk_past(&lost, copies, &names, rows_max).await {
                Ok(page) => return Ok(page),
                // The asked node knows a newer ring.
                Err((_, error)) if error.reason == Reason::Changed && changes < ATTEMPTS => {
                    changes += 1;
                    sleep(PAUSE).await;
                }
                Err((Some(node), error)) if error.kind() == Kind::Unavailable => {
                    if world::milliseconds() >= until_ms || !lost.insert(node) {
                        return Err(error);
                    }
                }
                // The client has nothing to decide: it repeats the list.
                Err((_, error)) if error.reason == Reason::Changed => {
                    return Err(Error { reason: Reason::MetadataChanged, ..error });
                }
                Err((_, error)) => return Err(error),
            }
        }
    }

    /// Reads a page once, without the lost nodes. An error names the node at which it failed.
    async fn walk_past(
        self: &Arc<Available>,
        lost: &BTreeSet<NodeId>,
        copies: usize,
        names: &ListedNames,
        rows_max: usize,
    ) -> std::result::Result<NamePage, (Option<NodeId>, Error)> {
        let coverage = self.coverage(copies, lost).map_err(|error| (None, error))?;
        self.walk_covered(coverage, copies, names, rows_max).await
    }

    /// A page of what each of these nodes keeps; if it fails, at which node.
    pub async fn walk_covered(
        self: &Arc<Available>,
        Coverage { epoch, plan }: Coverage,
        copies: usize,
        names: &ListedNames,
        rows_max: usize,
    ) -> std::result::Result<NamePage, (Option<NodeId>, Error)> {
        let mut all = NamePage::default();
        for (node, spans) in plan {
            let names = names.clone();
            let page = if node != self.node {
                self.page_of(RingTarget { node, epoch }, names.question(spans, rows_max)).await
            } else {
                // The nodes before may have taken so long that the ring has changed meanwhile.
                match self.covers_still(epoch, &spans, copies) {
                    Ok(()) => self.names_here(spans, names, rows_max).await,
                    Err(error) => Err(error),
                }
            };
            let page = page.map_err(|error| (Some(node).filter(|it| *it != self.node), error))?;
            all = join([all, page], rows_max);
        }
        Ok(all)
    }

    /// Number of copies of a bucket's keys. An error if there is no such bucket.
    pub(super) fn copies_of(&self, bucket: &BucketName) -> Result<usize> {
        let copies = (self.vnode_store.copies)(bucket).map(usize::from);
        copies.ok_or_else(|| base::bucket::no_such_bucket(bucket))
    }

    /// Smallest number of copies that any bucket has. The nodes that keep so many keep all buckets.
    pub(super) fn fewest_copies(&self) -> usize {
        self.schema.numbers().first().copied().map_or(1, usize::from)
    }

    /// Plans which node to ask for which partitions, among those that keep so many copies and are
    /// not lost. Prefers this node.
    pub fn coverage(&self, copies: usize, lost: &BTreeSet<NodeId>) -> Result<Coverage> {
        let ring = self.schema.ring().ok_or_else(no_ring)?;
        let mut plan: BTreeMap<NodeId, Vec<SlotSpan>> = BTreeMap::new();
        for span in SlotSpan::all(&ring) {
            let partition = span.partition;
            let owners = ring.owners(partition, copies);
            let here = owners.iter().find(|node| **node == self.node);
            let there = |node: &&NodeId| !lost.contains(node) && self.reaches(**node);
            let node = here.or_else(|| owners.iter().find(there));
            let Some(node) = node else {
                let short = Shortfall { share: Share::R, got: 0, needed: 1 };
                let text = format!("no node that keeps partition {partition} can be reached");
                return Err(short.unanswered(&text));
            };
            plan.entry(*node).or_default().push(span);
        }
        Ok(Coverage { epoch: ring.epoch(), plan })
    }

    /// Reads a page of the names that a node keeps. The request names the ring by which it was
    /// chosen: by the time it arrives that may be outdated, and the node may have removed the
    /// partition.
    async fn page_of(&self, chosen: RingTarget, question: VnodeQuestion) -> Result<NamePage> {
        let (node, within) = (chosen.node, Duration::from_millis(FORWARD_MS_MAX));
        let asking = self.ask_chosen(chosen, question.write(), within);
        let answer = self.while_there(node, asking).await.unwrap_or_else(|| Err(self.gone(node)));
        // Whether it was read there or not makes no difference.
        let answer = answer.map_err(|error| match error.kind() {
            Kind::Unknown => self.gone(node),
            _ => error,
        });
        reply::take_names(&answer?).map_err(corrupt)
    }

    fn gone(&self, node: NodeId) -> Error {
        let name = self.members.name_of(node);
        let text = format!("`{name}` was lost before it told what it keeps: ask again");
        Error::new(Reason::NoQuorum, text)
    }

    /// A page of names in these partitions of this node.
    pub(super) async fn names_here(
        self: &Arc<Available>,
        spans: Vec<SlotSpan>,
        names: ListedNames,
        rows_max: usize,
    ) -> Result<NamePage> {
        let available = self.clone();
        self.unhurried(move || match names {
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
        let mut all = NamePage::default();
        for slot in slots(spans) {
            let front = bucket_prefix(slot, bucket);
            let low = match after {
                Some(after) => Bound::Excluded(row_key_in(slot, bucket, after)),
                None => Bound::Included(front.clone().into()),
            };
            let (mut keys, mut bytes, mut more) = (Vec::new(), 0, false);
            for row in snapshot.range(low, Bound::Unbounded, false) {
                let (key, row) = row.map_err(store_error)?;
                // Behind what the page can hold, nothing of this slot is wanted.
                let last = all.0.last().filter(|_| all.1);
                if !key.starts_with(&front) || last.is_some_and(|it| key[front.len()..] > it[..]) {
                    break;
                }
                if !living(&read_row(&row).map_err(corrupt)?) {
                    continue;
                }
                if keys.len() >= rows_max || bytes >= PAGE_BYTES_MAX {
                    more = true;
                    break;
                }
                bytes += key.len();
                keys.push(key.slice(front.len()..));
            }
            all = join([all, (keys, more)], rows_max);
        }
        Ok(all)
    }

    /// The rows of a slot lie bucket by bucket (by the length of their names first): from each
    /// bucket's first living key to the next bucket.
    fn scan_buckets(
        &self,
        spans: &[SlotSpan],
        kind: &str,
        after: Option<&str>,
        rows_max: usize,
    ) -> Result<NamePage> {
        let snapshot = self.trees.snapshot();
        let (mut names, mut more) = (BTreeSet::new(), false);
        for slot in slots(spans) {
            let all = rows_prefix(slot);
            let mut low = Bound::Included(Bytes::from(all.clone()));
            'buckets: loop {
                let mut found = None;
                for row in snapshot.range(low.clone(), Bound::Unbounded, false) {
                    let (key, row) = row.map_err(store_error)?;
                    if !key.starts_with(&all) {
                        break 'buckets;
                    }
                    let bucket = read_row_key(&key).ok_or(Malformed("row's key"));
                    let (bucket, _) = bucket.map_err(corrupt)?;
                    let wanted = bucket.kind() == kind && after.is_none_or(|it| bucket.full() > it);
                    if !wanted || living(&read_row(&row).map_err(corrupt)?) {
                        found = Some((bucket, wanted));
                        break;
                    }
                }
                let Some((bucket, wanted)) = found else { break };
                // Behind every key of this bucket.
                let front = bucket_prefix(slot, &bucket);
                let Some(next) = base::range::prefix_end(&front) else { break };
                low = Bound::Included(next.into());
                if wanted {
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

/// Their slots, in order.
fn slots(spans: &[SlotSpan]) -> impl Iterator<Item = Slot> {
    spans.iter().flat_map(|span| span.slots()).map(Slot)
}

/// Pages of different partitions as one, as large as one: up to where each of them is known.
fn join<const N: usize>(pages: [NamePage; N], rows_max: usize) -> NamePage {
    let known = pages.iter().filter(|(_, more)| *more).filter_map(|(names, _)| names.last());
    let upto = known.min().cloned();
    let mut more = upto.is_some();
    let mut names: Vec<Bytes> = pages.into_iter().flat_map(|(names, _)| names).collect();
    names.sort_unstable();
    names.dedup();
    if let Some(upto) = upto {
        names.retain(|name| *name <= upto);
    }
    let mut bytes = 0;
    let room = names.iter().take_while(|name| {
        let fits = bytes < PAGE_BYTES_MAX;
        bytes += name.len();
        fits
    });
    let most = room.count().min(rows_max);
    if names.len() > most {
        names.truncate(most);
        more = true;
    }
    (names, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_joined_up_to_where_all_are_known() {
        let page = |names: &str, more| {
            let names = names.bytes().map(|byte| Bytes::from(vec![byte])).collect();
            (names, more)
        };
        assert_eq!(join([], 3), page("", false));
        assert_eq!(join([page("ace", false), page("bd", false)], 9), page("abcde", false));
        assert_eq!(join([page("ace", true), page("bdf", false)], 9), page("abcde", true));
        assert_eq!(join([page("ac", true), page("bdf", false)], 9), page("abc", true));
        assert_eq!(join([page("ab", false), page("abc", false)], 2), page("ab", true));
        assert_eq!(join([page("", false), page("x", true)], 2), page("x", true));
        // One after the other, as all at once; and a page has a size.
        let two = join([page("ace", true), page("bdf", false)], 9);
        assert_eq!(join([two, page("c", true)], 9), page("abc", true));
        let long = |byte: u8| Bytes::from(vec![byte; PAGE_BYTES_MAX]);
        let many = (vec![long(1), long(2)], false);
        assert_eq!(join([many, page("", false)], 9), (vec![long(1)], true));
    }
}
