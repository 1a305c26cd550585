//! JSON of replies about indexes.

use super::available::append_siblings;
use super::write::{append_bytes, append_list, append_optional_bytes, append_row_fields};
use base::reply::IndexRecord;
use base::{IndexPage, IndexRow};
use std::io::Write;

/// Appends a page of an index as JSON fields, without the outer braces.
pub fn append_index_page(out: &mut Vec<u8>, page: &IndexPage) {
    out.extend_from_slice(b"\"rows\":");
    append_list(out, &page.rows, append_index_row);
    let more = page.after.is_some();
    write!(out, ",\"partial\":{},\"more\":{more},\"continue\":", page.is_partial)
        .expect("a vector takes all");
    append_optional_bytes(out, page.after.as_deref());
}

/// Appends a row of an index: its key, and what was requested of its term and its record.
pub fn append_index_row(out: &mut Vec<u8>, row: &IndexRow) {
    out.extend_from_slice(b"{\"key\":");
    append_bytes(out, &row.key);
    if let Some(term) = &row.term {
        out.extend_from_slice(b",\"term\":");
        append_bytes(out, term);
    }
    if let Some(record) = &row.record {
        out.push(b',');
        match record {
            IndexRecord::Row(row) => append_row_fields(out, row),
            IndexRecord::Siblings(siblings) => append_siblings(out, siblings),
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Content, Context, Row, Sibling, Siblings, Version, Vtag};
    use bytes::Bytes;
    use serde_json::{Value, json};

    fn text(page: &IndexPage) -> Value {
        let mut out = vec![b'{'];
        append_index_page(&mut out, page);
        out.push(b'}');
        let value = serde_json::from_slice(&out).expect("it is JSON");
        let read = serde_json::from_slice::<api::IndexPageReply>(&out);
        assert!(read.is_ok(), "as the schema says: {value}");
        value
    }

    #[test]
    fn index_page_has_what_was_requested_of_each_row() {
        let value = Bytes::from_static(b"v");
        let row =
            Row { value: value.clone(), version: Version(3), expires_in_ms: None, tags: None };
        let sibling = Sibling {
            content: Content::plain(value),
            written_ms: 4,
            vtag: Vtag(0),
            tombstone: false,
        };
        let deleted = Sibling { written_ms: 3, tombstone: true, ..sibling.clone() };
        let siblings =
            |values| IndexRecord::Siblings(Siblings { context: Context::default(), values });
        let of = |key: &'static [u8], term: Option<&'static str>, record| IndexRow {
            key: Bytes::from_static(key),
            term: term.map(|term| Bytes::from_static(term.as_bytes())),
            record,
        };
        let rows = vec![
            of(b"a", None, None),
            of(b"\xff", Some("7"), None),
            of(b"b", Some("8"), Some(IndexRecord::Row(row))),
            of(b"c", Some("9"), Some(siblings(vec![sibling.clone()]))),
            of(b"d", Some("9"), Some(siblings(vec![sibling, deleted]))),
        ];
        let page = IndexPage { rows, after: Some(Bytes::from_static(b"AX-")), is_partial: true };
        let vtag = "0".repeat(22);
        let expected = json!({
            "rows": [
                { "key": "a" },
                { "key": { "base64": "/w==" }, "term": "7" },
                { "key": "b", "term": "8", "value": "v", "version": 3 },
                { "key": "c", "term": "9", "context": "",
                  "siblings": [{ "value": "v", "vtag": vtag, "written_ms": 4 }] },
                { "key": "d", "term": "9", "context": "",
                  "siblings": [{ "value": "v", "vtag": vtag, "written_ms": 4 },
                               { "value": null, "vtag": vtag, "written_ms": 3 }] },
            ],
            "partial": true, "more": true, "continue": "AX-",
        });
        assert_eq!(text(&page), expected);
        let last = json!({ "rows": [], "partial": false, "more": false, "continue": null });
        assert_eq!(text(&IndexPage::default()), last);
    }
}
