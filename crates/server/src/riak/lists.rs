//! Lists: the requests for their pages, and the pages together.

use super::answer::RiakResponse;
use super::parameters::{Options, Query};
use super::path::TYPE;
use super::render::{Form, ListOptions};
use super::translate::{RiakPlan, RiakShape, call_on, type_name};
use base::index::IndexQuery;
use base::limits::PAGE_ROWS_DEFAULT;
use base::{AvailableCall, Body, BucketName, Call, IndexPage, Read, Request};

/// Returns the options of a list, or `None` if the query requests no list.
pub(super) fn list(query: &Query, name: &str) -> Result<Option<ListOptions>, RiakResponse> {
    let mut options = Options::new(query);
    let timeout_ms = options.timeout();
    options.finish()?;
    Ok(match query.get(name) {
        Some("true") => Some(ListOptions { stream: false, timeout_ms }),
        Some("stream") => Some(ListOptions { stream: true, timeout_ms }),
        _ => None,
    })
}

pub(super) fn buckets(kind: &str, query: &Query) -> Result<RiakPlan, RiakResponse> {
    let Some(list) = list(query, "buckets")? else {
        return Err(RiakResponse::with_body(200, "application/json", r#"{"buckets":[]}"#));
    };
    let name = type_name(if kind == "default" { TYPE } else { kind })?;
    let call = AvailableCall::Buckets { after: None, rows_max: PAGE_ROWS_DEFAULT };
    Ok(RiakPlan::Submit(call_on(&name, call), RiakShape(Form::Buckets { list })))
}

pub(super) fn all_keys(bucket: &BucketName, form: Form) -> RiakPlan {
    let call = AvailableCall::Keys { after: None, rows_max: PAGE_ROWS_DEFAULT };
    RiakPlan::Submit(call_on(bucket, call), RiakShape(form))
}

/// Returns the request for the next page, or `None` if this one is the last.
pub fn next_page(request: &Request, body: &Body) -> Option<Box<Request>> {
    let call = match (&request.call, body) {
        (Call::Read(Read::Index(query), level), Body::IndexPage(page)) => {
            let next = Box::new(next_query(query, page)?);
            let call = Call::Read(Read::Index(next), *level);
            return Some(Box::new(Request { call, bucket: request.bucket.clone(), retry: None }));
        }
        (Call::Available(AvailableCall::Keys { rows_max, .. }), Body::Keys(page)) => {
            let after = page.keys.last().filter(|_| page.more)?;
            AvailableCall::Keys { after: Some(after.clone()), rows_max: *rows_max }
        }
        (Call::Available(AvailableCall::Buckets { rows_max, .. }), Body::BucketNames(page)) => {
            let after = page.names.last().filter(|_| page.more)?;
            AvailableCall::Buckets { after: Some(after.clone()), rows_max: *rows_max }
        }
        _ => return None,
    };
    Some(call_on(&request.bucket, call))
}

/// Returns the query for the next page, of the rows that the client still wants. `None`: it wants
/// no more, or there are none.
fn next_query(query: &IndexQuery, page: &IndexPage) -> Option<IndexQuery> {
    let after = page.after.clone()?;
    let rest = query.rows_max.map(|rows_max| rows_max.saturating_sub(page.rows.len()));
    (rest != Some(0)).then(|| IndexQuery { after: Some(after), rows_max: rest, ..query.clone() })
}

/// Appends the next page to the earlier pages.
pub fn append_page(first: &mut Body, next: Body) {
    match (first, next) {
        (Body::Keys(first), Body::Keys(next)) => {
            first.keys.extend(next.keys);
            first.more = next.more;
        }
        (Body::BucketNames(first), Body::BucketNames(next)) => {
            first.names.extend(next.names);
            first.more = next.more;
        }
        (Body::IndexPage(first), Body::IndexPage(next)) => {
            first.rows.extend(next.rows);
            first.after = next.after;
        }
        _ => {}
    }
}
