//! Tests of requests about documents: queries of Credenza over RESP, tags of Riak, and CouchDB.

use super::super::couchdb::{CouchDb, CouchDbExpectation};
use super::super::resp::{Expected, Resp};
use super::super::sockets::{Parsed, WireProtocol};
use super::super::*;
use crate::config::CouchDbConfig;

fn row(key: &'static str, document: Option<&'static str>) -> QueryRow<'static> {
    let bytes = |text: &'static str| Cow::Borrowed(text.as_bytes());
    QueryRow { key: bytes(key), document: document.map(bytes) }
}

fn encoded<P: WireProtocol>(protocol: &P, call: DocumentCall<'_>) -> (String, P::Expected) {
    let mut out = Vec::new();
    let expected = protocol.encode(&Call::Document(call), &mut out);
    (String::from_utf8(out).expect("text"), expected)
}

#[test]
fn index_queries_over_resp_are_encoded_and_pages_of_both_kinds_of_bucket_parsed() {
    let protocol = Resp::with_index("by-count");
    let range = IntegerRange { low: Some(7), rows_max: 10, ..IntegerRange::default() };
    let (text, _) = encoded(&protocol, DocumentCall::Query(range));
    let words: Vec<_> = text.split("\r\n").filter(|word| !word.starts_with(['*', '$'])).collect();
    assert_eq!(words[..7], ["CREDENZA.INDEX", "RANGE", "by-count", "[7", "+", "LIMIT", "10"]);
    assert_eq!(words[7..], ["KEYS", ""]);
    let range = IntegerRange {
        high: Some(50),
        wants_documents: true,
        after: Some(b"next"),
        ..IntegerRange::default()
    };
    let (text, expected) = encoded(&protocol, DocumentCall::Query(range));
    assert!(text.starts_with("*10\r\n") && text.contains("-\r\n$3\r\n(50\r\n"), "{text}");
    assert!(text.ends_with("$7\r\nRECORDS\r\n$5\r\nAFTER\r\n$4\r\nnext\r\n"), "{text}");
    let parsed = |reply: &'static str, expected| {
        let parsed = protocol.parse(reply.as_bytes(), &expected);
        let incomplete = &reply.as_bytes()[..reply.len() - 1];
        assert_eq!(protocol.parse(incomplete, &expected), Parsed::Partial);
        match parsed {
            Parsed::Reply(bytes, answer) if bytes == reply.len() => answer,
            other => panic!("{other:?}"),
        }
    };
    let page = |rows, after: Option<&'static str>| {
        let after = after.map(|after| Cow::Borrowed(after.as_bytes()));
        Ok(Answer::Page(QueryPage { rows, after }))
    };
    let keys = "*2\r\n$4\r\nnext\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
    let rows = vec![row("a", None), row("b", None)];
    assert_eq!(parsed(keys, Expected::IndexPage(false)), page(rows, Some("next")));
    let consistent = "*2\r\n$-1\r\n*3\r\n$1\r\na\r\n$1\r\n7\r\n$2\r\n{}\r\n";
    assert_eq!(parsed(consistent, expected), page(vec![row("a", Some("{}"))], None));
    let available = "*2\r\n$-1\r\n*3\r\n$1\r\na\r\n$1\r\n7\r\n*2\r\n$2\r\nxy\r\n*1\r\n$2\r\n{}\r\n";
    assert_eq!(parsed(available, expected), page(vec![row("a", Some("{}"))], None));
    let siblings = available.replace("*1\r\n$2\r\n{}", "*2\r\n$2\r\n{}\r\n$2\r\n[]");
    let unexpected = Err(Failure::refused("unexpected_reply"));
    assert_eq!(parsed(siblings.leak(), expected), unexpected);
    assert_eq!(parsed(keys, expected), unexpected, "keys where documents are wanted");
    let building = "-INDEXBUILDING index_building: wait\r\n";
    let refused = Err(Failure::refused("INDEXBUILDING index_building"));
    assert_eq!(parsed(building, expected), refused);
}

fn couchdb() -> CouchDb {
    CouchDb::new(&CouchDbConfig {
        address: "127.0.0.1:5984".into(),
        database: "coupons".into(),
        member: "redeemed_count".into(),
    })
}

#[test]
fn couchdb_requests_name_the_view_and_bulk_documents_their_ids() {
    let protocol = couchdb();
    let range = IntegerRange {
        low: Some(0),
        high: Some(50),
        rows_max: 9,
        wants_documents: true,
        after: None,
    };
    let (text, expected) = encoded(&protocol, DocumentCall::Query(range));
    let path = "GET /coupons/_design/by_number/_view/by_number?limit=9&startkey=0&endkey=50\
                &inclusive_end=false&include_docs=true HTTP/1.1\r\n";
    assert!(text.starts_with(path), "{text}");
    assert_eq!(expected, CouchDbExpectation::Rows(true));
    let rows = [("a", r#"{"n":1}"#), ("b\"", "{}")];
    let rows: [(Vec<u8>, Vec<u8>); 2] = rows.map(|(key, document)| (key.into(), document.into()));
    let (text, expected) = encoded(&protocol, DocumentCall::Bulk(&rows));
    let body = text.split_once("\r\n\r\n").expect("a body").1;
    let parsed: serde_json::Value = serde_json::from_str(body).expect("JSON");
    let documents = serde_json::json!({ "docs": [{ "_id": "a", "n": 1 }, { "_id": "b\"" }] });
    assert_eq!(parsed, documents);
    assert_eq!(expected, CouchDbExpectation::Stored);
    assert!(text.contains(&format!("\r\ncontent-length: {}\r\n", body.len())), "{text}");
}

#[test]
fn couchdb_replies_are_parsed_whole_and_chunked() {
    let protocol = couchdb();
    let parse = |reply: &str, expected| match protocol.parse(reply.as_bytes(), &expected) {
        Parsed::Reply(bytes, answer) if bytes == reply.len() => format!("{answer:?}"),
        other => panic!("{other:?}"),
    };
    let reply = |status: &str, body: &str| {
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
    };
    let rows = r#"{"total_rows":9,"rows":[{"key":3,"id":"a","value":null,
        "doc":{"n":3,"_id":"a","_rev":"1-5"}}]}"#;
    let answer: Result<_, Failure> =
        Ok(Answer::Page(QueryPage { rows: vec![row("a", Some(r#"{"n":3}"#))], after: None }));
    let shown = format!("{answer:?}");
    assert_eq!(parse(&reply("200 OK", rows), CouchDbExpectation::Rows(true)), shown);
    let (first, rest) = rows.split_at(20);
    let chunked = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{:x}\r\n{first}\r\n{:x}\r\n{rest}\
         \r\n0\r\n\r\n",
        first.len(),
        rest.len()
    );
    assert_eq!(parse(&chunked, CouchDbExpectation::Rows(true)), shown);
    let stored = r#"[{"ok":true,"id":"a"},{"id":"b","error":"conflict"}]"#;
    let one: Result<_, Failure> = Ok(Answer::Count(1));
    let stored = parse(&reply("201 Created", stored), CouchDbExpectation::Stored);
    assert_eq!(stored, format!("{one:?}"));
    let done: Result<_, Failure> = Ok(Answer::Done);
    for status in ["201 Created", "409 Conflict", "412 Precondition Failed"] {
        assert_eq!(parse(&reply(status, "{}"), CouchDbExpectation::Present), format!("{done:?}"));
    }
    for (status, expected) in [
        ("500 Oops", CouchDbExpectation::Rows(true)),
        ("409 Conflict", CouchDbExpectation::Done),
        ("200 OK", CouchDbExpectation::Rows(true)),
    ] {
        assert!(parse(&reply(status, "{}"), expected).starts_with("Err"), "{status}");
    }
}
