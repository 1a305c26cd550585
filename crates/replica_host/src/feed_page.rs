//! Pages of the feeds of consistent buckets, from a group's applied rows.

use base::feed::{FeedOrigin, feed_building, feed_off};
use base::index::BuildProgress;
use base::limits::{FEED_PAGE_BYTES_MAX, FEED_WAIT_MS_MAX, PAGE_ROWS_DEFAULT};
use base::{Body, BucketName, Call, FeedMode, FeedPage, FeedQuery, Read, Reply, Request, Result};
use change_feed::ConsistentToken;
use replica_state::feed::{FeedAnswer, PageOrigin, PageQuery, read_page};
use replication::bucket::Bucket;
use replication::group::Group;
use runtime::metrics::Metrics;
use std::time::Duration;

/// Reads a page of the feed of a bucket from a group's applied rows. Slow: belongs on a thread that
/// may block. Errors: `feed_off`, `feed_building`, `malformed_token`.
pub fn answer_feed(
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
pub fn event_wait(request: &Request) -> Option<Duration> {
    match &request.call {
        Call::Read(Read::Feed(query), _) if query.wait_ms > 0 => {
            Some(Duration::from_millis(query.wait_ms.min(FEED_WAIT_MS_MAX)))
        }
        _ => None,
    }
}
