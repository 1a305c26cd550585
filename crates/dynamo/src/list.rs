//! Lists of keys and buckets: coverage reads ([`CoverageRead`]) of one replica of each partition.
//!
//! A list shows the rows of the replicas that were read: a key that a replica missed while it was
//! down is listed once it has been repaired. A key that every owner has is listed exactly once,
//! also while nodes are lost and the ring changes. Values expire by the clock of the node that
//! reads them.

use super::coverage_plans::CoverageNeeds;
use super::coverage_query::{CoverageQuery, PageRequest, QueryPage};
use super::coverage_read::CoverageRead;
use super::message::VnodeQuestion;
use super::reply;
use crate::Available;
use base::codec::Malformed;
use base::error::corrupt;
use base::limits::{PAGE_BYTES_MAX, PAGE_ROWS_MAX};
use base::{BucketName, BucketNames, Key, Keys, Result};
use bytes::Bytes;
use logic::coverage::{PageEnd, StreamPage};
use std::sync::Arc;
use vnode_rows::name_pages::{NamePage, scan_buckets, scan_keys};
use vnode_rows::slots::SlotSpan;

/// Number of replicas that are asked about each partition. With two, a list would find what one
/// replica missed, and cost twice as many rows.
const REPLICAS: usize = 1;

/// Names to list.
#[derive(Clone)]
pub(super) enum ListedNames {
    /// Keys of this bucket that have a value.
    Keys(BucketName),
    /// Buckets of this type that have such a key, by full name.
    Buckets(String),
}

/// List in progress, of names in order.
pub struct NameStream(CoverageRead<ListedNames>);

impl CoverageQuery for ListedNames {
    type Position = Bytes;
    type Value = ();

    fn question(self, PageRequest { spans, after, rows_max }: PageRequest<Bytes>) -> VnodeQuestion {
        match self {
            ListedNames::Keys(bucket) => VnodeQuestion::Keys { spans, bucket, after, rows_max },
            ListedNames::Buckets(kind) => VnodeQuestion::Buckets { spans, kind, after, rows_max },
        }
    }

    fn take_page(bytes: &Bytes) -> Result<QueryPage<ListedNames>> {
        let page = reply::take_names(bytes).map_err(corrupt)?;
        to_stream_page(page).ok_or_else(|| corrupt(Malformed("page of names")))
    }

    async fn read_page(
        self,
        available: Arc<Available>,
        PageRequest { spans, after, rows_max }: PageRequest<Bytes>,
    ) -> Result<QueryPage<ListedNames>> {
        let page = available.local_names(spans, self, after, rows_max).await?;
        to_stream_page(page).ok_or_else(|| corrupt(Malformed("page of names")))
    }
}

/// Returns a page for the merge. `None`: it has no name, though more would follow.
fn to_stream_page((names, more): NamePage) -> Option<QueryPage<ListedNames>> {
    let end = match more {
        true => PageEnd::Through(names.last()?.clone()),
        false => PageEnd::Complete,
    };
    Some(StreamPage { rows: names.into_iter().map(|name| (name, ())).collect(), end })
}

impl NameStream {
    /// Returns the next names.
    pub async fn next_page(&mut self, rows_max: usize) -> Result<NamePage> {
        let rows_max = rows_max.clamp(1, PAGE_ROWS_MAX);
        let (mut names, mut bytes) = (Vec::new(), 0);
        while names.len() < rows_max && bytes < PAGE_BYTES_MAX {
            let Some(row) = self.0.next(rows_max - names.len()).await? else { break };
            bytes += row.position.len();
            names.push(row.position);
        }
        Ok((names, self.0.has_more()))
    }
}

impl Available {
    pub(super) async fn list_keys(
        self: &Arc<Available>,
        bucket: &BucketName,
        after: Option<Key>,
        rows_max: usize,
    ) -> Result<Keys> {
        let (keys, more) = self.stream_keys(bucket, after)?.next_page(rows_max).await?;
        Ok(Keys { keys, more })
    }

    /// Begins a list of a bucket's keys after a key. `None`: of all.
    pub fn stream_keys(
        self: &Arc<Available>,
        bucket: &BucketName,
        after: Option<Key>,
    ) -> Result<NameStream> {
        let names = ListedNames::Keys(bucket.clone());
        self.stream_names(self.copies_of(bucket)?, names, after)
    }

    pub(super) async fn list_buckets(
        self: &Arc<Available>,
        kind: &str,
        after: Option<BucketName>,
        rows_max: usize,
    ) -> Result<BucketNames> {
        let after = after.map(|after| Bytes::copy_from_slice(after.full().as_bytes()));
        let names = ListedNames::Buckets(kind.to_string());
        let mut names = self.stream_names(self.fewest_copies(), names, after)?;
        let (names, more) = names.next_page(rows_max).await?;
        let name = |bytes: &Bytes| {
            let text = std::str::from_utf8(bytes).ok();
            text.and_then(|text| BucketName::from_full(text).ok())
        };
        let names = names.iter().map(|bytes| name(bytes).ok_or(Malformed("bucket")));
        let names = names.collect::<std::result::Result<_, _>>().map_err(corrupt)?;
        Ok(BucketNames { names, more })
    }

    fn stream_names(
        self: &Arc<Available>,
        copies: usize,
        names: ListedNames,
        after: Option<Bytes>,
    ) -> Result<NameStream> {
        // A fallback has only what its owner missed: alone, it would pass for a whole copy.
        let needs = CoverageNeeds { copies, replicas: REPLICAS, use_fallbacks: false };
        CoverageRead::plan(self, names, needs, after).map(NameStream)
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

    /// Reads a page of names from these partitions of this node.
    pub(super) async fn local_names(
        self: &Arc<Available>,
        spans: Vec<SlotSpan>,
        names: ListedNames,
        after: Option<Bytes>,
        rows_max: usize,
    ) -> Result<NamePage> {
        let trees = self.trees.clone();
        self.read_blocking(move || {
            let (snapshot, after) = (trees.snapshot(), after.as_deref());
            match names {
                ListedNames::Keys(bucket) => {
                    scan_keys(&*snapshot, &spans, &bucket, after, rows_max)
                }
                ListedNames::Buckets(kind) => {
                    scan_buckets(&*snapshot, &spans, &kind, after, rows_max)
                }
            }
        })
        .await
    }
}
