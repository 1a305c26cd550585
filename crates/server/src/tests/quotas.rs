//! Tests of quotas of users, in every protocol.
//!
//! A user with a quota of one byte a second may make one request, which leaves it in debt for as
//! many seconds as it has bytes: longer than any test takes.

use super::test_server::{ARAKOON_EXISTS, ARAKOON_HELLO, TestServer};
use crate::ServerSettings;
use base::access::UserQuota;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const PASSWORD: &str = "secret";
/// Bytes of a value: the debt in seconds that it leaves.
const LARGE: usize = 100_000;

fn one_byte() -> UserQuota {
    UserQuota { bytes: Some(1), ..UserQuota::default() }
}

/// Starts a server with two users who may do anything with keys. The first has a quota.
fn server(settings: ServerSettings) -> TestServer {
    let server = TestServer::with_settings(settings);
    server.turn_access_on("ada", PASSWORD, "read,write,list,own:cluster");
    server.add_user("bob", PASSWORD, "tried");
    server.set_quota("ada", one_byte());
    server
}

/// Returns `SET k` with a large value.
fn large_set() -> String {
    format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${LARGE}\r\n{}\r\n", "v".repeat(LARGE))
}

fn is_refusal(answer: &str) -> bool {
    answer.contains("user `ada` has used up its quota of 1 bytes a second on this node")
}

#[test]
fn resp_client_over_its_quota_is_refused_stays_connected_and_harms_nobody() {
    let server = server(ServerSettings::default());
    let ask = |user: &str, commands: &str| {
        let commands = format!("AUTH {user} {PASSWORD}\r\n{commands}");
        server.exchange(server.address, commands.as_bytes())
    };
    // Plain sets and gets in a row, which would be answered together without a quota.
    let answer = ask("ada", &format!("{}SET a 1\r\nGET k\r\nGET a\r\nPING\r\n", large_set()));
    let lines: Vec<_> = answer.lines().collect();
    assert_eq!((lines.len(), &lines[..2], lines[5]), (6, &["+OK", "+OK"][..], "+PONG"), "{answer}");
    for refused in &lines[2..5] {
        assert!(refused.starts_with("-QUOTA ") && is_refusal(refused), "{answer}");
    }
    assert!(is_refusal(&ask("ada", "GET a\r\n")), "it is the user's, not the connection's");
    assert_eq!(ask("bob", "SET a 2\r\nGET a\r\n"), "+OK\r\n+OK\r\n$1\r\n2\r\n");
    let transaction = ask("ada", "MULTI\r\nGET a\r\nGET a\r\nEXEC\r\nPING\r\n");
    assert!(is_refusal(&transaction) && transaction.ends_with("+PONG\r\n"), "{transaction}");
    assert_eq!(server.sample("credenza_user_refused_total"), 5.0);
    server.set_quota("ada", UserQuota::default());
    assert_eq!(ask("ada", "GET a\r\n"), "+OK\r\n$1\r\n2\r\n");
}

const TEXT: &str = "text/plain";
const JSON: &str = "application/json";

fn http(server: &TestServer, user: &str, requests: &[(&str, &str)]) -> String {
    http_as(server, user, TEXT, requests)
}

/// Sends requests, each a line and a body of this media type. Returns the answers.
fn http_as(server: &TestServer, user: &str, media: &str, requests: &[(&str, &str)]) -> String {
    let credentials = STANDARD.encode(format!("{user}:{PASSWORD}"));
    let one = |(line, body): &(&str, &str)| {
        format!(
            "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Basic {credentials}\r\n\
             content-type: {media}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let requests: String = requests.iter().map(one).collect();
    server.exchange(server.address, requests.as_bytes())
}

#[test]
fn http_client_over_its_quota_gets_429_with_retry_after_on_a_connection_that_stays() {
    let server = server(ServerSettings::default());
    let key = "/v1/buckets/default/default/keys/k";
    let (put, get) = (format!("PUT {key}"), format!("GET {key}"));
    let value = "v".repeat(LARGE);
    let answer = http(&server, "ada", &[(&put, &value), (&get, ""), ("GET /live", "")]);
    let answers: Vec<_> = answer.split("HTTP/1.1 ").skip(1).collect();
    assert_eq!(answers.len(), 3, "{answer}");
    assert!(answers[0].starts_with("204 ") && answers[2].starts_with("200 "), "{answer}");
    assert!(answers[1].starts_with("429 ") && answers[1].contains("\r\nretry-after: 1\r\n"));
    assert!(answers[1].contains("\"quota\"") && is_refusal(answers[1]), "{answer}");
    assert!(http(&server, "bob", &[(&get, "")]).starts_with("HTTP/1.1 200 "));
}

#[test]
fn http_stream_that_has_begun_is_completed_and_the_next_one_is_refused() {
    let server = server(ServerSettings::default());
    let value = "v".repeat(LARGE);
    for number in 0..6 {
        // Each page of a stream holds two or three of them.
        let put = format!("PUT /v1/buckets/default/default/keys/k{number}");
        assert!(http(&server, "bob", &[(&put, &value)]).starts_with("HTTP/1.1 204 "));
    }
    let stream = [("GET /v1/buckets/default/default/stream", "")];
    let answer = http(&server, "ada", &stream);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{}", &answer[..300.min(answer.len())]);
    assert!(answer.ends_with("0\r\n\r\n") && !answer.contains("\"error\""), "it is whole");
    assert_eq!(answer.matches("\"key\"").count(), 6);
    assert!(http(&server, "ada", &stream).starts_with("HTTP/1.1 429 "));
}

#[test]
fn riak_client_over_its_quota_gets_429_with_retry_after() {
    let server = server(ServerSettings::default());
    let (put, get) = ("PUT /buckets/b/keys/k", "GET /buckets/b/keys/k");
    let value = "v".repeat(LARGE);
    let answer = http(&server, "ada", &[(put, &value), (get, ""), ("GET /ping", "")]);
    let answers: Vec<_> = answer.split("HTTP/1.1 ").skip(1).collect();
    assert_eq!(answers.len(), 3, "{answer}");
    assert!(answers[0].starts_with("204 ") && answers[2].starts_with("200 "), "{answer}");
    assert!(answers[1].starts_with("429 ") && is_refusal(answers[1]), "{answer}");
    assert!(answers[1].to_lowercase().contains("\r\nretry-after: 1\r\n"), "{answer}");
    assert!(http(&server, "bob", &[(get, "")]).starts_with("HTTP/1.1 200 "));
}

#[test]
fn arakoon_client_over_its_quota_is_refused_in_words_and_stays_connected() {
    let server = TestServer::with_arakoon_user();
    let (prologue, exists) = (ARAKOON_HELLO, ARAKOON_EXISTS);
    let set = [
        b"\x09\x00\xff\xb1\x01\x00\x00\x00k",
        &(LARGE as u32).to_le_bytes()[..],
        "v".repeat(LARGE).as_bytes(),
    ]
    .concat();
    let ask = |commands: &[&[u8]]| {
        let all = [prologue, &commands.concat()].concat();
        server.exchange(server.addresses[1], &all)
    };
    assert_eq!(ask(&[exists]), "\0\0\0\0\0", "it makes the bucket, while access is off");
    server.turn_access_on("ada", PASSWORD, "read,write:cluster");
    assert_eq!(ask(&[&set]), "\0\0\0\0");
    server.set_quota("ada", one_byte());
    let answer = ask(&[&set, exists, exists]);
    assert!(answer.starts_with("\0\0\0\0\u{fffd}"), "the first is within: {answer:?}");
    assert_eq!(answer.matches("quota: user `ada` has used up its quota").count(), 2, "{answer}");
}

#[test]
fn quota_is_set_shown_and_removed_over_http() {
    let server = TestServer::build();
    server.turn_access_on("ada", PASSWORD, "secure:cluster");
    server.add_user("bob", PASSWORD, "tried");
    let ask = |line: &str, body: &str| http_as(&server, "ada", JSON, &[(line, body)]);
    let set = |body: &str| ask("PUT /v1/access/users/bob/quota", body)[9..12].to_string();
    assert_eq!(set("{\"operations\":5,\"burst_ms\":2000}"), "204");
    let state = ask("GET /v1/access", "");
    assert!(state.contains("\"operations\":5") && state.contains("\"burst_ms\":2000"), "{state}");
    for bad in [
        "{\"operations\":0}",
        "{\"operations\":4294967296}",
        "{\"bytes\":1099511627777}",
        "{\"burst_ms\":60001}",
        "{\"speed\":1}",
    ] {
        assert_eq!(set(bad), "400", "{bad}");
    }
    let nobody = ask("PUT /v1/access/users/eve/quota", "{\"operations\":5}");
    assert!(nobody.starts_with("HTTP/1.1 404 "), "{nobody}");
    assert_eq!(set("{}"), "204");
    assert!(!ask("GET /v1/access", "").contains("\"operations\":5"));
}
