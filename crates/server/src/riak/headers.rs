//! Conversion between Riak's object headers and a value's content.

use super::answer::RiakResponse;
use super::path::{PathBucket, Style};
use super::request::RiakRequest;
use crate::http::percent::{Plus, decode, encode_plus_onto};
use base::{Content, Context, Headers, Link, Sibling};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;

pub(super) const VCLOCK: &str = "X-Riak-Vclock";
const META: &str = "x-riak-meta-";
const INDEX: &str = "x-riak-index-";

/// Parses the context in a header. Fails with a text if it is not base64.
pub(super) fn context(asked: &RiakRequest, name: &str) -> Result<Option<Context>, RiakResponse> {
    let Some(text) = asked.header(name) else { return Ok(None) };
    match STANDARD.decode(text) {
        Ok(bytes) => Ok(Some(Context(bytes.into()))),
        Err(_) => Err(RiakResponse::text(400, format!("{name} is not what was given out\n"))),
    }
}

/// Returns a context as clients carry it.
pub(super) fn vclock(context: &Context) -> Bytes {
    STANDARD.encode(&context.0).into()
}

/// Parses the value that a request stores.
pub(super) fn content(asked: &RiakRequest, bucket: &PathBucket) -> Result<Content, RiakResponse> {
    let Some(kind) = asked.text("content-type").filter(|kind| !kind.trim().is_empty()) else {
        return Err(RiakResponse::text(400, "Missing Content-Type request header"));
    };
    let (content_type, charset) = media_type(kind);
    if !content_type.contains('/') {
        let words = format!("{kind:?} is not a valid media type for the Content-type header.\n");
        return Err(RiakResponse::text(415, words));
    }
    let headers = Headers {
        content_type: content_type.into(),
        charset: charset.into(),
        encoding: asked.header("content-encoding").cloned().unwrap_or_default(),
        meta: meta(asked),
        links: links(&asked.joined("link"), bucket)?,
        indexes: indexes(asked)?,
    };
    Ok(Content { value: asked.body.clone(), headers })
}

/// Splits a content type into the media type with its parameters, and the character set.
fn media_type(text: &str) -> (String, String) {
    let mut kind = Vec::new();
    let mut charset = String::new();
    for part in text.split(';').map(str::trim) {
        match part.split_once('=') {
            Some((name, set)) if name.eq_ignore_ascii_case("charset") => {
                charset = set.trim_matches('"').into();
            }
            _ => kind.push(part),
        }
    }
    (kind.join("; "), charset)
}

/// Returns the part of a header's name behind a prefix, ignoring case.
fn behind<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (front, rest) = name.split_at_checked(prefix.len())?;
    (front.eq_ignore_ascii_case(prefix) && !rest.is_empty()).then_some(rest)
}

fn meta(asked: &RiakRequest) -> Vec<(Bytes, Bytes)> {
    let mut meta: Vec<(Bytes, Bytes)> = Vec::new();
    for (name, value) in &asked.headers {
        let Some(name) = behind(name, META) else { continue };
        let same = |(known, _): &&mut (Bytes, Bytes)| known.eq_ignore_ascii_case(name.as_bytes());
        match meta.iter_mut().find(same) {
            Some((_, known)) => *known = [&known[..], b", ", value].concat().into(),
            None => meta.push((Bytes::copy_from_slice(name.as_bytes()), value.clone())),
        }
    }
    meta
}

fn indexes(asked: &RiakRequest) -> Result<Vec<(Bytes, Bytes)>, RiakResponse> {
    let mut indexes = Vec::new();
    let mut wrong = String::new();
    for (name, values) in &asked.headers {
        let Some(field) = behind(name, INDEX) else { continue };
        let field = field.to_ascii_lowercase();
        if !field.ends_with("_bin") && !field.ends_with("_int") {
            wrong.push_str(&format!("Unknown field type for field: '{field}'.\n"));
            continue;
        }
        for value in values.split(|byte| *byte == b',') {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            let text = String::from_utf8_lossy(value);
            if field.ends_with("_int") && text.parse::<i128>().is_err() {
                let line = format!("Could not parse field '{field}', value '{text}'.\n");
                wrong.push_str(&line);
            }
            indexes.push((Bytes::from(field.clone()), Bytes::copy_from_slice(value)));
        }
    }
    indexes.sort_unstable();
    indexes.dedup();
    if wrong.is_empty() { Ok(indexes) } else { Err(RiakResponse::text(400, wrong)) }
}

/// Parses the links of a `Link` header, without the bucket's own `rel`. Commas in names are
/// encoded, so every comma separates two links.
fn links(header: &[u8], bucket: &PathBucket) -> Result<Vec<Link>, RiakResponse> {
    let Ok(text) = std::str::from_utf8(header) else { return Err(no_link(bucket.style)) };
    let mut links = Vec::new();
    for text in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        match link(text, bucket) {
            Some(Some(link)) => links.push(link),
            Some(None) => {}
            None => return Err(no_link(bucket.style)),
        }
    }
    Ok(links)
}

/// Parses one link; `Some(None)` is the bucket's own `rel`.
fn link(text: &str, bucket: &PathBucket) -> Option<Option<Link>> {
    let (path, rest) = text.strip_prefix('<')?.split_once('>')?;
    let rest = rest.trim_start().strip_prefix(';')?.trim_start();
    let (name, value) = rest.split_once('=')?;
    let value = value.strip_prefix('"')?.strip_suffix('"')?;
    let word = |text: &str| decode(text, Plus::Blank);
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    match (name, &segments[..]) {
        ("riaktag", ["buckets", of, "keys", key] | ["riak", of, key]) => {
            Some(Some(Link { bucket: word(of)?, key: word(key)?, tag: word(value)? }))
        }
        ("rel", ["buckets", of] | ["riak", of]) => (word(of)? == bucket.bytes).then_some(None),
        _ => None,
    }
}

fn no_link(style: Style) -> RiakResponse {
    let form = match style {
        Style::Old => "</riak/BUCKET/KEY>",
        Style::New => "</buckets/BUCKET/keys/KEY>",
    };
    let words =
        format!("Invalid Link header. Links must be of the form\n{form}; riaktag=\"TAG\"\n");
    RiakResponse::text(400, words)
}

/// Returns the `Link` header of a value with its bucket's `rel`: one line for all links. Links have
/// no bucket types. Names and tags are encoded as in Riak, with `+` for a blank.
pub(super) fn link_header(sibling: &Sibling, bucket: &PathBucket) -> Bytes {
    let old = bucket.style == Style::Old;
    let (front, middle) = if old { ("/riak/", "/") } else { ("/buckets/", "/keys/") };
    let mut text = format!("<{front}");
    encode_plus_onto(&mut text, &bucket.bytes);
    text.push_str(">; rel=\"up\"");
    for link in &sibling.content.headers.links {
        text.push_str(&format!(", <{front}"));
        encode_plus_onto(&mut text, &link.bucket);
        text.push_str(middle);
        encode_plus_onto(&mut text, &link.key);
        text.push_str(">; riaktag=\"");
        encode_plus_onto(&mut text, &link.tag);
        text.push('"');
    }
    text.into()
}

/// Returns the media type with its character set.
pub(super) fn content_type(headers: &Headers) -> Bytes {
    let kind = match &headers.content_type[..] {
        b"" => b"application/octet-stream",
        kind => kind,
    };
    match &headers.charset[..] {
        b"" => Bytes::copy_from_slice(kind),
        set => [kind, b"; charset=", set].concat().into(),
    }
}

/// Returns metadata as headers.
pub(super) fn meta_headers(headers: &Headers) -> impl Iterator<Item = (Bytes, Bytes)> {
    let named = |(name, value): &(Bytes, Bytes)| {
        (Bytes::from([b"X-Riak-Meta-", &name[..]].concat()), value.clone())
    };
    headers.meta.iter().map(named)
}

/// Returns index entries as headers, all values of a field in one.
pub(super) fn index_headers(headers: &Headers) -> Vec<(Bytes, Bytes)> {
    let mut all: Vec<(Bytes, Bytes)> = Vec::new();
    for (field, value) in &headers.indexes {
        let name = Bytes::from([b"x-riak-index-", &field[..]].concat());
        match all.last_mut().filter(|(last, _)| *last == name) {
            Some((_, values)) => *values = [&values[..], b", ", value].concat().into(),
            None => all.push((name, value.clone())),
        }
    }
    all
}
