//! Logins by the certificates of clients, in every protocol, and their ends.

use super::test_server::{ARAKOON_EXISTS, ARAKOON_HELLO};
use super::tls_listeners::{SecureServer, TEST_TIMEOUT, all_listeners, ask, http, listeners};
use crate::ServerSettings;
use base::AccessCall;
use base::access::ApiToken;
use tls::{CertificateDemand, ListenerMode, Purpose, Stream, TlsSettings};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

const PASSWORD: &str = "correct horse: battery";
const KEY: &str = "/v1/buckets/default/default/keys/k";

/// Starts a server with access on, and the user alice, who may read.
fn server(settings: ServerSettings) -> SecureServer {
    let tls = TlsSettings {
        client_certificates: CertificateDemand::Asked,
        ..listeners(ListenerMode::Required)
    };
    let server = SecureServer::start(tls, settings);
    // The first client of a configured Arakoon cluster makes its bucket.
    let exists =
        server.exchange(&server.client(None), 0, &[ARAKOON_HELLO, ARAKOON_EXISTS].concat());
    assert_eq!(exists, b"\0\0\0\0\0");
    server.server.turn_access_on("alice", PASSWORD, "read,list:cluster");
    server
}

/// Sets whether alice is enabled, and whether certificates log her in.
fn set(server: &SecureServer, enabled: bool, certificates: bool) {
    server.server.change_access(AccessCall::ChangeUser {
        name: "alice".into(),
        roles: None,
        enabled: Some(enabled),
        certificates: Some(certificates),
    });
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn certificate_of_a_user_is_its_login_in_every_protocol() {
    let server = server(all_listeners());
    let alice = server.client(Some((Purpose::Client, "alice")));
    let strangers = [
        server.client(None),
        server.client(Some((Purpose::Client, "eve"))),
        // A node is no user, whatever its name is.
        server.client(Some((Purpose::Node, "alice"))),
    ];
    let arakoon = [ARAKOON_HELLO, ARAKOON_EXISTS].concat();
    let cases: [(usize, &[u8], &str); 6] = [
        (0, b"GET k\r\n", "$-1\r\n"),
        (0, &http(KEY), "HTTP/1.1 404 "),
        (0, &http("/buckets/b/props"), "HTTP/1.1 200 "),
        (3, &http("/buckets/b/props"), "HTTP/1.1 200 "),
        (0, &arakoon, "\0\0\0\0\0"),
        (2, &arakoon, "\0\0\0\0\0"),
    ];
    let is_served = |client, (listener, request, expected): (usize, &[u8], &str)| {
        text(&server.exchange(client, listener, request)).starts_with(expected)
    };
    for case in cases {
        assert!(!is_served(&alice, case), "{case:?} before certificates are on");
    }
    set(&server, true, true);
    for case in cases {
        assert!(is_served(&alice, case), "{case:?}");
        for (number, stranger) in strangers.iter().enumerate() {
            assert!(!is_served(stranger, case), "{case:?} by {number}");
        }
    }
    set(&server, false, true);
    for case in cases {
        assert!(!is_served(&alice, case), "{case:?} of a disabled user");
    }
}

#[test]
fn login_by_certificate_is_recorded_with_its_address_in_every_protocol() {
    let arakoon = [ARAKOON_HELLO, ARAKOON_EXISTS].concat();
    let cases: [(usize, &[u8]); 4] =
        [(0, b"GET k\r\n"), (0, &http(KEY)), (3, &http("/buckets/b/props")), (2, &arakoon)];
    for (listener, request) in cases {
        let server = server(all_listeners());
        let alice = server.client(Some((Purpose::Client, "alice")));
        for (is_enabled, outcome) in [(true, "done"), (false, "denied")] {
            set(&server, is_enabled, true);
            server.exchange(&alice, listener, request);
            let log = server.server.audit_log();
            let is_login = |line: &&str| line.contains("\"operation\":\"login\"");
            let line = log.lines().rfind(is_login).unwrap_or("no login");
            let outcome = format!("\"outcome\":\"{outcome}\"");
            for part in ["\"who\":\"alice\"", "\"address\":\"127.0.0.1\"", &outcome] {
                assert!(line.contains(part), "{}: no {part} in {line}", text(request));
            }
        }
    }
}

#[test]
fn arakoon_user_serves_clients_whose_certificate_logs_nobody_in() {
    let settings = ServerSettings { arakoon_user: Some("alice".into()), ..all_listeners() };
    let server = server(settings);
    let arakoon = [ARAKOON_HELLO, ARAKOON_EXISTS].concat();
    let eve = server.client(Some((Purpose::Client, "eve")));
    assert_eq!(server.exchange(&eve, 2, &arakoon), b"\0\0\0\0\0");
    let (name, roles) = ("eve".into(), vec!["writer".into()]);
    server.server.change_access(AccessCall::AddUser { name, password: None, roles });
    let (name, roles) = ("eve".into(), None);
    let (enabled, certificates) = (Some(false), Some(true));
    server.server.change_access(AccessCall::ChangeUser { name, roles, enabled, certificates });
    assert_eq!(server.exchange(&eve, 2, &arakoon), b"", "a disabled user becomes no other one");
}

#[test]
fn credentials_of_a_request_or_connection_count_before_its_certificate() {
    let server = server(all_listeners());
    set(&server, true, true);
    let alice = server.client(Some((Purpose::Client, "alice")));
    let (name, roles) = ("bob".into(), vec!["writer".into()]);
    server.server.change_access(AccessCall::AddUser { name, password: None, roles });
    let token = ApiToken::from_secret([7; 20]);
    server.server.add_api_token("bob", &token);
    let put = |header: &str| {
        let head = "host: 127.0.0.1\r\ncontent-length: 0";
        let request = format!("PUT {KEY} HTTP/1.1\r\n{head}\r\n{header}\r\n");
        text(&server.exchange(&alice, 0, request.as_bytes()))
    };
    assert!(put("").starts_with("HTTP/1.1 403 "), "alice may not write");
    let bearer = format!("authorization: Bearer {}\r\n", token.text());
    assert!(put(&bearer).starts_with("HTTP/1.1 204 "), "bob may");
    assert!(put("authorization: Bearer x\r\n").starts_with("HTTP/1.1 401 "));
    server.runtime.block_on(async {
        let mut stream = server.connect(&alice, 0).await.expect("it speaks TLS");
        for (command, expected) in [
            ("ACL WHOAMI", "$5\r\nalice\r\n"),
            ("AUTH bob wrong", "-WRONGPASS "),
            ("ACL WHOAMI", "$5\r\nalice\r\n"),
            ("AUTH admin wrong", "-WRONGPASS "),
            ("GET k", "$0\r\n"),
            ("SET k v", "-NOPERM "),
            ("AUTH alice 'correct horse: battery'", "+OK\r\n"),
            ("RESET", "+RESET\r\n"),
            ("ACL WHOAMI", "$5\r\nalice\r\n"),
        ] {
            let answer = text(&ask(&mut stream, format!("{command}\r\n").as_bytes()).await);
            assert!(answer.starts_with(expected), "{command}: {answer}");
        }
    });
    let log = server.server.audit_log();
    let is_login = |line: &&str| line.contains(r#""who":"alice","address":"127.0.0.1","#);
    assert!(log.lines().any(|line| is_login(&line) && line.contains(r#""operation":"login""#)));
}

#[test]
fn login_by_certificate_ends_on_open_connections() {
    let server = server(all_listeners());
    set(&server, true, true);
    let alice = server.client(Some((Purpose::Client, "alice")));
    let connect = || server.runtime.block_on(server.connect(&alice, 0)).expect("it speaks TLS");
    let [mut resp, mut web, mut idle] = [connect(), connect(), connect()];
    let answer =
        |stream: &mut Stream, bytes: &[u8]| text(&server.runtime.block_on(ask(stream, bytes)));
    let head = format!("HEAD {KEY} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    let mut must_be = |redis: &str, status: &str, when: &str| {
        let answered = answer(&mut resp, b"GET k\r\n");
        assert!(answered.starts_with(redis), "{when}: {answered}");
        let answered = answer(&mut web, head.as_bytes());
        assert_eq!(answered.split(' ').nth(1), Some(status), "{when}: {answered}");
    };
    must_be("$-1\r\n", "404", "logged in");
    set(&server, true, false);
    must_be("-NOAUTH ", "401", "certificates are off");
    set(&server, true, true);
    must_be("$-1\r\n", "404", "they are on again");
    set(&server, false, true);
    must_be("-NOAUTH ", "401", "the user is disabled");
    set(&server, true, true);
    must_be("$-1\r\n", "404", "it is enabled again");
    assert_eq!(answer(&mut idle, b"PING\r\n"), "+PONG\r\n");
    server.revoke("alice");
    for stream in [&mut resp, &mut web, &mut idle] {
        let mut rest = [0; 1];
        let reading = async { timeout(TEST_TIMEOUT, stream.read(&mut rest)).await };
        // A reset is an end, too.
        let end = server.runtime.block_on(reading);
        assert!(end.is_ok_and(|read| !matches!(read, Ok(1))), "it is open");
    }
}
