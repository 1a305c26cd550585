//! Conversion between Riak's object headers and a value's content.

use super::answer::RiakResponse;
use super::path::{PathBucket, Style};
use super::request::RiakRequest;
use crate::http::percent::{PlusMeaning, append_plus_encoded, decode};
use base::{Content, Context, Headers, Link, Sibling};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use std::collections::BTreeSet;

pub(super) const VCLOCK: &str = "X-Riak-Vclock";
const META: &str = "x-riak-meta-";
const INDEX: &str = "x-riak-index-";

/// Parses the context in a header. Fails with a text if it is not base64.
pub(super) fn context(request: &RiakRequest, name: &str) -> Result<Option<Context>, RiakResponse> {
    let Some(text) = request.header(name) else { return Ok(None) };
    match STANDARD.decode(text) {
        Ok(bytes) => Ok(Some(Context(bytes.into()))),
        Err(_) => Err(RiakResponse::text(
            400,
            format!("{name} is not a context that this server returned\n"),
        )),
    }
}

/// Returns a context as the text that clients send back.
pub(super) fn vclock(context: &Context) -> Bytes {
    STANDARD.encode(&context.0).into()
}

/// Parses the value that a request stores.
pub(super) fn content(request: &RiakRequest, bucket: &PathBucket) -> Result<Content, RiakResponse> {
    let Some(kind) = request.text("content-type").filter(|kind| !kind.trim().is_empty()) else {
        return Err(RiakResponse::text(400, "Missing Content-Type request header"));
    };
    let (content_type, charset) = media_type(kind);
    if !content_type.contains('/') {
        let text = format!("{kind:?} is not a valid media type for the Content-type header.\n");
        return Err(RiakResponse::text(415, text));
    }
    let headers = Headers {
        content_type: content_type.into(),
        charset: charset.into(),
        encoding: request.header("content-encoding").cloned().unwrap_or_default(),
        meta: meta(request),
        links: links(&request.joined("link"), bucket)?,
        indexes: indexes(request)?,
    };
    Ok(Content { value: request.body.clone(), headers })
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
fn strip_prefix_ignore_case<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    let (front, rest) = name.split_at_checked(prefix.len())?;
    (front.eq_ignore_ascii_case(prefix) && !rest.is_empty()).then_some(rest)
}

fn meta(request: &RiakRequest) -> Vec<(Bytes, Bytes)> {
    let mut meta: Vec<(Bytes, Bytes)> = Vec::new();
    for (name, value) in &request.headers {
        let Some(name) = strip_prefix_ignore_case(name, META) else { continue };
        let has_same_name =
            |(existing, _): &&mut (Bytes, Bytes)| existing.eq_ignore_ascii_case(name.as_bytes());
        match meta.iter_mut().find(has_same_name) {
            Some((_, existing)) => *existing = [&existing[..], b", ", value].concat().into(),
            None => meta.push((Bytes::copy_from_slice(name.as_bytes()), value.clone())),
        }
    }
    meta
}

fn indexes(request: &RiakRequest) -> Result<Vec<(Bytes, Bytes)>, RiakResponse> {
    let mut indexes = Vec::new();
    for (name, values) in &request.headers {
        let Some(field) = strip_prefix_ignore_case(name, INDEX) else { continue };
        let field = Bytes::copy_from_slice(field.as_bytes());
        for value in values.split(|byte| *byte == b',') {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            indexes.push((field.clone(), values.slice_ref(value)));
        }
    }
    index_entries(indexes).map_err(|errors| RiakResponse::text(400, errors))
}

/// Returns the index entries of a value, as they are kept: fields in lower case, in order, none
/// twice. Errors: a line for each field and value that can't be one.
pub(super) fn index_entries(entries: Vec<(Bytes, Bytes)>) -> Result<Vec<(Bytes, Bytes)>, String> {
    let (mut indexes, mut errors) = (Vec::with_capacity(entries.len()), String::new());
    let mut unknown_fields = BTreeSet::new();
    for (field, value) in entries {
        let field = field.to_ascii_lowercase();
        let (name, text) = (String::from_utf8_lossy(&field), String::from_utf8_lossy(&value));
        if !field.ends_with(b"_bin") && !field.ends_with(b"_int") {
            if unknown_fields.insert(field.clone()) {
                errors.push_str(&format!("Unknown field type for field: '{name}'.\n"));
            }
            continue;
        }
        if field.ends_with(b"_int") && text.parse::<i128>().is_err() {
            errors.push_str(&format!("Could not parse field '{name}', value '{text}'.\n"));
        }
        indexes.push((Bytes::from(field), value));
    }
    indexes.sort_unstable();
    indexes.dedup();
    if errors.is_empty() { Ok(indexes) } else { Err(errors) }
}

/// Parses the links of a `Link` header, without the bucket's own `rel`. Commas in names are
/// encoded, so every comma separates two links.
fn links(header: &[u8], bucket: &PathBucket) -> Result<Vec<Link>, RiakResponse> {
    let Ok(text) = std::str::from_utf8(header) else { return Err(invalid_link(bucket.style)) };
    let mut links = Vec::new();
    for text in text.split(',').map(str::trim).filter(|text| !text.is_empty()) {
        match link(text, bucket) {
            Some(Some(link)) => links.push(link),
            Some(None) => {}
            None => return Err(invalid_link(bucket.style)),
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
    let decode_part = |text: &str| decode(text, PlusMeaning::Blank);
    let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    match (name, &segments[..]) {
        ("riaktag", ["buckets", link_bucket, "keys", key] | ["riak", link_bucket, key]) => {
            Some(Some(Link {
                bucket: decode_part(link_bucket)?,
                key: decode_part(key)?,
                tag: decode_part(value)?,
            }))
        }
        ("rel", ["buckets", link_bucket] | ["riak", link_bucket]) => {
            (decode_part(link_bucket)? == bucket.client_name).then_some(None)
        }
        _ => None,
    }
}

fn invalid_link(style: Style) -> RiakResponse {
    let form = match style {
        Style::Old => "</riak/BUCKET/KEY>",
        Style::New => "</buckets/BUCKET/keys/KEY>",
    };
    let text = format!("Invalid Link header. Links must be of the form\n{form}; riaktag=\"TAG\"\n");
    RiakResponse::text(400, text)
}

/// Returns the `Link` header of a value with its bucket's `rel`: one line for all links. Links have
/// no bucket types. Names and tags are encoded as in Riak, with `+` for a blank.
pub(super) fn link_header(sibling: &Sibling, bucket: &PathBucket) -> Bytes {
    let is_old_style = bucket.style == Style::Old;
    let (front, middle) = if is_old_style { ("/riak/", "/") } else { ("/buckets/", "/keys/") };
    let mut text = format!("<{front}");
    append_plus_encoded(&mut text, &bucket.client_name);
    text.push_str(">; rel=\"up\"");
    for link in &sibling.content.headers.links {
        text.push_str(&format!(", <{front}"));
        append_plus_encoded(&mut text, &link.bucket);
        text.push_str(middle);
        append_plus_encoded(&mut text, &link.key);
        text.push_str(">; riaktag=\"");
        append_plus_encoded(&mut text, &link.tag);
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
    let to_header = |(name, value): &(Bytes, Bytes)| {
        (Bytes::from([b"X-Riak-Meta-", &name[..]].concat()), value.clone())
    };
    headers.meta.iter().map(to_header)
}

/// Returns index entries as headers, one per field with all its values.
pub(super) fn index_headers(headers: &Headers) -> Vec<(Bytes, Bytes)> {
    let mut merged: Vec<(Bytes, Bytes)> = Vec::new();
    for (field, value) in &headers.indexes {
        let name = Bytes::from([b"x-riak-index-", &field[..]].concat());
        match merged.last_mut().filter(|(last, _)| *last == name) {
            Some((_, values)) => *values = [&values[..], b", ", value].concat().into(),
            None => merged.push((name, value.clone())),
        }
    }
    merged
}
