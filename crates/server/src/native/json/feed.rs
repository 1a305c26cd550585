//! JSON of feeds: pages, and the messages of streams.

use super::available::append_siblings;
use super::write::{append_bytes, append_list, append_number, append_row_fields};
use base::reply::IndexRecord;
use base::{FeedEvent, FeedPage};
use std::io::Write;

/// Appends a page of a feed as JSON fields, without the outer braces.
pub fn append_feed_page(out: &mut Vec<u8>, page: &FeedPage) {
    out.extend_from_slice(b"\"events\":");
    append_list(out, &page.events, append_event);
    out.extend_from_slice(b",\"token\":");
    append_bytes(out, &page.next);
    write!(out, ",\"level\":{},\"restart\":{}", page.level, page.restart)
        .expect("a vector takes all");
}

/// Appends an event: its kind, its key, and what it has of version and record.
pub fn append_event(out: &mut Vec<u8>, event: &FeedEvent) {
    write!(out, "{{\"event\":\"{}\",\"key\":", event.kind.name()).expect("a vector takes all");
    append_bytes(out, &event.key);
    match (&event.record, event.version) {
        // A row says its version itself.
        (Some(IndexRecord::Row(row)), _) => {
            out.push(b',');
            append_row_fields(out, row);
        }
        (Some(IndexRecord::Siblings(siblings)), _) => {
            out.push(b',');
            append_siblings(out, siblings);
        }
        (None, Some(version)) => {
            out.extend_from_slice(b",\"version\":");
            append_number(out, version);
        }
        (None, None) => {}
    }
    if event.again {
        out.extend_from_slice(b",\"again\":true");
    }
    out.push(b'}');
}

/// Appends the message of a stream with this name, and the token if it has one.
pub fn append_message(out: &mut Vec<u8>, name: &str, token: Option<&[u8]>) {
    write!(out, "{{\"event\":\"{name}\"").expect("a vector takes all");
    if let Some(token) = token {
        out.extend_from_slice(b",\"token\":");
        append_bytes(out, token);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::feed::FeedEventKind::{Delete, Put};
    use base::{Content, Context, Row, Sibling, Siblings, Version, Vtag};
    use bytes::Bytes;
    use serde_json::{Value, json};

    #[test]
    fn feed_page_has_what_each_event_has() {
        let value = Bytes::from_static(b"v");
        let row =
            Row { value: value.clone(), version: Version(3), expires_in_ms: Some(9), tags: None };
        let (content, tombstone) = (Content::plain(value), false);
        let sibling = Sibling { content, written_ms: 4, vtag: Vtag(0), tombstone };
        let siblings = Siblings { context: Context::default(), values: vec![sibling] };
        let of = |kind, key: &'static [u8], version: Option<u64>, record| FeedEvent {
            kind,
            key: Bytes::from_static(key),
            version: version.map(Version),
            record,
            again: key == b"d",
        };
        let events = vec![
            of(Put, b"a", Some(3), Some(IndexRecord::Row(row))),
            of(Delete, b"\xff", Some(4), None),
            of(Put, b"c", None, Some(IndexRecord::Siblings(siblings))),
            of(Delete, b"d", None, None),
        ];
        let next = Bytes::from_static(b"AQ-");
        let page = FeedPage { events, next, level: true, restart: false };
        let mut out = vec![b'{'];
        append_feed_page(&mut out, &page);
        out.push(b'}');
        let found: Value = serde_json::from_slice(&out).expect("it is JSON");
        let vtag = "0".repeat(22);
        let expected = json!({
            "events": [
                { "event": "put", "key": "a", "value": "v", "version": 3, "expires_in_ms": 9 },
                { "event": "delete", "key": { "base64": "/w==" }, "version": 4 },
                { "event": "put", "key": "c", "context": "",
                  "siblings": [{ "value": "v", "vtag": vtag, "written_ms": 4 }] },
                { "event": "delete", "key": "d", "again": true },
            ],
            "token": "AQ-", "level": true, "restart": false,
        });
        assert_eq!(found, expected);
        let read = serde_json::from_slice::<api::FeedPageReply>(&out);
        assert!(read.is_ok_and(|page| page.events.len() == 4), "as the schema says: {found}");
    }

    #[test]
    fn message_has_its_name_and_the_token() {
        let text = |name, token: Option<&[u8]>| {
            let mut out = Vec::new();
            append_message(&mut out, name, token);
            String::from_utf8(out).expect("text")
        };
        assert_eq!(text("restart", None), r#"{"event":"restart"}"#);
        assert_eq!(text("level", Some(b"AQ-")), r#"{"event":"level","token":"AQ-"}"#);
    }
}
