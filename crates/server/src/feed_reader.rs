//! Reader of a feed for one client: page after page, each behind the one before.
//!
//! It holds the request of the next page and nothing else. A wait for an event is made of rounds,
//! because a node waits for `FEED_WAIT_MS_MAX` at most. So rights are decided again and again: a
//! reader whose rights are revoked gets no more than the round that it is in.

use crate::connection::Shutdown;
use crate::shared::{Shared, shutting_down_error};
use base::feed::FeedOrigin;
use base::limits::FEED_WAIT_MS_MAX;
use base::request::Call;
use base::{Body, Error, FeedPage, FeedQuery, LogIndex, Principal, Read, Reason, Reply, Request};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Longest wait of a page for an event, in milliseconds: less than what clients and proxies allow
/// a silent server.
pub const PAGE_WAIT_MS_MAX: u64 = 55_000;
/// Pause in milliseconds before another attempt to read.
const RETRY_MS: u64 = 500;
/// Least time in milliseconds of a round that finds nothing. A node that does not wait, for
/// whatever reason, does not make its front-end spin.
const ROUND_MS_MIN: u64 = 20;

/// Reader of a feed.
pub struct FeedReader {
    shared: Arc<Shared>,
    principal: Principal,
    shutdown: Shutdown,
    request: Request,
    /// True once a page was read.
    has_begun: bool,
}

impl FeedReader {
    /// Returns a reader for this principal. `request`: the read of the first page.
    pub fn new(
        shared: &Arc<Shared>,
        principal: &Principal,
        shutdown: &Shutdown,
        request: Request,
    ) -> FeedReader {
        let (shared, principal, shutdown) = (shared.clone(), principal.clone(), shutdown.clone());
        FeedReader { shared, principal, shutdown, request, has_begun: false }
    }

    /// Returns the request of the next page.
    pub fn request(&self) -> &Request {
        &self.request
    }

    fn query(&mut self) -> Option<&mut FeedQuery> {
        match &mut self.request.call {
            Call::Read(Read::Feed(query), _) => Some(query),
            _ => None,
        }
    }

    /// Reads the next page, and waits so long for an event. `None`: the connection must end.
    pub async fn read(&mut self, wait_ms: u64) -> Result<Option<(LogIndex, FeedPage)>, Error> {
        let began = Instant::now();
        if let Some(query) = self.query() {
            query.wait_ms = wait_ms;
        }
        let FeedReader { shared, principal, shutdown, request, has_begun } = self;
        let (node, request) = (&shared.node, request.clone());
        let reading = async {
            match *has_begun {
                false => node.handle(principal, request).await,
                // A quota delays the next request instead.
                true => node.handle_next(principal, request).await,
            }
        };
        let reply = tokio::select! {
            biased;
            _ = shutdown.wait() => return Ok(None),
            reply = reading => reply?,
        };
        let Body::FeedPage(page) = reply.body else {
            let text = "the answer to the read of a feed is no page: nodes differ in their version";
            return Err(Error::new(Reason::NotSupported, text));
        };
        self.has_begun = true;
        let is_idle = wait_ms > 0 && page.events.is_empty();
        if is_idle && began.elapsed() < Duration::from_millis(ROUND_MS_MIN) {
            sleep(Duration::from_millis(ROUND_MS_MIN)).await;
        }
        if let Some(query) = self.query() {
            query.from = FeedOrigin::Token(page.next.clone());
        }
        Ok(Some((reply.index, *page)))
    }

    /// Reads a page, and waits for one with an event for as long as the first request asks for.
    /// Returns its reply, and the time that was waited.
    pub async fn read_event(&mut self) -> (Result<Reply, Error>, Duration) {
        let wait_ms = self.query().map_or(0, |query| query.wait_ms);
        let mut page = self.read(0).await;
        let began = Instant::now();
        let deadline = began + Duration::from_millis(wait_ms);
        while let Ok(Some((_, found))) = &page
            && found.events.is_empty()
            && !found.restart
        {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis() as u64;
            if left == 0 {
                break;
            }
            // Behind a page that is not level there is more at once.
            let wait_ms = if found.level { left.min(FEED_WAIT_MS_MAX) } else { 0 };
            match self.read(wait_ms).await {
                // The page that was read is still good.
                Ok(None) => break,
                next => page = next,
            }
        }
        let reply = match page {
            Ok(Some((index, page))) => Ok(Reply::new(index, Body::FeedPage(Box::new(page)))),
            Ok(None) => Err(shutting_down_error()),
            Err(error) => Err(error),
        };
        (reply, began.elapsed())
    }

    /// Pauses before another attempt. Returns false if the connection must end.
    pub async fn pause(&mut self) -> bool {
        timeout(Duration::from_millis(RETRY_MS), self.shutdown.wait()).await.is_err()
    }
}
