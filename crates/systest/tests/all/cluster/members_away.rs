//! Members are removed from groups while they are down or cut off. Back again, they serve the same
//! rows as the others, and know also after a restart that they are not members. Operators are
//! answered by any node, wherever the masters are.

use super::SECOND;
use std::time::Instant;
use systest::client::{Http, Resp, encoded};
use systest::report::{Figures, skipped};
use systest::rigs::{Cluster, Network, Options, Scratch, experiment, wait};

/// Creates a bucket in its own group, with a row.
fn filled(cluster: &Cluster) {
    cluster.operate(&["group", "create", "--replicas", "3"]);
    // Behind the switch the tool reaches only the listener for operators, and a bucket is created
    // by clients.
    let json = [("content-type", "application/json")];
    let made =
        |web: &mut Http| web.ask_with("PUT", "/v1/buckets/default/away", &json, b"{\"group\": 2}");
    wait("the bucket", || match ask(cluster, 1, made)? {
        (200 | 201 | 204, _) => Ok(()),
        (_, text) => Err(text),
    });
    cluster.must_settle();
    put(cluster, 1, "away", "k").expect("it is taken");
    put(cluster, 1, "default", "k").expect("it is taken");
}

fn put(cluster: &Cluster, node: usize, bucket: &str, key: &str) -> Result<(), String> {
    let octets = [("content-type", "application/octet-stream")];
    ask(cluster, node, |web| web.ask_with("PUT", &path(bucket, key), &octets, b"v"))
        .and_then(|(status, text)| (status == 204).then_some(()).ok_or(text))
}

fn get(cluster: &Cluster, node: usize, bucket: &str, key: &str) -> Result<(), String> {
    ask(cluster, node, |web| web.ask("GET", &path(bucket, key), b""))
        .and_then(|(status, text)| (status == 200).then_some(()).ok_or(text))
}

fn ask(
    cluster: &Cluster,
    node: usize,
    what: impl FnOnce(&mut Http) -> std::io::Result<systest::client::HttpResponse> + Send,
) -> Result<(u16, String), String> {
    let address = cluster.client(node);
    cluster.from_clients(|| {
        let mut web = Http::with_patience(address, 12 * SECOND).map_err(|no| no.to_string())?;
        let answer = what(&mut web).map_err(|no| no.to_string())?;
        Ok((answer.status, format!("{} {}", answer.status, answer.text())))
    })
}

fn path(bucket: &str, key: &str) -> String {
    format!("/v1/buckets/default/{bucket}/keys/{}", encoded(key.as_bytes()))
}

fn ready(cluster: &Cluster, node: usize) -> Result<(), String> {
    let (status, text) = ask(cluster, node, |web| web.ask("GET", "/ready", b""))?;
    if status == 200 { Ok(()) } else { Err(text) }
}

/// Checks that the node accepts and answers requests as any other does.
fn serves(cluster: &Cluster, node: usize) {
    for bucket in ["away", "default"] {
        wait("a row", || get(cluster, node, bucket, "k"));
        wait("a write", || put(cluster, node, bucket, "later"));
    }
    wait("`ready`", || ready(cluster, node));
    let mut redis = Resp::connect(cluster.client(node)).expect("it listens");
    assert_eq!(redis.say("GET k").expect("it answers").bytes(), Some(&b"v"[..]));
}

/// Returns the members of a group, as node 1 reports them.
fn members(cluster: &Cluster, group: u64) -> Result<Vec<String>, String> {
    let said = cluster.said(1, group).ok_or("it does not answer")?;
    Ok(said.members.into_iter().map(|(name, _)| name).collect())
}

fn placed(cluster: &Cluster, group: &str, names: &[&str]) {
    cluster.operate(&[&["group", "members", group][..], names].concat());
    wait("the group's members", || {
        let found = members(cluster, group.parse().expect("a number"))?;
        if found.len() == names.len() { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

#[test]
fn who_is_taken_out_while_it_is_down_serves_all_buckets_when_it_is_back() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-members-away");
    let mut cluster = Cluster::start(&scratch, Options::of(3));
    let mut figures = Figures::begin("members change while one is down");
    filled(&cluster);
    cluster.kill(3);
    for number in 0..50 {
        put(&cluster, 1, "away", &format!("meanwhile {number}")).expect("two are enough");
    }
    placed(&cluster, "2", &["n1", "n2"]);
    placed(&cluster, "1", &["n1", "n2"]);
    figures.faults += 1;
    cluster.begin(3);
    let back = Instant::now();
    serves(&cluster, 3);
    figures.also("served_after_ms", back.elapsed().as_millis());
    // It knows by now: alone with one other node it does not try to vote.
    cluster.kill(3);
    cluster.begin(3);
    serves(&cluster, 3);
    // It becomes a member again, and gets all rows.
    placed(&cluster, "2", &["n1", "n2", "n3"]);
    placed(&cluster, "1", &["n1", "n2", "n3"]);
    cluster.must_settle();
    serves(&cluster, 3);
    cluster.must_be_level();
    figures.print();
}

#[test]
fn who_is_taken_out_in_full_health_stays_ready() {
    let _permit = experiment();
    let scratch = Scratch::new("cluster-members-healthy");
    let cluster = Cluster::start(&scratch, Options::of(3));
    filled(&cluster);
    placed(&cluster, "1", &["n1", "n2"]);
    serves(&cluster, 3);
}

#[test]
fn who_is_taken_out_while_it_is_cut_off_serves_all_buckets_and_any_node_answers_operators() {
    let _permit = experiment();
    if let Some(why) = Network::missing() {
        return skipped("members change while one is cut off", &why);
    }
    let scratch = Scratch::new("cluster-members-cut-off");
    let cluster = Cluster::start(&scratch, Options::of(3).behind_the_switch());
    filled(&cluster);
    cluster.isolate(3);
    placed(&cluster, "2", &["n1", "n2"]);
    cluster.heal();
    wait("a row", || get(&cluster, 3, "away", "k"));
    // Beyond loopback each node has its own address for operators.
    cluster.lead(2);
    for node in cluster.nodes() {
        for words in [&["group", "verify"][..], &["group", "verify", "2"]] {
            wait("all replicas compared", || {
                let done = cluster.tool(node, words);
                let said = String::from_utf8_lossy(&done.stderr).into_owned();
                if done.status.success() { Ok(()) } else { Err(format!("n{node}: {said}")) }
            });
        }
        let seen = cluster.tool(node, &["group", "status", "--json"]);
        let seen: serde_json::Value = serde_json::from_slice(&seen.stdout).expect("JSON");
        for group in seen.as_array().expect("groups") {
            assert!(group["master"].is_string(), "n{node}: {group}");
            assert!(group["members"].as_array().is_some_and(|all| all.len() > 1), "{group}");
            assert!(group["comparison"].is_object(), "n{node} does not know: {group}");
        }
    }
}
