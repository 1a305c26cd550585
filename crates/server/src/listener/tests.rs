//! Tests of the listener with real sockets on loopback.

use super::*;
use crate::connection::Access;

#[test]
fn non_loopback_listen_address_requires_insecure_setting() {
    let mut settings =
        ServerSettings { listen: "0.0.0.0:0".parse().expect("an address"), ..Default::default() };
    let error = check_addresses(&settings).expect_err("open to the network");
    assert!(error.text().contains("insecure"), "{error}");
    settings.insecure = true;
    assert_eq!(check_addresses(&settings), Ok(()));
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
}

#[test]
fn operators_are_served_on_loopback_or_only_at_their_own_listener() {
    let role = |kind, address: &str, operators_listen| {
        ListenerRole::new(kind, address.parse().expect("an address"), operators_listen)
    };
    for kind in [ListenerKind::Clients, ListenerKind::Arakoon, ListenerKind::Riak] {
        for loopback in ["127.0.0.1", "127.64.1.1", "::1"] {
            assert_eq!(role(kind, loopback, false).access, Access::Operator, "{kind:?}");
            assert_eq!(role(kind, loopback, true).access, Access::Client, "{kind:?}");
        }
        for address in ["0.0.0.0", "10.0.0.1", "::", "2001:db8::1"] {
            assert_eq!(role(kind, address, false).access, Access::Client, "{kind:?} {address}");
        }
    }
    for address in ["127.0.0.1", "10.0.0.1"] {
        assert_eq!(role(ListenerKind::Operators, address, true).access, Access::Operator);
    }
    assert_eq!(role(ListenerKind::Clients, "::1", false).name(), "clients and operators");
    assert_eq!(role(ListenerKind::Clients, "::1", true).name(), "clients");
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

#[tokio::test]
async fn passed_socket_replaces_the_listener_of_its_address_alone() {
    use std::io::ErrorKind;
    let passed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let listen = passed.local_addr().expect("bound");
    let settings = ServerSettings { listen, ..ServerSettings::default() };
    let ports = FrontEnds::bind_with(settings.clone(), vec![passed]).expect("it is adopted");
    assert_eq!(ports.addresses(), [listen]);
    let client = tokio::net::TcpStream::connect(listen).await.expect("somebody listens");
    // Nothing is answered yet: the connection waits for the node.
    let refusing = ports.refuse_until_started();
    let quiet = tokio::time::timeout(std::time::Duration::from_millis(200), refusing).await;
    assert!(quiet.is_err(), "it never returns");
    let silent = client.try_read(&mut [0]).expect_err("nothing is sent");
    assert_eq!(silent.kind(), ErrorKind::WouldBlock);
    drop(ports);
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let refused = FrontEnds::bind_with(settings, vec![other]).map(|_| ()).expect_err("unnamed");
    assert_eq!(refused.reason, Reason::Malformed);
    assert!(refused.text().contains("socket unit"), "{}", refused.text());
}
