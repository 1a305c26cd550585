//! Unknown processes at the nodes' address: the answers they get, and that they can't take a
//! member's place.

use crate::faults::hostile::enveloped;
use base::codec::Writer;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;
use systest::client::Http;
use systest::rigs::{Cluster, Options, Scratch};

/// Returns a hello between nodes, version 1, as `docs/inside/peers.md` specifies it.
fn hello(cluster: u64, node: u64, wanted: u64, incarnation: u64) -> Vec<u8> {
    let mut body = vec![1];
    (0..2).for_each(|_| body.put_u32(1));
    [cluster, node, wanted, incarnation, 7, 70, 0].iter().for_each(|word| body.put_u64(*word));
    body.put_string(b"n2");
    body.put_string(b"127.0.0.1:7712");
    enveloped(&body)
}

/// Sends a hello; returns the whole answer.
fn answer(address: &str, hello: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the node listens to its peers");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("a socket takes a timeout");
    stream.write_all(hello).expect("it is heard");
    let mut answer = Vec::new();
    // A refusal ends the connection; a welcome would wait for more.
    let _ = stream.read_to_end(&mut answer);
    answer
}

fn id(text: &Value) -> u64 {
    u64::from_str_radix(text.as_str().expect("an id"), 16).expect("16 digits")
}

fn holds(bytes: &[u8], id: u64) -> bool {
    let (raw, text) = (id.to_le_bytes(), format!("{id:016x}"));
    bytes.windows(8).any(|window| window == raw)
        || bytes.windows(16).any(|window| window == text.as_bytes())
}

#[test]
fn a_stranger_who_knows_every_id_takes_no_member_s_place() {
    let scratch = Scratch::new("strangers");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    cluster.must_serve();
    let mut web = Http::connect(cluster.client(1)).expect("the node listens");
    let known = web.ask("GET", "/v1/cluster", b"").expect("it answers").json();
    let all = known["members"].as_array().expect("members").clone();
    let member = |name: &str| {
        let member = all.iter().find(|member| member["name"] == name).expect("a member");
        (id(&member["node"]), member["peer"].as_str().expect("an address").to_string())
    };
    let ((n1, address), (n2, _), ours) = (member("n1"), member("n2"), id(&known["cluster"]));
    // A sender without knowledge learns nothing from a refusal.
    for guess in [hello(0xBAD, 0xBAD, 0xBAD, 1), hello(ours, 0xBAD, 0xBAD, 1)] {
        let told = answer(&address, &guess);
        assert!(!told.is_empty() && !holds(&told, n1) && !holds(&told, ours), "{told:?}");
    }
    // A sender that knows all ids claims to be node 2 in a later incarnation: admitted once, it
    // would lock node 2 out for good, since the cluster remembers the highest incarnation of each
    // member.
    for life in [2, 1 << 19, u64::MAX] {
        let told = answer(&address, &hello(ours, n2, n1, life));
        assert!(!holds(&told, n1), "it was welcomed: {told:?}");
    }
    std::thread::sleep(2 * cluster.lease());
    cluster.must_serve();
    let seen = web.ask("GET", "/v1/cluster", b"").expect("it answers").json();
    for member in seen["members"].as_array().expect("members") {
        let life = member["incarnation"].as_u64().expect("a number");
        assert!(life < 10, "a stranger's life went on record: {member}");
    }
    // Node 2 returns from a crash as before.
    cluster.kill(2);
    cluster.begin(2);
    cluster.must_serve();
}
