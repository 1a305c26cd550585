//! Pages of the feeds of consistent buckets, from a group's applied rows, and the places of the
//! requests that wait for one.

use base::feed::{FeedOrigin, feed_building, feed_off};
use base::index::BuildProgress;
use base::limits::{FEED_PAGE_BYTES_MAX, FEED_WAIT_MS_MAX, FEED_WATCHERS_MAX, PAGE_ROWS_DEFAULT};
use base::{
    Body, BucketName, Call, Error, FeedMode, FeedPage, FeedQuery, Read, Reason, Reply, Request,
    Result,
};
use change_feed::ConsistentToken;
use replica_state::feed::{FeedAnswer, PageOrigin, PageQuery, read_page};
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::metrics::Metrics;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Places of the requests that wait at this node for an event.
pub(crate) struct FeedWatchers(Arc<Semaphore>);

impl Default for FeedWatchers {
    fn default() -> FeedWatchers {
        FeedWatchers(Arc::new(Semaphore::new(FEED_WATCHERS_MAX)))
    }
}

impl FeedWatchers {
    /// Returns a place, which is free again once it is dropped. Errors: `too_many`.
    pub(crate) fn enter(&self) -> Result<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().map_err(|_| {
            let text = format!(
                "{FEED_WATCHERS_MAX} requests wait for events of feeds at this node \
                 (feed_watchers_max): ask another node, or ask without waiting"
            );
            Error::new(Reason::TooMany, text)
        })
    }
}

/// Reads a page of the feed of a bucket from a group's applied rows. Slow: belongs on a thread that
/// may block. Errors: `feed_off`, `feed_building`, `malformed_token`.
pub(crate) fn answer_feed(
    group: &Group,
    (name, bucket): (&BucketName, &Bucket),
    query: &FeedQuery,
) -> Result<Reply> {
    if bucket.properties.feed == FeedMode::Off {
        return Err(feed_off(name));
    }
    let origin = match &query.from {
        FeedOrigin::Start => PageOrigin::Start,
        FeedOrigin::Now => PageOrigin::Now,
        FeedOrigin::Token(token) => PageOrigin::Token(ConsistentToken::decode(name, token)?),
    };
    // Before the snapshot is taken: a master that was one all the time knows what any replica may
    // have applied.
    let decided = group.leadership.is_master().then(|| group.state().progress.decided);
    let asked = PageQuery {
        origin,
        events_max: query.events_max.unwrap_or(PAGE_ROWS_DEFAULT),
        bytes_max: FEED_PAGE_BYTES_MAX,
        has_values: query.values,
        decided,
    };
    let snapshot = group.shared.trees.snapshot();
    let log_index = group.applied.visible_index();
    match read_page(&*snapshot, (group.id, bucket.id), &asked)? {
        FeedAnswer::Page(page) => {
            let next = page.next.encode(name);
            let (level, restart) = (page.is_level, page.is_restart);
            if restart {
                Metrics::count(&group.shared.metrics.feed_restarts);
            }
            let page = FeedPage { events: page.events, next, level, restart };
            Ok(Reply::new(log_index, Body::FeedPage(Box::new(page))))
        }
        FeedAnswer::Building(done) => Err(feed_building(name, BuildProgress { done, total: done })),
        // The group has not begun it yet.
        FeedAnswer::Off => Err(feed_building(name, BuildProgress::default())),
    }
}

/// Returns the time for which a request waits for an event. `None`: it does not wait.
#[inline]
pub(crate) fn event_wait(request: &Request) -> Option<Duration> {
    match &request.call {
        Call::Read(Read::Feed(query), _) if query.wait_ms > 0 => {
            Some(Duration::from_millis(query.wait_ms.min(FEED_WAIT_MS_MAX)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchers_beyond_the_limit_are_refused() {
        let watchers = FeedWatchers::default();
        let mut places: Vec<_> =
            (0..FEED_WATCHERS_MAX).map(|_| watchers.enter().expect("a place")).collect();
        let refused = watchers.enter().expect_err("no place is left");
        assert_eq!(refused.reason, Reason::TooMany);
        assert!(refused.text().contains("feed_watchers_max"), "{refused}");
        places.pop();
        assert!(watchers.enter().is_ok(), "one has left");
    }
}
