//! The first minute: nothing configured, everything works.

use super::{fresh, get, http, output, put, resp, tool};
use std::process::Command;
use std::time::Duration;
use systest::client::RespReply;
use systest::report::skipped;
use systest::rigs::{Root, missing};
use systest::server::{Server, Setup};

#[test]
fn a_first_start_without_configuration_serves_both_doors_and_the_command_line() {
    let (_scratch, server) = fresh("first-start");
    let mut redis = resp(&server);
    let mut web = http(&server);
    assert_eq!(redis.say("PING").expect("answers"), RespReply::Simple("PONG".into()));
    assert_eq!(redis.say("SET colour blue").expect("answers"), RespReply::Simple("OK".into()));
    let seen = get(&mut web, b"colour");
    assert_eq!((seen.status, seen.text()), (200, "blue".into()));
    assert!(seen.header("etag").is_some() && seen.header("x-credenza-index").is_some());
    assert_eq!(put(&mut web, b"colour", b"green").status / 100, 2);
    assert_eq!(tool(&server, &["get", "colour"]).trim_end(), "green");
    tool(&server, &["put", "colour", "red"]);
    assert_eq!(redis.say("GET colour").expect("answers"), RespReply::Bulk(Some(b"red".to_vec())));
    tool(&server, &["delete", "colour"]);
    assert_eq!(redis.say("GET colour").expect("answers"), RespReply::Bulk(None));
    assert_eq!(get(&mut web, b"colour").status, 404);
    let none = output(server.tool(&["get", "colour"]));
    assert_eq!(none.status.code(), Some(1), "a missing key is an answer, not an error");
    let buckets = tool(&server, &["bucket", "list"]);
    assert!(buckets.contains("default/default"), "{buckets}");
    for path in ["/live", "/ready", "/status", "/metrics", "/openapi.json"] {
        assert_eq!(web.ask("GET", path, b"").expect("answers").status, 200, "{path}");
    }
}

#[test]
fn redis_cli_and_curl_are_served_unchanged() {
    let (_scratch, server) = fresh("foreign-tools");
    let port = server.address.port().to_string();
    let tried = |tool: &str| {
        let without = missing(Root::Spared, &[tool]);
        if let Some(why) = &without {
            skipped(&format!("{tool} against the binary"), why);
        }
        without.is_none()
    };
    let said = |words: &[&str]| {
        let done = output({
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        });
        String::from_utf8_lossy(&done.stdout).trim_end().to_string()
    };
    let url = format!("{}/v1/buckets/default/default/keys/greeting", server.url());
    if tried("redis-cli") {
        let cli = |words: &[&str]| said(&[&["redis-cli", "-p", &port], words].concat());
        assert_eq!(cli(&["SET", "greeting", "hello"]), "OK");
        assert_eq!(cli(&["GET", "greeting"]), "hello");
        assert_eq!(cli(&["INCR", "visits"]), "1");
        assert_eq!(cli(&["-3", "GET", "greeting"]), "hello", "RESP3");
        assert_eq!(cli(&["--scan", "--pattern", "greet*"]), "greeting");
    }
    if tried("curl") {
        let put = ["curl", "-sf", "-X", "PUT", "--data-binary", "hallo", &url];
        said(&put);
        assert_eq!(said(&["curl", "-sf", &url]), "hallo");
        let gone = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"];
        let nowhere = format!("{url}-not");
        assert_eq!(said(&[&gone[..], &[&nowhere]].concat()), "404");
    }
}

#[test]
fn a_graceful_stop_loses_nothing_and_exits_with_0() {
    let (_scratch, mut server) = fresh("graceful");
    let mut redis = resp(&server);
    for n in 0..500 {
        let answer = redis.say(&format!("SET key{n} value{n}")).expect("answers");
        assert_eq!(answer, RespReply::Simple("OK".into()));
    }
    let status = server.stop(Duration::from_secs(30)).expect("it stops when asked");
    assert_eq!(status.code(), Some(0), "{}", server.said());
    let server = Server::must(&server.setup);
    let mut redis = resp(&server);
    for n in 0..500 {
        let found = redis.say(&format!("GET key{n}")).expect("answers");
        assert_eq!(found, RespReply::Bulk(Some(format!("value{n}").into_bytes())));
    }
    assert_eq!(redis.say("DBSIZE").expect("answers"), RespReply::Number(500));
}

#[test]
fn a_second_process_on_the_same_data_is_refused_in_words() {
    let (scratch, server) = fresh("locked");
    let refusal = Server::start(&Setup::on(&scratch.join("data"))).expect_err("one is enough");
    assert!(refusal.code.is_some_and(|code| code != 0), "{refusal}");
    let pid = server.pid().to_string();
    assert!(refusal.words.contains(&pid), "who holds it is not said: {refusal}");
    assert!(refusal.words.contains("`data_dir`"), "the remedy is not named: {refusal}");
    assert_eq!(refusal.code, Some(5), "{refusal}");
    assert_eq!(resp(&server).say("PING").expect("the first is unhurt").error(), None);
}

#[test]
fn data_of_a_foreign_format_is_refused_in_words_and_left_alone() {
    let (scratch, mut server) = fresh("foreign-format");
    server.stop(Duration::from_secs(30)).expect("it stops when asked");
    let path = scratch.join("data/IDENTITY");
    let kept = std::fs::read(&path).expect("an identity is written at first start");
    std::fs::write(&path, foreign(&kept)).expect("ours to write");
    let refusal = Server::start(&server.setup).expect_err("a foreign format");
    assert!(refusal.words.contains("4000"), "the version found is not said: {refusal}");
    assert!(!refusal.words.contains("panick"), "{refusal}");
    std::fs::write(&path, &kept).expect("ours to write");
    Server::must(&server.setup);
    let mut damaged = kept.clone();
    damaged[kept.len() / 2] ^= 1;
    std::fs::write(&path, &damaged).expect("ours to write");
    let refusal = Server::start(&server.setup).expect_err("a damaged identity");
    assert!(refusal.words.contains("IDENTITY"), "{refusal}");
}

/// Returns an identity as a much later version might write it: another number, and a valid
/// checksum.
fn foreign(identity: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(identity).replacen("credenza 2\n", "credenza 4000\n", 1);
    let (front, _) = text.trim_end().rsplit_once('\n').expect("the last line is the checksum");
    let front = format!("{front}\n");
    let sum = base::codec::checksum(front.as_bytes(), 0);
    format!("{front}checksum {sum:016x}\n").into_bytes()
}
