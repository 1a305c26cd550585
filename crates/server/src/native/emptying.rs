//! Emptying of a prefix in parts: its route, and the token with which the next call continues.

use super::errors;
use super::errors::malformed;
use super::json::bodies::read_plain;
use super::render::json_answer;
use super::routes::{Gives, HttpRoute, RouteName, Takes, route};
use crate::counters::OperationKind;
use crate::http::{HttpAnswer, Method, StatusCode};
use crate::shared::Shared;
use api::Blob;
use base::limits::KEY_BYTES_MAX;
use base::{BucketName, Error, Key};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use node::EmptyingCursor;

pub const ROUTE: HttpRoute = HttpRoute {
    takes: Takes::Json("EmptyPrefix"),
    gives: Gives::Json("Emptied"),
    errors: &[404, 413, 415],
    operation: OperationKind::Delete,
    ..route(
        RouteName::EmptyPrefix,
        Method::Post,
        "/v1/buckets/{type}/{bucket}/empty_prefix",
        "Deletes keys under a prefix of any size, in parts, for about a second; `continue` says \
         where the next call goes on.",
    )
};

/// Request to empty a prefix, or to continue with it.
#[derive(Debug, PartialEq)]
pub struct Emptying {
    bucket: BucketName,
    prefix: Key,
    from: Option<EmptyingCursor>,
}

/// Parses the request's body. Fails if the token does not belong to the prefix.
pub fn read(bucket: BucketName, body: &[u8]) -> Result<Emptying, Error> {
    let api::EmptyPrefix { prefix: Blob(prefix), r#continue } = read_plain(body)?;
    let from = r#continue.map(|token| cursor(&token, &prefix)).transpose()?;
    Ok(Emptying { bucket, prefix, from })
}

/// Empties a part of the prefix.
pub async fn answer(shared: &Shared, what: Emptying) -> HttpAnswer {
    let Emptying { bucket, prefix, from } = what;
    match shared.node.empty_prefix(&bucket, &prefix, from).await {
        Ok(done) => {
            let r#continue = done.next.as_ref().map(token);
            let emptied = api::Emptied { removed: done.removed, r#continue };
            json_answer(StatusCode::Ok, &emptied)
        }
        Err(error) => errors::answer(&error),
    }
}

/// Encodes a cursor as text: the length of the first key, then both keys.
fn token(cursor: &EmptyingCursor) -> String {
    let length = u32::try_from(cursor.after.len()).unwrap_or(u32::MAX);
    let bytes = [&length.to_be_bytes()[..], &cursor.after, &cursor.until].concat();
    URL_SAFE_NO_PAD.encode(bytes)
}

fn cursor(token: &str, prefix: &Key) -> Result<EmptyingCursor, Error> {
    let wrong = || malformed("`continue` is no token that an earlier call gave for this prefix");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
    let (length, keys) = bytes.split_first_chunk().ok_or_else(wrong)?;
    let length = u32::from_be_bytes(*length) as usize;
    let (after, until) = keys.split_at_checked(length).ok_or_else(wrong)?;
    let is_of_it = |key: &[u8]| key.starts_with(prefix) && key.len() <= KEY_BYTES_MAX;
    if !is_of_it(until) || !(after.is_empty() || is_of_it(after)) || after > until {
        return Err(wrong());
    }
    Ok(EmptyingCursor { after: Key::copy_from_slice(after), until: Key::copy_from_slice(until) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_tells_both_keys_and_is_good_for_its_prefix_alone() {
        let key = Key::from_static;
        for (after, until) in
            [(key(b""), key(b"p~")), (key(b"p"), key(b"p")), (key(b"pa"), key(b"pb"))]
        {
            let at = EmptyingCursor { after, until };
            let told = token(&at);
            assert_eq!(cursor(&told, &key(b"p")), Ok(at));
            assert!(cursor(&told, &key(b"q")).is_err(), "it is of another prefix");
            assert!(cursor(&told[..told.len() - 1], &key(b"p")).is_err() || told.len() % 4 == 1);
        }
        let crossed = EmptyingCursor { after: key(b"pb"), until: key(b"pa") };
        for wrong in ["", "!", "AAAA", "AAAACXBh", &token(&crossed)] {
            assert!(cursor(wrong, &key(b"p")).is_err(), "{wrong}");
        }
        let long = [&[0, 0, 0, 0][..], &vec![b'p'; KEY_BYTES_MAX + 1]].concat();
        assert!(cursor(&URL_SAFE_NO_PAD.encode(long), &key(b"p")).is_err());
    }
}
