//! Encoding of a value's headers: content type, metadata, links, indexes.

use base::codec::{Malformed, Reader};
use base::limits::{CONTENT_HEADERS_BYTES_MAX, CONTENT_HEADERS_MAX};
use base::{Headers, Link, varint};
use bytes::Bytes;

/// Reads headers. Their fields are slices of `source`, which contains `bytes`.
pub(super) fn take(source: &Bytes, bytes: &[u8]) -> Result<Headers, Malformed> {
    let from = &mut Reader::new(bytes);
    let text = |from: &mut Reader<'_>| {
        let text = varint::take_string(from, CONTENT_HEADERS_BYTES_MAX, "header")?;
        Ok(source.slice_ref(text))
    };
    let (content_type, charset, encoding) = (text(from)?, text(from)?, text(from)?);
    let count = |from: &mut Reader<'_>, each| {
        let count = varint::take_count(from, each, "headers")?;
        if count > CONTENT_HEADERS_MAX { Err(Malformed("headers")) } else { Ok(count) }
    };
    let pairs = |from: &mut Reader<'_>| {
        let mut pairs = Vec::new();
        for _ in 0..count(from, 2)? {
            pairs.push((text(from)?, text(from)?));
        }
        Ok(pairs)
    };
    let (meta, indexes) = (pairs(from)?, pairs(from)?);
    let mut links = Vec::new();
    for _ in 0..count(from, 3)? {
        links.push(Link { bucket: text(from)?, key: text(from)?, tag: text(from)? });
    }
    Ok(Headers { content_type, charset, encoding, meta, links, indexes })
}

/// Appends headers.
pub(super) fn put(headers: &Headers, out: &mut Vec<u8>) {
    let Headers { content_type, charset, encoding, meta, links, indexes } = headers;
    for text in [content_type, charset, encoding] {
        varint::put_string(text, out);
    }
    for pairs in [meta, indexes] {
        varint::put(pairs.len() as u64, out);
        for (name, text) in pairs {
            varint::put_string(name, out);
            varint::put_string(text, out);
        }
    }
    varint::put(links.len() as u64, out);
    for Link { bucket, key, tag } in links {
        for text in [bucket, key, tag] {
            varint::put_string(text, out);
        }
    }
}
