//! Scrub of indexes: compares the entries of the indexes in force with the rows, both ways, page by
//! page, and mends what differs.
//!
//! A page is compared as of one snapshot, without the group's lock. The group looks at each
//! difference again before it mends an entry. A difference is damage, of a store or of a program:
//! it is logged and counted.

use super::{Declared, DeclaredBucket, IndexKeeper};
use base::error::shutting_down;
use base::{BucketId, GroupId, Result};
use replica_state::index_check::{CheckBounds, CheckCursor, CheckPage, check_page};
use replication::group::Group;
use runtime::metrics::Metrics;
use runtime::world;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two pages: at most a page of 1 MiB in a second.
const PAGE_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 10 } else { 1_000 });
/// Pause between two rounds.
const ROUND_PAUSE: Duration = Duration::from_millis(if cfg!(test) { 250 } else { 3_600_000 });
/// Bounds of a page.
const PAGE: CheckBounds = CheckBounds { keys: 1_024, bytes: 1 << 20, mismatches: 256 };

/// Returns the pause before the next page of a scrub, or of the next round if there is none. Ends
/// with those of other loops.
pub(crate) fn pause(has_next: bool) -> Duration {
    world::until_next(if has_next { PAGE_PAUSE } else { ROUND_PAUSE })
}

/// Progress of the scrub.
#[derive(Default)]
pub(super) struct IndexScrub {
    /// Bucket of the next page, and the place of this page. `None`: a round begins.
    place: Option<((GroupId, BucketId), CheckCursor)>,
    /// Time of the next page, in milliseconds.
    due_ms: u64,
}

impl IndexKeeper {
    /// Checks the next page of some index in these groups, if it is due. Returns the time until the
    /// next one.
    pub(super) async fn scrub(&mut self, groups: &[Arc<Group>], declared: &Declared) -> Duration {
        let now_ms = world::milliseconds();
        if now_ms < self.scrub.due_ms {
            return Duration::from_millis(self.scrub.due_ms - now_ms);
        }
        let mut declared = declared.clone();
        for group in groups {
            let buckets = declared.entry(group.id).or_default();
            self.add_buckets(group, &group.indexes.tagged(), buckets);
        }
        let declared = &declared;
        let place = self.scrub.place.take();
        let from = place.as_ref().map(|(bucket, _)| *bucket);
        let Some((group, of)) = next_scrubbed(groups, declared, from) else {
            let pause = pause(false);
            self.scrub.due_ms = now_ms + pause.as_millis() as u64;
            return pause;
        };
        let bucket = (group.id, of.bucket.id);
        let cursor = place.filter(|(former, _)| *former == bucket).map(|(_, cursor)| cursor);
        let next = match self.scrub_page(&group, &of, cursor).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(
                    target: "node", bucket = %of.name, %error,
                    "an index can't be checked; it is checked again in the next round"
                );
                None
            }
        };
        let next = match next {
            Some(cursor) => Some((bucket, cursor)),
            None => {
                let following = (bucket.0, BucketId(bucket.1.0.saturating_add(1)));
                let following = next_scrubbed(groups, declared, Some(following));
                following.map(|(group, of)| ((group.id, of.bucket.id), CheckCursor::Rows(None)))
            }
        };
        let pause = pause(next.is_some());
        let due_ms = world::milliseconds() + pause.as_millis() as u64;
        self.scrub = IndexScrub { place: next, due_ms };
        pause
    }

    /// Checks a page of a bucket, and mends what differs. Returns the place of the next one.
    /// `None`: it was the last.
    async fn scrub_page(
        &self,
        group: &Arc<Group>,
        of: &DeclaredBucket,
        cursor: Option<CheckCursor>,
    ) -> Result<Option<CheckCursor>> {
        let (checked, bucket) = (group.clone(), of.bucket.clone());
        let check = move || -> Result<(CheckPage, u64)> {
            let epoch = checked.leadership.epoch();
            let cursor = cursor.unwrap_or(CheckCursor::Rows(None));
            let snapshot = checked.shared.trees.snapshot();
            let page = check_page(&*snapshot, (checked.id, bucket.id), &cursor, PAGE)?;
            drop(snapshot);
            let mended = match page.mismatches.is_empty() {
                true => 0,
                false => checked.mend_index(&bucket, &page.mismatches, epoch)?,
            };
            Ok((page, mended))
        };
        let tasks = &self.router.lifecycle.tasks.loops;
        let checked = tasks.run_blocking(check).await.unwrap_or_else(|| Err(shutting_down()));
        let (page, mended) = checked?;
        if mended > 0 {
            Metrics::add(&self.router.metrics.index_entries_mended, mended);
            tracing::error!(
                target: "node", bucket = %of.name, mended, first = ?page.mismatches.first(),
                "entries of an index differed from the rows, and were mended"
            );
        }
        Ok(page.next)
    }
}

/// Returns the first bucket with records of indexes at or behind this one.
fn next_scrubbed(
    groups: &[Arc<Group>],
    declared: &Declared,
    from: Option<(GroupId, BucketId)>,
) -> Option<(Arc<Group>, DeclaredBucket)> {
    let from = from.unwrap_or((GroupId(0), BucketId(0)));
    groups.iter().filter(|group| group.id >= from.0).find_map(|group| {
        let mut buckets = declared.get(&group.id)?.iter();
        let found = buckets.find(|(id, of)| {
            // One that arrives is not checked before its move ends.
            let is_kept = of.bucket.group == group.id && group.indexes.has(**id);
            is_kept && (group.id, **id) >= from
        });
        found.map(|(_, of)| (group.clone(), of.clone()))
    })
}
