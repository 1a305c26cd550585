//! Three real nodes as clients see them: any node accepts requests, and one of them dies meanwhile.

use super::clients::find_python;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use systest::client::{Arakoon, ArakoonCluster as Nodes, Http, Resp};
use systest::cluster::{Cluster, Options};
use systest::environment::Scratch;
use systest::report::skipped;

/// Longer than any election.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(60);

/// Starts three nodes that also serve Arakoon's cluster `ricky`.
pub fn start_three(scratch: &Scratch) -> Cluster {
    let mut options = Options::new(3);
    options.args.extend(["--arakoon-clusters".into(), "ricky".into()]);
    Cluster::start(scratch, options)
}

/// Returns the nodes as a client's configuration names them.
pub fn arakoon_config(cluster: &Cluster) -> Nodes {
    let name = |node: usize| (format!("n{node}"), cluster.client_address(node));
    Nodes { id: "ricky".into(), nodes: cluster.nodes().map(name).collect() }
}

/// Repeats until the function returns a value.
pub fn wait_for<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + ELECTION_TIMEOUT;
    loop {
        if let Some(found) = attempt() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn redis_py_client_continues_after_master_death() {
    let python = match find_python() {
        Ok(python) => python,
        Err(reason) => return skipped("redis-py against three nodes", &reason),
    };
    let scratch = Scratch::new("three-redis-py");
    let mut cluster = start_three(&scratch);
    let script = systest::tidy::root().join("crates/systest/clients/redis_three_nodes.py");
    let mut command = Command::new(python);
    command.arg(script).args(cluster.client_addresses().iter().map(ToString::to_string));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("python runs");
    let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("it says something");
    if line.trim() == "half" {
        let master = cluster.master();
        cluster.kill(master);
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(b"dead\n").expect("it reads");
    }
    stdout.read_to_string(&mut line).expect("text");
    let result = child.wait_with_output().expect("it ends");
    let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(result.status.success(), "{line}{stderr}\n{}", cluster.describe());
    println!("redis-py against three nodes: {}", line.lines().last().unwrap_or_default());
}

#[test]
fn requests_at_any_node_are_served_and_forwarded_replies_name_master() {
    let scratch = Scratch::new("three-any");
    let cluster = start_three(&scratch);
    cluster.must_serve();
    let master = cluster.master();
    for node in cluster.nodes() {
        let mut redis = Resp::connect(cluster.client_address(node)).expect("it listens");
        let key = format!("k{node}");
        redis.call_line(&format!("SET {key} v")).expect("written");
        for other in cluster.nodes() {
            let mut redis = Resp::connect(cluster.client_address(other)).expect("it listens");
            let reply = redis.call_line(&format!("GET {key}")).expect("read");
            assert_eq!(reply.bytes(), Some(&b"v"[..]), "written at {node}, read at {other}");
        }
        let mut client = Http::connect(cluster.client_address(node)).expect("it listens");
        let answer = client.request("GET", &super::key_path(key.as_bytes()), b"").expect("read");
        assert_eq!((answer.status, &answer.body[..]), (200, &b"v"[..]));
        let master_header = answer.header("x-credenza-master");
        let other = (node != master).then(|| format!("n{master}"));
        assert_eq!(
            master_header,
            other.as_deref(),
            "only what comes from elsewhere names the master"
        );
    }
    // Buckets, too: created at one node, visible at the next, emptied at a third.
    let connect = |node: usize| Resp::connect(cluster.client_address(node)).expect("it listens");
    for round in 0..10 {
        let mut redis = connect(1 + round % 3);
        redis.call_line(&format!("SET gone {round}")).expect("written");
        connect(1 + (round + 1) % 3).call_line("FLUSHDB").expect("emptied");
        let mut redis = connect(1 + (round + 2) % 3);
        assert_eq!(redis.call_line("GET gone").expect("read").bytes(), None);
        redis.call_line("SET kept 1").expect("written");
        let reply = connect(1 + round % 3).call_line("GET kept").expect("read");
        assert_eq!(reply.bytes(), Some(&b"1"[..]), "what is written behind a clear stays");
    }
}

/// The answer to a write has the version, at any node: the next write needs no read.
#[test]
fn compare_and_set_loop_needs_no_read_at_any_node() {
    let scratch = Scratch::new("three-versions");
    let cluster = start_three(&scratch);
    cluster.must_serve();
    let path = super::key_path(b"loop");
    let content_type = ("content-type", "application/octet-stream");
    let mut last_tag: Option<String> = None;
    for round in 0..9 {
        let mut client = Http::connect(cluster.client_address(1 + round % 3)).expect("it listens");
        let condition = match &last_tag {
            Some(tag) => ("if-match", tag.as_str()),
            None => ("if-none-match", "*"),
        };
        let value = round.to_string();
        let written =
            client.request_with_headers("PUT", &path, &[content_type, condition], value.as_bytes());
        let written = written.expect("written");
        assert_eq!(written.status, 204, "round {round}: {}", written.text());
        let tag = written.header("etag").expect("the version").to_string();
        let read = client.request("GET", &path, b"").expect("read");
        assert_eq!((read.text(), read.header("etag")), (value, Some(tag.as_str())));
        if let Some(before) = last_tag.replace(tag) {
            let rejected = client.request_with_headers(
                "PUT",
                &path,
                &[content_type, ("if-match", &before)],
                b"lost",
            );
            let rejected = rejected.expect("an answer");
            assert_eq!((rejected.status, rejected.header("etag")), (412, None));
        }
    }
    // The command line prints the version, too.
    let url = format!("http://{}", cluster.client_address(cluster.follower()));
    let args = ["put", "loop", "last", "--json", "--url", &url];
    let result = systest::server::tool(&args).output().expect("it runs");
    let written_row: serde_json::Value = serde_json::from_slice(&result.stdout).expect("JSON");
    let read =
        Http::connect(cluster.client_address(1)).expect("it listens").request("GET", &path, b"");
    let read = read.expect("read");
    assert_eq!(
        read.header("etag").map(String::from),
        Some(format!("\"{}\"", written_row["version"]))
    );
}

#[test]
fn arakoon_clients_are_directed_to_the_master_and_its_successor() {
    let scratch = Scratch::new("three-arakoon");
    let mut cluster = start_three(&scratch);
    cluster.must_serve();
    let nodes = arakoon_config(&cluster);
    let mut client = Arakoon::master(&nodes).expect("a master");
    client.set(b"k", b"v").expect("written");
    let follower = cluster.follower();
    let master = format!("n{}", cluster.master());
    let mut other =
        Arakoon::connect(cluster.client_address(follower), "ricky").expect("it listens");
    assert_eq!(other.who_master().ok(), Some(Some(master.clone())));
    let refused = other.set(b"k", b"w").expect_err("it is not the master");
    assert_eq!((refused.code(), refused.message()), (Some(4), master));
    // Reads that accept stale rows get the master's rows a little later.
    let mut other =
        Arakoon::connect(cluster.client_address(follower), "ricky").expect("it listens");
    other.read_level = 1;
    wait_for("the row at a slave", || other.get(b"k").ok().filter(|value| value == b"v"));
    // On `drop_master` the master hands over, and answers when it is done.
    let before = client.who_master().expect("an answer");
    client.drop_master().expect("dropped");
    assert_ne!(client.who_master().expect("an answer"), before);
    let successor = cluster.master();
    assert_ne!(Some(format!("n{successor}")), before);
    cluster.kill(successor);
    let mut client = wait_for("another master", || Arakoon::master(&nodes).ok());
    assert_eq!(client.get(b"k").ok(), Some(b"v".to_vec()), "nothing is lost");
    client.set(b"k", b"w").expect("written");
    assert_ne!(client.who_master().ok().flatten(), Some(format!("n{successor}")));
}
