//! Keeper of indexes: begins, builds and removes the declared indexes of consistent buckets in the
//! groups that this node leads, as the directory says; reports to it how far they are; and checks
//! their entries against the rows.
//!
//! The rows of a group say which indexes stand there, and every write maintains those in any case
//! (`replication/indexing/`). So it does not matter when this loop acts on a change of the
//! directory, nor on which node: the next master goes on where the last one stopped.
//!
//! Promises: one step at a time on a node, each at most a page; builds and removals keep the pace
//! of `runtime/build_pacer.rs`, and take half of a thread's time; an index is reported ready by
//! what is applied; without indexes the loop does nothing.
//! Never: decides which indexes a bucket has; answers a query.
//! Read next: `tasks.rs`, `reports.rs`, then `scrub.rs`.

mod reports;
pub(crate) mod scrub;
mod tasks;

pub(crate) use reports::{ReportLog, failure_cause, progress_of};

use crate::route::Router;
use base::error::shutting_down;
use base::index::{IndexCall, IndexReport, ReportPlace, ReportedState};
use base::{Body, BucketId, BucketName, DirectoryCall, GroupId, Read, Result};
use indexes::IndexNumber;
use metadata::index::BucketIndexes;
use replica_state::replicated_index::{IndexPhase, ReplicatedIndex};
use replication::bucket::Bucket;
use replication::group::Group;
use replication::read::read_at_once;
use runtime::{round, world};
use scrub::IndexScrub;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tasks::{BucketState, IndexTask};

/// Period of the checks, if nothing changes: a new master continues what another one began.
pub(crate) const PERIOD: Duration = Duration::from_secs(1);
/// Pause until a step is applied: the next one begins behind it.
const PAUSE_APPLY: Duration = Duration::from_millis(5);
/// Maximum wait until the end of an index is applied, before the directory forgets the index.
const APPLY_WAIT_MAX: Duration = Duration::from_secs(5);

/// Consistent bucket with indexes, as this node's directory has it.
#[derive(Clone)]
struct DeclaredBucket {
    name: BucketName,
    bucket: Arc<Bucket>,
    indexes: Arc<BucketIndexes>,
}

/// Index of a group's bucket.
type IndexPlace = (GroupId, BucketId, IndexNumber);

/// Buckets with indexes, by group and by their number there.
type Declared = BTreeMap<GroupId, BTreeMap<BucketId, DeclaredBucket>>;

/// Keeper of the indexes of a node's groups.
pub(crate) struct IndexKeeper {
    router: Arc<Router>,
    reports: ReportLog<(BucketId, IndexNumber)>,
    /// Leadership epoch of the last step of each index, and the record before it. While the applied
    /// record is the same, the step is under way.
    steps: BTreeMap<IndexPlace, (u64, Arc<ReplicatedIndex>)>,
    scrub: IndexScrub,
}

/// Outcome of one look at all groups.
#[derive(Default)]
struct RoundOutcome {
    /// Indexes of which steps are due or under way.
    stepped: BTreeSet<IndexPlace>,
    /// Bytes that steps read and wrote.
    bytes: u64,
    /// True if something was begun or ended, whose next task is due once it is applied.
    has_begun: bool,
    /// True if the directory did not answer: other reports wait for the next look.
    is_unreported: bool,
}

/// Runs until the node stops.
pub(crate) async fn run(mut keeper: IndexKeeper) {
    let stop = keeper.router.lifecycle.stop_signal();
    let mut changes = keeper.router.locator.catalog.indexes.watch();
    while !stop.is_cancelled() {
        let pause = keeper.check().await;
        world::sleep_or_changed(&stop, &mut changes, pause).await;
    }
}

impl IndexKeeper {
    pub(crate) fn new(router: Arc<Router>) -> IndexKeeper {
        let (reports, steps) = (ReportLog::default(), BTreeMap::new());
        IndexKeeper { router, reports, steps, scrub: IndexScrub::default() }
    }

    /// Takes the next step of every index in the groups that this node leads. Returns the pause
    /// before the next check.
    async fn check(&mut self) -> Duration {
        #[cfg(test)]
        if self.router.is_index_keeper_paused.load(std::sync::atomic::Ordering::Acquire) {
            return PAUSE_APPLY;
        }
        let began_ms = world::milliseconds();
        let mut outcome = RoundOutcome::default();
        let (declared, mut led) = (self.declared(), Vec::new());
        for group in self.router.locator.groups.all() {
            round::progress();
            if group.id == GroupId::DIRECTORY || !group.leadership.is_master() {
                continue;
            }
            if let Err(error) = self.tend(&group, &declared, &mut outcome).await {
                tracing::debug!(
                    target: "node", group = group.id.0, %error,
                    "indexes are not as the directory says; it is retried"
                );
            }
            led.push(group);
        }
        self.steps.retain(|place, _| outcome.stepped.contains(place));
        self.reports.forget_old(world::milliseconds());
        let has_records = |group: &Arc<Group>| {
            !(group.indexes.buckets().is_empty() && group.indexes.tagged().is_empty())
        };
        let has_indexes = led.iter().any(has_records);
        let scrub_pause = if has_indexes { self.scrub(&led, &declared).await } else { PERIOD };
        let took = Duration::from_millis(world::milliseconds() - began_ms);
        let paced = led.first().map(|group| group.shared.build_pacer.delay());
        let paced = paced.unwrap_or_default().min(PERIOD);
        let is_busy = outcome.has_begun || !outcome.stepped.is_empty();
        let pause = match is_busy {
            true => PAUSE_APPLY.max(paced).max(took.min(PERIOD)),
            false => world::until_next(PERIOD),
        };
        // A build that waits for its pace is not hurried by the scrub.
        if outcome.bytes > 0 { pause } else { pause.min(scrub_pause) }
    }

    /// Returns the buckets with indexes that each group keeps, and those that arrive there, by
    /// their numbers in the group.
    fn declared(&self) -> Declared {
        let catalog = &self.router.locator.catalog;
        let mut declared = Declared::new();
        for (name, indexes) in catalog.indexes.all() {
            let Some(bucket) = catalog.find(&name) else { continue };
            let kept = Some((bucket.group, bucket.id));
            let arriving = bucket.moving.map(|moving| (moving.group, moving.id));
            let of = DeclaredBucket { name, bucket, indexes };
            for (group, id) in [kept, arriving].into_iter().flatten() {
                declared.entry(group).or_default().insert(id, of.clone());
            }
        }
        declared
    }

    /// Adds those of some buckets of a group that are not declared to have indexes.
    fn add_buckets(
        &self,
        group: &Group,
        added: &BTreeSet<BucketId>,
        declared: &mut BTreeMap<BucketId, DeclaredBucket>,
    ) {
        if added.iter().all(|bucket| declared.contains_key(bucket)) {
            return;
        }
        for (id, name) in self.router.locator.catalog.of_group(group.id) {
            let Some(bucket) = self.router.locator.catalog.find(&name) else { continue };
            if added.contains(&id) && bucket.id == id {
                let of = DeclaredBucket { name, bucket, indexes: Arc::default() };
                declared.entry(id).or_insert(of);
            }
        }
    }

    /// Returns the tasks of a group.
    fn tasks(
        &self,
        group: &Group,
        declared: &Declared,
    ) -> Vec<(BucketId, DeclaredBucket, IndexTask)> {
        let table = &self.router.locator.catalog.indexes;
        let mut declared = declared.get(&group.id).cloned().unwrap_or_default();
        let recorded = group.indexes.buckets();
        self.add_buckets(group, &recorded, &mut declared);
        let mut tasks = Vec::new();
        for (id, of) in declared {
            let records = group.indexes.of(id);
            if of.bucket.group != group.id {
                tasks.extend(arrived(&records).map(|task| (id, of.clone(), task)));
                continue;
            }
            let rows_total = rows_total(group, &of.bucket);
            let definitions = &of.indexes.definitions;
            let state =
                BucketState { declared: of.indexes.describe(), definitions, records, rows_total };
            let found = state.tasks(|number| table.is_dropped(number));
            tasks.extend(found.into_iter().map(|task| (id, of.clone(), task)));
        }
        tasks
    }

    /// Does what is to be done for the indexes of a group.
    async fn tend(
        &mut self,
        group: &Arc<Group>,
        declared: &Declared,
        outcome: &mut RoundOutcome,
    ) -> Result<()> {
        let epoch = group.leadership.epoch();
        let mut tasks = self.tasks(group, declared);
        if tasks.iter().any(|(.., task)| task.needs_current_directory()) {
            // What the directory said a while ago could end an index that was created since.
            self.router.make_directory_current(group).await?;
            tasks = self.tasks(group, &self.declared());
        }
        for (id, of, task) in tasks {
            round::progress();
            if let Err(error) = self.carry_out((group, epoch), (id, &of), task, outcome).await {
                // A bucket that is sealed or moves must not hold up the others.
                tracing::debug!(
                    target: "node", bucket = %of.name, %error,
                    "an index is not tended; it is retried"
                );
            }
        }
        Ok(())
    }

    async fn carry_out(
        &mut self,
        (group, epoch): (&Arc<Group>, u64),
        (id, of): (BucketId, &DeclaredBucket),
        task: IndexTask,
        outcome: &mut RoundOutcome,
    ) -> Result<()> {
        match task {
            IndexTask::Begin(definition) => {
                let number = definition.number;
                group.begin_index(&of.bucket, definition, epoch)?;
                outcome.has_begun = true;
                tracing::info!(
                    target: "node", bucket = %of.name, number = number.0, "an index begins"
                );
                Ok(())
            }
            IndexTask::End(number) => {
                group.end_index(&of.bucket, number, epoch)?;
                outcome.has_begun = true;
                tracing::info!(
                    target: "node", bucket = %of.name, number = number.0,
                    "an index ends; its entries are being removed"
                );
                Ok(())
            }
            IndexTask::Step(number) => self.step((group, epoch), of, number, outcome).await,
            IndexTask::Report(number, state) => self.report((id, of), number, state, outcome).await,
            IndexTask::ConfirmRemoval(number) => {
                // A record that was begun a moment ago may not be applied yet.
                let ticket = group.end_index(&of.bucket, number, epoch)?;
                if let Some(ticket) = ticket {
                    let applied = world::timeout(APPLY_WAIT_MAX, group.wait_applied(ticket));
                    let applied = round::wait("the end of an index", applied).await;
                    applied.unwrap_or_else(|| Err(shutting_down()))?;
                }
                let records = group.indexes.of(id);
                if records.iter().any(|record| record.definition.number == number) {
                    outcome.has_begun = true;
                    return Ok(());
                }
                self.report((id, of), number, ReportedState::Removed, outcome).await
            }
        }
    }

    /// Takes the next step of an index, unless the last one is under way.
    async fn step(
        &mut self,
        (group, epoch): (&Arc<Group>, u64),
        of: &DeclaredBucket,
        number: IndexNumber,
        outcome: &mut RoundOutcome,
    ) -> Result<()> {
        let place = (group.id, of.bucket.id, number);
        let records = group.indexes.of(of.bucket.id).into_iter();
        let record = records.into_iter().find(|record| record.definition.number == number);
        let Some(record) = record else { return Ok(()) };
        // A step that was lost with its epoch is taken again.
        let is_under_way = |(begun, before): &(u64, Arc<ReplicatedIndex>)| {
            *begun == epoch && Arc::ptr_eq(before, &record)
        };
        // In the same round as others: no index waits for the end of another build.
        let waits = outcome.bytes == 0 && !group.shared.build_pacer.is_due();
        if waits || self.steps.get(&place).is_some_and(is_under_way) {
            outcome.stepped.insert(place);
            return Ok(());
        }
        let (stepping, bucket) = (group.clone(), of.bucket.clone());
        let tasks = &self.router.lifecycle.tasks.loops;
        let step = move || stepping.step_index(&bucket, number, epoch);
        let step = tasks.run_blocking(step).await.unwrap_or_else(|| Err(shutting_down()))?;
        // Not behind an error: then the step is taken again in the next period.
        outcome.stepped.insert(place);
        self.steps.insert(place, (epoch, record));
        outcome.bytes += step.bytes as u64;
        Ok(())
    }

    /// Reports a state to the directory, if it was not reported a moment ago.
    async fn report(
        &mut self,
        (id, of): (BucketId, &DeclaredBucket),
        number: IndexNumber,
        state: ReportedState,
        outcome: &mut RoundOutcome,
    ) -> Result<()> {
        let now_ms = world::milliseconds();
        if outcome.is_unreported || !self.reports.is_due((id, number), &state, now_ms) {
            return Ok(());
        }
        let report =
            IndexReport { number: number.0, place: ReportPlace::Bucket(id), state: state.clone() };
        let call = DirectoryCall::Index(IndexCall::Report(report));
        let answer = self.router.call_directory(of.name.clone(), call);
        let answer = round::wait("the directory's answer to a report", answer).await;
        // Failures, too: the directory is asked again after a while.
        self.reports.note((id, number), state, now_ms);
        outcome.is_unreported = answer.is_err();
        answer
    }
}

/// Returns the reports about a bucket that moves to this group: what is complete here is ready as
/// soon as the move ends.
fn arrived(records: &[Arc<ReplicatedIndex>]) -> impl Iterator<Item = IndexTask> {
    let ready = records.iter().filter(|record| record.phase == IndexPhase::Ready);
    ready.map(|record| {
        IndexTask::Report(record.definition.number, ReportedState::Complete(record.rows))
    })
}

/// Returns the number of records of a bucket. `None`: it keeps no complete count.
fn rows_total(group: &Group, bucket: &Bucket) -> Option<u64> {
    match read_at_once(group, bucket, &Read::KeyCount)?.ok()?.body {
        Body::Size { keys, .. } => Some(keys),
        _ => None,
    }
}
