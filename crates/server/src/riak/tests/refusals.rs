//! Tests of Riak's texts and of refusals.

use super::live::{Client, header};
use super::{build_request, bytes, planned_answer, planned_request, rendered, sibling, siblings};
use crate::riak::render;
use crate::tests::test_server::TestServer;
use base::{Body, Call, Context, DirectoryCall, Error, Properties};
use serde_json::{Value, json};

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

/// Returns the refusal of a change to this property of a bucket. `None`: a request to the node.
fn refused(path: &str, props: &Value) -> Option<Value> {
    let body = json!({ "props": props }).to_string();
    match crate::riak::plan(&build_request(&format!("PUT {path}"), JSON, body.leak())) {
        crate::riak::RiakPlan::Answer(answer) => {
            assert_eq!(answer.status, 400, "{answer:?}");
            Some(serde_json::from_slice(&answer.body).expect("a document"))
        }
        _ => None,
    }
}

#[test]
fn constant_property_is_accepted_unchanged_and_refused_otherwise() {
    let fun = |module: &str, name: &str| json!({ "mod": module, "fun": name });
    for (name, same, other) in [
        ("small_vclock", 50.into(), json!(10)),
        ("big_vclock", 50.into(), json!(10)),
        ("young_vclock", 20.into(), json!("20")),
        ("old_vclock", 86_400.into(), json!(1)),
        (
            "chash_keyfun",
            fun("riak_core_util", "chash_std_keyfun"),
            fun("riak_core_util", "chash_bucketonly_keyfun"),
        ),
        ("linkfun", fun("riak_kv_wm_link_walker", "mapreduce_linkfun"), json!({ "jsfun": "mine" })),
        ("sync_on_write", "backend".into(), json!("all")),
        ("active", true.into(), json!(false)),
        ("backend", Value::Null, json!("memory")),
        ("repl", false.into(), json!("realtime")),
        ("precommit", json!([]), json!([{ "mod": "m", "fun": "f" }])),
        ("search_index", "_dont_index_".into(), json!("books")),
        ("name", "b".into(), json!("c")),
        ("dvv_enabled", true.into(), json!(false)),
    ] {
        assert_eq!(refused("/buckets/b/props", &json!({ name: same })), None, "{name}");
        let wrong = refused("/buckets/b/props", &json!({ name: other })).expect(name);
        assert!(wrong[name].is_string(), "{name}: {wrong}");
    }
    assert!(refused("/buckets/b/props", &json!({ "claimant": "riak@x" })).is_some());
    assert_eq!(refused("/types/t/props", &json!({ "claimant": "riak@x" })), None);
}

#[test]
fn last_write_wins_with_dvv_enabled_is_refused() {
    let props = |wins: bool, dots: bool| json!({ "last_write_wins": wins, "dvv_enabled": dots });
    let both = refused("/buckets/b/props", &props(true, true));
    let text = "If last_write_wins is true, dvv_enabled must be false";
    assert_eq!(both, Some(json!({ "dvv_enabled": text })));
    assert_eq!(refused("/buckets/b/props", &props(true, false)), None);
    assert_eq!(refused("/buckets/b/props", &props(false, true)), None);
}

/// The node refuses with a text, from which the front-end derives the property.
#[test]
fn property_error_names_the_refused_property() {
    let (_, shape) =
        planned_request(&build_request("PUT /buckets/b/props", JSON, r#"{"props":{"n_val":2}}"#));
    let typed = Properties::available().with(&vec![("datatype".into(), "set".into())]);
    for (name, text, properties) in [
        ("n_val", "17", &Properties::available()),
        ("r", "4", &Properties::available()),
        ("node_confirms", "4", &Properties::available()),
        ("allow_mult", "false", &typed.expect("a type")),
        ("w", "1", &Properties::default()),
    ] {
        let error = properties.with(&vec![(name.into(), text.into())]).expect_err(name);
        let answer = render(&shape, &Err(Error::new(error.reason, error.text())));
        let wrong: Value = serde_json::from_slice(&answer.body).expect("a document");
        assert_eq!((answer.status, &wrong[name]), (400, &error.text().into()), "{wrong}");
    }
}

#[test]
fn unsupported_or_malformed_write_option_is_refused() {
    let put = |query: &str| {
        build_request(
            &format!("PUT /buckets/b/keys/k?{query}"),
            &[("Content-Type", "text/plain")],
            "x",
        )
    };
    for query in
        ["asis=false", "sync_on_write=backend", "sync_on_write=default", "node_confirms=one"]
    {
        planned_request(&put(query));
    }
    for (query, text) in [
        ("asis=maybe", "asis query parameter must be true or false\n"),
        ("asis=true", "asis is not supported: every write gets a new dot\n"),
        (
            "sync_on_write=all",
            "sync_on_write supports only backend: set the bucket's property `sync` instead\n",
        ),
        (
            "sync_on_write=x",
            "sync_on_write query parameter must be one of the following words: 'backend', 'one' \
             or 'all'\n",
        ),
        (
            "node_confirms=x",
            "node_confirms query parameter must be an integer or one of the following words: \
             'one', 'quorum' or 'all'\n",
        ),
        ("node_confirms=all", "node_confirms must be a number of nodes\n"),
    ] {
        let answer = planned_answer(&put(query));
        assert_eq!((answer.status, &answer.body[..]), (400, text.as_bytes()));
    }
}

#[test]
fn unknown_http_method_is_501() {
    for path in ["/buckets/b/keys/k", "/types/t/buckets/b/datatypes/k", "/ping"] {
        assert_eq!(
            planned_answer(&build_request(&format!("BREW {path}"), &[], "")).status,
            501,
            "{path}"
        );
    }
    assert_eq!(planned_answer(&build_request("PATCH /buckets/b/keys/k", &[], "")).status, 405);
}

/// Riak's Java client would treat 404 as an empty result and continue.
#[test]
fn unsupported_riak_feature_is_501_and_named() {
    for (line, feature) in [
        ("GET /riak/people/ann/_,friend,1", "Link walking"),
        ("GET /buckets/people/keys/ann/people,friend,0/_,_,_/", "Link walking"),
        ("POST /types/t/buckets/people/keys/ann/_,_,1", "Link walking"),
        ("POST /mapred?chunked=true", "MapReduce"),
        ("GET /search/query/books?q=x", "Search"),
        ("PUT /search/index/books", "Search"),
        ("GET /solr/books/select?q=x", "Search"),
    ] {
        let answer = planned_answer(&build_request(line, &[], ""));
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 501, "{line}");
        assert!(text.contains(feature) && text.contains("not supported"), "{line}: {text}");
    }
    let verdict = crate::riak::frame::verdict(501);
    assert_eq!(verdict, crate::Verdict::Failed(base::Kind::Invalid), "the node is not at fault");
    // Paths that are not Riak's are not found.
    for line in ["GET /nowhere", "GET /buckets/b/nothing", "GET /stats/more"] {
        assert_eq!(planned_answer(&build_request(line, &[], "")).status, 404, "{line}");
    }
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    let (status, _, text) = client.get("/live");
    assert_eq!(status, 200, "{text}");
    let (status, head, text) = client.get("/mapred");
    assert_eq!((status, text.contains("MapReduce")), (501, true), "{head}");
}

#[test]
fn response_without_body_has_a_content_type() {
    let put = build_request("PUT /buckets/b/keys/k", &[("Content-Type", "text/plain")], "x");
    let answer = bytes(&rendered(&put, Body::Stored(Context::default())));
    assert_eq!(answer, "HTTP/1.1 204 No Content\r\nContent-Type: text/plain\r\n\r\n");
}

#[test]
fn stored_encoding_refused_by_accept_encoding_is_406() {
    let mut zipped = sibling("\u{1f}", 7);
    zipped.content.headers.encoding = "gzip".into();
    for (value, encodings, status) in [
        (&zipped, "identity", 200),
        (&zipped, "gzip;q=0", 406),
        (&zipped, "identity, *;q=0", 406),
        (&zipped, "GZIP, *;q=0", 200),
        (&sibling("x", 8), "identity;q=0, gzip", 406),
        (&sibling("x", 8), "gzip, *;q=0.1", 200),
    ] {
        let get = build_request("GET /buckets/b/keys/k", &[("Accept-Encoding", encodings)], "");
        let answer = rendered(&get, Body::Siblings(siblings(vec![value.clone()])));
        assert_eq!(answer.status, status, "{encodings}");
    }
}

/// Tests the node's own refusals as Riak's clients receive them.
#[test]
fn node_errors_are_rendered_as_riak_errors() {
    let server = TestServer::build();
    let mut client = Client::connect(&server);
    let excess = "Specified w/dw/pw/node_confirms values invalid for bucket n value of 3\n";
    for (answer, status, text) in [
        (client.put("/buckets/b/keys/k?w=4", "", "x"), 400, excess),
        (client.get("/buckets/b/keys/k?r=4"), 400, excess),
        (client.get("/types/none/buckets/b/keys/k"), 404, "Unknown bucket type: none\n"),
        (client.get("/types/none/buckets/b/datatypes/k"), 404, "Unknown bucket type: none\n"),
    ] {
        assert_eq!((answer.0, &answer.2[..]), (status, text), "{}", answer.1);
    }
    for (name, changes) in [
        ("one", vec![("allow_mult", "false")]),
        ("maps", vec![("datatype", "map")]),
        ("once", vec![("write_once", "true")]),
    ] {
        let changes = [("consistency", "available")].into_iter().chain(changes);
        let changes = changes.map(|(name, text)| (name.into(), text.into())).collect();
        let call = Call::Directory(DirectoryCall::CreateType(changes));
        let bucket = base::BucketName::new(name, "b").expect("a name");
        server.call(base::Request { bucket, call, retry: None }).expect("made");
    }
    let mut send = |method: &str, path: &str, body: &str| {
        let length = body.len();
        client.send(&format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        ))
    };
    let add = r#"{"add":"x"}"#;
    for (path, body, text) in [
        ("/types/one/buckets/b/datatypes/k", "1", "Bucket must be allow_mult=true\n"),
        (
            "/types/one/buckets/b/datatypes/k",
            add,
            "Bucket datatype 'undefined' is not a supported type.\n",
        ),
    ] {
        let answer = send("POST", path, body);
        assert_eq!((answer.0, &answer.2[..]), (403, text), "{}", answer.1);
    }
    for (path, name, value) in [
        ("/types/maps/props", "datatype", "\"counter\""),
        ("/types/once/props", "write_once", "false"),
        ("/types/one/buckets/b/props", "write_once", "true"),
        ("/types/once/buckets/b/props", "allow_mult", "true"),
    ] {
        let answer = send("PUT", path, &format!("{{\"props\":{{\"{name}\":{value}}}}}"));
        let wrong: Value = serde_json::from_str(&answer.2).expect("a document");
        assert!(answer.0 == 400 && wrong[name].is_string(), "{path}: {answer:?}");
    }
    let (_, _, once) = send("GET", "/types/once/props", "");
    let props: Value = serde_json::from_str(&once).expect("a document");
    let props = &props["props"];
    assert_eq!((&props["write_once"], &props["allow_mult"]), (&json!(true), &json!(false)));
    assert_eq!(props["claimant"], "riak@127.0.0.1");
}

/// A web page of another origin may read as far as the browser allows, and not write.
#[test]
fn write_from_another_origin_is_refused() {
    let server = TestServer::build();
    for (line, status) in [
        ("Referer: http://evil.example/page", 403),
        ("Referer: https://localhost:1/", 403),
        ("Referer: nonsense", 403),
        ("Referer: http://localhost/console?x", 204),
        ("Origin: null", 403),
    ] {
        let mut client = Client::connect(&server);
        let (answer_status, head, _) = client.put("/buckets/b/keys/k", &format!("{line}\r\n"), "x");
        assert_eq!(answer_status, status, "{line}: {head}");
    }
    let mut client = Client::connect(&server);
    let get = "GET /buckets/b/keys/k HTTP/1.1\r\nHost: localhost\r\nReferer: http://x/\r\n\r\n";
    let (status, head, _) = client.send(get);
    assert_eq!((status, header(&head, "Content-Length")), (200, "1"));
}
