//! Tests of the acts of operators, which a clients' listener refuses in every protocol.

use super::test_server::TestServer;
use crate::ServerSettings;
use std::net::SocketAddr;

/// Starts a node whose operators have a listener of their own. Returns its clients' address and its
/// operators'.
fn server() -> (TestServer, SocketAddr, SocketAddr) {
    let settings = ServerSettings {
        admin_listen: Some("127.0.0.1:0".parse().expect("an address")),
        arakoon_clusters: vec!["ricky".into()],
        ..ServerSettings::default()
    };
    let server = TestServer::with_name("arakoon_0", settings);
    let (clients, operators) = (server.addresses[0], server.addresses[1]);
    (server, clients, operators)
}

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").into_bytes()
}

#[test]
fn http_acts_of_operators_are_refused_at_the_clients_listener() {
    let (server, clients, operators) = server();
    for path in ["/status", "/metrics", "/v1/cluster", "/v1/cluster/members", "/v1/cluster/ring"] {
        let answer = server.exchange(clients, &get(path));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{path}: {answer}");
        let answer = server.exchange(operators, &get(path));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
    }
    let answer = server.exchange(clients, &get("/v1/buckets"));
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn http_body_is_parsed_only_at_a_listener_that_serves_its_route() {
    let (server, clients, operators) = server();
    let malformed = |line: &str| {
        let head = "host: localhost\r\ncontent-type: application/json\r\ncontent-length: 1";
        format!("{line} HTTP/1.1\r\n{head}\r\n\r\n{{").into_bytes()
    };
    for line in [
        "POST /v1/cluster/tokens",
        "POST /v1/cluster/level",
        "PUT /v1/access",
        "PUT /v1/admin/log-levels",
    ] {
        let answer = server.exchange(clients, &malformed(line));
        assert!(answer.starts_with("HTTP/1.1 403 "), "{line}: {answer}");
        let answer = server.exchange(operators, &malformed(line));
        assert!(answer.starts_with("HTTP/1.1 400 "), "{line}: {answer}");
    }
    let update = malformed("POST /v1/buckets/default/default/update");
    assert!(server.exchange(operators, &update).starts_with("HTTP/1.1 403 "));
    assert!(server.exchange(clients, &update).starts_with("HTTP/1.1 400 "));
}

#[test]
fn resp_acts_of_operators_are_refused_at_the_clients_listener() {
    let (server, clients, _) = server();
    let ask = |command: &str| server.exchange(clients, format!("{command}\r\n").as_bytes());
    for command in [
        "CLIENT LIST",
        "CLIENT KILL 127.0.0.1:1",
        "CLIENT KILL TYPE normal SKIPME no",
        "CONFIG RESETSTAT",
        "SLOWLOG GET",
        "SLOWLOG LEN",
        "SLOWLOG RESET",
    ] {
        let answer = ask(command);
        assert!(answer.contains("-NOPERM this command is served to operators only"), "{answer}");
    }
    for command in ["CLIENT ID", "CLIENT INFO", "CONFIG GET save", "ROLE", "DBSIZE"] {
        assert!(!ask(command).contains("-NOPERM"), "{command}");
    }
    let information = ask("INFO everything");
    for line in ["run_id:", "master_replid:", "process_id:", "# Credenza", "disk_bytes:"] {
        assert!(!information.contains(line), "{line}: {information}");
    }
    assert!(information.contains("redis_version:"), "{information}");
    let loopback = TestServer::build();
    let information = loopback.exchange(loopback.address, b"INFO everything\r\n");
    assert!(information.contains("run_id:") && information.contains("# Credenza"));
    let listed = loopback.exchange(loopback.address, b"CLIENT LIST\r\n");
    assert!(listed.contains("addr=127.0.0.1:"), "{listed}");
}

#[test]
fn riak_statistics_hide_the_cluster_at_the_clients_listener() {
    let (server, clients, _) = server();
    let statistics = server.exchange(clients, &get("/stats"));
    assert!(statistics.contains("\"riak_kv_version\"") && statistics.contains("\"node_gets\""));
    for name in ["nodename", "ring_members", "connected_nodes", "disk", "mem_total"] {
        assert!(!statistics.contains(&format!("\"{name}\"")), "{name}: {statistics}");
    }
    let loopback = TestServer::build();
    assert!(loopback.exchange(loopback.address, &get("/stats")).contains("\"ring_members\""));
}

#[test]
fn arakoon_acts_of_operators_are_refused_at_the_clients_listener() {
    let (server, clients, _) = server();
    let prologue = b"\x00\x00\xff\xb1\x01\x00\x00\x00\x05\x00\x00\x00ricky";
    let ask = |command: u8| {
        server.exchange(clients, &[&prologue[..], &[command, 0x00, 0xff, 0xb1]].concat())
    };
    // DROP_MASTER and STATISTICS.
    for command in [0x30, 0x13] {
        assert!(ask(command).contains("served to operators only"), "{command:x}");
    }
    // WHO_MASTER.
    assert!(ask(0x02).contains("arakoon_0"));
}
