//! Documents of a list that is sent page by page: what comes first, what each page becomes, and
//! what comes last.

use super::frame::FAILED_STREAM_DOCUMENT;
use super::render::{Form, render};
use super::translate::RiakShape;
use base::{Body, Reply, Request, Result};
use bytes::Bytes;
use serde_json::json;

impl RiakShape {
    /// Returns the media type of the stream.
    pub(super) fn stream_type(&self) -> String {
        match &self.0 {
            Form::Index(form) => form.stream_type(),
            _ => "application/json".into(),
        }
    }

    /// Returns the first document of a stream: on the old paths, the bucket's properties.
    pub(super) fn first_page(&mut self) -> Option<String> {
        let Form::Keys { properties, .. } = &mut self.0 else { return None };
        Some(json!({ "props": properties.take()? }).to_string())
    }

    /// Returns the document of a part of a page. `None`: the part has no row, and the stream shows
    /// only rows.
    pub(super) fn page_part(&self, part: Reply) -> Option<Bytes> {
        if let (Form::Index(form), Body::IndexPage(page)) = (&self.0, &part.body) {
            return form.rows_part(page).map(Bytes::from);
        }
        Some(render(self, &Ok(part)).body)
    }

    /// Returns the continuation behind a page, if the stream ends with it and has one.
    pub(super) fn page_continuation(
        &self,
        request: &Request,
        page: &Body,
    ) -> Result<Option<Bytes>> {
        match &self.0 {
            Form::Index(form) => form.page_continuation(request, page),
            _ => Ok(None),
        }
    }

    /// Returns the last document of a stream, which is complete or was broken off.
    pub(super) fn stream_end(&self, is_complete: bool, continuation: Option<&Bytes>) -> Vec<u8> {
        match &self.0 {
            Form::Index(form) => form.stream_end(is_complete, continuation),
            _ if !is_complete => FAILED_STREAM_DOCUMENT.to_vec(),
            Form::Buckets { .. } => b"{\"buckets\":[]}".to_vec(),
            _ => b"{\"keys\":[]}".to_vec(),
        }
    }
}
