//! Keeper of feeds: begins, builds, trims and ends the feeds of buckets in the groups that this
//! node leads, as the buckets' properties say.
//!
//! The rows of a group say which feeds stand there, and every replica adds changes to those in any
//! case (`replica_state/feed/`). So it does not matter when this loop acts on a change of a
//! property, nor on which node: the next master goes on where the last one stopped.
//!
//! Promises: one step at a time on a node, each at most a page; builds keep the pace of
//! `runtime/build_pacer.rs`, retention reads 32 MiB a second at most, and both take half of a
//! thread's time; without feeds the loop does nothing.
//! Never: decides which buckets have feeds; answers a query.

use crate::groups::Groups;
use crate::lifecycle::Lifecycle;
use base::error::shutting_down;
use base::{BucketId, BucketName, FeedMode, GroupId, Result};
use change_feed::{FeedPhase, FeedRecord};
use metadata::catalog::Catalog;
use replica_state::feed::due_page;
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::metrics::Metrics;
use runtime::{round, world};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Period of the checks, if nothing changes.
const PERIOD: Duration = Duration::from_secs(1);
/// Pause until a step is applied: the next one begins behind it.
const PAUSE_APPLY: Duration = Duration::from_millis(5);
/// Maximum bytes that retention reads and removes in a second. It has no other pace: it goes on for
/// as long as a feed is used, and is part of what writes take without a build.
const TRIM_BYTES_PER_SECOND: u64 = 32 << 20;

/// Outcome of [`DirectoryFreshness::make_current`], once it is known.
pub type FreshnessFuture<'a> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>>;

/// Access to the newest directory, which the node's router implements.
pub trait DirectoryFreshness: Send + Sync {
    /// Makes sure that this master of a group has applied every directory change that clients may
    /// have seen.
    fn make_current<'a>(&'a self, group: &'a Group) -> FreshnessFuture<'a>;
}

/// Keeper of the feeds of a node's groups.
pub struct FeedKeeper {
    groups: Arc<Groups>,
    catalog: Arc<Catalog>,
    directory: Box<dyn DirectoryFreshness>,
    metrics: Arc<Metrics>,
    lifecycle: Arc<Lifecycle>,
    /// Leadership epoch of the last step of each feed, and the record before it. While the applied
    /// record is the same, the step is under way.
    steps: BTreeMap<(GroupId, BucketId), (u64, Arc<FeedRecord>)>,
}

/// Task of the master of a group for the feed of one of its buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeedTask {
    /// Begin the feed, or keep values in it from now on, or no longer.
    Begin { has_values: bool },
    /// End the feed: its entries are removed from then on.
    End,
    /// Take the next step of building or removing the feed.
    Step,
    /// Remove old entries.
    Trim,
}

/// Outcome of one look at all groups.
#[derive(Default)]
struct FeedRoundOutcome {
    /// Feeds of which steps are due or under way.
    stepped: BTreeSet<(GroupId, BucketId)>,
    /// True if a step of a build or a removal was taken.
    has_stepped: bool,
    /// Bytes that retention read and removed.
    trimmed_bytes: u64,
    /// True if another task may be due once something is applied.
    is_busy: bool,
}

/// Returns what is to be done for a feed, by the bucket's property and the group's record.
fn task(mode: FeedMode, record: Option<&FeedRecord>) -> Option<FeedTask> {
    let has_values = mode == FeedMode::Values;
    match (mode, record.map(|record| record.phase)) {
        (_, Some(FeedPhase::Receiving)) | (FeedMode::Off, None) => None,
        (_, Some(FeedPhase::Dropping)) => Some(FeedTask::Step),
        (FeedMode::Off, Some(FeedPhase::Building | FeedPhase::Ready)) => Some(FeedTask::End),
        (_, None) => Some(FeedTask::Begin { has_values }),
        (_, Some(_)) if record.is_some_and(|record| record.has_values != has_values) => {
            Some(FeedTask::Begin { has_values })
        }
        (_, Some(FeedPhase::Building)) => Some(FeedTask::Step),
        (_, Some(FeedPhase::Ready)) => Some(FeedTask::Trim),
    }
}

impl FeedKeeper {
    /// Creates the keeper of these groups.
    pub fn new(
        groups: Arc<Groups>,
        catalog: Arc<Catalog>,
        directory: Box<dyn DirectoryFreshness>,
        metrics: Arc<Metrics>,
        lifecycle: Arc<Lifecycle>,
    ) -> FeedKeeper {
        FeedKeeper { groups, catalog, directory, metrics, lifecycle, steps: BTreeMap::new() }
    }

    /// Runs until the node stops.
    pub async fn run(mut self) {
        let stop = self.lifecycle.stop_signal();
        let mut changes = self.catalog.watch_fed();
        while !stop.is_cancelled() {
            changes.mark_unchanged();
            let pause = self.check().await;
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                _ = changes.changed() => {}
                () = round::rest(world::sleep(pause)) => {}
            }
        }
    }

    /// Does what is due for each feed in the groups that this node leads. Returns the pause before
    /// the next check.
    async fn check(&mut self) -> Duration {
        let began_ms = world::milliseconds();
        let mut outcome = FeedRoundOutcome::default();
        let groups = self.groups.all();
        for group in &groups {
            round::progress();
            if group.id == GroupId::DIRECTORY || !group.leadership.is_master() {
                continue;
            }
            if let Err(error) = self.tend(group, &mut outcome).await {
                tracing::debug!(
                    target: "node", group = group.id.0, %error,
                    "feeds are not as the directory says; it is retried"
                );
            }
        }
        self.steps.retain(|place, _| outcome.stepped.contains(place));
        let took = Duration::from_millis(world::milliseconds() - began_ms);
        // All groups of a node have one pacer.
        let paced = match groups.first().filter(|_| !outcome.stepped.is_empty()) {
            Some(group) => group.shared.build_pacer.delay().min(PERIOD),
            None => Duration::ZERO,
        };
        let trimmed_ms = outcome.trimmed_bytes * 1_000 / TRIM_BYTES_PER_SECOND;
        let paced = paced.max(Duration::from_millis(trimmed_ms));
        match outcome.is_busy || !outcome.stepped.is_empty() {
            true => PAUSE_APPLY.max(paced).max(took.min(PERIOD)),
            false => world::until_next(PERIOD),
        }
    }

    /// Returns the tasks of a group.
    fn tasks(&self, group: &Group) -> Vec<(BucketName, Arc<Bucket>, FeedTask)> {
        let fed = self.catalog.watch_fed();
        let of_group = (group.id, BucketId(0))..=(group.id, BucketId(u32::MAX));
        let mut names: BTreeMap<BucketId, BucketName> = {
            let fed = fed.borrow();
            fed.range(of_group).map(|((_, bucket), name)| (*bucket, name.clone())).collect()
        };
        let records: BTreeMap<BucketId, Arc<FeedRecord>> =
            group.feeds.all().into_iter().map(|(bucket, record, _)| (bucket, record)).collect();
        if records.keys().any(|bucket| !names.contains_key(bucket)) {
            for (bucket, name) in self.catalog.of_group(group.id) {
                if records.contains_key(&bucket) {
                    names.insert(bucket, name);
                }
            }
        }
        let mut tasks = Vec::new();
        for (id, name) in names {
            let bucket = self.catalog.find(&name);
            let Some(bucket) = bucket.filter(|found| (found.group, found.id) == (group.id, id))
            else {
                continue;
            };
            let record = records.get(&id).map(|record| &**record);
            let task = task(bucket.properties.feed, record);
            // What is removed while entries are copied could stay in the other group, and what is
            // built could be missing there.
            let is_building = record.is_some_and(|record| record.phase == FeedPhase::Building);
            let is_of_copy = |task: &FeedTask| match task {
                FeedTask::Trim => true,
                FeedTask::Step => is_building,
                FeedTask::Begin { .. } | FeedTask::End => false,
            };
            let task = task.filter(|task| bucket.moving.is_none() || !is_of_copy(task));
            tasks.extend(task.map(|task| (name, bucket, task)));
        }
        tasks
    }

    async fn tend(&mut self, group: &Arc<Group>, outcome: &mut FeedRoundOutcome) -> Result<()> {
        let epoch = group.leadership.epoch();
        let mut tasks = self.tasks(group);
        let changes = |task| matches!(task, FeedTask::Begin { .. } | FeedTask::End);
        if tasks.iter().any(|(.., task)| changes(*task)) {
            // What the directory said a while ago could end a feed that was begun since.
            self.directory.make_current(group).await?;
            tasks = self.tasks(group);
        }
        for (name, bucket, task) in tasks {
            round::progress();
            if let Err(error) = self.carry_out((group, epoch), &bucket, task, outcome).await {
                // A bucket that is sealed or moves must not hold up the others.
                tracing::debug!(
                    target: "node", bucket = %name, %error, "a feed is not tended; it is retried"
                );
            }
        }
        Ok(())
    }

    async fn carry_out(
        &mut self,
        (group, epoch): (&Arc<Group>, u64),
        bucket: &Arc<Bucket>,
        task: FeedTask,
        outcome: &mut FeedRoundOutcome,
    ) -> Result<()> {
        let id = bucket.id.0;
        match task {
            FeedTask::Begin { has_values } => {
                group.begin_feed(bucket, has_values, epoch)?;
                outcome.is_busy = true;
                tracing::debug!(target: "node", bucket = id, has_values, "a feed begins");
                Ok(())
            }
            FeedTask::End => {
                group.end_feed(bucket, epoch)?;
                outcome.is_busy = true;
                tracing::debug!(target: "node", bucket = id, "a feed ends");
                Ok(())
            }
            FeedTask::Step => self.step((group, epoch), bucket, outcome).await,
            FeedTask::Trim => self.trim((group, epoch), bucket, outcome).await,
        }
    }

    /// Takes the next step of a feed, unless the last one is under way. It counts for the applied
    /// record: entries of all changes before it are applied, too.
    async fn step(
        &mut self,
        (group, epoch): (&Arc<Group>, u64),
        bucket: &Arc<Bucket>,
        outcome: &mut FeedRoundOutcome,
    ) -> Result<()> {
        let place = (group.id, bucket.id);
        let Some(record) = group.feeds.find(bucket.id) else { return Ok(()) };
        // A step that was lost with its epoch is taken again.
        let is_under_way = |(begun, before): &(u64, Arc<FeedRecord>)| {
            *begun == epoch && Arc::ptr_eq(before, &record)
        };
        // In the same round as others: no feed waits for the end of another build.
        let waits = !outcome.has_stepped && !group.shared.build_pacer.is_due();
        if waits || self.steps.get(&place).is_some_and(is_under_way) {
            outcome.stepped.insert(place);
            return Ok(());
        }
        let (stepping, bucket, applied) = (group.clone(), bucket.clone(), record.clone());
        let step = move || stepping.step_feed(&bucket, &applied, epoch);
        let tasks = &self.lifecycle.tasks.loops;
        tasks.run_blocking(step).await.unwrap_or_else(|| Err(shutting_down()))?;
        // Not behind an error: then the step is taken again in the next period.
        outcome.stepped.insert(place);
        self.steps.insert(place, (epoch, record));
        outcome.has_stepped = true;
        Ok(())
    }

    /// Removes old entries of a feed, if there are some.
    async fn trim(
        &self,
        (group, epoch): (&Arc<Group>, u64),
        bucket: &Arc<Bucket>,
        outcome: &mut FeedRoundOutcome,
    ) -> Result<()> {
        let (trimmed, bucket) = (group.clone(), bucket.clone());
        let trim = move || {
            let snapshot = trimmed.shared.trees.snapshot();
            let (place, now) = ((trimmed.id, bucket.id), trimmed.now());
            let page = due_page(&*snapshot, place, &bucket.properties, now)?;
            drop(snapshot);
            let trim = |page| Ok((trimmed.trim_feed(&bucket, &page, epoch)?, page.bytes));
            page.map(trim).transpose()
        };
        let tasks = &self.lifecycle.tasks.loops;
        let step = tasks.run_blocking(trim).await.unwrap_or_else(|| Err(shutting_down()))?;
        if let Some((step, bytes)) = step {
            Metrics::add(&self.metrics.feed_entries_removed, step.removed);
            outcome.trimmed_bytes += bytes as u64;
            outcome.is_busy |= step.has_more;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use change_feed::FeedMaking;

    #[test]
    fn feed_has_the_task_that_brings_its_record_and_the_property_together() {
        use FeedTask::{Begin, End, Step, Trim};
        let record = |phase, has_values| FeedRecord {
            phase,
            has_values,
            era: 0,
            making: FeedMaking::default(),
            begun: 1,
            rows: 0,
            cursor: None,
        };
        let (keys, values) = (Begin { has_values: false }, Begin { has_values: true });
        for (mode, phase, expected) in [
            (FeedMode::Off, None, None),
            (FeedMode::Keys, None, Some(keys)),
            (FeedMode::Values, None, Some(values)),
            (FeedMode::Off, Some(FeedPhase::Building), Some(End)),
            (FeedMode::Off, Some(FeedPhase::Ready), Some(End)),
            (FeedMode::Off, Some(FeedPhase::Dropping), Some(Step)),
            (FeedMode::Off, Some(FeedPhase::Receiving), None),
            (FeedMode::Keys, Some(FeedPhase::Building), Some(Step)),
            (FeedMode::Keys, Some(FeedPhase::Ready), Some(Trim)),
            (FeedMode::Values, Some(FeedPhase::Ready), Some(values)),
            (FeedMode::Values, Some(FeedPhase::Receiving), None),
            (FeedMode::Keys, Some(FeedPhase::Dropping), Some(Step)),
        ] {
            let record = phase.map(|phase| record(phase, false));
            assert_eq!(task(mode, record.as_ref()), expected, "{mode:?}, {phase:?}");
        }
    }
}
