//! Writes of one key with the conditions of their headers (`if-match`, `if-none-match`).

use super::errors::malformed;
use super::routes::RouteName;
use super::target::{RequestTarget, Tags};
use super::translate::NativeShape;
use base::request::{Expiry, OnMissing, SequenceMode, When};
use base::{Error, Update, Version};
use bytes::Bytes;

/// Update and the shape of its answer. `None`: the condition can't hold.
type ConditionalWrite = Result<Option<(Update, NativeShape)>, Error>;

/// Returns a put or a delete with its condition as one update.
pub fn write(target: &mut RequestTarget, body: Bytes) -> ConditionalWrite {
    match target.route.name {
        RouteName::PutKey => put(target, body),
        _ => delete(target),
    }
}

/// Returns a write with its condition as one update, or `None` if the condition can't hold.
fn put(target: &mut RequestTarget, value: Bytes) -> ConditionalWrite {
    let key = std::mem::take(&mut target.key);
    let expiry = target.query.expiry;
    let shape = NativeShape::Written { row_exists: expiry != Expiry::After(0) };
    let when = match (&target.if_match, &target.if_none_match) {
        (None, None) => return Ok(Some((Update::Set { key, value, expiry }, shape))),
        (Some(Tags::Any), None) => When::Present,
        (None, Some(Tags::Any)) => When::Absent,
        (Some(Tags::List(tags)), None) => match tags[..] {
            [Some(version)] => When::Unchanged(Version(version)),
            [None] => return Ok(None),
            _ => return Err(malformed("a write can compare with one version only")),
        },
        (_, Some(Tags::List(_))) => {
            return Err(malformed("a write supports only `*` in `if-none-match`"));
        }
        // A row can't both exist and be absent.
        (Some(_), Some(_)) => return Ok(None),
    };
    Ok(Some((Update::SetIf { key, value, expiry, when }, shape)))
}

/// Returns a delete with its condition as one update, or `None` if the condition can't hold.
fn delete(target: &mut RequestTarget) -> ConditionalWrite {
    let key = std::mem::take(&mut target.key);
    let conditional = |update| Ok(Some((update, NativeShape::Deleted { has_condition: true })));
    if target.if_none_match.is_some() {
        return Err(malformed("a delete supports only `if-match`"));
    }
    match &target.if_match {
        None => {
            let update = Update::Delete { key, missing: OnMissing::Skip };
            Ok(Some((update, NativeShape::Deleted { has_condition: false })))
        }
        Some(Tags::Any) => conditional(Update::Delete { key, missing: OnMissing::Fail }),
        Some(Tags::List(tags)) => match tags[..] {
            [Some(version)] => conditional(Update::Sequence {
                steps: vec![
                    Update::AssertVersion { key: key.clone(), version: Some(Version(version)) },
                    Update::Delete { key, missing: OnMissing::Fail },
                ],
                mode: SequenceMode::AllOrNothing,
            }),
            [None] => Ok(None),
            _ => Err(malformed("a delete can compare with one version only")),
        },
    }
}
