//! JSON of replies about available buckets.

use super::write::{bytes_onto, list_onto, number_onto, text_onto};
use crate::contexts;
use crate::typed;
use base::available::TypeFound;
use base::{BucketNames, Context, Headers, Keys, Owner, Sibling, Siblings};

/// Appends a key's values and their context as JSON fields, without the outer braces.
pub fn siblings_onto(out: &mut Vec<u8>, siblings: &Siblings) {
    context_onto(out, &siblings.context);
    out.extend_from_slice(b",\"siblings\":");
    list_onto(out, &siblings.values, |out, sibling| {
        out.push(b'{');
        sibling_onto(out, sibling);
        out.push(b'}');
    });
}

/// Appends a context as a JSON field.
pub fn context_onto(out: &mut Vec<u8>, context: &Context) {
    out.extend_from_slice(b"\"context\":\"");
    out.extend_from_slice(contexts::text_of(context).as_bytes());
    out.push(b'"');
}

fn sibling_onto(out: &mut Vec<u8>, sibling: &Sibling) {
    out.extend_from_slice(b"\"value\":");
    if sibling.tombstone {
        out.extend_from_slice(b"null");
    } else {
        bytes_onto(out, &sibling.content.value);
    }
    out.extend_from_slice(b",\"vtag\":\"");
    number_onto(out, sibling.vtag);
    out.extend_from_slice(b"\",\"written_ms\":");
    number_onto(out, sibling.written_ms);
    headers_onto(out, &sibling.content.headers);
}

fn headers_onto(out: &mut Vec<u8>, headers: &Headers) {
    let Headers { content_type, charset, encoding, meta, links, indexes } = headers;
    for (name, text) in
        [("content_type", content_type), ("charset", charset), ("encoding", encoding)]
    {
        if !text.is_empty() {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            bytes_onto(out, text);
        }
    }
    for (name, pairs) in [("meta", meta), ("indexes", indexes)] {
        if !pairs.is_empty() {
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":");
            list_onto(out, pairs, |out, (name, text)| {
                list_onto(out, &[name, text], |out, part| bytes_onto(out, part));
            });
        }
    }
    if !links.is_empty() {
        out.extend_from_slice(b",\"links\":");
        list_onto(out, links, |out, link| {
            list_onto(out, &[&link.bucket, &link.key, &link.tag], |out, part| {
                bytes_onto(out, part);
            });
        });
    }
}

/// Appends a page of keys as JSON fields, without the outer braces.
pub fn keys_onto(out: &mut Vec<u8>, keys: &Keys) {
    out.extend_from_slice(b"\"keys\":");
    list_onto(out, &keys.keys, |out, key| bytes_onto(out, key));
    more_onto(out, keys.more);
}

/// Appends a page of bucket names as JSON fields, without the outer braces.
pub fn names_onto(out: &mut Vec<u8>, names: &BucketNames) {
    out.extend_from_slice(b"\"names\":");
    list_onto(out, &names.names, |out, name| text_onto(out, name.full()));
    more_onto(out, names.more);
}

fn more_onto(out: &mut Vec<u8>, more: bool) {
    out.extend_from_slice(b",\"more\":");
    number_onto(out, more);
}

/// Appends a data type as JSON fields, without the outer braces.
pub fn typed_onto(out: &mut Vec<u8>, found: &TypeFound) {
    context_onto(out, &found.context);
    out.extend_from_slice(b",\"type\":\"");
    out.extend_from_slice(found.kind.word().as_bytes());
    out.extend_from_slice(b"\",\"value\":");
    let mut text = String::new();
    match &found.value {
        Some(value) => typed::value_onto(&mut text, value),
        None => text.push_str("null"),
    }
    out.extend_from_slice(text.as_bytes());
}

/// Appends the owners of a key as JSON fields, without the outer braces.
pub fn owners_onto(out: &mut Vec<u8>, owners: &[Owner]) {
    out.extend_from_slice(b"\"owners\":");
    list_onto(out, owners, |out, owner| {
        out.extend_from_slice(b"{\"node\":");
        text_onto(out, &owner.node);
        out.extend_from_slice(b",\"address\":");
        text_onto(out, &owner.address);
        out.extend_from_slice(b",\"partition\":");
        number_onto(out, owner.partition.0);
        out.extend_from_slice(b",\"primary\":");
        number_onto(out, owner.primary);
        out.push(b'}');
    });
}
