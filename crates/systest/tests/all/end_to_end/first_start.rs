//! The first minute: nothing configured, everything works.

use super::{get, http, output, put, resp, start_server, tool};
use std::process::Command;
use std::time::Duration;
use systest::client::RespReply;
use systest::environment::{Root, missing};
use systest::report::skipped;
use systest::server::{Server, Setup};

#[test]
fn unconfigured_first_start_serves_redis_http_and_command_line() {
    let (_scratch, server) = start_server("first-start");
    let mut redis = resp(&server);
    let mut web = http(&server);
    assert_eq!(redis.call_line("PING").expect("answers"), RespReply::Simple("PONG".into()));
    assert_eq!(
        redis.call_line("SET colour blue").expect("answers"),
        RespReply::Simple("OK".into())
    );
    let response = get(&mut web, b"colour");
    assert_eq!((response.status, response.text()), (200, "blue".into()));
    assert!(response.header("etag").is_some() && response.header("x-credenza-index").is_some());
    assert_eq!(put(&mut web, b"colour", b"green").status / 100, 2);
    assert_eq!(tool(&server, &["get", "colour"]).trim_end(), "green");
    tool(&server, &["put", "colour", "red"]);
    assert_eq!(
        redis.call_line("GET colour").expect("answers"),
        RespReply::Bulk(Some(b"red".to_vec()))
    );
    tool(&server, &["delete", "colour"]);
    assert_eq!(redis.call_line("GET colour").expect("answers"), RespReply::Bulk(None));
    assert_eq!(get(&mut web, b"colour").status, 404);
    let result = output(server.tool(&["get", "colour"]));
    assert_eq!(result.status.code(), Some(1), "a missing key is an answer, not an error");
    let buckets = tool(&server, &["bucket", "list"]);
    assert!(buckets.contains("default/default"), "{buckets}");
    for path in ["/live", "/ready", "/status", "/metrics", "/openapi.json"] {
        assert_eq!(web.request("GET", path, b"").expect("answers").status, 200, "{path}");
    }
}

#[test]
fn redis_cli_and_curl_work_unchanged() {
    let (_scratch, server) = start_server("foreign-tools");
    let port = server.address.port().to_string();
    let is_available = |tool: &str| {
        let missing_tool = missing(Root::Spared, &[tool]);
        if let Some(reason) = &missing_tool {
            skipped(&format!("{tool} against the binary"), reason);
        }
        missing_tool.is_none()
    };
    let stdout_of = |args: &[&str]| {
        let result = output({
            let mut command = Command::new(args[0]);
            command.args(&args[1..]);
            command
        });
        String::from_utf8_lossy(&result.stdout).trim_end().to_string()
    };
    let url = format!("{}/v1/buckets/default/default/keys/greeting", server.url());
    if is_available("redis-cli") {
        let cli = |args: &[&str]| stdout_of(&[&["redis-cli", "-p", &port], args].concat());
        assert_eq!(cli(&["SET", "greeting", "hello"]), "OK");
        assert_eq!(cli(&["GET", "greeting"]), "hello");
        assert_eq!(cli(&["INCR", "visits"]), "1");
        assert_eq!(cli(&["-3", "GET", "greeting"]), "hello", "RESP3");
        assert_eq!(cli(&["--scan", "--pattern", "greet*"]), "greeting");
    }
    if is_available("curl") {
        let put = ["curl", "-sf", "-X", "PUT", "--data-binary", "hallo", &url];
        stdout_of(&put);
        assert_eq!(stdout_of(&["curl", "-sf", &url]), "hallo");
        let status_args = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"];
        let missing_url = format!("{url}-not");
        assert_eq!(stdout_of(&[&status_args[..], &[&missing_url]].concat()), "404");
    }
}

#[test]
fn graceful_stop_loses_nothing_and_exits_with_0() {
    let (_scratch, mut server) = start_server("graceful");
    let mut redis = resp(&server);
    for n in 0..500 {
        let answer = redis.call_line(&format!("SET key{n} value{n}")).expect("answers");
        assert_eq!(answer, RespReply::Simple("OK".into()));
    }
    let status = server.stop(Duration::from_secs(30)).expect("it stops when asked");
    assert_eq!(status.code(), Some(0), "{}", server.stderr_text());
    let server = Server::must_start(&server.setup);
    let mut redis = resp(&server);
    for n in 0..500 {
        let found = redis.call_line(&format!("GET key{n}")).expect("answers");
        assert_eq!(found, RespReply::Bulk(Some(format!("value{n}").into_bytes())));
    }
    assert_eq!(redis.call_line("DBSIZE").expect("answers"), RespReply::Number(500));
}

#[test]
fn second_process_on_same_data_is_refused_naming_the_owner_pid() {
    let (scratch, server) = start_server("locked");
    let refusal = Server::start(&Setup::new(&scratch.join("data"))).expect_err("one is enough");
    assert!(refusal.code.is_some_and(|code| code != 0), "{refusal}");
    let pid = server.pid().to_string();
    assert!(refusal.output.contains(&pid), "who holds it is not said: {refusal}");
    assert!(refusal.output.contains("`data_dir`"), "the remedy is not named: {refusal}");
    assert_eq!(refusal.code, Some(5), "{refusal}");
    assert_eq!(resp(&server).call_line("PING").expect("the first is unhurt").error(), None);
}

#[test]
fn data_of_unknown_format_or_damaged_identity_is_refused() {
    let (scratch, mut server) = start_server("foreign-format");
    server.stop(Duration::from_secs(30)).expect("it stops when asked");
    let path = scratch.join("data/IDENTITY");
    let identity = std::fs::read(&path).expect("an identity is written at first start");
    std::fs::write(&path, later_format_identity(&identity)).expect("ours to write");
    let refusal = Server::start(&server.setup).expect_err("a foreign format");
    assert!(refusal.output.contains("4000"), "the level found is not said: {refusal}");
    assert!(refusal.output.contains("run credenza 0.1.0 or later"), "no remedy: {refusal}");
    assert_eq!(refusal.code, Some(2), "no restart cures it: {refusal}");
    assert!(!refusal.output.contains("panick"), "{refusal}");
    std::fs::write(&path, &identity).expect("ours to write");
    Server::must_start(&server.setup);
    let mut damaged = identity.clone();
    damaged[identity.len() / 2] ^= 1;
    std::fs::write(&path, &damaged).expect("ours to write");
    let refusal = Server::start(&server.setup).expect_err("a damaged identity");
    assert!(refusal.output.contains("IDENTITY"), "{refusal}");
}

/// Returns an identity file of a much later format version, with a valid checksum.
fn later_format_identity(identity: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(identity).replacen("credenza 2\n", "credenza 4000\n", 1);
    let (body, _) = text.trim_end().rsplit_once('\n').expect("the last line is the checksum");
    let body = format!("{body}\n");
    let checksum = base::codec::checksum(body.as_bytes(), 0);
    format!("{body}checksum {checksum:016x}\n").into_bytes()
}
