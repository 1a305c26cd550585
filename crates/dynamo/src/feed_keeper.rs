//! Keeper of this node's feeds: begins those that properties ask for, builds them, removes those
//! that were turned off, and removes dead entries in rounds.
//!
//! A bucket of a type with feeds has its own from when rows of it are found here, or from its first
//! query. It does not matter when: entries of earlier rows are added by the build.
//!
//! Promises: one page at a time, at most [`BYTES_PER_SECOND`]; a round of retention begins
//! [`ROUND_MS`] after the one before, and sooner if entries get old sooner.
//! Never: keeps a feed that was turned off; asks another node.

use crate::Available;
use base::FeedMode;
use base::{BucketName, Properties, Result};
use bytes::Bytes;
use runtime::world::{sleep_or_cancelled, until_next};
use runtime::{Metrics, round, world};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::feed_rows::{RetentionRound, VnodeFeedPhase};
use vnode_rows::name_pages::scan_buckets;
use vnode_rows::slots::SlotSpan;

/// Period of the checks.
const PERIOD: Duration = Duration::from_secs(1);
/// Period in which rows are searched for buckets of types with feeds, in milliseconds.
const SEARCH_MS: u64 = 60_000;
/// Time for which properties must not ask for a feed before it is dropped, in milliseconds.
const OFF_MS: u64 = 10_000;
/// Longest time between two rounds of retention, in milliseconds.
const ROUND_MS: u64 = 600_000;
/// Shortest pause before a feed is read again, in milliseconds.
const RETRY_MS_MIN: u64 = 1_000;
/// Maximum number of bytes that builds, removals and rounds read in a second.
const BYTES_PER_SECOND: u64 = 32 << 20;
/// Maximum number of buckets of a type that a search finds at a time.
const FOUND_MAX: usize = 1_000;

/// Retention of one feed.
#[derive(Default)]
struct FeedRetention {
    round: RetentionRound,
    /// Time of the next page, in milliseconds.
    due_ms: u64,
}

/// See the head of this file.
#[derive(Default)]
struct FeedKeeper {
    rounds: BTreeMap<BucketName, FeedRetention>,
    /// Feeds in force that properties do not ask for, each with the time at which this was noticed:
    /// a node that has just started may know an older directory.
    off: BTreeMap<BucketName, u64>,
    search_due_ms: u64,
}

/// Tends the feeds of a node until it stops.
pub async fn run(available: Arc<Available>) {
    let stop = available.tasks.cancellation_token().clone();
    let mut keeper = FeedKeeper::default();
    while !stop.is_cancelled() {
        round::progress();
        let is_busy = keeper.turn(&available).await.unwrap_or_else(|error| {
            tracing::debug!(target: "node", %error, "feeds could not be tended; it is retried");
            false
        });
        let pause = if is_busy { Duration::ZERO } else { until_next(PERIOD) };
        sleep_or_cancelled(&stop, pause).await;
    }
}

impl FeedKeeper {
    /// Takes a step. Returns true if more is due at once.
    async fn turn(&mut self, available: &Arc<Available>) -> Result<bool> {
        self.apply_properties(available).await?;
        if available.work_on_feed().await? {
            return Ok(true);
        }
        self.retain(available).await
    }

    /// Begins and drops feeds as properties say.
    async fn apply_properties(&mut self, available: &Arc<Available>) -> Result<()> {
        let store = &available.vnode_store;
        store.note_copies(&mut *store.admit()?);
        let known = store.with_feeds(|feeds| {
            let known = feeds.iter().map(|(bucket, record)| (bucket.clone(), record.is_in_force()));
            known.collect::<BTreeMap<_, _>>()
        })?;
        let (kinds, mut buckets) = available.schema.with_feeds();
        if kinds.is_empty() && buckets.is_empty() && known.is_empty() {
            return Ok(());
        }
        let now_ms = world::milliseconds();
        if !kinds.is_empty() && now_ms >= self.search_due_ms {
            self.search_due_ms = now_ms + SEARCH_MS;
            buckets.extend(available.buckets_of(kinds).await?);
        }
        for bucket in buckets.iter().filter(|bucket| known.get(*bucket) != Some(&true)) {
            available.begin_feed(bucket)?;
        }
        let is_off = |bucket: &BucketName| {
            available.schema.find(bucket).is_none_or(|properties| properties.feed == FeedMode::Off)
        };
        let in_force = known.into_iter().filter(|(_, is_in_force)| *is_in_force);
        let off: BTreeSet<_> = in_force.map(|(bucket, _)| bucket).filter(is_off).collect();
        self.off.retain(|bucket, _| off.contains(bucket));
        for bucket in off {
            if now_ms >= *self.off.entry(bucket.clone()).or_insert(now_ms) + OFF_MS {
                store.drop_feed(&bucket)?;
            }
        }
        Ok(())
    }

    /// Takes the next page of a round of retention, if one is due.
    async fn retain(&mut self, available: &Arc<Available>) -> Result<bool> {
        let store = &available.vnode_store;
        let ready: BTreeSet<_> = store.with_feeds(|feeds| {
            let ready = feeds.iter().filter(|(_, it)| it.phase == VnodeFeedPhase::Ready);
            ready.map(|(bucket, _)| bucket.clone()).collect()
        })?;
        self.rounds.retain(|bucket, _| ready.contains(bucket));
        for bucket in ready {
            self.rounds.entry(bucket).or_default();
        }
        // The one that has been due for the longest time: short rounds do not hold up long ones.
        let Some((bucket, next)) = self.rounds.iter_mut().min_by_key(|(_, it)| it.due_ms) else {
            return Ok(false);
        };
        if world::milliseconds() < next.due_ms {
            return Ok(false);
        }
        let taken = match available.schema.find(bucket) {
            Some(properties) => next.take_page(available, bucket, &properties).await,
            None => Ok(false),
        };
        if !matches!(taken, Ok(true)) {
            // Others must not wait for one that can't be read.
            next.due_ms = next.due_ms.max(world::milliseconds() + RETRY_MS_MIN);
        }
        // Another may be due.
        taken.map(|_| true)
    }
}

impl FeedRetention {
    /// Takes the next page of a round. Returns true if the round goes on.
    async fn take_page(
        &mut self,
        available: &Arc<Available>,
        bucket: &BucketName,
        properties: &Properties,
    ) -> Result<bool> {
        let store = &available.vnode_store;
        let (keep_ms, began_ms) = (properties.feed_keep_ms, world::milliseconds());
        let bounds = self.round.bounds(world::unix_ms().saturating_sub(keep_ms));
        let since = store.with_feeds(|feeds| feeds.totals(bucket))?;
        let (node, name, behind) = (available.clone(), bucket.clone(), self.round.behind);
        let page = available
            .read_blocking(move || node.vnode_store.read_dead_entries(&name, behind, bounds))
            .await?;
        self.round.take(&page);
        let (goes_on, bytes) = (page.end.is_some(), page.bytes);
        if !page.removable.is_empty() {
            let removed = page.removable.len() as u64;
            let ticket = store.remove_dead_entries(bucket, page)?;
            store.wait_stored(ticket).await?;
            Metrics::add(&available.metrics.feed_entries_removed, removed);
        }
        available.pace(began_ms, bytes, BYTES_PER_SECOND).await;
        if !goes_on {
            let ended = std::mem::take(&mut self.round);
            let (round, extent) = ended.end(properties.feed_keep_bytes);
            store.set_feed_extent(bucket, extent, since);
            let pause_ms = ROUND_MS.min(keep_ms / 8).max(RETRY_MS_MIN);
            *self = FeedRetention { round, due_ms: world::milliseconds() + pause_ms };
        }
        Ok(goes_on)
    }
}

impl Available {
    /// Brings the feed of a bucket into force on this node, if its properties ask for one.
    pub(super) fn begin_feed(&self, bucket: &BucketName) -> Result<()> {
        if let Some(properties) = self.schema.find(bucket).filter(|it| it.feed != FeedMode::Off) {
            self.vnode_store.begin_feed(bucket, properties.replication.n_val)?;
        }
        Ok(())
    }

    /// Returns buckets of these types with a live value here.
    async fn buckets_of(self: &Arc<Available>, kinds: Vec<String>) -> Result<Vec<BucketName>> {
        let Some(ring) = self.schema.ring() else { return Ok(Vec::new()) };
        let snapshot = self.trees.snapshot();
        let found = self.read_blocking(move || {
            let (spans, mut found) = (SlotSpan::all(&ring).collect::<Vec<_>>(), Vec::new());
            for kind in kinds {
                found.extend(scan_buckets(&*snapshot, &spans, &kind, None, FOUND_MAX)?.0);
            }
            Ok(found)
        });
        let names = found.await?.into_iter();
        let name = |name: Bytes| {
            let text = std::str::from_utf8(&name).ok()?;
            BucketName::from_full(text).ok()
        };
        Ok(names.filter_map(name).collect())
    }

    /// Takes the next step of a build or a removal. Returns false if there is none.
    async fn work_on_feed(self: &Arc<Available>) -> Result<bool> {
        let store = &self.vnode_store;
        // Removals first: they give space back.
        let phases = [VnodeFeedPhase::Dropping, VnodeFeedPhase::Building];
        let bucket = store.with_feeds(|feeds| {
            phases.into_iter().find_map(|phase| feeds.first_in(phase).cloned())
        })?;
        let Some(bucket) = bucket else { return Ok(false) };
        // The page is read from the store: it must have what was changed for the page before.
        store.wait_stored(store.last_ticket()).await?;
        let (began_ms, available) = (world::milliseconds(), self.clone());
        let written = self.read_blocking(move || {
            let store = &available.vnode_store;
            let Some(page) = store.read_feed_page(&bucket)? else { return Ok(None) };
            let bytes = page.bytes();
            let ticket = store.write_feed_page(&bucket, page)?;
            Ok(ticket.map(|ticket| (ticket, bytes)))
        });
        if let Some((ticket, bytes)) = written.await? {
            store.wait_stored(ticket).await?;
            self.pace(began_ms, bytes, BYTES_PER_SECOND).await;
        }
        Ok(true)
    }
}
