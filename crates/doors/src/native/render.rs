//! From a reply to an answer. Pure.

use super::errors;
use super::json::write;
use super::key_pages;
use super::target::Tags;
use super::translate::Shape;
use crate::http::{Answer, Content, Status};
use base::{Body, Error, LogIndex, Outcome, Reason, Reply, Row};
use bytes::Bytes;

/// The answer that tells a result in this shape.
pub fn answer(shape: &Shape, key: &Bytes, result: &Result<Reply, Error>) -> Answer {
    match result {
        Ok(reply) => {
            let mut answer = good(shape, key, &reply.body);
            answer.index = Some(reply.index.0);
            if *shape == (Shape::Written { stays: true }) && answer.status == Status::NoContent {
                answer.etag = reply.version.map(|version| version.0);
            }
            answer
        }
        Err(error) => match (shape, error.reason) {
            (Shape::Deleted { conditional: true }, Reason::Changed | Reason::NotFound) => {
                condition_fails()
            }
            _ => errors::answer(error),
        },
    }
}

/// A request was carried out, and its outcome is not told.
pub fn applied_at(index: LogIndex) -> Answer {
    let mut answer = json(Status::Ok, &Body::Updated(Outcome::AppliedAt(index)), 0);
    answer.index = Some(index.0);
    answer
}

/// 412.
pub fn condition_fails() -> Answer {
    let words = "the row is not as the condition says; nothing was changed";
    errors::with_status(Status::PreconditionFailed, &Error::new(Reason::Changed, words))
}

fn good(shape: &Shape, key: &Bytes, body: &Body) -> Answer {
    match (shape, body) {
        (Shape::Value { if_match, if_none_match }, Body::Row(row)) => {
            value(key, row.as_ref(), if_match.as_ref(), if_none_match.as_ref())
        }
        (Shape::Written { .. }, Body::Updated(Outcome::Swapped { written: false, .. })) => {
            condition_fails()
        }
        (Shape::Written { .. } | Shape::Nothing, _) => {
            Answer::new(Status::NoContent, Content::None)
        }
        (Shape::Deleted { .. }, Body::Updated(Outcome::Existed(false))) => not_found(key),
        (Shape::Deleted { .. }, _) => Answer::new(Status::NoContent, Content::None),
        (Shape::Created, _) => Answer::new(Status::Created, Content::None),
        (Shape::CreatedJson, body) => json(Status::Created, body, 0),
        (Shape::Buckets { rows_max }, body) => json(Status::Ok, body, *rows_max),
        (Shape::Bucket, Body::Buckets(buckets)) if buckets.len() == 1 => {
            let mut out = vec![b'{'];
            write::bucket_onto(&mut out, &buckets[0]);
            out.push(b'}');
            Answer::new(Status::Ok, Content::Json(out.into()))
        }
        (Shape::Keys(range), Body::Keys(page)) => {
            let mut out = vec![b'{'];
            key_pages::page_onto(&mut out, page, range);
            out.push(b'}');
            Answer::new(Status::Ok, Content::Json(out.into()))
        }
        (Shape::Found, Body::Siblings(siblings)) if siblings.values.is_empty() => not_found(key),
        (Shape::Found, Body::Typed(found)) if found.value.is_none() => not_found(key),
        (Shape::Updated, Body::Updated(_)) => json(Status::Ok, body, 0),
        (Shape::Updated, read) => {
            let outcome = Outcome::Read(Box::new(read.clone()));
            json(Status::Ok, &Body::Updated(outcome), 0)
        }
        (_, body) => json(Status::Ok, body, 0),
    }
}

fn not_found(key: &Bytes) -> Answer {
    errors::answer(&Error::key(Reason::NotFound, key))
}

fn value(
    key: &Bytes,
    row: Option<&Row>,
    if_match: Option<&Tags>,
    if_none_match: Option<&Tags>,
) -> Answer {
    let Some(row) = row else {
        return if if_match.is_some() { condition_fails() } else { not_found(key) };
    };
    let holds = |tags: &Tags| match tags {
        Tags::Any => true,
        Tags::These(tags) => tags.contains(&Some(row.version.0)),
    };
    let mut answer = if if_match.is_some_and(|tags| !holds(tags)) {
        condition_fails()
    } else if if_none_match.is_some_and(holds) {
        Answer::new(Status::NotModified, Content::None)
    } else {
        Answer::new(Status::Ok, Content::Value(row.value.clone()))
    };
    answer.etag = Some(row.version.0);
    answer.expires_in_ms = row.expires_in_ms;
    answer
}

/// The body as an object; of buckets also whether there are more (`rows_max` reached).
fn json(status: Status, body: &Body, rows_max: usize) -> Answer {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    write::body_onto(&mut out, body);
    if let (Body::Buckets(buckets), 1..) = (body, rows_max) {
        let more = buckets.len() >= rows_max;
        out.extend_from_slice(b",\"more\":");
        write::number_onto(&mut out, more);
        out.extend_from_slice(b",\"continue\":");
        match buckets.last().filter(|_| more) {
            Some(last) => write::text_onto(&mut out, last.name.full()),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    Answer::new(status, Content::Json(out.into()))
}
