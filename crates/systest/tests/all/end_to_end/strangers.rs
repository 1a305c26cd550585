//! Unknown processes at the nodes' address: the answers they get, and that they can't take a
//! member's place.

use crate::faults::hostile::envelope;
use base::codec::Writer;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use systest::client::Http;
use systest::cluster::{Cluster, Options};
use systest::environment::Scratch;

/// Returns a hello between nodes, version 1, as `docs/inside/peers.md` specifies it.
fn hello(cluster: u64, node: u64, expected_node: u64, incarnation: u64) -> Vec<u8> {
    let mut body = vec![1];
    (0..2).for_each(|_| body.put_u32(1));
    [cluster, node, expected_node, incarnation, 7, 70, 0]
        .iter()
        .for_each(|field| body.put_u64(*field));
    body.put_string(b"n2");
    body.put_string(b"127.0.0.1:7712");
    envelope(&body)
}

/// Sends a hello; returns the whole answer.
fn send_hello(address: &str, hello: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the node listens to its peers");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket takes a timeout");
    stream.write_all(hello).expect("it is heard");
    let mut response = Vec::new();
    // A refusal ends the connection; a welcome would wait for more.
    let _ = stream.read_to_end(&mut response);
    response
}

fn parse_id(text: &Value) -> u64 {
    u64::from_str_radix(text.as_str().expect("an id"), 16).expect("16 digits")
}

fn contains_id(bytes: &[u8], id: u64) -> bool {
    let (raw, text) = (id.to_le_bytes(), format!("{id:016x}"));
    bytes.windows(8).any(|window| window == raw)
        || bytes.windows(16).any(|window| window == text.as_bytes())
}

#[test]
fn peer_without_secret_cannot_impersonate_a_member_by_its_ids() {
    let scratch = Scratch::new("strangers");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    cluster.must_serve();
    let mut client = Http::connect(cluster.client_address(1)).expect("the node listens");
    let cluster_info = client.request("GET", "/v1/cluster", b"").expect("it answers").json();
    let all = cluster_info["members"].as_array().expect("members").clone();
    let member = |name: &str| {
        let member = all.iter().find(|member| member["name"] == name).expect("a member");
        (parse_id(&member["node"]), member["peer"].as_str().expect("an address").to_string())
    };
    let ((n1, address), (n2, _), cluster_id) =
        (member("n1"), member("n2"), parse_id(&cluster_info["cluster"]));
    // A refusal reveals no id to a sender without valid ids.
    for guess in [hello(0xBAD, 0xBAD, 0xBAD, 1), hello(cluster_id, 0xBAD, 0xBAD, 1)] {
        let response = send_hello(&address, &guess);
        assert!(
            !response.is_empty()
                && !contains_id(&response, n1)
                && !contains_id(&response, cluster_id),
            "{response:?}"
        );
    }
    // A sender with all valid ids claims to be node 2 in a later incarnation: admitted once, it
    // would lock node 2 out permanently, since the cluster records the highest incarnation of each
    // member.
    for incarnation in [2, 1 << 19, u64::MAX] {
        let response = send_hello(&address, &hello(cluster_id, n2, n1, incarnation));
        assert!(!contains_id(&response, n1), "it was welcomed: {response:?}");
    }
    std::thread::sleep(2 * cluster.lease());
    cluster.must_serve();
    let info_after = client.request("GET", "/v1/cluster", b"").expect("it answers").json();
    for member in info_after["members"].as_array().expect("members") {
        let incarnation = member["incarnation"].as_u64().expect("a number");
        assert!(incarnation < 10, "a stranger's life went on record: {member}");
    }
    // Node 2 returns from a crash as before.
    cluster.kill(2);
    cluster.start_node(2);
    cluster.must_serve();
}
