//! Tags of a consistent bucket as a client of Riak writes, reads and queries them.

use super::live::{Client, header};
use crate::tests::test_server::TestServer;
use serde_json::{Value, json};

const BUCKET: &str = "/types/strict/buckets/people";

/// Returns a server with a consistent bucket.
fn server() -> TestServer {
    let server = TestServer::build();
    let name = base::BucketName::new("strict", "people").expect("a name");
    for call in
        [base::DirectoryCall::CreateType(Vec::new()), base::DirectoryCall::CreateBucket(Vec::new())]
    {
        let call = base::Call::Directory(call);
        server.call(base::Request { bucket: name.clone(), call, retry: None }).expect("made");
    }
    server
}

fn found(client: &mut Client, path: &str) -> String {
    let (status, head, body) = client.get(&format!("{BUCKET}/index{path}"));
    assert_eq!(status, 200, "{path}: {head}{body}");
    body
}

#[test]
fn tags_of_a_consistent_bucket_are_returned_and_queried_at_once() {
    let server = server();
    let mut client = Client::connect(&server);
    for (key, age) in [("ann", 7), ("bob", 10), ("cid", 7)] {
        let headers = format!("x-riak-index-age_int: {age}\r\nX-Riak-Index-Name_bin: {key}\r\n");
        assert_eq!(client.put(&format!("{BUCKET}/keys/{key}"), &headers, "x").0, 204);
    }
    for (path, expected) in [
        ("/age_int/7", r#"{"keys":["ann","cid"]}"#),
        ("/age_int/8/100?return_terms=true", r#"{"results":[{"10":"bob"}]}"#),
        ("/age_int/100/8", r#"{"keys":[]}"#),
        ("/name_bin/b/cid?timeout=5000", r#"{"keys":["bob","cid"]}"#),
        ("/name_bin/a/z?term_regex=.b$", r#"{"keys":["bob"]}"#),
        ("/other_int/0/9", r#"{"keys":[]}"#),
        ("/$key/bob", r#"{"keys":["bob"]}"#),
        ("/$key/an/bob?return_terms=true", r#"{"results":[{"ann":"ann"},{"bob":"bob"}]}"#),
        ("/$bucket/people", r#"{"keys":["ann","bob","cid"]}"#),
    ] {
        assert_eq!(found(&mut client, path), expected, "{path}");
    }
    for path in ["/age_int/0/99?max_results=2", "/$key/a/z?max_results=2"] {
        let (mut rows, mut after) = (Vec::new(), String::new());
        for count in [2, 1] {
            let page = found(&mut client, &format!("{path}{after}"));
            let page: Value = serde_json::from_str(&page).expect("JSON");
            let keys = page["keys"].as_array().expect("keys");
            assert_eq!((keys.len(), page["continuation"].is_string()), (count, count == 2));
            after = format!("&continuation={}", page["continuation"].as_str().unwrap_or_default());
            rows.extend(keys.iter().cloned());
        }
        rows.sort_by_key(Value::to_string);
        assert_eq!(Value::from(rows), json!(["ann", "bob", "cid"]), "{path}");
    }
    let (status, head, body) = client.get(&format!("{BUCKET}/index/age_int/0/99?stream=true"));
    assert_eq!(status, 200, "{head}");
    assert!(body.contains(r#"{"keys":["ann","cid","bob"]}"#), "{body}");
    assert_eq!(client.get(&format!("{BUCKET}/index/age_int/7?r=1")).0, 400);
}

#[test]
fn put_replaces_the_tags_of_a_key_and_a_put_without_any_removes_them() {
    let server = server();
    let mut client = Client::connect(&server);
    let key = format!("{BUCKET}/keys/ann");
    let tags = "x-riak-index-age_int: 7, 8\r\nx-riak-index-name_bin: ann\r\n";
    assert_eq!(client.put(&key, &format!("If-None-Match: *\r\n{tags}"), "x").0, 204);
    assert_eq!(client.put(&key, &format!("If-None-Match: *\r\n{tags}"), "y").0, 412);
    let (status, head, body) = client.get(&key);
    assert_eq!((status, &body[..]), (200, "x"), "{head}");
    assert_eq!(header(&head, "x-riak-index-age_int"), "7, 8", "{head}");
    assert_eq!(header(&head, "x-riak-index-name_bin"), "ann", "{head}");
    let seen = format!("X-Riak-Vclock: {}\r\n", header(&head, "X-Riak-Vclock"));
    let put = format!("{key}?returnbody=true");
    let (status, head, body) = client.put(&put, &format!("{seen}x-riak-index-age_int: 9\r\n"), "y");
    assert_eq!((status, &body[..]), (200, "y"), "{head}");
    assert_eq!(header(&head, "x-riak-index-age_int"), "9", "{head}");
    assert_eq!(client.put(&key, &format!("{seen}{tags}"), "z").0, 412, "it was written since");
    assert_eq!(found(&mut client, "/age_int/0/99"), r#"{"keys":["ann"]}"#);
    assert_eq!(found(&mut client, "/name_bin/ann"), r#"{"keys":[]}"#);
    assert_eq!(client.put(&key, "", "plain").0, 204);
    let (_, head, _) = client.get(&key);
    assert!(!head.to_ascii_lowercase().contains("x-riak-index"), "{head}");
    assert_eq!(found(&mut client, "/age_int/0/99"), r#"{"keys":[]}"#);
    assert_eq!(client.put(&key, tags, "x").0, 204);
    let delete = format!("DELETE {key} HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.send(&delete).0, 204);
    assert_eq!(found(&mut client, "/age_int/0/99"), r#"{"keys":[]}"#);
    // Metadata still needs an available bucket, beside tags or alone.
    assert_eq!(client.put(&key, &format!("{tags}X-Riak-Meta-Farm: west\r\n"), "x").0, 400);
    assert_eq!(client.put(&key, "x-riak-index-age_int: seven\r\n", "x").0, 400);
}
