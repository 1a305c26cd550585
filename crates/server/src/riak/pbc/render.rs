//! Rendering of a node's reply as frames.

use super::super::index_answer::continuation;
use super::super::path::client_name;
use super::super::properties::{bucket_document, type_document};
use super::super::statistics::node_name;
use super::errors::{error_message, no_type};
use super::plan::PbcShape;
use base::datatype::TypeValue;
use base::{Body, IndexPage, IndexRow, Owner, Siblings};
use bytes::Bytes;
use riak_pbc::*;

/// Text for a reply that does not fit its request.
const OTHER_REPLY: &str = "an answer to another request";

/// Appends the answer with a reply. Errors: the text of an error.
pub(super) fn render(out: &mut Vec<u8>, shape: &PbcShape, body: Body) -> Result<(), String> {
    match (shape, body) {
        (PbcShape::Object { head_only, shows_tombstone, seen }, Body::Siblings(found)) => {
            let seen = seen.as_ref().is_some_and(|seen| *seen == found.context.0);
            append_answer(out, &object(&found, *head_only, *shows_tombstone, seen));
        }
        (PbcShape::Stored { head_only, key, .. }, Body::Siblings(found)) => {
            let RpbGetResp { content, vclock, .. } = object(&found, *head_only, true, false);
            append_answer(out, &RpbPutResp { content, vclock, key: key.clone() });
        }
        (PbcShape::Stored { key, .. }, Body::Stored(_)) => {
            append_answer(out, &RpbPutResp { key: key.clone(), ..RpbPutResp::default() });
        }
        (PbcShape::Removed, Body::Stored(_)) => append_empty(out, code::DEL),
        (PbcShape::Altered(code), Body::Done) => append_empty(out, *code),
        (PbcShape::Properties, Body::Buckets(buckets)) => {
            let bucket = buckets.first().ok_or(OTHER_REPLY)?;
            append_properties(out, &bucket_document(&bucket.name, &bucket.properties));
        }
        (PbcShape::TypeProperties(kind), Body::Types(types)) => {
            let found = types.iter().find(|(name, _)| name == kind).ok_or_else(|| no_type(kind))?;
            append_properties(out, &type_document(&found.1, ""));
        }
        (PbcShape::Owners, Body::Owners(owners)) => {
            let preflist = owners.iter().map(owner).collect();
            append_answer(out, &RpbGetBucketKeyPreflistResp { preflist });
        }
        (PbcShape::CounterUpdated, body) => {
            let value = counter(&body)?;
            append_answer(out, &RpbCounterUpdateResp { value });
        }
        (PbcShape::Counter, body) => {
            let value = counter(&body)?;
            append_answer(out, &RpbCounterGetResp { value });
        }
        (PbcShape::Typed { context }, Body::Typed(found)) => {
            append_answer(out, &to_dt_fetch_resp(*found, *context));
        }
        (PbcShape::TypeChanged { context, key, .. }, Body::Typed(found)) => {
            append_answer(out, &to_dt_update_resp(key.clone(), Some(*found), *context));
        }
        (PbcShape::TypeChanged { context, key, .. }, Body::Stored(_)) => {
            append_answer(out, &to_dt_update_resp(key.clone(), None, *context));
        }
        (shape, body) => {
            let after = match (shape, &body) {
                (PbcShape::Index(form), Body::IndexPage(page)) => {
                    continuation(&form.bucket, &form.query, page).map_err(|e| error_message(&e))?
                }
                _ => None,
            };
            append_page(out, shape, body, PageEnd { done: None, after })?;
        }
    }
    Ok(())
}

/// End of a list: the continuation behind it, and the flag of a stream's last frame.
#[derive(Default)]
pub(super) struct PageEnd {
    pub(super) done: Option<bool>,
    pub(super) after: Option<Bytes>,
}

/// Appends a page of a list. Errors: the text of an error.
pub(super) fn append_page(
    out: &mut Vec<u8>,
    shape: &PbcShape,
    body: Body,
    PageEnd { done, after }: PageEnd,
) -> Result<(), &'static str> {
    match (shape, body) {
        (PbcShape::Keys { .. }, Body::Keys(page)) => {
            append_answer(out, &RpbListKeysResp { keys: page.keys, done });
        }
        (PbcShape::Buckets { .. }, Body::BucketNames(page)) => {
            let buckets = page.names.iter().map(client_name).collect();
            append_answer(out, &RpbListBucketsResp { buckets, done });
        }
        (PbcShape::Index(form), Body::IndexPage(page)) => {
            append_answer(out, &rows(*page, form.returns_terms, done, after));
        }
        _ => return Err(OTHER_REPLY),
    }
    Ok(())
}

/// Appends the last frame of a stream.
pub(super) fn append_stream_end(out: &mut Vec<u8>, shape: &PbcShape, after: Option<Bytes>) {
    let done = Some(true);
    match shape {
        PbcShape::Buckets { .. } => {
            append_answer(out, &RpbListBucketsResp { done, ..RpbListBucketsResp::default() });
        }
        PbcShape::Index(form) => {
            let page = IndexPage::default();
            append_answer(out, &rows(page, form.returns_terms, done, after));
        }
        _ => append_answer(out, &RpbListKeysResp { done, ..RpbListKeysResp::default() }),
    }
}

fn rows(
    page: IndexPage,
    returns_terms: bool,
    done: Option<bool>,
    continuation: Option<Bytes>,
) -> RpbIndexResp {
    let pair = |row: IndexRow| RpbPair { key: row.term.unwrap_or_default(), value: Some(row.key) };
    let (keys, results) = match returns_terms {
        true => (Vec::new(), page.rows.into_iter().map(pair).collect()),
        false => (page.rows.into_iter().map(|row| row.key).collect(), Vec::new()),
    };
    RpbIndexResp { keys, results, continuation, done }
}

/// Returns the values of a key. A key with tombstones alone has none, and its context only if the
/// client asks for that.
fn object(found: &Siblings, head_only: bool, shows_tombstone: bool, seen: bool) -> RpbGetResp {
    let vclock = || Some(found.context.0.clone());
    if found.without_tombstones().next().is_none() {
        let is_shown = shows_tombstone && !found.values.is_empty();
        return RpbGetResp { vclock: vclock().filter(|_| is_shown), ..RpbGetResp::default() };
    }
    if seen {
        return RpbGetResp { vclock: vclock(), unchanged: Some(true), ..RpbGetResp::default() };
    }
    let content = found.values.iter().map(|value| to_rpb_content(value, head_only)).collect();
    RpbGetResp { content, vclock: vclock(), unchanged: None }
}

fn append_properties(out: &mut Vec<u8>, document: &serde_json::Value) {
    append_answer(out, &RpbGetBucketResp { props: to_rpb_props(document) });
}

fn owner(owner: &Owner) -> RpbBucketKeyPreflistItem {
    RpbBucketKeyPreflistItem {
        partition: owner.partition.0.into(),
        node: node_name(&owner.address).into(),
        primary: owner.primary,
    }
}

/// Returns the sum of a legacy counter. `None`: there is none, or the client did not ask for it.
fn counter(body: &Body) -> Result<Option<i64>, &'static str> {
    match body {
        Body::Stored(_) => Ok(None),
        Body::Typed(found) => match &found.value {
            Some(TypeValue::Counter(sum)) => Ok(Some(counter_sum(*sum))),
            _ => Ok(None),
        },
        _ => Err(OTHER_REPLY),
    }
}
