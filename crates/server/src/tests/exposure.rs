//! Listeners beyond loopback, which serve clients only while access is on.

use super::test_server::ARAKOON_HELLO;
use super::test_server::TestServer;
use super::tls_listeners::{SecureServer, TEST_TIMEOUT, all_listeners, ask, http, listeners};
use crate::ServerSettings;
use base::AccessCall;
use base::limits::OPERATORS_MAX;
use std::net::SocketAddr;
use std::time::Instant;
use tls::ListenerMode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const PASSWORD: &str = "correct horse: battery";
const KEY: &str = "/v1/buckets/default/default/keys/k";

fn beyond_loopback() -> Vec<SocketAddr> {
    vec!["0.0.0.0:0".parse().expect("an address")]
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn listener_beyond_loopback_serves_clients_only_while_access_is_on() {
    let settings = ServerSettings { listen_also: beyond_loopback(), ..all_listeners() };
    let server = SecureServer::start(listeners(ListenerMode::Required), settings);
    let client = server.client(None);
    let open = server.server.addresses.len() - 1;
    let answer = |request: &[u8]| text(&server.exchange(&client, open, request));
    assert!(answer(b"PING\r\n").starts_with("-ERR not yet: "));
    assert!(answer(&http(KEY)).starts_with("HTTP/1.1 403 "), "{}", answer(&http(KEY)));
    assert!(answer(&http("/status")).starts_with("HTTP/1.1 403 "));
    assert!(answer(&http("/buckets/b/keys/k")).starts_with("HTTP/1.1 403 "));
    assert_eq!(answer(ARAKOON_HELLO), "");
    assert!(answer(&http("/live")).starts_with("HTTP/1.1 200 "));
    // A node that joins is told that its token is missing, not that nobody is served.
    assert!(answer(&http("/v1/cluster/members")).contains(" 403 "));
    assert_eq!(server.exchange(&client, 0, b"PING\r\n"), b"+PONG\r\n", "loopback is open");

    server.server.turn_access_on("ada", PASSWORD, "read:cluster");
    assert!(answer(b"PING\r\n").starts_with("-NOAUTH "));
    assert!(answer(&http(KEY)).starts_with("HTTP/1.1 401 "));
    let connected = server.runtime.block_on(server.connect(&client, open));
    let mut stream = connected.expect("it speaks TLS");
    let login = format!("*3\r\n$4\r\nAUTH\r\n$3\r\nada\r\n${}\r\n{PASSWORD}\r\n", PASSWORD.len());
    let answered = server.runtime.block_on(ask(&mut stream, login.as_bytes()));
    assert_eq!(answered, b"+OK\r\n");
    server.server.change_access(AccessCall::Switch { on: false });
    let mut rest = [0; 1];
    let reading = async { timeout(TEST_TIMEOUT, stream.read(&mut rest)).await };
    let end = server.runtime.block_on(reading);
    assert!(end.is_ok_and(|read| !matches!(read, Ok(1))), "the connection is still open");
    assert!(answer(b"PING\r\n").starts_with("-ERR not yet: "));
}

#[test]
fn operators_listener_beyond_loopback_stays_closed_when_its_places_are_taken() {
    let settings =
        ServerSettings { admin_listen: Some(beyond_loopback()[0]), ..ServerSettings::default() };
    let server = SecureServer::start(listeners(ListenerMode::Required), settings);
    let client = server.client(None);
    let members =
        b"GET /v1/cluster/members HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let requests = [&http("/live")[..], members].concat();
    let answered = server.runtime.block_on(async {
        let mut taken = Vec::new();
        for _ in 0..OPERATORS_MAX {
            let connecting = TcpStream::connect(server.server.addresses[1]);
            taken.push(connecting.await.expect("it listens"));
        }
        let mut stream = server.connect(&client, 1).await.expect("it speaks TLS");
        stream.write_all(&requests).await.expect("it reads");
        stream.flush().await.expect("it reads");
        let mut answered = Vec::new();
        // The end comes with an error if the server closes without a farewell.
        let reading = stream.read_to_end(&mut answered);
        let _ = timeout(TEST_TIMEOUT, reading).await.expect("the connection ends");
        answered
    });
    let answered = text(&answered);
    assert!(answered.starts_with("HTTP/1.1 200 "), "health checks are answered: {answered}");
    assert!(answered.contains("HTTP/1.1 403 "), "nobody is an operator here: {answered}");
}

#[test]
fn insecure_listener_beyond_loopback_serves_clients_without_access() {
    let settings = ServerSettings {
        listen_also: beyond_loopback(),
        insecure: true,
        ..ServerSettings::default()
    };
    let server = TestServer::with_settings(settings);
    assert_eq!(server.exchange(server.addresses[1], b"PING\r\n"), "+PONG\r\n");
}

#[test]
fn health_checks_are_answered_inside_tls_when_every_connection_place_is_taken() {
    let settings = ServerSettings { connections_max: 1, ..ServerSettings::default() };
    let server = SecureServer::start(listeners(ListenerMode::Required), settings);
    let client = server.client(None);
    let connected = server.runtime.block_on(server.connect(&client, 0));
    let mut taken = connected.expect("it speaks TLS");
    assert_eq!(server.runtime.block_on(ask(&mut taken, b"PING\r\n")), b"+PONG\r\n");
    let answer = |request: &[u8]| text(&server.exchange(&client, 0, request));
    let began = Instant::now();
    for path in ["/live", "/status"] {
        let answered = answer(&http(path));
        assert!(answered.starts_with("HTTP/1.1 200 "), "{path}: {answered}");
    }
    assert!(answer(&http("/ready")).starts_with("HTTP/1.1 "));
    assert!(answer(b"PING\r\n").starts_with("-ERR max number of clients"));
    assert!(answer(&http("/v1/buckets")).starts_with("HTTP/1.1 503 "));
    let plain = server.server.exchange(server.server.address, b"PING\r\n");
    assert_eq!(plain, "-ERR this port requires TLS\r\n");
    assert!(began.elapsed() < TEST_TIMEOUT);
}
