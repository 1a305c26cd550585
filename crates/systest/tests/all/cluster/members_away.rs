//! Members are removed from groups while they are down or cut off. Back again, they serve the same
//! rows as the others, and know also after a restart that they are not members. Operators are
//! answered by any node, wherever the masters are.

use super::SECOND;
use std::time::Instant;
use systest::client::{Http, Resp, encode_key};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, experiment};
use systest::fault_injection::Network;
use systest::report::{Figures, skipped};

/// Creates a bucket in its own group, with a row.
fn create_bucket_in_group(cluster: &Cluster) {
    cluster.run_tool(&["group", "create", "--replicas", "3"]);
    // Behind the switch the tool reaches only the listener for operators, and a bucket is created
    // by clients.
    let headers = [("content-type", "application/json")];
    let create = |web: &mut Http| {
        web.request_with_headers("PUT", "/v1/buckets/default/away", &headers, b"{\"group\": 2}")
    };
    wait_until("the bucket", || match send_request(cluster, 1, create)? {
        (200 | 201 | 204, _) => Ok(()),
        (_, text) => Err(text),
    });
    cluster.must_converge();
    // A new group's first master may be replaced on a busy machine.
    wait_until("a row of the group", || put(cluster, 1, "away", "k"));
    wait_until("a row of another group", || put(cluster, 1, "default", "k"));
}

fn put(cluster: &Cluster, node: usize, bucket: &str, key: &str) -> Result<(), String> {
    let headers = [("content-type", "application/octet-stream")];
    send_request(cluster, node, |web| {
        web.request_with_headers("PUT", &path(bucket, key), &headers, b"v")
    })
    .and_then(|(status, text)| (status == 204).then_some(()).ok_or(text))
}

fn get(cluster: &Cluster, node: usize, bucket: &str, key: &str) -> Result<(), String> {
    send_request(cluster, node, |web| web.request("GET", &path(bucket, key), b""))
        .and_then(|(status, text)| (status == 200).then_some(()).ok_or(text))
}

fn send_request(
    cluster: &Cluster,
    node: usize,
    request: impl FnOnce(&mut Http) -> std::io::Result<systest::client::HttpResponse> + Send,
) -> Result<(u16, String), String> {
    let address = cluster.client_address(node);
    cluster.on_client_host(|| {
        let mut web =
            Http::with_timeout(address, 12 * SECOND).map_err(|error| error.to_string())?;
        let answer = request(&mut web).map_err(|error| error.to_string())?;
        Ok((answer.status, format!("{} {}", answer.status, answer.text())))
    })
}

fn path(bucket: &str, key: &str) -> String {
    format!("/v1/buckets/default/{bucket}/keys/{}", encode_key(key.as_bytes()))
}

fn must_be_ready(cluster: &Cluster, node: usize) -> Result<(), String> {
    let (status, text) = send_request(cluster, node, |web| web.request("GET", "/ready", b""))?;
    if status == 200 { Ok(()) } else { Err(text) }
}

/// Checks that the node accepts and answers requests as any other does.
fn must_serve_node(cluster: &Cluster, node: usize) {
    for bucket in ["away", "default"] {
        wait_until("a row", || get(cluster, node, bucket, "k"));
        wait_until("a write", || put(cluster, node, bucket, "later"));
    }
    wait_until("`ready`", || must_be_ready(cluster, node));
    let mut redis = Resp::connect(cluster.client_address(node)).expect("it listens");
    assert_eq!(redis.call_line("GET k").expect("it answers").bytes(), Some(&b"v"[..]));
}

/// Returns the members of a group, as node 1 reports them.
fn members_of(cluster: &Cluster, group: u64) -> Result<Vec<String>, String> {
    let status = cluster.group_status(1, group).ok_or("it does not answer")?;
    Ok(status.members.into_iter().map(|(name, _)| name).collect())
}

fn place_group(cluster: &Cluster, group: &str, names: &[&str]) {
    cluster.run_tool(&[&["group", "members", group][..], names].concat());
    wait_until("the group's members", || {
        let current_members = members_of(cluster, group.parse().expect("a number"))?;
        if current_members.len() == names.len() {
            Ok(())
        } else {
            Err(format!("{current_members:?}"))
        }
    });
}

#[test]
fn member_removed_while_down_serves_all_buckets_on_return() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-members-away");
    let mut cluster = Cluster::start(&scratch, Options::new(3));
    let mut figures = Figures::start("members change while one is down");
    create_bucket_in_group(&cluster);
    cluster.kill(3);
    for number in 0..50 {
        let key = format!("meanwhile {number}");
        wait_until("a write of two members", || put(&cluster, 1, "away", &key));
    }
    place_group(&cluster, "2", &["n1", "n2"]);
    place_group(&cluster, "1", &["n1", "n2"]);
    figures.faults += 1;
    cluster.start_node(3);
    let restarted_at = Instant::now();
    must_serve_node(&cluster, 3);
    figures.add("served_after_ms", restarted_at.elapsed().as_millis());
    // Its removal is stored by now: with one other node up it does not try to vote.
    cluster.kill(3);
    cluster.start_node(3);
    must_serve_node(&cluster, 3);
    // It becomes a member again, and gets all rows.
    place_group(&cluster, "2", &["n1", "n2", "n3"]);
    place_group(&cluster, "1", &["n1", "n2", "n3"]);
    cluster.must_converge();
    must_serve_node(&cluster, 3);
    cluster.must_have_equal_rows();
    figures.print();
}

#[test]
fn member_removed_while_healthy_stays_ready() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-members-healthy");
    let cluster = Cluster::start(&scratch, Options::new(3));
    create_bucket_in_group(&cluster);
    place_group(&cluster, "1", &["n1", "n2"]);
    must_serve_node(&cluster, 3);
}

#[test]
fn member_removed_while_isolated_serves_reads_and_group_commands() {
    let _permit = experiment();
    if let Some(reason) = Network::missing() {
        return skipped("members change while one is cut off", &reason);
    }
    let scratch = Scratch::new("cluster-members-cut-off");
    let cluster = Cluster::start(&scratch, Options::new(3).with_switch());
    create_bucket_in_group(&cluster);
    cluster.isolate(3);
    place_group(&cluster, "2", &["n1", "n2"]);
    cluster.heal();
    wait_until("a row", || get(&cluster, 3, "away", "k"));
    must_answer_group_commands(&cluster);
}

/// Beyond loopback operators are served at their own listener of each node, and not where clients
/// are: a tool that goes on to the address of the group's master is refused there.
#[test]
fn node_answers_group_commands_for_masters_whose_client_listener_refuses_operators() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-members-operators");
    let options = Options { has_admin_listeners: true, ..Options::new(3) };
    let cluster = Cluster::start(&scratch, options);
    create_bucket_in_group(&cluster);
    for node in cluster.nodes() {
        let answer = send_request(&cluster, node, |web| web.request("GET", "/v1/cluster", b""));
        let (status, _) = answer.expect("it answers");
        assert_eq!(status, 403, "n{node} serves operators where clients are");
    }
    must_answer_group_commands(&cluster);
}

/// Checks that each node answers commands about groups, wherever their masters are.
fn must_answer_group_commands(cluster: &Cluster) {
    // At least one group's master is not the node that is asked.
    cluster.make_master(2);
    for node in cluster.nodes() {
        for args in [&["group", "verify"][..], &["group", "verify", "2"]] {
            wait_until("all replicas compared", || {
                let output = cluster.tool(node, args);
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                if output.status.success() { Ok(()) } else { Err(format!("n{node}: {stderr}")) }
            });
        }
        let groups = cluster.tool(node, &["group", "status", "--json"]);
        let groups: serde_json::Value = serde_json::from_slice(&groups.stdout).expect("JSON");
        for group in groups.as_array().expect("groups") {
            assert!(group["master"].is_string(), "n{node}: {group}");
            assert!(group["members"].as_array().is_some_and(|all| all.len() > 1), "{group}");
            assert!(group["comparison"].is_object(), "n{node} does not know: {group}");
        }
    }
}
