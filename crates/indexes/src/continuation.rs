//! Continuations of index queries: the last row of a page, as text for the next request.
//!
//! Form (1 byte), digest of the query (16), term, key, checksum (8), in base64url without padding.
//! No node, partition or epoch is in it, so a page continues after any change of the cluster. The
//! checksum finds text that was changed by accident; whoever forges one begins a page elsewhere in
//! the same query, and reads nothing more.

use crate::limits::CONTINUATION_TEXT_BYTES_MAX;
use crate::term::Term;
use base::limits::KEY_BYTES_MAX;
use base::{Error, Key, Reason, Result};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;

const FORM: u8 = 1;
const DIGEST_BYTES: usize = 16;
const CHECKSUM_BYTES: usize = 8;
const QUERY_CONTEXT: &str = "credenza 2026 index query";
const CHECKSUM_CONTEXT: &str = "credenza 2026 index continuation";

/// Digest of a query without its place: the bucket, field, terms, direction and filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueryDigest([u8; DIGEST_BYTES]);

impl QueryDigest {
    /// Returns the digest of a query's parts. Parts are told apart: `["ab", "c"]` is another query
    /// than `["a", "bc"]`.
    pub fn of(parts: &[&[u8]]) -> QueryDigest {
        let mut hasher = blake3::Hasher::new_derive_key(QUERY_CONTEXT);
        for part in parts {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
        let mut digest = [0; DIGEST_BYTES];
        hasher.finalize_xof().fill(&mut digest);
        QueryDigest(digest)
    }
}

/// Place at which a query continues: behind this term and key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// Query that it belongs to.
    pub query: QueryDigest,
    /// Term of the last row.
    pub term: Term,
    /// Key of the last row.
    pub key: Key,
}

impl Continuation {
    /// Returns the continuation as text.
    pub fn encode(&self) -> String {
        let mut out = vec![FORM];
        out.extend_from_slice(&self.query.0);
        out.extend_from_slice(self.term.as_bytes());
        out.extend_from_slice(&self.key);
        let checksum = checksum(&out);
        out.extend_from_slice(&checksum);
        URL_SAFE_NO_PAD.encode(out)
    }

    /// Decodes the continuation of a query. Errors: `malformed` if the text is no continuation, was
    /// changed, or belongs to another query; `not_supported` if it has a newer form.
    pub fn decode(text: &[u8], query: QueryDigest) -> Result<Continuation> {
        if text.len() > CONTINUATION_TEXT_BYTES_MAX {
            return Err(unreadable());
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| unreadable())?;
        let (content, found) = bytes.split_last_chunk().ok_or_else(unreadable)?;
        if *found != checksum(content) {
            return Err(unreadable());
        }
        let (form, rest) = content.split_first().ok_or_else(unreadable)?;
        if *form != FORM {
            let text = "the continuation is of another version: begin the query again without it";
            return Err(Error::new(Reason::NotSupported, text));
        }
        let (digest, rest) = rest.split_first_chunk().ok_or_else(unreadable)?;
        if QueryDigest(*digest) != query {
            let text = "the continuation belongs to another query: repeat the parameters of the \
                        query that returned it";
            return Err(Error::new(Reason::Malformed, text));
        }
        let (term, key) = Term::take(rest).map_err(|_| unreadable())?;
        if key.len() > KEY_BYTES_MAX {
            return Err(unreadable());
        }
        Ok(Continuation { query, term, key: Bytes::copy_from_slice(key) })
    }
}

fn checksum(bytes: &[u8]) -> [u8; CHECKSUM_BYTES] {
    let mut checksum = [0; CHECKSUM_BYTES];
    blake3::Hasher::new_derive_key(CHECKSUM_CONTEXT)
        .update(bytes)
        .finalize_xof()
        .fill(&mut checksum);
    checksum
}

fn unreadable() -> Error {
    let text = "the continuation is not one that a query returned, or was changed: begin the query \
                again without it";
    Error::new(Reason::Malformed, text)
}
