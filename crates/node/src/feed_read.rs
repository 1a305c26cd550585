//! Feeds of consistent buckets: pages from a group's applied rows, and requests that wait for the
//! next event.
//!
//! A request that waits holds its query and a place among the node's watchers, and no memory for
//! its answer. It waits where it entered, so that it takes no place of those that other nodes
//! forward: on a replica of the bucket's group for the entries that this replica applies, elsewhere
//! for some time. Then the next page is read like any other.

use crate::flow::{Caller, Flow};
use crate::index_query::NamedBucket;
use crate::route::{Route, Router};
use base::feed::{FeedOrigin, feed_building, feed_off};
use base::index::BuildProgress;
use base::limits::{FEED_PAGE_BYTES_MAX, FEED_WAIT_MS_MAX, FEED_WATCHERS_MAX, PAGE_ROWS_DEFAULT};
use base::{
    Body, Call, Error, FeedMode, FeedPage, FeedQuery, Read, Reason, Reply, Request, Result,
};
use change_feed::ConsistentToken;
use replica_state::feed::{FeedAnswer, PageOrigin, PageQuery, read_page};
use replication::group::Group;
use runtime::metrics::Metrics;
use runtime::submit::SubmitResult;
use runtime::world;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Pause after which a node without a replica of the bucket's group looks for an event again.
const POLL_PAUSE: Duration = Duration::from_secs(1);

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
pub(crate) fn answer_feed(group: &Group, of: NamedBucket<'_>, query: &FeedQuery) -> Result<Reply> {
    let NamedBucket { name, bucket } = of;
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

/// Request that waits for an event.
struct EventWatch {
    router: Arc<Router>,
    caller: Caller,
    /// Request for the next page, which does not wait.
    request: Request,
    /// Signal of the feed. `None`: there is no replica of the bucket's group here.
    signal: Option<watch::Receiver<()>>,
}

impl Router {
    /// Submits a query for a page, and waits for an event if there is none.
    #[cold]
    pub(crate) fn submit_watch(
        self: &Arc<Router>,
        flow: &mut Flow,
        mut request: Request,
        (route, wait): (Result<Route>, Duration),
    ) -> SubmitResult {
        if let Call::Read(Read::Feed(query), _) = &mut request.call {
            query.wait_ms = 0;
        }
        // Before the first page is read: an event in between changes it.
        let signal = match &route {
            Ok(Route::Local(local)) => local.group.feeds.watch(local.bucket.id),
            _ => None,
        };
        let deadline_ms = world::milliseconds() + wait.as_millis() as u64;
        let first = self.submit_to(flow, request.clone(), route);
        let watch = EventWatch { router: self.clone(), caller: flow.caller(), request, signal };
        SubmitResult::Later(Box::pin(watch.run(first, deadline_ms)))
    }
}

impl EventWatch {
    async fn run(mut self, first: SubmitResult, deadline_ms: u64) -> Result<Reply> {
        let mut reply = self.router.wait_reply(first).await?;
        let mut place = None;
        loop {
            let Body::FeedPage(page) = &reply.body else { return Ok(reply) };
            let rest_ms = deadline_ms.saturating_sub(world::milliseconds());
            let is_answer = !page.events.is_empty() || !page.level || page.restart;
            if is_answer || rest_ms == 0 || self.router.lifecycle.is_stopping() {
                return Ok(reply);
            }
            if let Call::Read(Read::Feed(query), _) = &mut self.request.call {
                query.from = FeedOrigin::Token(page.next.clone());
            }
            if place.is_none() {
                place = Some(self.router.feed_watchers.enter()?);
            }
            self.wait(Duration::from_millis(rest_ms)).await;
            let mut flow = Flow::internal(self.caller.clone());
            let next = self.router.submit(&mut flow, self.request.clone());
            reply = self.router.wait_reply(next).await?;
        }
    }

    /// Waits until another page may have an event, for so long at most.
    async fn wait(&mut self, rest: Duration) {
        let stop = self.router.lifecycle.stop_signal();
        let Some(signal) = &mut self.signal else {
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                () = world::sleep(rest.min(POLL_PAUSE)) => {}
            }
            return;
        };
        let is_over = tokio::select! {
            biased;
            () = stop.cancelled() => false,
            changed = signal.changed() => changed.is_err(),
            () = world::sleep(rest) => false,
        };
        if is_over {
            // The feed ended here: the bucket moved, or its feed was turned off.
            self.signal = None;
        }
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
