//! Ranges of any length: first a page, then the complete range if there is more.

use super::serve::ArakoonConnection;
use super::translate;
use base::limits::{PAGE_ROWS_MAX, WHOLE_RANGE_BYTES_MAX};
use base::{Body, Call, Error, Range, ReadLevel, Reason, Reply, Request, Result};
use node::SubmitResult;

impl ArakoonConnection {
    /// Reads a range as of one moment. The memory of a complete range is reserved before it is
    /// read; `write_reply` then counts what was found.
    pub(super) async fn range(&mut self, range: Range, level: ReadLevel) -> Result<Reply> {
        let rows_total = range.rows_max.unwrap_or(usize::MAX);
        let rows_max = Some(rows_total.min(PAGE_ROWS_MAX));
        let page = Range { rows_max, ..range.clone() };
        let reply = self.read(page, level).await?;
        match &reply.body {
            Body::Page(page) if page.more && page.entries.len() < rows_total => {}
            _ => return Ok(reply),
        }
        drop(reply);
        let Some(reserved) = self.shared.reserve(WHOLE_RANGE_BYTES_MAX) else {
            let text = "too many large ranges at a time: try again later, or ask for fewer keys";
            return Err(Error::new(Reason::Overloaded, text));
        };
        let reply = self.read(translate::without_page_limit(range), level).await;
        drop(reserved);
        reply
    }

    async fn read(&mut self, range: Range, level: ReadLevel) -> Result<Reply> {
        let call = Call::Read(base::Read::Range(range), level);
        let request = Request { bucket: self.bucket.clone(), call, retry: None };
        match self.submit(request) {
            SubmitResult::Ready(reply) => reply,
            SubmitResult::Pending(ticket, reply) => {
                self.shared.node.wait_decided(ticket).await.and(reply)
            }
            SubmitResult::Later(reply) | SubmitResult::Independent(_, reply) => reply.await,
        }
    }
}
