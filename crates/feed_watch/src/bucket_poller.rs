//! Poller of the feeds of buckets whose entries are applied at other nodes alone: once a second,
//! one page for all who wait.
//!
//! The poller is a reader of its own: it reads from where it was level, and changes the signal if
//! something is there. What that is, the waiters read themselves, each by its own rights.
//!
//! Promises: a bucket is polled once in [`PERIOD`], and [`POLLS_MAX`] buckets at a time; while no
//! bucket is watched, nothing is read.

use crate::feed_signals::FeedSignals;
use base::feed::FeedOrigin;
use base::{BucketName, Error, FeedPage, Kind, Result};
use bytes::Bytes;
use runtime::join_set::JoinSet;
use runtime::{CancellationToken, round, world};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Period of the polls.
const PERIOD: Duration = Duration::from_secs(1);
/// Maximum number of polls at a time.
const POLLS_MAX: usize = 64;
/// Maximum time of a poll: those of other buckets go on then.
const POLL_TIME_MAX: Duration = Duration::from_secs(3);

/// Page of a feed, once it is read.
pub type PageFuture = Pin<Box<dyn Future<Output = Result<FeedPage>> + Send>>;

/// Access to the pages of feeds, with the rights of the node.
pub trait FeedPages: Send + Sync {
    /// Reads a page with one event at most and no value, and does not wait for an event.
    fn page(self: Arc<Self>, bucket: BucketName, from: FeedOrigin) -> PageFuture;
}

/// See the head of this file.
pub(crate) struct BucketPoller<P> {
    pages: Arc<P>,
    signals: Arc<FeedSignals>,
    /// Token of each watched bucket, at which it was level. `None`: it has none.
    tokens: BTreeMap<BucketName, Option<Bytes>>,
}

/// Outcome of a poll: the token for the next one, and true if the signal has to change.
type PollOutcome = (Option<Bytes>, bool);

/// Polls the watched buckets until the token is cancelled.
pub async fn poll_buckets<P: FeedPages + 'static>(
    pages: Arc<P>,
    signals: Arc<FeedSignals>,
    stop: CancellationToken,
) {
    let mut poller = BucketPoller::new(pages, signals.clone());
    while !stop.is_cancelled() {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = round::rest(signals.wait_watched()) => {}
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = poller.take_round() => {}
        }
        world::next_or_cancelled(&stop, PERIOD).await;
    }
}

impl<P: FeedPages + 'static> BucketPoller<P> {
    pub(crate) fn new(pages: Arc<P>, signals: Arc<FeedSignals>) -> BucketPoller<P> {
        BucketPoller { pages, signals, tokens: BTreeMap::new() }
    }

    /// Polls each watched bucket once.
    pub(crate) async fn take_round(&mut self) {
        let mut before = std::mem::take(&mut self.tokens);
        let (mut polls, mut waiting) = (JoinSet::new(), 0);
        for bucket in self.signals.watched() {
            if waiting == POLLS_MAX {
                self.on_outcome(polls.next().await);
                waiting -= 1;
            }
            let (pages, token) = (self.pages.clone(), before.remove(&bucket).flatten());
            polls.push(async move {
                let polled = poll(pages, bucket.clone(), token.clone());
                let outcome = world::timeout(POLL_TIME_MAX, polled).await;
                (bucket, outcome.unwrap_or((token, false)))
            });
            waiting += 1;
        }
        for _ in 0..waiting {
            self.on_outcome(polls.next().await);
        }
    }

    fn on_outcome(&mut self, (bucket, (token, is_changed)): (BucketName, PollOutcome)) {
        round::progress();
        if is_changed {
            self.signals.signal(&bucket);
        }
        self.tokens.insert(bucket, token);
    }
}

/// Polls a bucket. Without a token it counts as changed: who waits may have read an earlier page
/// than the one that the token comes from.
async fn poll<P: FeedPages>(
    pages: Arc<P>,
    bucket: BucketName,
    token: Option<Bytes>,
) -> PollOutcome {
    // Nobody answers now, or nobody knows: another poll will tell.
    let may_pass = |error: &Error| matches!(error.kind(), Kind::Unavailable | Kind::Unknown);
    if let Some(token) = token {
        let from = FeedOrigin::Token(token.clone());
        match pages.clone().page(bucket.clone(), from).await {
            Ok(page) if page.events.is_empty() && page.level && !page.restart => {
                return (Some(page.next), false);
            }
            Err(error) if may_pass(&error) => return (Some(token), false),
            // Waiters get the error, too.
            Ok(_) | Err(_) => {}
        }
    }
    match pages.page(bucket, FeedOrigin::Now).await {
        Ok(page) => (Some(page.next), true),
        Err(error) => (None, !may_pass(&error)),
    }
}
