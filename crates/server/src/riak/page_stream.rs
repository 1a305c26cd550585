//! Lists in several pages: gathered into one answer within bounds, or streamed as fast as the
//! client reads, one page at a time.

use super::deadline::{deadline, with_deadline};
use super::pages::{names_bytes, split_page};
use super::serve::{ConnectionEnd, RiakConnection};
use super::{RiakShape, append_page, frame, next_page, render};
use crate::buffer_budget::{BufferBudget, overloaded};
use crate::shared::Shared;
use base::limits::ANSWER_WRITE_MS_MAX;
use base::{Body, Error, Reason, Reply, Request};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Maximum bytes of names in a list that is answered in one document; a stream has no such limit.
const NAMES_BYTES_MAX: usize = 32 << 20;
/// Number of copies of a list in memory: as names, as a document, and as an answer.
const LIST_COPIES: usize = 3;
/// Pause in milliseconds between a stream's attempts to get memory.
const MEMORY_RETRY_MS: u64 = 5;

/// Connection that answers with lists.
pub(super) trait ListConnection {
    /// Submits a request to the node and waits for its reply.
    async fn submit(&mut self, request: Request) -> Result<Reply, Error>;

    /// Returns the memory of the answer, and what it is reserved from.
    fn answer_memory(&mut self) -> (&mut BufferBudget, &Shared);
}

/// Submits a request and those for all further pages. Returns the reply with all pages.
pub(super) async fn all_pages(
    connection: &mut impl ListConnection,
    request: Request,
) -> Result<Reply, Error> {
    let mut reply = connection.submit(request.clone()).await?;
    let mut bytes = names_bytes(&reply.body);
    reserve_list(connection.answer_memory(), bytes)?;
    let mut next = next_page(&request, &reply.body);
    while let Some(request) = next {
        let page = connection.submit((*request).clone()).await?;
        bytes += names_bytes(&page.body);
        reserve_list(connection.answer_memory(), bytes)?;
        next = next_page(&request, &page.body);
        append_page(&mut reply.body, page.body);
    }
    Ok(reply)
}

impl ListConnection for RiakConnection {
    async fn submit(&mut self, request: Request) -> Result<Reply, Error> {
        RiakConnection::submit(self, request).await
    }

    fn answer_memory(&mut self) -> (&mut BufferBudget, &Shared) {
        (&mut self.budget, &self.shared)
    }
}

impl RiakConnection {
    /// Sends pages as chunks, in documents of their own.
    pub(super) async fn stream_pages(
        &mut self,
        request: Request,
        mut shape: RiakShape,
        keep_alive: bool,
    ) -> Result<u16, ConnectionEnd> {
        let (mut request, list_deadline) = (request, deadline(shape.timeout_ms()));
        let (shared, counters) = (self.shared.clone(), self.counters.clone());
        let _active_list =
            counters.begin_list(shape.is_name_list(), shared.clock.unix_ms() / 1_000);
        let mut reply = with_deadline(list_deadline, self.submit(request.clone())).await;
        // A client that requested a stream closes its connection on any other status.
        if reply.as_ref().is_err_and(|error| error.reason != Reason::DeadlinePassed) {
            let answer = render(&shape, &reply);
            self.send(&answer, false, keep_alive).await?;
            return Ok(answer.status);
        }
        let now_ms = self.shared.clock.unix_ms();
        self.write(&frame::streaming(&shape.stream_type(), keep_alive, now_ms)).await?;
        if let Some(document) = shape.first_page() {
            self.write(&frame::chunk(document.as_bytes())).await?;
        }
        let mut continuation = None;
        while let Ok(found) = &mut reply {
            let next = next_page(&request, &found.body);
            match shape.page_continuation(&request, &found.body) {
                Ok(found) => continuation = found,
                Err(error) => {
                    reply = Err(error);
                    break;
                }
            }
            let page = std::mem::replace(&mut found.body, Body::Done);
            if !wait_for_memory(&mut self.budget, names_bytes(&page), &self.shared).await {
                reply = Err(overloaded());
                break;
            }
            for body in split_page(page) {
                if let Some(document) = shape.page_part(Reply { body, ..found.clone() }) {
                    self.write(&frame::chunk(&document)).await?;
                }
            }
            let Some(next) = next else { break };
            request = *next;
            reply = with_deadline(list_deadline, self.submit(request.clone())).await;
        }
        counters.record_answer(false, shape.is_name_list(), &reply, shared.clock.unix_ms() / 1_000);
        let mut last = frame::chunk(&shape.stream_end(reply.is_ok(), continuation.as_ref()));
        last.extend_from_slice(b"0\r\n\r\n");
        self.write(&last).await?;
        Ok(200)
    }
}

/// Reserves memory for a list with this many bytes of names. Fails if it is too large or no memory
/// is free.
fn reserve_list((budget, shared): (&mut BufferBudget, &Shared), bytes: usize) -> Result<(), Error> {
    if bytes > NAMES_BYTES_MAX {
        let text =
            format!("the list has more than {NAMES_BYTES_MAX} bytes of names: request a stream");
        return Err(Error::new(Reason::TooLarge, text));
    }
    match budget.try_reserve(LIST_COPIES * bytes, shared) {
        true => Ok(()),
        false => Err(overloaded()),
    }
}

/// Waits for memory for a page of a stream, as long as a client may take to read one. Returns false
/// if none became free. The previous page's memory is released first: two streams could otherwise
/// block each other.
pub(super) async fn wait_for_memory(
    budget: &mut BufferBudget,
    bytes: usize,
    shared: &Shared,
) -> bool {
    let deadline = Instant::now() + Duration::from_millis(ANSWER_WRITE_MS_MAX);
    budget.release();
    while !budget.try_reserve(bytes, shared) {
        if Instant::now() >= deadline {
            return false;
        }
        sleep(Duration::from_millis(MEMORY_RETRY_MS)).await;
    }
    true
}
