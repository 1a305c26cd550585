//! Tests of the names of operations in the audit log: those of the requests that paths make.

use super::{build_request, planned_request};
use crate::riak::login::operation_name;
use crate::riak::path::parse_path;

#[test]
fn operation_of_a_path_has_the_name_of_the_request_that_it_makes() {
    const PLAIN: &[(&str, &str)] = &[("Content-Type", "text/plain")];
    const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];
    let properties = r#"{"props":{"n_val":2}}"#;
    for (line, headers, body) in [
        ("GET /buckets/b/keys/k", PLAIN, ""),
        ("HEAD /riak/b/k", PLAIN, ""),
        ("PUT /buckets/b/keys/k", PLAIN, "v"),
        ("POST /buckets/b/keys", PLAIN, "v"),
        ("GET /buckets/b/keys?keys=true", PLAIN, ""),
        ("GET /buckets?buckets=true", PLAIN, ""),
        ("GET /buckets/b/props", PLAIN, ""),
        ("PUT /buckets/b/props", JSON, properties),
        ("PUT /riak/b", JSON, properties),
        ("DELETE /buckets/b/props", PLAIN, ""),
        ("GET /types/available/props", PLAIN, ""),
        ("PUT /types/available/props", JSON, properties),
        ("GET /types/sets/buckets/b/datatypes/k", PLAIN, ""),
        ("POST /types/sets/buckets/b/datatypes/k", JSON, r#"{"add":"tea"}"#),
        ("GET /buckets/b/counters/k", PLAIN, ""),
        ("POST /buckets/b/counters/k", PLAIN, "1"),
        ("GET /buckets/b/keys/k/preflist", PLAIN, ""),
        ("GET /buckets/b/index/age_int/1/9", PLAIN, ""),
        ("HEAD /types/t/buckets/b/index/$key/k", PLAIN, ""),
    ] {
        let asked = build_request(line, headers, body);
        let Some(Ok(resource)) = parse_path(&asked.path) else { panic!("{line}") };
        let (request, _) = planned_request(&asked);
        let named = operation_name(&resource, asked.method);
        assert_eq!(named, Some(request.operation_name()), "{line}");
    }
}
