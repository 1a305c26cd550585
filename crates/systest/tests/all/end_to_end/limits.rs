//! Limits are exact and equal at both front-ends, and refused before anything is written.

use super::{get, http, put, resp, start_server};
use base::limits::{
    KEY_BYTES_MAX, NAME_BYTES_MAX, PATTERN_BYTES_MAX, SEQUENCE_DEPTH_MAX, VALUE_BYTES_MAX,
};
use systest::client::{Http, Resp, RespReply};

/// Sends one put to both front-ends; returns for each true if it was accepted.
fn put_both(redis: &mut Resp, web: &mut Http, key: &[u8], value: &[u8]) -> (bool, bool) {
    let answer = redis.call(&[b"SET", key, value]).expect("RESP answers and stays");
    if let Some(error) = answer.error() {
        let limit_texts = ["at most", "maximum allowed size"];
        assert!(limit_texts.iter().any(|text| error.contains(text)), "no limit is named: {error}");
    }
    let response = put(web, key, value);
    if response.status / 100 != 2 {
        assert_eq!(
            (response.status, response.reason()),
            (413, "too_large".into()),
            "{}",
            response.text()
        );
    }
    (answer.error().is_none(), response.status / 100 == 2)
}

#[test]
fn value_size_limit_is_exact_and_equal_over_resp_and_http() {
    let (_scratch, server) = start_server("limit-values");
    for (length, is_accepted) in [
        (VALUE_BYTES_MAX - 1, true),
        (VALUE_BYTES_MAX, true),
        (VALUE_BYTES_MAX + 1, false),
        (VALUE_BYTES_MAX + 4096, false),
    ] {
        let (mut redis, mut web) = (resp(&server), http(&server));
        let value = vec![b'v'; length];
        let key = format!("value-{length}");
        let accepted = put_both(&mut redis, &mut web, key.as_bytes(), &value);
        assert_eq!(accepted, (is_accepted, is_accepted), "{length} bytes");
        let found = resp(&server).call(&[b"STRLEN", key.as_bytes()]).expect("answers");
        assert_eq!(found, RespReply::Number(if is_accepted { length as i64 } else { 0 }));
    }
}

#[test]
fn key_size_limit_is_exact_and_equal_over_resp_and_http() {
    let (_scratch, server) = start_server("limit-keys");
    for (length, is_accepted) in
        [(KEY_BYTES_MAX - 1, true), (KEY_BYTES_MAX, true), (KEY_BYTES_MAX + 1, false)]
    {
        let (mut redis, mut web) = (resp(&server), http(&server));
        let key = vec![b'k'; length];
        let accepted = put_both(&mut redis, &mut web, &key, b"v");
        assert_eq!(accepted, (is_accepted, is_accepted), "{length} bytes");
    }
}

#[test]
fn append_and_setrange_past_value_limit_leave_value_unchanged() {
    let (_scratch, server) = start_server("limit-append");
    let mut redis = resp(&server);
    let largest = vec![b'v'; VALUE_BYTES_MAX];
    assert_eq!(redis.call(&[b"SET", b"big", &largest]).expect("answers").error(), None);
    let refused = redis.call(&[b"APPEND", b"big", b"x"]).expect("answers and stays");
    assert!(refused.error().is_some(), "{refused:?}");
    let range = redis.call_line("SETRANGE big 8388608 x").expect("answers and stays");
    assert!(range.error().is_some(), "{range:?}");
    let length = redis.call_line("STRLEN big").expect("answers");
    assert_eq!(length, RespReply::Number(VALUE_BYTES_MAX as i64));
}

#[test]
fn arbitrary_bytes_and_empty_key_are_equal_over_resp_and_http() {
    let (_scratch, server) = start_server("limit-bytes");
    let (mut redis, mut web) = (resp(&server), http(&server));
    let all_bytes: Vec<u8> = (0..=255).collect();
    assert_eq!(put_both(&mut redis, &mut web, &all_bytes, &all_bytes), (true, true));
    let response = get(&mut web, &all_bytes);
    assert_eq!((response.status, response.body), (200, all_bytes.clone()));
    assert_eq!(redis.call(&[b"GET", &all_bytes]).expect("answers").bytes(), Some(&all_bytes[..]));
    for key in [&b"\r\n"[..], b"\0", b"..", b"a/b", b"%2F", b" ", "\u{202e}".as_bytes()] {
        assert_eq!(put_both(&mut redis, &mut web, key, b"x"), (true, true), "{key:?}");
        assert_eq!(get(&mut web, key).body, b"x", "{key:?}");
    }
    let empty = redis.call(&[b"SET", b"", b"nothing"]).expect("answers");
    let response = put(&mut web, b"", b"nothing");
    assert_eq!(
        empty.error().is_none(),
        response.status / 100 == 2,
        "the empty key: RESP says {empty:?}, HTTP says {}",
        response.status
    );
}

#[test]
fn bucket_name_and_sequence_depth_limits_are_exact() {
    let (_scratch, server) = start_server("limit-names");
    let mut web = http(&server);
    for (length, is_accepted) in
        [(NAME_BYTES_MAX - 1, true), (NAME_BYTES_MAX, true), (NAME_BYTES_MAX + 1, false)]
    {
        let path = format!("/v1/buckets/default/{}", "b".repeat(length));
        let status = web.request("PUT", &path, b"{}").expect("answers").status;
        assert_eq!(status / 100 == 2, is_accepted, "{length}: {status}");
        // If it was accepted above, it exists already; otherwise its name is refused here, too.
        let reply = resp(&server).call_line(&format!("CREDENZA.CREATE {}", "b".repeat(length)));
        let error = reply.expect("answers").error().unwrap_or_default().to_string();
        assert_eq!(error.starts_with("EXISTS"), is_accepted, "{length}: {error}");
    }
    for name in ["..", "%2e%2e", "UPPER", "a%00b", "con%2f", "-a"] {
        let answer = web.request("PUT", &format!("/v1/buckets/default/{name}"), b"{}");
        let status = answer.expect("answers").status;
        assert!((400..500).contains(&status), "{name}: {status}");
    }
    for (depth, is_accepted) in [
        (SEQUENCE_DEPTH_MAX - 1, true),
        (SEQUENCE_DEPTH_MAX, true),
        (SEQUENCE_DEPTH_MAX + 1, false),
    ] {
        let mut step = r#"{"op":"set","key":"deep","value":"x"}"#.to_string();
        for _ in 1..depth {
            step = format!(r#"{{"op":"sequence","steps":[{step}]}}"#);
        }
        let body = format!("[{step}]");
        let answer = web.request("POST", "/v1/buckets/default/default/sequence", body.as_bytes());
        let status = answer.expect("answers").status;
        assert_eq!(status / 100 == 2, is_accepted, "depth {depth}: {status}");
    }
}

#[test]
fn claimed_sizes_are_not_allocated() {
    let (_scratch, server) = start_server("limit-claims");
    let before = systest::environment::resident_bytes(server.pid());
    for claim in ["999999999999", "4294967295", "9223372036854775807", "2147483648"] {
        for frame in [
            format!("*{claim}\r\n"),
            format!("*2\r\n$3\r\nGET\r\n${claim}\r\n"),
            format!("*1\r\n${claim}\r\n"),
        ] {
            let mut redis = resp(&server);
            redis.send(frame.as_bytes()).expect("it listens");
            let _ = redis.receive();
        }
        let mut web = http(&server);
        let head = format!(
            "PUT /v1/buckets/default/default/keys/a HTTP/1.1\r\nhost: {}\r\ncontent-length: \
             {claim}\r\n\r\n",
            server.address
        );
        web.send(head.as_bytes()).expect("it listens");
        let answer = web.receive(false).expect("it answers before the body");
        assert!((400..500).contains(&answer.status), "{claim}: {}", answer.status);
    }
    for path in [
        "/v1/buckets/default/default/range?limit=9223372036854775807",
        "/v1/buckets/default/default/range?limit=18446744073709551616",
    ] {
        let status = http(&server).request("GET", path, b"").expect("it answers").status;
        assert!(status == 200 || status == 400, "{path}: {status}");
    }
    let count = resp(&server).call_line("SCAN 0 COUNT 9223372036854775807").expect("it answers");
    assert!(matches!(count, RespReply::List(_) | RespReply::Error(_)), "{count:?}");
    let growth = systest::environment::resident_bytes(server.pid()).saturating_sub(before);
    assert!(growth < 64 << 20, "{growth} bytes more for claims alone");
    assert_eq!(resp(&server).call_line("PING").expect("alive"), RespReply::Simple("PONG".into()));
}

#[test]
fn glob_pattern_with_many_stars_is_answered_in_time() {
    let (_scratch, server) = start_server("limit-pattern");
    let mut redis = resp(&server);
    let key = vec![b'a'; 10 * 1024];
    assert_eq!(redis.call(&[b"SET", &key, b"x"]).expect("answers").error(), None);
    let pattern = [&b"a*".repeat(PATTERN_BYTES_MAX / 2 - 1)[..], b"b"].concat();
    for _ in 0..3 {
        let none = redis.call(&[b"SCAN", b"0", b"MATCH", &pattern]).expect("answers in time");
        assert_eq!(none.list().get(1).map(|keys| keys.list().len()), Some(0), "{none:?}");
    }
}
