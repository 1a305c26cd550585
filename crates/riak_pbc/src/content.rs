//! Values with their metadata, between messages and `base`.

use crate::messages::{RpbContent, RpbLink, RpbPair};
use base::{Content, Headers, Link, Sibling};
use bytes::Bytes;

/// Returns the value that a client stores. Its index entries are not checked yet.
pub fn to_content(content: RpbContent) -> Content {
    let pair = |pair: RpbPair| (pair.key, pair.value.unwrap_or_default());
    let link = |link: RpbLink| Link {
        bucket: link.bucket.unwrap_or_default(),
        key: link.key.unwrap_or_default(),
        tag: link.tag.unwrap_or_default(),
    };
    let headers = Headers {
        content_type: content.content_type.unwrap_or_default(),
        charset: content.charset.unwrap_or_default(),
        encoding: content.content_encoding.unwrap_or_default(),
        meta: content.usermeta.into_iter().map(pair).collect(),
        links: content.links.into_iter().map(link).collect(),
        indexes: content.indexes.into_iter().map(pair).collect(),
    };
    Content { value: content.value, headers }
}

/// Returns one of a key's values as a message. `head_only`: without the value itself.
pub fn to_rpb_content(sibling: &Sibling, head_only: bool) -> RpbContent {
    let headers = &sibling.content.headers;
    let text = |bytes: &Bytes| (!bytes.is_empty()).then(|| bytes.clone());
    let pair =
        |(key, value): &(Bytes, Bytes)| RpbPair { key: key.clone(), value: Some(value.clone()) };
    let link = |link: &Link| RpbLink {
        bucket: Some(link.bucket.clone()),
        key: Some(link.key.clone()),
        tag: Some(link.tag.clone()),
    };
    let (seconds, ms) = (sibling.written_ms / 1_000, sibling.written_ms % 1_000);
    RpbContent {
        value: if head_only { Bytes::new() } else { sibling.content.value.clone() },
        content_type: text(&headers.content_type),
        charset: text(&headers.charset),
        content_encoding: text(&headers.encoding),
        vtag: Some(sibling.vtag.to_string().into()),
        links: headers.links.iter().map(link).collect(),
        last_mod: Some(u32::try_from(seconds).unwrap_or(u32::MAX)),
        last_mod_usecs: u32::try_from(ms * 1_000).ok(),
        usermeta: headers.meta.iter().map(pair).collect(),
        indexes: headers.indexes.iter().map(pair).collect(),
        deleted: sibling.tombstone.then_some(true),
    }
}
