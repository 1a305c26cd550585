//! Rendering of a reply as an HTTP answer. Pure.

use super::errors;
use super::json::{size, write};
use super::key_pages;
use super::target::Tags;
use super::translate::NativeShape;
use crate::http::{AnswerContent, HttpAnswer, StatusCode};
use base::reply::BucketDescription;
use base::{Body, Error, LogIndex, Outcome, Reason, Reply, Row};
use bytes::Bytes;
use serde::Serialize;

/// Returns the answer to a result, in this form.
pub fn answer(shape: &NativeShape, key: &Bytes, result: &Result<Reply, Error>) -> HttpAnswer {
    match result {
        Ok(reply) => {
            let mut answer = success(shape, key, &reply.body);
            answer.index = Some(reply.index.0);
            if *shape == (NativeShape::Written { row_exists: true })
                && answer.status == StatusCode::NoContent
            {
                answer.etag = reply.version.map(|version| version.0);
            }
            answer
        }
        Err(error) => match (shape, error.reason) {
            (NativeShape::Deleted { has_condition: true }, Reason::Changed | Reason::NotFound) => {
                precondition_failed()
            }
            _ => errors::answer(error),
        },
    }
}

/// Returns the size in bytes of the body that [`answer`] builds: an upper bound if it may be large,
/// else 0.
pub fn body_bytes(shape: &NativeShape, result: &Result<Reply, Error>) -> usize {
    match (shape, result.as_ref().map(|reply| &reply.body)) {
        (NativeShape::Value { .. }, Ok(Body::Row(row))) => {
            row.as_ref().map_or(0, |row| row.value.len())
        }
        // Answers without a body.
        (
            NativeShape::Written { .. }
            | NativeShape::Deleted { .. }
            | NativeShape::Nothing
            | NativeShape::Created,
            _,
        ) => 0,
        _ => size::json_bytes_max(result),
    }
}

/// Returns the answer to an update that took effect at this index but whose outcome is not
/// available.
pub fn applied_at(index: LogIndex) -> HttpAnswer {
    let mut answer = json(StatusCode::Ok, &Body::Updated(Outcome::AppliedAt(index)));
    answer.index = Some(index.0);
    answer
}

/// Returns the answer 412.
pub fn precondition_failed() -> HttpAnswer {
    let text = "the condition does not hold for the row; nothing was changed";
    errors::with_status(StatusCode::PreconditionFailed, &Error::new(Reason::Changed, text))
}

/// Returns the error of a conditional write whose outcome was not kept, or not sent.
fn unknown_condition() -> Error {
    let text = "the write was evaluated, but it is not known here whether its condition held: read \
                the key before you write again";
    Error::new(Reason::InDoubt, text)
}

fn success(shape: &NativeShape, key: &Bytes, body: &Body) -> HttpAnswer {
    match (shape, body) {
        (NativeShape::Value { if_match, if_none_match }, Body::Row(row)) => {
            value_answer(key, row.as_ref(), if_match.as_ref(), if_none_match.as_ref())
        }
        (NativeShape::Written { .. }, Body::Updated(Outcome::Swapped { written: false, .. })) => {
            precondition_failed()
        }
        // Only a condition has an outcome that can be too large: it holds the former value.
        (NativeShape::Written { .. }, Body::Updated(Outcome::AppliedAt(_))) => {
            errors::answer(&unknown_condition())
        }
        (NativeShape::Written { .. } | NativeShape::Nothing, _) => {
            HttpAnswer::new(StatusCode::NoContent, AnswerContent::None)
        }
        (NativeShape::Deleted { .. }, Body::Updated(Outcome::Existed(false))) => not_found(key),
        (NativeShape::Deleted { .. }, _) => {
            HttpAnswer::new(StatusCode::NoContent, AnswerContent::None)
        }
        (NativeShape::Created, _) => HttpAnswer::new(StatusCode::Created, AnswerContent::None),
        (NativeShape::CreatedJson, body) => json(StatusCode::Created, body),
        (NativeShape::Buckets { rows_max }, Body::Buckets(buckets)) => {
            json_answer(StatusCode::Ok, &bucket_page(buckets, *rows_max))
        }
        (NativeShape::Bucket, Body::Buckets(buckets)) if buckets.len() == 1 => {
            json_answer(StatusCode::Ok, &api::BucketReply::from(&buckets[0]))
        }
        (NativeShape::Index(status), Body::Indexes(indexes)) if indexes.len() == 1 => {
            json_answer(*status, &api::IndexReply::from(&indexes[0]))
        }
        (NativeShape::Keys(range), Body::Keys(page)) => {
            let mut out = vec![b'{'];
            key_pages::append_page(&mut out, page, range);
            out.push(b'}');
            HttpAnswer::new(StatusCode::Ok, AnswerContent::Json(out.into()))
        }
        (NativeShape::Found, Body::Siblings(siblings)) if siblings.values.is_empty() => {
            not_found(key)
        }
        (NativeShape::Found, Body::Typed(found)) if found.value.is_none() => not_found(key),
        (NativeShape::Updated, Body::Updated(_)) => json(StatusCode::Ok, body),
        (NativeShape::Updated, read) => {
            let outcome = Outcome::Read(Box::new(read.clone()));
            json(StatusCode::Ok, &Body::Updated(outcome))
        }
        (_, body) => json(StatusCode::Ok, body),
    }
}

fn not_found(key: &Bytes) -> HttpAnswer {
    errors::answer(&Error::key(Reason::NotFound, key))
}

fn value_answer(
    key: &Bytes,
    row: Option<&Row>,
    if_match: Option<&Tags>,
    if_none_match: Option<&Tags>,
) -> HttpAnswer {
    let Some(row) = row else {
        return if if_match.is_some() { precondition_failed() } else { not_found(key) };
    };
    let matches_version = |tags: &Tags| match tags {
        Tags::Any => true,
        Tags::List(tags) => tags.contains(&Some(row.version.0)),
    };
    let mut answer = if if_match.is_some_and(|tags| !matches_version(tags)) {
        precondition_failed()
    } else if if_none_match.is_some_and(matches_version) {
        HttpAnswer::new(StatusCode::NotModified, AnswerContent::None)
    } else {
        HttpAnswer::new(StatusCode::Ok, AnswerContent::Value(row.value.clone()))
    };
    answer.etag = Some(row.version.0);
    answer.expires_in_ms = row.expires_in_ms;
    answer
}

/// Returns the answer with this body as a JSON object.
fn json(status: StatusCode, body: &Body) -> HttpAnswer {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    write::append_body(&mut out, body);
    out.push(b'}');
    HttpAnswer::new(status, AnswerContent::Json(out.into()))
}

/// Returns the answer with this struct as JSON.
pub fn json_answer(status: StatusCode, value: &impl Serialize) -> HttpAnswer {
    let mut out = Vec::with_capacity(256);
    write::append_json(&mut out, value);
    HttpAnswer::new(status, AnswerContent::Json(out.into()))
}

/// Returns the answer with a page of buckets. A full page may be followed by another.
fn bucket_page(buckets: &[BucketDescription], rows_max: usize) -> api::Buckets {
    let more = buckets.len() >= rows_max;
    let last = buckets.last().filter(|_| more);
    api::Buckets {
        buckets: buckets.iter().map(api::BucketReply::from).collect(),
        more,
        r#continue: last.map(|last| last.name.full().into()),
    }
}
