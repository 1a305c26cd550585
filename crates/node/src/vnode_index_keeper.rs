//! Keeper of indexes of available buckets: brings into force on this node the index of tags and
//! what the directory declares, builds them from this node's rows, removes what was dropped,
//! reports to the directory, and checks entries against rows.
//!
//! A record in the store of the vnodes says that an index is in force, and every change of a row
//! maintains those indexes (`dynamo/index_upkeep/`). So it does not matter when this loop acts on a
//! change of the directory: until it has, this node refuses queries of the index, and others answer
//! them. The record also says how far a build has come, so a node that starts again goes on there.
//!
//! Promises: one page at a time; builds and removals read 32 MiB a second at most; an index is
//! reported complete once its build is stored; the entries of a number that no row has are removed
//! (`docs/decisions/0039-index-rows.md`).
//! Never: decides which indexes a bucket has; asks another node for its entries.

use crate::index_keeper::{PERIOD, ReportLog, scrub};
use crate::route::Router;
use base::index::{BuildProgress, IndexCall, IndexReport, IndexState, ReportPlace, ReportedState};
use base::{BucketName, DirectoryCall, FeatureLevel, Result};
use dynamo::index_upkeep::{IndexStatus, ScrubCursor, ScrubPage};
use indexes::IndexNumber;
use runtime::build_pacer::PACE_MAX;
use runtime::{round, world};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use vnode_rows::index_rows::{IndexId, IndexPhase};

/// Period of the checks while nothing is awaited. A change of the directory is noticed at once.
const IDLE_PERIOD: Duration = Duration::from_secs(60);

/// Keeper of the indexes of a node's vnodes.
pub(crate) struct VnodeIndexKeeper {
    router: Arc<Router>,
    reports: ReportLog<IndexNumber>,
    /// Numbers that no row of the directory has, each with the time at which this was noticed. The
    /// directory's rows are applied one by one: its counter of numbers may come before the row.
    unlisted: BTreeMap<IndexNumber, u64>,
    /// Next page of the scrub. `None`: a round begins.
    scrub_cursor: Option<ScrubCursor>,
    /// Time of that page, in milliseconds.
    scrub_due_ms: u64,
}

/// Runs until the node stops.
pub(crate) async fn run(mut keeper: VnodeIndexKeeper) {
    let stop = keeper.router.lifecycle.stop_signal();
    let mut changes = keeper.router.locator.catalog.indexes.watch();
    while !stop.is_cancelled() {
        let pause = keeper.check().await;
        world::sleep_or_changed(&stop, &mut changes, pause).await;
    }
}

impl VnodeIndexKeeper {
    pub(crate) fn new(router: Arc<Router>) -> VnodeIndexKeeper {
        VnodeIndexKeeper {
            router,
            reports: ReportLog::default(),
            unlisted: BTreeMap::new(),
            scrub_cursor: None,
            scrub_due_ms: 0,
        }
    }

    /// Does what is due: at most a page of a build or a removal, and a page of the scrub. Returns
    /// the pause before the next check.
    async fn check(&mut self) -> Duration {
        round::progress();
        #[cfg(test)]
        if self.router.is_index_keeper_paused.load(std::sync::atomic::Ordering::Acquire) {
            return Duration::from_millis(5);
        }
        match self.tend().await {
            Ok(pause) => pause,
            Err(error) => {
                tracing::debug!(
                    target: "node", %error,
                    "indexes of available buckets are not as the directory says; it is retried"
                );
                world::until_next(PERIOD)
            }
        }
    }

    async fn tend(&mut self) -> Result<Duration> {
        let store = &self.router.available.vnode_store;
        let statuses = self.apply_directory(store.index_statuses()?)?;
        if statuses.is_empty() {
            // The cluster has not reached the level of indexes; a new one reaches it soon.
            return Ok(world::until_next(PERIOD));
        }
        let is_busy = self.router.available.work_on_index(PACE_MAX).await?;
        // A page's changes are reported in the next round, which follows it at once.
        let is_awaited = self.report(&statuses).await? || !self.unlisted.is_empty();
        let scrub_pause = self.scrub().await?;
        let pause = world::until_next(if is_awaited { PERIOD } else { IDLE_PERIOD });
        Ok(if is_busy { Duration::ZERO } else { pause.min(scrub_pause) })
    }

    /// Brings the declared indexes into force, and takes dropped ones out of it. Returns the states
    /// of all indexes here.
    fn apply_directory(&mut self, statuses: Vec<IndexStatus>) -> Result<Vec<IndexStatus>> {
        let (catalog, store) = (&self.router.locator.catalog, &self.router.available.vnode_store);
        let (now_ms, mut has_changed) = (world::milliseconds(), false);
        let unlisted = |status: &IndexStatus| match &status.id {
            IndexId::Declared(bucket, number) if status.phase != IndexPhase::Dropping => {
                catalog.indexes.is_dropped(*number).then(|| (bucket.clone(), *number))
            }
            _ => None,
        };
        let unlisted: Vec<_> = statuses.iter().filter_map(unlisted).collect();
        self.unlisted.retain(|number, _| unlisted.iter().any(|(_, it)| it == number));
        for (bucket, number) in unlisted {
            let noticed_ms = *self.unlisted.entry(number).or_insert(now_ms);
            if now_ms >= noticed_ms + PERIOD.as_millis() as u64 {
                has_changed |= store.drop_index(&bucket, number)?.is_some();
                tracing::info!(
                    target: "node", %bucket, number = number.0,
                    "an index ends here; its entries are being removed"
                );
            }
        }
        let known: BTreeSet<_> = statuses.iter().map(|status| &status.id).collect();
        // Below its level, a node of an earlier program could be started on these rows, and would
        // write some without their entries.
        let has_level = catalog.cluster().level >= FeatureLevel::WITH_INDEXES;
        if has_level && !known.contains(&IndexId::Tags) {
            store.add_tag_index()?;
            has_changed = true;
        }
        for (bucket, indexes) in catalog.indexes.all() {
            // The groups of consistent buckets keep theirs.
            if catalog.available.find(&bucket).is_none() {
                continue;
            }
            for definition in indexes.definitions.iter() {
                let number = definition.number;
                if known.contains(&IndexId::Declared(bucket.clone(), number)) {
                    continue;
                }
                if let Err(error) = store.add_index(&bucket, definition.clone()) {
                    // Its name may be that of a dropped index, which goes first.
                    tracing::debug!(target: "node", %bucket, %error, "it is retried");
                    continue;
                }
                has_changed = true;
                tracing::info!(
                    target: "node", %bucket, number = number.0, "an index begins here"
                );
            }
        }
        if has_changed { store.index_statuses() } else { Ok(statuses) }
    }

    /// Reports the indexes that the directory takes for unfinished. It asks enough nodes for a
    /// quorum of every partition, and repeated reports let it look at the ring again. Returns true
    /// if there are any.
    async fn report(&mut self, statuses: &[IndexStatus]) -> Result<bool> {
        self.reports.forget_old(world::milliseconds());
        let mut is_awaited = false;
        for status in statuses {
            let IndexId::Declared(bucket, number) = &status.id else { continue };
            let declared = self.router.locator.catalog.indexes.find(bucket);
            let state = declared.and_then(|indexes| indexes.state(*number));
            let Some(IndexState::Building(_)) = state else { continue };
            is_awaited = true;
            let reported = match status.phase {
                IndexPhase::Building => ReportedState::Building(progress_of(status)),
                IndexPhase::Ready => ReportedState::Complete(status.rows),
                IndexPhase::Dropping => continue,
            };
            if self.reports.is_due(*number, &reported, world::milliseconds()) {
                self.send_report(bucket, *number, reported).await?;
            }
        }
        Ok(is_awaited)
    }

    async fn send_report(
        &mut self,
        bucket: &BucketName,
        number: IndexNumber,
        state: ReportedState,
    ) -> Result<()> {
        let place = ReportPlace::Node(self.router.available.node);
        let report = IndexReport { number: number.0, place, state: state.clone() };
        let call = DirectoryCall::Index(IndexCall::Report(report));
        let answer = self.router.call_directory(bucket.clone(), call);
        let answer = round::wait("the directory's answer to a report", answer).await;
        // Failures, too: the directory is asked again after a while.
        self.reports.note(number, state, world::milliseconds());
        answer
    }

    /// Checks the next page, if it is due. Returns the time until the next one.
    async fn scrub(&mut self) -> Result<Duration> {
        let now_ms = world::milliseconds();
        if now_ms < self.scrub_due_ms {
            return Ok(Duration::from_millis(self.scrub_due_ms - now_ms));
        }
        let mut cursor = self.scrub_cursor.take().unwrap_or_default();
        // An empty page, as on a node without entries, is followed by the next at once.
        let page = loop {
            match self.router.available.scrub_index_page(cursor).await {
                Ok(ScrubPage { next: Some(next), bytes: 0, .. }) => cursor = next,
                page => break page,
            }
        };
        self.scrub_cursor = page.as_ref().ok().and_then(|page| page.next.clone());
        let pause = scrub::pause(self.scrub_cursor.is_some());
        self.scrub_due_ms = world::milliseconds() + pause.as_millis() as u64;
        page.map(|_| pause)
    }
}

/// Returns the progress of a build: the rows that were read, and an estimate of all by the slots
/// that they were in.
fn progress_of(status: &IndexStatus) -> BuildProgress {
    let IndexStatus { rows, slots_done, slots, .. } = *status;
    let total = rows.saturating_mul(slots.into()).checked_div(slots_done.into());
    BuildProgress { done: rows, total: total.unwrap_or(rows).max(rows) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_estimates_all_rows_by_the_slots_that_were_read() {
        let progress = |rows, slots_done| {
            let (id, phase) = (IndexId::Tags, IndexPhase::Building);
            let status =
                IndexStatus { id, phase, definition: None, rows, slots_done, slots: 1_024 };
            progress_of(&status)
        };
        assert_eq!(progress(0, 0), BuildProgress::default());
        assert_eq!(progress(7, 0), BuildProgress { done: 7, total: 7 });
        assert_eq!(progress(10, 256), BuildProgress { done: 10, total: 40 });
        assert_eq!(progress(10, 1_024), BuildProgress { done: 10, total: 10 });
    }
}
