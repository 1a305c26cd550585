//! Tests of the listener with real sockets on loopback.

use super::*;

#[test]
fn non_loopback_listen_address_requires_insecure_setting() {
    let mut settings =
        ServerSettings { listen: "0.0.0.0:0".parse().expect("an address"), ..Default::default() };
    let error = check_addresses(&settings).expect_err("open to the network");
    assert!(error.text().contains("insecure"), "{error}");
    settings.insecure = true;
    assert_eq!(check_addresses(&settings), Ok(()));
    assert_eq!(main_kind(settings.listen), ListenerKind::Clients);
    settings = ServerSettings {
        admin_listen: Some("[::]:0".parse().expect("an address")),
        ..Default::default()
    };
    let error = check_addresses(&settings).expect_err("open to the network");
    assert!(error.text().starts_with("admin_listen"), "{error}");
    settings.admin_listen = None;
    settings.listen_also = vec!["10.0.0.1:0".parse().expect("an address")];
    let error = check_addresses(&settings).expect_err("open to the network");
    assert!(error.text().starts_with("listen_also"), "{error}");
    settings.listen_also.clear();
    assert_eq!(check_addresses(&settings), Ok(()));
    assert_eq!(main_kind(settings.listen), ListenerKind::Both);
}

/// No task accepts meanwhile, because the test blocks the runtime's only thread. With a short
/// backlog each connection would wait a second or more.
#[tokio::test]
async fn listen_backlog_accepts_400_simultaneous_connections() {
    let loopback = "127.0.0.1:0".parse().expect("an address");
    let (_listener, address) = bind("listen", loopback).expect("a free port");
    let time_limit = std::time::Duration::from_millis(900);
    let connect = |_| std::net::TcpStream::connect_timeout(&address, time_limit);
    let all: std::io::Result<Vec<_>> = (0..400).map(connect).collect();
    assert!(all.is_ok(), "{all:?}");
}
