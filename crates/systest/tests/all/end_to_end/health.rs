//! Health, status and metrics as health checks, operators and browsers see them, and the access
//! rules for them.

use super::{http, put, start_server};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use systest::client::{Http, RespReply};
use systest::environment::{Scratch, resident_bytes};
use systest::server::{Server, Setup};

/// Parses one sample of the text format: name, labels, value. Fails on input that `promtool check
/// metrics` would refuse.
fn sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("no value: {line}"));
    let value = match value {
        "+Inf" => f64::INFINITY,
        value => value.parse().unwrap_or_else(|_| panic!("no number: {line}")),
    };
    let (name, rest) = head.split_once('{').unwrap_or((head, "}"));
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let has_known_prefix = name.starts_with("credenza_") || name.starts_with("process_");
    assert!(name.chars().all(is_name_char) && has_known_prefix, "a bad name: {line}");
    let mut labels = BTreeMap::new();
    let inner = rest.strip_suffix('}').unwrap_or_else(|| panic!("no end of labels: {line}"));
    for pair in inner.split("\",").filter(|pair| !pair.is_empty()) {
        let pair = pair.strip_suffix('"').unwrap_or(pair);
        let (label, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        assert!(label.chars().all(is_name_char) && !value.contains('"'), "a bad label: {line}");
        assert!(labels.insert(label.into(), value.into()).is_none(), "a label twice: {line}");
    }
    (name.into(), labels, value)
}

/// Parses the whole page as Prometheus does; returns each family's kind.
fn check_metrics(text: &str) -> BTreeMap<String, String> {
    assert!(text.ends_with('\n'), "the last line has no end");
    let (mut kinds, mut families_with_help) = (BTreeMap::new(), BTreeSet::new());
    let (mut samples, mut family) = (BTreeSet::new(), String::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help_text) = rest.split_once(' ').expect("a name and words");
            assert!(!help_text.is_empty() && families_with_help.insert(name.to_string()), "{line}");
            family = name.into();
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert_eq!(name, family, "help and kind stand apart: {line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(kinds.insert(name.to_string(), kind.to_string()).is_none(), "twice: {line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
        } else {
            let (name, labels, value) = sample(line);
            let parts = ["_bucket", "_sum", "_count"];
            let stem = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(&name);
            assert!(family == name || family == stem, "not with its family: {line}");
            assert!(kinds.contains_key(&family), "no kind: {line}");
            assert!(kinds[&family] == "gauge" || value >= 0.0, "below zero: {line}");
            assert!(samples.insert((name, labels)), "twice: {line}");
        }
    }
    kinds
}

#[test]
fn metrics_parse_as_prometheus_text_and_counters_never_decrease() {
    let (_scratch, server) = start_server("metrics");
    let mut web = http(&server);
    let read = |web: &mut Http| {
        let answer = web.request("GET", "/metrics", b"").expect("answers");
        let kind = answer.header("content-type").unwrap_or("").to_string();
        assert_eq!(kind, "text/plain; version=0.0.4; charset=utf-8");
        answer.text()
    };
    put(&mut web, b"k", b"v");
    super::get(&mut web, b"k");
    super::resp(&server).call_line("GET k").expect("answers");
    let before = read(&mut web);
    let kinds = check_metrics(&before);
    assert_eq!(kinds.get("credenza_request_seconds").map(String::as_str), Some("histogram"));
    assert_eq!(kinds.get("process_resident_memory_bytes").map(String::as_str), Some("gauge"));
    assert_eq!(kinds.get("process_cpu_seconds_total").map(String::as_str), Some("counter"));
    for n in 0..10 {
        put(&mut web, format!("k{n}").as_bytes(), b"v");
    }
    let after = read(&mut web);
    check_metrics(&after);
    let counters = |text: &str| -> BTreeMap<_, f64> {
        let lines = text.lines().filter(|line| !line.starts_with('#')).map(sample);
        lines
            .filter(|(name, ..)| kinds.get(name).is_some_and(|kind| kind == "counter"))
            .map(|(name, labels, value)| ((name, labels), value))
            .collect()
    };
    let (before, after) = (counters(&before), counters(&after));
    for (key, value) in &before {
        assert!(after.get(key).is_some_and(|later| later >= value), "{key:?} went back");
    }
    let put_count = |counters: &BTreeMap<(String, BTreeMap<String, String>), f64>| -> f64 {
        let is_put =
            |labels: &BTreeMap<String, String>| labels.get("operation").is_some_and(|o| o == "put");
        counters.iter().filter(|((_, labels), _)| is_put(labels)).map(|(_, value)| value).sum()
    };
    assert_eq!(put_count(&after) - put_count(&before), 10.0);
}

#[test]
fn unread_streams_hold_bounded_memory() {
    let (_scratch, server) = start_server("stream-memory");
    let mut web = http(&server);
    let value = vec![b'v'; 1 << 20];
    let rows = 96;
    for n in 0..rows {
        assert_eq!(put(&mut web, format!("k{n:03}").as_bytes(), &value).status, 204);
    }
    // Warm-up: caches and buffers have their final size.
    let response = web.request("GET", "/v1/buckets/default/default/stream", b"").expect("answers");
    assert_eq!(response.text().lines().count(), rows);
    let before = resident_bytes(server.pid());
    let request = b"GET /v1/buckets/default/default/stream HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut unread: Vec<Http> = (0..20).map(|_| http(&server)).collect();
    for web in &mut unread {
        web.send(request).expect("it listens");
    }
    std::thread::sleep(Duration::from_secs(2));
    let growth = resident_bytes(server.pid()).saturating_sub(before);
    assert!(growth < 128 << 20, "{growth} bytes for 20 streams of 96 MiB that nobody reads");
    let mut last = unread.pop().expect("twenty");
    let answer = last.receive(false).expect("who reads at last gets it all");
    assert_eq!(answer.text().lines().count(), rows);
}

#[test]
fn admin_paths_are_forbidden_at_public_listener_beyond_loopback() {
    let scratch = Scratch::new("insecure");
    let setup = Setup { listen: "0.0.0.0:0".into(), ..Setup::new(&scratch.join("data")) };
    let setup = setup.with_args(&["--insecure", "on", "--admin-listen", "127.0.0.1:0"]);
    let mut server = Server::must_start(&setup);
    server.address.set_ip([127, 0, 0, 1].into());
    let mut web = http(&server);
    assert_eq!(put(&mut web, b"k", b"v").status, 204);
    for path in ["/status", "/metrics", "/v1/admin/log-levels", "/v1/cluster"] {
        let answer = web.request("GET", path, b"").expect("answers");
        assert_eq!((answer.status, answer.reason()), (403, "forbidden".into()), "{path}");
    }
    for path in ["/live", "/ready", "/openapi.json"] {
        assert_eq!(web.request("GET", path, b"").expect("answers").status, 200, "{path}");
    }
    for command in ["CLIENT LIST", "CLIENT KILL TYPE normal", "CONFIG RESETSTAT"] {
        let answer = super::resp(&server).call_line(command).expect("answers");
        assert!(
            matches!(&answer, RespReply::Error(text) if text.starts_with("NOPERM")),
            "{command}"
        );
    }
}

#[test]
fn cross_origin_requests_are_refused_and_values_are_downloads() {
    let (_scratch, server) = start_server("origins");
    let mut web = http(&server);
    let own_origin = format!("http://{}", server.address);
    let path = super::key_path(b"k");
    for (origin, status) in
        [("http://evil.example", 403), ("null", 403), (own_origin.as_str(), 204)]
    {
        let answer =
            web.request_with_headers("PUT", &path, &[("origin", origin)], b"v").expect("answers");
        assert_eq!(answer.status, status, "{origin}: {}", answer.text());
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    // A content type that an HTML form can send is never accepted as JSON.
    let form = [("content-type", "text/plain")];
    let body = br#"{"op":"set","key":"k","value":"forged"}"#;
    let update = "/v1/buckets/default/default/update";
    assert_eq!(web.request_with_headers("POST", update, &form, body).expect("answers").status, 415);
    // A stored page must be offered as a download, and have no origin.
    let page = b"<script>alert(1)</script>";
    put(&mut web, b"k", page);
    let answer = super::get(&mut web, b"k");
    assert_eq!(answer.body, page);
    assert_eq!(answer.header("content-type"), Some("application/octet-stream"));
    assert_eq!(answer.header("content-disposition"), Some("attachment"));
    assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    assert!(
        answer.header("content-security-policy").is_some_and(|policy| policy.contains("sandbox"))
    );
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", ""] {
        for first in ["GET /status", "PUT /v1/buckets/default/default/keys/k", "GET /live"] {
            let started = Instant::now();
            let mut web = http(&server);
            let head = format!("{first} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\n\r\n");
            web.send(head.as_bytes()).expect("it listens");
            let answer = web.receive(false).expect("answers");
            assert_eq!(answer.status, 421, "{host}: {first} after {:?}", started.elapsed());
        }
    }
}
