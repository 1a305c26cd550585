//! Siblings as the parts of one body, byte for byte as Riak's clients split them.

use super::headers::{content_type, index_headers, link_header, meta_headers};
use super::path::PathBucket;
use crate::http::date;
use base::Sibling;
use base::codec::checksum;
use bytes::Bytes;

/// Returns a boundary that occurs in no value.
pub(super) fn boundary(siblings: &[&Sibling]) -> String {
    let mut salt = siblings.len() as u64;
    loop {
        for sibling in siblings {
            salt = checksum(&sibling.vtag.0.to_le_bytes(), salt);
        }
        let text = base::Vtag(salt.into()).to_string();
        let boundary = text.trim_start_matches('0').to_string();
        let contains_boundary = |sibling: &&&Sibling| {
            memchr::memmem::find(&sibling.content.value, boundary.as_bytes()).is_some()
        };
        if !siblings.iter().any(|sibling| contains_boundary(&sibling)) {
            return boundary;
        }
    }
}

/// Returns the body. It begins and ends with a line end.
pub(super) fn body(siblings: &[&Sibling], bucket: &PathBucket, boundary: &str) -> Bytes {
    let mut out = Vec::new();
    for sibling in siblings {
        out.extend_from_slice(format!("\r\n--{boundary}").as_bytes());
        for (name, value) in part_headers(sibling, bucket) {
            out.extend_from_slice(b"\r\n");
            out.extend_from_slice(&name);
            out.extend_from_slice(b": ");
            let printable =
                value.iter().map(|byte| if byte.is_ascii_control() { b' ' } else { *byte });
            out.extend(printable);
        }
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(&sibling.content.value);
    }
    out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    out.into()
}

fn part_headers(sibling: &Sibling, bucket: &PathBucket) -> Vec<(Bytes, Bytes)> {
    let stored_headers = &sibling.content.headers;
    let header = |name: &'static str, value: Bytes| (Bytes::from_static(name.as_bytes()), value);
    let mut headers = vec![header("Content-Type", content_type(stored_headers))];
    if !stored_headers.encoding.is_empty() {
        headers.push(header("Content-Encoding", stored_headers.encoding.clone()));
    }
    headers.push(header("Link", link_header(sibling, bucket)));
    headers.push(header("Etag", sibling.vtag.to_string().into()));
    headers.push(header("Last-Modified", date::format(sibling.written_ms).into()));
    if sibling.tombstone {
        headers.push(header("X-Riak-Deleted", Bytes::from_static(b"true")));
    }
    headers.extend(meta_headers(stored_headers));
    headers.extend(index_headers(stored_headers));
    headers
}
