//! Emptying of a bucket in one step, and of a prefix in parts: their routes, and the token with
//! which the next call continues.

use super::errors::malformed;
use super::json::bodies::read_plain;
use super::parameters::Parameter;
use super::render::json_answer;
use super::routes::{HttpRoute, RequestBody, ResponseBody, RouteName, route};
use crate::counters::OperationKind;
use crate::http::{HttpAnswer, Method, StatusCode};
use crate::shared::Shared;
use api::Blob;
use base::limits::KEY_BYTES_MAX;
use base::{BucketName, Call, Error, Key, Principal, Request, Update};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use node::EmptyPrefixCursor;

pub const CLEAR: HttpRoute = HttpRoute {
    query: &[Parameter::Confirm],
    errors: &[404],
    operation: OperationKind::Directory,
    ..route(
        RouteName::ClearBucket,
        Method::Post,
        "/v1/buckets/{type}/{bucket}/clear",
        "Deletes all keys of a bucket of any size in one step.",
    )
};

pub const ROUTE: HttpRoute = HttpRoute {
    query: &[Parameter::Confirm],
    request_body: RequestBody::Json("EmptyPrefix"),
    response_body: ResponseBody::Json("Emptied"),
    errors: &[404, 413, 415],
    operation: OperationKind::Delete,
    ..route(
        RouteName::EmptyPrefix,
        Method::Post,
        "/v1/buckets/{type}/{bucket}/empty_prefix",
        "Deletes keys under a prefix of any size in batches for about a second; pass `continue` to \
         the next call to resume.",
    )
};

/// Request to empty a prefix, or to continue with it.
#[derive(Debug, PartialEq)]
pub struct EmptyPrefixCall {
    /// Bucket of the prefix.
    pub bucket: BucketName,
    prefix: Key,
    start: Option<EmptyPrefixCursor>,
}

impl EmptyPrefixCall {
    /// Returns the request that needs the rights of all parts together.
    pub fn as_whole(&self) -> Request {
        let call = Call::Update(Update::DeletePrefix { prefix: self.prefix.clone() });
        Request { bucket: self.bucket.clone(), call, retry: None }
    }
}

/// Parses the request's body. Fails if the token does not belong to the prefix.
pub fn parse(bucket: BucketName, body: &[u8]) -> Result<EmptyPrefixCall, Error> {
    let api::EmptyPrefix { prefix: Blob(prefix), r#continue } = read_plain(body)?;
    let start = r#continue.map(|token| decode_token(&token, &prefix)).transpose()?;
    Ok(EmptyPrefixCall { bucket, prefix, start })
}

/// Empties a part of the prefix.
pub async fn answer(
    shared: &Shared,
    principal: &Principal,
    call: EmptyPrefixCall,
) -> Result<HttpAnswer, Error> {
    let EmptyPrefixCall { bucket, prefix, start } = call;
    let progress = shared.node.empty_prefix(principal, &bucket, &prefix, start).await?;
    let r#continue = progress.next.as_ref().map(encode_token);
    let emptied = api::EmptyPrefixProgress { removed: progress.removed, r#continue };
    Ok(json_answer(StatusCode::Ok, &emptied))
}

/// Encodes a cursor as text: the length of the first key, then both keys.
fn encode_token(cursor: &EmptyPrefixCursor) -> String {
    let length = u32::try_from(cursor.after.len()).unwrap_or(u32::MAX);
    let bytes = [&length.to_be_bytes()[..], &cursor.after, &cursor.until].concat();
    URL_SAFE_NO_PAD.encode(bytes)
}

fn decode_token(token: &str, prefix: &Key) -> Result<EmptyPrefixCursor, Error> {
    let wrong =
        || malformed("`continue` is not a token that an earlier call returned for this prefix");
    let bytes = URL_SAFE_NO_PAD.decode(token).map_err(|_| wrong())?;
    let (length, keys) = bytes.split_first_chunk().ok_or_else(wrong)?;
    let length = u32::from_be_bytes(*length) as usize;
    let (after, until) = keys.split_at_checked(length).ok_or_else(wrong)?;
    let has_prefix = |key: &[u8]| key.starts_with(prefix) && key.len() <= KEY_BYTES_MAX;
    if !has_prefix(until) || !(after.is_empty() || has_prefix(after)) || after > until {
        return Err(wrong());
    }
    Ok(EmptyPrefixCursor { after: Key::copy_from_slice(after), until: Key::copy_from_slice(until) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn continuation_token_round_trips_only_for_its_prefix() {
        let key = Key::from_static;
        for (after, until) in
            [(key(b""), key(b"p~")), (key(b"p"), key(b"p")), (key(b"pa"), key(b"pb"))]
        {
            let position = EmptyPrefixCursor { after, until };
            let encoded = encode_token(&position);
            assert_eq!(decode_token(&encoded, &key(b"p")), Ok(position));
            assert!(decode_token(&encoded, &key(b"q")).is_err(), "it is of another prefix");
            assert!(
                decode_token(&encoded[..encoded.len() - 1], &key(b"p")).is_err()
                    || encoded.len() % 4 == 1
            );
        }
        let crossed = EmptyPrefixCursor { after: key(b"pb"), until: key(b"pa") };
        for wrong in ["", "!", "AAAA", "AAAACXBh", &encode_token(&crossed)] {
            assert!(decode_token(wrong, &key(b"p")).is_err(), "{wrong}");
        }
        let long = [&[0, 0, 0, 0][..], &vec![b'p'; KEY_BYTES_MAX + 1]].concat();
        assert!(decode_token(&URL_SAFE_NO_PAD.encode(long), &key(b"p")).is_err());
    }
}
