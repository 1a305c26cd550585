//! Audit log of what comes through the front-ends: logins, refusals and acts, in every protocol.

use super::test_server::{ARAKOON_EXISTS, ARAKOON_HELLO, TestServer};
use base::access::ApiToken;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

const PASSWORD: &str = "correct horse: battery";
const WRONG: &str = "wrong-password-typed";

/// Returns the lines behind the first `skipped` ones, once each of them is written.
pub(super) fn lines(server: &TestServer, skipped: usize) -> Vec<Value> {
    let text = server.audit_log();
    let lines = text.lines().skip(skipped);
    lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns a line's parts that tests compare: who, protocol, operation, outcome.
pub(super) fn fact(line: &Value) -> [String; 4] {
    ["who", "protocol", "operation", "outcome"]
        .map(|name| line[name].as_str().unwrap_or("-").to_string())
}

fn basic(user: &str, password: &str) -> String {
    format!("authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

pub(super) fn http(server: &TestServer, line: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\n{headers}content-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    server.exchange(server.address, request.as_bytes())
}

#[test]
fn every_kind_of_act_through_the_front_ends_is_in_the_audit_log() {
    let server = TestServer::build();
    server.turn_access_on("ada", PASSWORD, "read,own,operate,secure:cluster");
    let begin = lines(&server, 0).len();
    let ada = basic("ada", PASSWORD);
    let resp = |commands: &str| server.exchange(server.address, commands.as_bytes());
    let auth = |password: &str| {
        format!("*3\r\n$4\r\nAUTH\r\n$3\r\nada\r\n${}\r\n{password}\r\n", password.len())
    };
    assert!(resp(&auth(WRONG)).starts_with("-WRONGPASS "));
    let answers = resp(&format!("{}SET secret-key v\r\nCONFIG RESETSTAT\r\n", auth(PASSWORD)));
    assert!(answers.starts_with("+OK\r\n-NOPERM ") && answers.ends_with("+OK\r\n"), "{answers}");
    let created = http(&server, "PUT /v1/buckets/default/made", &ada, "{}");
    assert!(created.starts_with("HTTP/1.1 201 "), "{created}");
    let levels = http(&server, "GET /v1/admin/slow-requests", &ada, "");
    assert!(levels.starts_with("HTTP/1.1 403 "), "{levels}");
    let password = "another-password-of-bob";
    let body = format!("{{\"password\":\"{password}\",\"roles\":[]}}");
    let added = http(&server, "PUT /v1/access/users/bob", &ada, &body);
    assert!(added.starts_with("HTTP/1.1 201 "), "{added}");
    let shown = http(&server, "GET /v1/access", &ada, "");
    assert!(shown.starts_with("HTTP/1.1 200 "), "{shown}");
    let riak = http(&server, "PUT /buckets/b/keys/k", &ada, "v");
    assert!(riak.starts_with("HTTP/1.1 403 "), "{riak}");
    let unknown = http(&server, "GET /v1/buckets", &basic(WRONG, PASSWORD), "");
    assert!(unknown.starts_with("HTTP/1.1 401 "), "{unknown}");
    let found = lines(&server, begin);
    let facts: Vec<_> = found.iter().map(fact).collect();
    let expected = [
        ["ada", "-", "login", "denied"],
        ["ada", "-", "login", "done"],
        ["ada", "resp", "set", "denied"],
        ["ada", "resp", "reset_counts", "done"],
        ["ada", "http", "create_bucket", "done"],
        ["ada", "http", "show_slow_requests", "denied"],
        ["ada", "http", "add_user", "allowed"],
        ["ada", "http", "add_user", "done"],
        ["ada", "http", "show_access", "allowed"],
        ["ada", "http", "show_access", "done"],
        ["ada", "riak", "store", "denied"],
        ["(unknown)", "-", "login", "denied"],
    ];
    assert_eq!(facts, expected.map(|fact| fact.map(String::from)));
    assert!(found.iter().all(|line| line["address"] == "127.0.0.1"), "{found:?}");
    let all = server.audit_log();
    for secret in [PASSWORD, WRONG, password, "secret-key", "argon2", &STANDARD.encode(WRONG)] {
        assert!(!all.contains(secret), "{secret}: {all}");
    }
}

#[test]
fn login_by_token_is_recorded_with_its_label_and_once_for_many_requests() {
    let server = TestServer::build();
    server.turn_access_on("ada", PASSWORD, "watch:cluster");
    let token = ApiToken::from_secret([7; 20]);
    server.add_api_token("ada", &token);
    let begin = lines(&server, 0).len();
    let headers = format!("authorization: Bearer {}\r\n", token.text());
    for _ in 0..50 {
        let answer = http(&server, "GET /status", &headers, "");
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    let wrong = format!("authorization: Bearer {}\r\n", ApiToken::from_secret([8; 20]).text());
    assert!(http(&server, "GET /status", &wrong, "").starts_with("HTTP/1.1 401 "));
    let found = lines(&server, begin);
    let facts: Vec<_> = found.iter().map(fact).collect();
    let expected = [["ada", "-", "login", "done"], ["(unknown)", "-", "login", "denied"]];
    assert_eq!(facts, expected.map(|fact| fact.map(String::from)));
    assert_eq!(found[0]["token"], "ci");
    let all = server.audit_log();
    assert!(!all.contains(token.text()) && !all.contains("credenza-api-"), "{all}");
}

#[test]
fn arakoon_client_is_recorded_as_the_listeners_user() {
    let server = TestServer::with_arakoon_user();
    let (prologue, exists) = (ARAKOON_HELLO, ARAKOON_EXISTS);
    let set = b"\x09\x00\xff\xb1\x01\x00\x00\x00k\x01\x00\x00\x00v";
    let ask = |command: &[u8]| server.exchange(server.addresses[1], &[prologue, command].concat());
    assert_eq!(ask(exists), "\0\0\0\0\0", "it makes the bucket, while access is off");
    server.turn_access_on("ada", PASSWORD, "read:cluster");
    let begin = lines(&server, 0).len();
    assert!(ask(set).contains("forbidden"));
    let found = lines(&server, begin);
    let facts: Vec<_> = found.iter().map(fact).collect();
    let expected = [["ada", "-", "login", "done"], ["ada", "arakoon", "set", "denied"]];
    assert_eq!(facts, expected.map(|fact| fact.map(String::from)));
    assert!(found.iter().all(|line| line["address"] == "127.0.0.1"), "{found:?}");
}

#[test]
fn log_entry_read_with_a_join_token_is_recorded() {
    let server = TestServer::build();
    server.turn_access_on("ada", PASSWORD, "secure:cluster");
    let begin = lines(&server, 0).len();
    let read = |token: &str| {
        let headers = format!("authorization: Bearer {token}\r\n");
        http(&server, "GET /v1/cluster/groups/0/values/1", &headers, "")
    };
    let refused = read(base::JoinToken::from_secret([3; 20]).text());
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    let created = http(&server, "POST /v1/cluster/tokens", &basic("ada", PASSWORD), "");
    let created = created.split("\r\n\r\n").nth(1).unwrap_or_default();
    let created: Value = serde_json::from_str(created).expect("JSON");
    let answer = read(created["token"].as_str().expect("a token"));
    assert!(!answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let found = lines(&server, begin);
    let reads = found.iter().map(fact).filter(|fact| fact[2] == "read_log_entry");
    let outcomes = ["denied", "allowed", "done"];
    let expected = outcomes.map(|it| ["(join token)", "http", "read_log_entry", it]);
    assert_eq!(reads.collect::<Vec<_>>(), expected.map(|fact| fact.map(String::from)));
}

#[test]
fn request_without_a_login_is_recorded_with_its_operation_and_bounded_by_address() {
    let server = TestServer::with_arakoon_user();
    // Arakoon's listener names a user that does not exist.
    server.turn_access_on("bob", PASSWORD, "read:cluster");
    let begin = lines(&server, 0).len();
    let commands = "GET secret-key\r\nCLIENT LIST\r\nHELLO 3\r\nNONSENSE secret-key\r\n";
    let answers = server.exchange(server.address, commands.as_bytes());
    assert_eq!(answers.matches("-NOAUTH ").count(), 3, "{answers}");
    for (line, status) in [
        ("GET /v1/buckets/default/default/keys/secret-key", "401"),
        ("POST /v1/buckets/default/default/update", "401"),
        ("GET /status", "401"),
        ("PUT /buckets/b/keys/secret-key", "401"),
        ("GET /live", "200"),
    ] {
        let answer = http(&server, line, "", "");
        assert_eq!(answer.split(' ').nth(1), Some(status), "{line}: {answer}");
    }
    let malformed = http(&server, "GET /status", "authorization: Digest x\r\n", "");
    assert!(malformed.starts_with("HTTP/1.1 401 "), "{malformed}");
    let arakoon = [ARAKOON_HELLO, ARAKOON_EXISTS].concat();
    assert_eq!(server.exchange(server.addresses[1], &arakoon), "");
    let found = lines(&server, begin);
    let facts: Vec<_> = found.iter().map(fact).collect();
    let expected = [
        ["(anonymous)", "resp", "get", "denied"],
        ["(anonymous)", "resp", "client|list", "denied"],
        ["(anonymous)", "resp", "hello", "denied"],
        ["(anonymous)", "http", "get", "denied"],
        ["(anonymous)", "http", "write", "denied"],
        ["(anonymous)", "http", "show_status", "denied"],
        ["(anonymous)", "riak", "store", "denied"],
        ["(unknown)", "-", "login", "denied"],
        ["(unknown)", "-", "login", "denied"],
        ["(anonymous)", "arakoon", "connect", "denied"],
    ];
    assert_eq!(facts, expected.map(|fact| fact.map(String::from)));
    assert!(found.iter().all(|line| line["reason"] == "unauthenticated"), "{found:?}");
    let scopes: Vec<_> = found.iter().map(|line| line["scope"].as_str().unwrap_or("-")).collect();
    let default = "default/default";
    let expected =
        [default, "-", "-", default, default, "cluster", "available/b", "-", "-", "arakoon/ricky"];
    assert_eq!(scopes, expected);
    // A flood of them takes the lines of one source.
    for _ in 0..40 {
        server.exchange(server.address, b"GET secret-key\r\n");
        http(&server, "GET /status", "", "");
    }
    let strangers = |line: &&Value| line["who"] == "(anonymous)";
    let found = lines(&server, begin);
    assert_eq!(found.iter().filter(strangers).count(), 16);
    assert!(!server.audit_log().contains("secret-key"));
}
