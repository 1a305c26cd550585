//! Tests that rights are decided before a confirmation is asked for.

use super::test_server::TestServer;
use base::JoinToken;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const PASSWORD: &str = "a password of some length";

/// Requests that must be confirmed, each with its body.
const DESTRUCTIVE: [(&str, &str); 12] = [
    ("DELETE /v1/buckets/default/default", ""),
    ("POST /v1/buckets/default/default/clear", ""),
    ("POST /v1/buckets/default/default/empty_prefix", r#"{"prefix":"a"}"#),
    ("DELETE /v1/access/users/ada", ""),
    ("DELETE /v1/access/roles/tried", ""),
    ("PUT /v1/access", r#"{"on":false}"#),
    ("DELETE /v1/cluster/members/node1", ""),
    ("POST /v1/cluster/members/node1/replace", r#"{"by":"node2"}"#),
    ("PUT /v1/cluster/members/node1/part", r#"{"part":"none","group":1}"#),
    ("DELETE /v1/cluster/groups/1", ""),
    ("POST /v1/cluster/ring/commit", ""),
    ("DELETE /v1/admin/checkpoints/monday", ""),
];

/// Sends a request with these further headers. Returns its status and text.
fn ask(server: &TestServer, (line, body): (&str, &str), headers: &str) -> (u16, String) {
    let mut request = format!("{line} HTTP/1.1\r\nhost: localhost\r\n{headers}");
    if !body.is_empty() {
        let length = body.len();
        let json = "content-type: application/json";
        request.push_str(&format!("{json}\r\ncontent-length: {length}\r\n"));
    }
    let answer = server.exchange(server.address, format!("{request}\r\n{body}").as_bytes());
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.unwrap_or_else(|| panic!("{line}: {answer}")), answer)
}

fn login() -> String {
    format!("authorization: Basic {}\r\n", STANDARD.encode(format!("ada:{PASSWORD}")))
}

#[test]
fn unconfirmed_destruction_is_forbidden_to_who_lacks_the_right_and_malformed_to_others() {
    // Some right in the bucket is enough to have the body parsed that says what else is needed.
    let lacking = ["read,list,watch:cluster", "write:cluster", "list,write:default/default/b"];
    let all = "read,write,list,call,own,watch,operate,place,secure:cluster";
    for (grant, status) in lacking.map(|grant| (grant, 403)).into_iter().chain([(all, 400)]) {
        let server = TestServer::build();
        server.turn_access_on("ada", PASSWORD, grant);
        for request in DESTRUCTIVE {
            // Some routes open with a join token, too: who shows none there has no right.
            let (refused, answer) = ask(&server, request, "");
            let stranger = if request.0.ends_with("/replace") { 403 } else { 401 };
            assert_eq!(refused, stranger, "{request:?}: {answer}");
            let (found, answer) = ask(&server, request, &login());
            assert_eq!(found, status, "{grant} {request:?}: {answer}");
            assert_eq!(answer.contains("nothing was done"), status == 400, "{answer}");
        }
        let kept = ask(&server, ("GET /v1/buckets", ""), &login()).0;
        assert_eq!(kept == 200, grant.contains("list") && grant.ends_with("cluster"), "{grant}");
    }
}

#[test]
fn unconfirmed_replacement_by_a_join_token_is_forbidden() {
    let server = TestServer::build();
    server.turn_access_on("ada", PASSWORD, "read:cluster");
    let token = JoinToken::from_secret([9; 20]);
    let bearer = format!("authorization: Bearer {}\r\n", token.text());
    let replace = ("POST /v1/cluster/members/node1/replace", r#"{"by":"node2"}"#);
    let (status, answer) = ask(&server, replace, &bearer);
    assert_eq!(status, 403, "{answer}");
    assert!(answer.contains("a join token only allows a node to join"), "{answer}");
}
