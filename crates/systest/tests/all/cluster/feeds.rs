//! Followers of feeds while masters are killed: nothing that was acknowledged is missing, nothing
//! comes twice, and events stay in order.

use serde_json::Value;
use std::fs::File;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;
use systest::client::Http;
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::report::short_or_long;

const BUCKET: &str = "/v1/buckets/default/orders";
/// Longest wait for the answer to one attempt of a write.
const ATTEMPT: Duration = Duration::from_secs(5);

/// Writes keys `from..to` in order, each until it is acknowledged, through any node that answers.
fn write_all(addresses: &[SocketAddr], keys: std::ops::Range<usize>) {
    for key in keys {
        let path = format!("{BUCKET}/keys/k{key:05}");
        wait_until("an acknowledgement", || {
            let attempt = |address: &SocketAddr| {
                let mut client = Http::with_timeout(*address, ATTEMPT)?;
                client.request("PUT", &path, key.to_string().as_bytes())
            };
            let mut answers = addresses.iter().map(attempt);
            match answers.any(|answer| answer.is_ok_and(|answer| answer.status == 204)) {
                true => Ok(()),
                false => Err(path.clone()),
            }
        });
    }
}

/// Starts a follower at a node, whose events go to a file.
fn follow(cluster: &mut Cluster, node: usize, events: &Path) -> Child {
    let file = File::create(events).expect("the scratch folder can be written");
    let mut command = cluster.server(node).tool(&["feed", "orders", "--follow", "--json"]);
    command.stdout(file).stderr(Stdio::null());
    command.spawn().expect("it starts")
}

/// Returns the events in a file, of which the last may be cut off.
fn read_events(events: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(events).expect("the follower writes it");
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn follower_of_a_feed_misses_and_repeats_nothing_when_masters_are_killed() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-feeds");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    cluster.run_tool(&["bucket", "create", "orders", "feed=values"]);
    let events = scratch.join("events");
    // At the master: so its own node dies under it.
    let master = cluster.master();
    let mut follower = follow(&mut cluster, master, &events);
    let rounds = short_or_long(2, 20);
    let mut written = 0;
    for _ in 0..rounds {
        let addresses = cluster.client_addresses();
        write_all(&addresses, written..written + 50);
        let master = cluster.master();
        cluster.kill(master);
        write_all(&addresses, written + 50..written + 100);
        written += 100;
        cluster.start_node(master);
        cluster.must_converge();
    }
    let last = format!("k{:05}", written - 1);
    wait_until("the last event", || {
        let events = read_events(&events);
        match events.last().is_some_and(|event| event["key"] == *last) {
            true => Ok(()),
            false => Err(format!("{:?}", events.last())),
        }
    });
    follower.kill().expect("it follows until it is killed");
    follower.wait().expect("it is a child");
    let events = read_events(&events);
    let versions: Vec<u64> = events.iter().filter_map(|event| event["version"].as_u64()).collect();
    assert_eq!(versions.len(), events.len(), "every event has its version");
    // A write whose attempt was in doubt may have happened twice, each with its own event.
    assert!(versions.is_sorted_by(|one, next| one < next), "none comes twice, or out of order");
    let mut keys: Vec<_> = events.iter().map(|event| event["key"].to_string()).collect();
    keys.dedup();
    let expected: Vec<_> = (0..written).map(|key| format!("\"k{key:05}\"")).collect();
    assert_eq!(keys, expected);
}
