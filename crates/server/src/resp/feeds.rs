//! Reads of feeds, which may wait for an event: `CREDENZA.FEED`.
//!
//! A read that waits holds its connection, as Redis' blocking commands do: later requests of the
//! connection wait behind it. It ends when the connection must end, with an error.

use super::operation::operation;
use super::serve::RespConnection;
use super::translate::write_feed_page;
use crate::counters::Verdict;
use crate::feed_reader::FeedReader;
use crate::shared::shutting_down_error;
use base::request::Call;
use base::{Body, FeedPage, Read, Request};
use std::time::Duration;

impl RespConnection {
    /// Answers with a page. A client that waits for events gets null if none came, as from `XREAD`;
    /// it keeps its token.
    pub(super) async fn read_feed(&mut self, request: Request) {
        let (bucket, operation) = (request.bucket.clone(), operation(&request.call));
        let may_be_null = is_wait(&request.call);
        let principal = &self.client.principal;
        let mut reader = FeedReader::new(&self.shared, principal, &self.shutdown, request);
        let activity = self.client.info.activity.clone();
        let (reply, waited) = tokio::select! {
            biased;
            _ = activity.wait_for_end_or_shutdown(self.shutdown.clone()) => {
                (Err(shutting_down_error()), Duration::ZERO)
            }
            read = reader.read_event() => read,
        };
        self.waited += waited;
        self.record_outcome(operation, Verdict::from_result(&reply));
        match reply.map(|reply| (reply.index, reply.body)) {
            Ok((index, Body::FeedPage(page))) => {
                self.client.last_index = index;
                match may_be_null && is_empty(&page) {
                    true => self.out.null_array(),
                    false => write_feed_page(&bucket, &page, &mut self.out),
                }
            }
            Ok(_) => self.out.error("ERR the answer does not have the expected shape"),
            Err(error) => self.fail(&error),
        }
    }
}

/// Returns true for a read that waits for an event.
fn is_wait(call: &Call) -> bool {
    matches!(call, Call::Read(Read::Feed(query), _) if query.wait_ms > 0)
}

/// Returns true if a page says nothing but that nothing has happened.
fn is_empty(page: &FeedPage) -> bool {
    page.events.is_empty() && !page.restart && page.level
}
