//! Answers to queries of secondary indexes: one document, or a stream of parts (`multipart/mixed`).

use super::answer::RiakResponse;
use super::errors;
use super::render::{ListOptions, printable};
use base::index::IndexQuery;
use base::{Body, BucketName, Call, Error, IndexPage, IndexRow, Read, Request, Result};
use bytes::Bytes;
use serde_json::{Map, Value, json};

/// Form of the answer to a query.
#[derive(Debug)]
pub(super) struct IndexForm {
    pub(super) bucket: BucketName,
    /// The query, for its first page.
    pub(super) query: IndexQuery,
    /// True if rows are shown with their terms.
    pub(super) returns_terms: bool,
    pub(super) list: ListOptions,
    /// Separator of the parts of a stream.
    pub(super) boundary: String,
}

impl IndexForm {
    /// Renders all rows as one document.
    pub(super) fn answer(&self, page: &IndexPage) -> RiakResponse {
        let mut document = self.document(&page.rows);
        match continuation(&self.bucket, &self.query, page) {
            Ok(None) => {}
            Ok(Some(text)) => drop(document.insert("continuation".into(), printable(&text).into())),
            Err(error) => return errors::answer(&error),
        }
        let body = Value::from(document).to_string();
        RiakResponse::with_body(200, "application/json", body)
    }

    /// Returns the document of rows: their keys, or pairs of term and key.
    fn document(&self, rows: &[IndexRow]) -> Map<String, Value> {
        let pair = |row: &IndexRow| {
            let term = printable(row.term.as_deref().unwrap_or_default());
            Value::from(Map::<String, Value>::from_iter([(term, printable(&row.key).into())]))
        };
        let (name, rows): (_, Vec<Value>) = match self.returns_terms {
            true => ("results", rows.iter().map(pair).collect()),
            false => ("keys", rows.iter().map(|row| printable(&row.key).into()).collect()),
        };
        Map::from_iter([(name.to_string(), rows.into())])
    }

    /// Returns the media type of the stream.
    pub(super) fn stream_type(&self) -> String {
        format!("multipart/mixed;boundary={}", self.boundary)
    }

    /// Returns the part of some rows. `None`: there are none, and so no part.
    pub(super) fn rows_part(&self, page: &IndexPage) -> Option<Vec<u8>> {
        let document = || Value::from(self.document(&page.rows));
        (!page.rows.is_empty()).then(|| self.part(&document()))
    }

    /// Returns the end of the stream: the continuation or an error, if any, and the last delimiter.
    pub(super) fn stream_end(&self, is_complete: bool, continuation: Option<&Bytes>) -> Vec<u8> {
        let mut end = match (is_complete, continuation) {
            (false, _) => self.part(&json!({ "error": "timeout" })),
            (true, Some(text)) => self.part(&json!({ "continuation": printable(text) })),
            (true, None) => Vec::new(),
        };
        end.extend_from_slice(format!("\r\n--{}--\r\n", self.boundary).as_bytes());
        end
    }

    fn part(&self, document: &Value) -> Vec<u8> {
        let head = format!("\r\n--{}\r\nContent-Type: application/json\r\n\r\n", self.boundary);
        [head, document.to_string()].concat().into_bytes()
    }

    /// Returns the continuation behind a page of a stream, if the stream ends with this page.
    pub(super) fn page_continuation(
        &self,
        request: &Request,
        page: &Body,
    ) -> Result<Option<Bytes>> {
        match (&request.call, page) {
            (Call::Read(Read::Index(query), _), Body::IndexPage(page)) => {
                continuation(&self.bucket, query, page)
            }
            _ => Ok(None),
        }
    }
}

/// Returns the continuation behind these rows. `None`: there are fewer than the query asks for. As
/// in Riak, a client gets one with as many rows as it asked for, though no row may follow.
pub(super) fn continuation(
    bucket: &BucketName,
    query: &IndexQuery,
    page: &IndexPage,
) -> Result<Option<Bytes>> {
    let is_full = query.rows_max.is_some_and(|rows_max| page.rows.len() >= rows_max);
    match (page.rows.last(), &page.after) {
        (Some(_), Some(after)) if is_full => Ok(Some(after.clone())),
        (Some(last), None) if is_full => node::continuation_behind(bucket, query, last).map(Some),
        _ => Ok(None),
    }
}

/// Renders an error. What is wrong with the query itself begins as Riak's refusals do.
pub(super) fn render_error(error: &Error) -> RiakResponse {
    let answer = errors::answer(error);
    if answer.status != 400 {
        return answer;
    }
    let body = [b"Invalid query: ", &answer.body[..]].concat();
    RiakResponse { body: body.into(), ..answer }
}
