//! Lists that are streamed as fast as the client reads, one page at a time.

use super::super::deadline::{deadline, with_deadline};
use super::super::next_page;
use super::super::page_stream::{ListConnection, wait_for_memory};
use super::super::pages::{names_bytes, split_page};
use super::errors::error_text;
use super::plan::PbcShape;
use super::render::{PageEnd, append_page, append_stream_end};
use super::serve::{PbcConnection, PbcDisconnect};
use crate::buffer_budget::{BufferBudget, overloaded};
use crate::shared::Shared;
use base::{Body, Error, Reply, Request};
use riak_pbc::append_error;

impl ListConnection for PbcConnection {
    async fn submit(&mut self, request: Request) -> Result<Reply, Error> {
        PbcConnection::submit(self, request).await
    }

    fn answer_memory(&mut self) -> (&mut BufferBudget, &Shared) {
        (&mut self.budget, &self.shared)
    }
}

impl PbcConnection {
    /// Sends pages in frames of their own, then the last frame, or an error in place of it.
    pub(super) async fn stream_pages(
        &mut self,
        request: Request,
        shape: &PbcShape,
    ) -> Result<Result<(), Error>, PbcDisconnect> {
        let (mut request, list_deadline) = (request, deadline(shape.timeout_ms()));
        let mut continuation = None;
        let outcome = loop {
            let submitted = self.submit(request.clone());
            let page = match with_deadline(list_deadline, submitted).await {
                Ok(reply) => reply.body,
                Err(error) => break Err(error),
            };
            let next = next_page(&request, &page);
            if let PbcShape::Index(form) = shape {
                match form.page_continuation(&request, &page) {
                    Ok(found) => continuation = found,
                    Err(error) => break Err(error),
                }
            }
            if !wait_for_memory(&mut self.budget, names_bytes(&page), &self.shared).await {
                break Err(overloaded());
            }
            self.send_page(shape, page).await?;
            match next {
                Some(next) => request = *next,
                None => break Ok(()),
            }
        };
        match &outcome {
            Ok(()) => append_stream_end(&mut self.out, shape, continuation),
            Err(error) => append_error(&mut self.out, &error_text(shape, error)),
        }
        Ok(outcome)
    }

    async fn send_page(&mut self, shape: &PbcShape, page: Body) -> Result<(), PbcDisconnect> {
        for part in split_page(page) {
            if names_bytes(&part) == 0 {
                continue;
            }
            if let Err(text) = append_page(&mut self.out, shape, part, PageEnd::default()) {
                append_error(&mut self.out, text);
                return Err(PbcDisconnect::Refused);
            }
            self.send().await?;
        }
        Ok(())
    }
}
