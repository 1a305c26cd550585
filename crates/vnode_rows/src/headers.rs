//! Encoding of a value's headers: content type, metadata, links, indexes.

use base::codec::{Malformed, Reader};
use base::limits::{CONTENT_HEADERS_BYTES_MAX, CONTENT_HEADERS_MAX};
use base::{Headers, Link, varint};
use bytes::Bytes;

/// HeaderPairs of a name and a text.
pub(super) type HeaderPairs = Vec<(Bytes, Bytes)>;

/// Reads headers. Their fields are slices of `source`, which contains `bytes`.
pub(super) fn take(source: &Bytes, bytes: &[u8]) -> Result<Headers, Malformed> {
    let from = &mut Reader::new(bytes);
    let text = |from: &mut Reader<'_>| take_text(source, from);
    let (content_type, charset, encoding) = (text(from)?, text(from)?, text(from)?);
    let (meta, indexes) = (take_pairs(source, from)?, take_pairs(source, from)?);
    let mut links = Vec::new();
    for _ in 0..take_count(from, 3)? {
        links.push(Link { bucket: text(from)?, key: text(from)?, tag: text(from)? });
    }
    Ok(Headers { content_type, charset, encoding, meta, links, indexes })
}

fn take_text(source: &Bytes, from: &mut Reader<'_>) -> Result<Bytes, Malformed> {
    let text = varint::take_string(from, CONTENT_HEADERS_BYTES_MAX, "header")?;
    Ok(source.slice_ref(text))
}

fn take_count(from: &mut Reader<'_>, each: usize) -> Result<usize, Malformed> {
    let count = varint::take_count(from, each, "headers")?;
    if count > CONTENT_HEADERS_MAX { Err(Malformed("headers")) } else { Ok(count) }
}

fn take_pairs(source: &Bytes, from: &mut Reader<'_>) -> Result<HeaderPairs, Malformed> {
    let mut pairs = Vec::new();
    for _ in 0..take_count(from, 2)? {
        pairs.push((take_text(source, from)?, take_text(source, from)?));
    }
    Ok(pairs)
}

/// Reads the tags of indexes alone, which are slices of `source`. Allocates nothing if there is
/// none.
pub(super) fn take_tags(source: &Bytes, bytes: &[u8]) -> Result<HeaderPairs, Malformed> {
    let from = &mut Reader::new(bytes);
    skip_texts(3, from)?;
    let meta = take_count(from, 2)?;
    skip_texts(2 * meta, from)?;
    take_pairs(source, from)
}

fn skip_texts(count: usize, from: &mut Reader<'_>) -> Result<(), Malformed> {
    for _ in 0..count {
        varint::take_string(from, CONTENT_HEADERS_BYTES_MAX, "header")?;
    }
    Ok(())
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
