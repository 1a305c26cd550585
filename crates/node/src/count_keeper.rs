//! Keeper of counts: begins, completes and ends the counts of buckets in the groups that this node
//! leads, as the buckets' property `counted` says.
//!
//! The rows of a group say which counts stand there, and its master keeps those right in any case
//! (`replication/counts.rs`). So it does not matter when this loop acts on a change of the
//! property, nor on which node: until a count is complete, requests count by a scan.
//!
//! Promises: a scan takes half of a thread's time at most; one runs at a time on a node.

use crate::route::Router;
use base::error::shutting_down;
use base::{BucketId, GroupId, Result};
use replication::count_scan::CountScan;
use replication::group::Group;
use runtime::{round, world};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Period of the checks, if nothing changes: a new master continues what another one began.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause until a count that was just begun is applied.
const PAUSE_BEGUN: Duration = Duration::from_millis(20);
/// Shortest and longest pause between two parts of a scan; otherwise as long as the part took.
const PAUSE_SCAN: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(100));

/// Bytes of rows that one part of a scan reads. Tests have few rows and need many parts.
const PART_BYTES: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };

/// Keeper of the counts of a node's groups.
pub(crate) struct CountKeeper {
    router: Arc<Router>,
    /// Scan in progress, and the group of its bucket.
    scan: Option<(Arc<Group>, CountScan)>,
}

/// Runs until the node stops.
pub(crate) async fn run(mut keeper: CountKeeper) {
    let stop = keeper.router.lifecycle.stop_signal();
    let mut changes = keeper.router.directory.catalog.watch_counted();
    while !stop.is_cancelled() {
        let pause = keeper.check().await;
        world::sleep_or_changed(&stop, &mut changes, pause).await;
    }
}

impl CountKeeper {
    pub(crate) fn new(router: Arc<Router>) -> CountKeeper {
        CountKeeper { router, scan: None }
    }

    /// Takes one step in each group that this node leads. Returns the pause before the next check.
    async fn check(&mut self) -> Duration {
        let mut incomplete = Vec::new();
        for group in self.router.locator.groups.all() {
            round::progress();
            if !group.leadership.is_master() {
                continue;
            }
            match check_group(&self.router, &group).await {
                Ok(buckets) => incomplete.extend(buckets.into_iter().map(|id| (group.clone(), id))),
                Err(error) => tracing::debug!(
                    target: "node", group = group.id.0, %error,
                    "counts are not as wanted; it is retried"
                ),
            }
        }
        let took = match self.scan(&incomplete).await {
            Ok(took) => took,
            Err(error) => {
                self.scan = None;
                tracing::debug!(target: "node", %error, "a count is not complete; it is retried");
                return world::until_next(PERIOD);
            }
        };
        match (took, incomplete.is_empty()) {
            (Some(took), _) => took.clamp(PAUSE_SCAN.0, PAUSE_SCAN.1),
            (None, false) => PAUSE_BEGUN,
            (None, true) => world::until_next(PERIOD),
        }
    }

    /// Reads one part of a scan. Returns the time that it took. `None`: there is nothing to scan
    /// yet.
    async fn scan(&mut self, incomplete: &[(Arc<Group>, BucketId)]) -> Result<Option<Duration>> {
        let began_ms = world::milliseconds();
        let is_wanted = |(group, scan): &(Arc<Group>, CountScan)| {
            let is_same = |(other, bucket): &(Arc<Group>, BucketId)| {
                Arc::ptr_eq(group, other) && *bucket == scan.bucket
            };
            incomplete.iter().any(is_same)
        };
        let mut scan = self.scan.take().filter(is_wanted);
        for (group, bucket) in incomplete {
            if scan.is_none() {
                scan = group.begin_count_scan(*bucket)?.map(|scan| (group.clone(), scan));
            }
        }
        let Some((group, mut scan)) = scan else { return Ok(None) };
        let tasks = &self.router.lifecycle.tasks.loops;
        let read = move || scan.advance(PART_BYTES).map(|is_last| (scan, is_last));
        let (scan, is_last) =
            tasks.run_blocking(read).await.unwrap_or_else(|| Err(shutting_down()))?;
        if is_last {
            group.complete_count(&scan)?;
            let bucket = scan.bucket.0;
            tracing::debug!(target: "node", bucket, "the count of a bucket is complete");
        } else {
            self.scan = Some((group, scan));
        }
        Ok(Some(Duration::from_millis(world::milliseconds() - began_ms)))
    }
}

/// Begins and ends the counts of a group. Returns its buckets with incomplete counts.
async fn check_group(router: &Arc<Router>, group: &Arc<Group>) -> Result<Vec<BucketId>> {
    let epoch = group.leadership.epoch();
    let present = group.counted_buckets();
    let has = |bucket: &BucketId| present.iter().any(|(counted, _)| counted == bucket);
    let wanted = wanted_counts(router, group.id);
    let matches = present.len() == wanted.len() && wanted.iter().all(has);
    if !matches {
        // What the directory said a while ago could end a count that was begun since.
        router.make_directory_current(group).await?;
        let wanted = wanted_counts(router, group.id);
        for (bucket, _) in present.iter().filter(|(bucket, _)| !wanted.contains(bucket)) {
            group.end_count(*bucket, epoch)?;
            tracing::debug!(target: "node", bucket = bucket.0, "the count of a bucket ended");
        }
        for bucket in wanted.iter().filter(|bucket| !has(bucket)) {
            group.begin_count(*bucket, epoch)?;
            tracing::debug!(target: "node", bucket = bucket.0, "the count of a bucket began");
        }
    }
    let buckets = group.counted_buckets().into_iter();
    Ok(buckets.filter(|(_, is_complete)| !is_complete).map(|(bucket, _)| bucket).collect())
}

/// Returns the buckets of a group that are to be counted, by this node's directory.
fn wanted_counts(router: &Router, group: GroupId) -> BTreeSet<BucketId> {
    let counted = router.directory.catalog.watch_counted();
    let counted = counted.borrow();
    let of_group = (group, BucketId(0))..=(group, BucketId(u32::MAX));
    counted.range(of_group).map(|(_, bucket)| *bucket).collect()
}
