//! JSON of replies about available buckets.

use super::write::{append_bytes, append_list, append_number, append_text};
use crate::contexts;
use crate::typed;
use base::available::TypeFound;
use base::{BucketNames, Context, Headers, Keys, Owner, Sibling, Siblings};

/// Appends a key's values and their context as JSON fields, without the outer braces.
pub fn append_siblings(out: &mut Vec<u8>, siblings: &Siblings) {
    append_context(out, &siblings.context);
    out.extend_from_slice(b",\"siblings\":");
    append_list(out, &siblings.values, |out, sibling| {
        out.push(b'{');
        append_sibling(out, sibling);
        out.push(b'}');
    });
}

/// Appends a context as a JSON field.
pub fn append_context(out: &mut Vec<u8>, context: &Context) {
    out.extend_from_slice(b"\"context\":\"");
    out.extend_from_slice(contexts::encode(context).as_bytes());
    out.push(b'"');
}

fn append_sibling(out: &mut Vec<u8>, sibling: &Sibling) {
    out.extend_from_slice(b"\"value\":");
    if sibling.tombstone {
        out.extend_from_slice(b"null");
    } else {
        append_bytes(out, &sibling.content.value);
    }
    out.extend_from_slice(b",\"vtag\":\"");
    append_number(out, sibling.vtag);
    out.extend_from_slice(b"\",\"written_ms\":");
    append_number(out, sibling.written_ms);
    append_headers(out, &sibling.content.headers);
}

fn append_headers(out: &mut Vec<u8>, headers: &Headers) {
    let Headers { content_type, charset, encoding, meta, links, indexes } = headers;
    for (name, text) in
        [("content_type", content_type), ("charset", charset), ("encoding", encoding)]
    {
        if !text.is_empty() {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            append_bytes(out, text);
        }
    }
    for (name, pairs) in [("meta", meta), ("indexes", indexes)] {
        if !pairs.is_empty() {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            append_list(out, pairs, |out, (name, text)| {
                append_list(out, &[name, text], |out, part| append_bytes(out, part));
            });
        }
    }
    if !links.is_empty() {
        out.extend_from_slice(b",\"links\":");
        append_list(out, links, |out, link| {
            append_list(out, &[&link.bucket, &link.key, &link.tag], |out, part| {
                append_bytes(out, part);
            });
        });
    }
}

/// Appends a page of keys as JSON fields, without the outer braces.
pub fn append_keys(out: &mut Vec<u8>, keys: &Keys) {
    out.extend_from_slice(b"\"keys\":");
    append_list(out, &keys.keys, |out, key| append_bytes(out, key));
    append_more(out, keys.more);
}

/// Appends a page of bucket names as JSON fields, without the outer braces.
pub fn append_names(out: &mut Vec<u8>, names: &BucketNames) {
    out.extend_from_slice(b"\"names\":");
    append_list(out, &names.names, |out, name| append_text(out, name.full()));
    append_more(out, names.more);
}

fn append_more(out: &mut Vec<u8>, more: bool) {
    out.extend_from_slice(b",\"more\":");
    append_number(out, more);
}

/// Appends a data type as JSON fields, without the outer braces.
pub fn append_typed(out: &mut Vec<u8>, found: &TypeFound) {
    append_context(out, &found.context);
    out.extend_from_slice(b",\"type\":\"");
    out.extend_from_slice(found.kind.name().as_bytes());
    out.extend_from_slice(b"\",\"value\":");
    let mut text = String::new();
    match &found.value {
        Some(value) => typed::append_value(&mut text, value),
        None => text.push_str("null"),
    }
    out.extend_from_slice(text.as_bytes());
}

/// Appends the owners of a key as JSON fields, without the outer braces.
pub fn append_owners(out: &mut Vec<u8>, owners: &[Owner]) {
    out.extend_from_slice(b"\"owners\":");
    append_list(out, owners, |out, owner| {
        out.extend_from_slice(b"{\"node\":");
        append_text(out, &owner.node);
        out.extend_from_slice(b",\"address\":");
        append_text(out, &owner.address);
        out.extend_from_slice(b",\"partition\":");
        append_number(out, owner.partition.0);
        out.extend_from_slice(b",\"primary\":");
        append_number(out, owner.primary);
        out.push(b'}');
    });
}
