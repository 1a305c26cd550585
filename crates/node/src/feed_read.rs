//! Requests that wait for the next event of a feed.
//!
//! A request that waits holds its query and a place among the node's watchers, and no memory for
//! its answer. It waits where it entered, so that it takes no place of those that other nodes
//! forward: on a replica of the bucket's group for the entries that this replica applies, elsewhere
//! for some time. Then the next page is read like any other.

use crate::flow::{Caller, Flow};
use crate::route::{Route, Router};
use base::feed::FeedOrigin;
use base::{Body, Call, Read, Reply, Request, Result};
use runtime::submit::SubmitResult;
use runtime::world;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Pause after which a node without a replica of the bucket's group looks for an event again.
const POLL_PAUSE: Duration = Duration::from_secs(1);

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
