//! Requests that wait for the next event of a feed.
//!
//! A request that waits holds its query and a place among the node's watchers, and no memory for
//! its answer. It waits where it entered, so that it takes no place of those that other nodes
//! forward, for a signal:
//!
//! | bucket | signal |
//! |---|---|
//! | consistent, with a replica here | that of the entries that this replica applies |
//! | consistent, without one | that of a poll, which all who wait share |
//! | available | that of changes at the nodes of the ring (`dynamo/feed_follower.rs`) |
//!
//! Then the next page is read like any other. Without a signal the answer is the page that was read
//! when the request came: nothing has changed since, or nobody here knows.

use crate::flow::{Caller, Flow};
use crate::route::{Route, Router};
use base::feed::FeedOrigin;
use base::{
    Body, BucketName, Call, FeedMode, FeedPage, FeedQuery, LogIndex, Principal, Read, ReadLevel,
    Reply, Request, Result,
};
use feed_watch::{EventSignal, FeedPages, PageFuture};
use runtime::submit::SubmitResult;
use runtime::world;
use std::sync::Arc;
use std::time::Duration;

/// Request that waits for an event.
struct EventWatch {
    router: Arc<Router>,
    caller: Caller,
    /// Request for the next page, which does not wait.
    request: Request,
    signal: EventSignal,
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
        let deadline_ms = world::milliseconds() + wait.as_millis() as u64;
        // Before the first page is read: an event in between changes it.
        let signal = self.event_signal(&request.bucket, &route);
        let (router, caller) = (self.clone(), flow.caller());
        let watch = EventWatch { router, caller, request, signal };
        let first = match watch.known_level() {
            Some(reply) => SubmitResult::Ready(Ok(reply)),
            None => self.submit_to(flow, watch.request.clone(), route),
        };
        SubmitResult::Later(Box::pin(watch.run(first, deadline_ms)))
    }

    fn event_signal(&self, bucket: &BucketName, route: &Result<Route>) -> EventSignal {
        let polled = &self.feed_watchers.polled;
        match route {
            Ok(Route::Local(local)) => match local.group.feeds.watch(local.bucket.id) {
                Some(applied) => EventSignal::Applied(applied),
                None => EventSignal::polled(polled, bucket),
            },
            Ok(Route::Remote(_)) => EventSignal::polled(polled, bucket),
            Ok(Route::Available(properties)) if properties.feed != FeedMode::Off => {
                EventSignal::ring(&self.available.feed_signals, bucket)
            }
            // The page is an error.
            Ok(Route::Available(_)) | Err(_) => EventSignal::Missing,
        }
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
            self.signal.note_level(&page.next);
            if let Call::Read(Read::Feed(query), _) = &mut self.request.call {
                query.from = FeedOrigin::Token(page.next.clone());
            }
            if place.is_none() {
                place = Some(self.router.feed_watchers.enter()?);
            }
            let stop = self.router.lifecycle.stop_signal();
            if !self.signal.wait(Duration::from_millis(rest_ms), &stop).await {
                return Ok(reply);
            }
            let mut flow = Flow::internal(self.caller.clone());
            let next = self.router.submit(&mut flow, self.request.clone());
            reply = self.router.wait_reply(next).await?;
        }
    }

    /// Returns the page of a reader that is known to be level.
    fn known_level(&self) -> Option<Reply> {
        let Call::Read(Read::Feed(query), _) = &self.request.call else { return None };
        let FeedOrigin::Token(token) = &query.from else { return None };
        let page = FeedPage { next: token.clone(), level: true, ..FeedPage::default() };
        let is_level = self.signal.is_level(token);
        is_level.then(|| Reply::new(LogIndex(0), Body::FeedPage(Box::new(page))))
    }
}

impl FeedPages for Router {
    fn page(self: Arc<Router>, bucket: BucketName, from: FeedOrigin) -> PageFuture {
        Box::pin(async move {
            let query = FeedQuery { from, events_max: Some(1), ..FeedQuery::default() };
            let call = Call::Read(Read::Feed(Box::new(query)), ReadLevel::Consistent);
            let request = Request { bucket, call, retry: None };
            match self.handle(&Principal::Node, request).await?.body {
                Body::FeedPage(page) => Ok(*page),
                // Who waits reads a page of its own.
                _ => Ok(FeedPage::default()),
            }
        })
    }
}
