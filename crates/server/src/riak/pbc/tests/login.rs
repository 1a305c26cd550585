//! Logins, and TLS.

use super::{PbcClient, get, put, server, text};
use crate::ServerSettings;
use crate::tests::tls_listeners::{SecureServer, ask, listeners};
use riak_pbc::*;
use std::io::Write;
use tls::ListenerMode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PASSWORD: &str = "correct horse: battery";
const START_TLS: &[u8] = b"\0\0\0\x01\xff";
const PING: &[u8] = b"\0\0\0\x01\x01";
const PONG: &[u8] = b"\0\0\0\x01\x02";

fn auth(password: &'static str) -> RpbAuthReq {
    RpbAuthReq { user: text("ada"), password: text(password) }
}

#[test]
fn client_is_served_only_what_its_login_allows() {
    let server = server();
    server.turn_access_on("ada", PASSWORD, "read:cluster");
    let mut client = PbcClient::connect(&server);
    client.ask_empty(1, &(), code::PING);
    for refused in [client.refused(9, &get("k")), client.refused(7, &())] {
        assert!(refused.starts_with("log in first"), "{refused}");
    }
    client.ask_empty(253, &auth(PASSWORD), code::AUTH);
    assert_eq!(client.ask::<RpbGetResp>(9, &get("k")), RpbGetResp::default());
    let refused = client.refused(11, &put("k", "v"));
    assert!(refused.starts_with("Permission denied: user `ada` lacks "), "{refused}");
    assert!(!server.audit_log().contains(PASSWORD));
}

#[test]
fn third_failed_login_ends_the_connection() {
    let server = server();
    server.turn_access_on("ada", PASSWORD, "read:cluster");
    let mut client = PbcClient::connect(&server);
    for _ in 0..3 {
        assert_eq!(client.refused(253, &auth("wrong")), "Authentication failed");
    }
    assert!(client.has_ended());
}

#[test]
fn client_may_send_only_small_requests_before_its_login() {
    let server = server();
    server.turn_access_on("ada", PASSWORD, "read:cluster");
    let mut client = PbcClient::connect(&server);
    client.0.write_all(b"\0\x01\0\0\x0b").expect("sent");
    let error: RpbErrorResp = client.answer();
    assert!(error.errmsg.starts_with(b"log in first"), "{error:?}");
    assert!(client.has_ended());
}

#[test]
fn login_without_access_is_refused() {
    let server = server();
    let mut client = PbcClient::connect(&server);
    assert!(client.refused(253, &auth(PASSWORD)).starts_with("Security not enabled"));
}

#[test]
fn tls_begins_at_once_or_with_a_message_and_is_demanded_where_required() {
    let settings = || ServerSettings {
        pbc_listen: vec!["127.0.0.1:0".parse().expect("an address")],
        ..ServerSettings::default()
    };
    let server = SecureServer::start(listeners(ListenerMode::Required), settings());
    let client = server.client(None);
    assert_eq!(server.exchange(&client, 1, PING), PONG);
    server.runtime.block_on(async {
        let address = server.server.addresses[1];
        let mut socket = tokio::net::TcpStream::connect(address).await.expect("it listens");
        socket.write_all(START_TLS).await.expect("sent");
        let mut answer = [0; 5];
        socket.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(answer, START_TLS);
        let mut stream = client.connect(socket, "127.0.0.1").await.expect("a handshake");
        assert_eq!(ask(&mut stream, PING).await, PONG);
        let late = ask(&mut stream, START_TLS).await;
        assert!(String::from_utf8_lossy(&late).contains("must be the first"), "{late:?}");
        let mut plain = tokio::net::TcpStream::connect(address).await.expect("it listens").into();
        let refused = ask(&mut plain, PING).await;
        let refused = String::from_utf8_lossy(&refused).into_owned();
        assert!(refused.contains("Security is enabled, please STARTTLS first"), "{refused}");
    });
}
