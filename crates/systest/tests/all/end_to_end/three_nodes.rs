//! Three real nodes as clients see them: any node accepts requests, and one of them dies meanwhile.

use super::clients::python;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use systest::client::{Arakoon, ArakoonCluster as Nodes, Http, Resp};
use systest::report::skipped;
use systest::rigs::{Cluster, Options, Scratch};

/// Longer than any election takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts three nodes that also serve Arakoon's cluster `ricky`.
pub fn three(scratch: &Scratch) -> Cluster {
    let mut options = Options::of(3);
    options.words.extend(["--arakoon-clusters".into(), "ricky".into()]);
    Cluster::start(scratch, options)
}

/// Returns the nodes as a client's configuration names them.
pub fn as_arakoon_has_it(cluster: &Cluster) -> Nodes {
    let name = |node: usize| (format!("n{node}"), cluster.client(node));
    Nodes { id: "ricky".into(), nodes: cluster.nodes().map(name).collect() }
}

/// Repeats until the function returns a value.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn redis_py_goes_on_while_the_master_dies() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skipped("redis-py against three nodes", &why),
    };
    let scratch = Scratch::new("three-redis-py");
    let mut cluster = three(&scratch);
    let script = systest::tidy::root().join("crates/systest/clients/redis_three_nodes.py");
    let mut command = Command::new(python);
    command.arg(script).args(cluster.clients().iter().map(ToString::to_string));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("python runs");
    let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    said.read_line(&mut line).expect("it says something");
    if line.trim() == "half" {
        let master = cluster.master();
        cluster.kill(master);
        let mut told = child.stdin.take().expect("it is piped");
        told.write_all(b"dead\n").expect("it reads");
    }
    said.read_to_string(&mut line).expect("text");
    let done = child.wait_with_output().expect("it ends");
    let complaint = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{line}{complaint}\n{}", cluster.words());
    println!("redis-py against three nodes: {}", line.lines().last().unwrap_or_default());
}

#[test]
fn every_node_takes_what_redis_and_http_clients_ask_and_names_the_master() {
    let scratch = Scratch::new("three-any");
    let cluster = three(&scratch);
    cluster.must_serve();
    let master = cluster.master();
    for node in cluster.nodes() {
        let mut redis = Resp::connect(cluster.client(node)).expect("it listens");
        let key = format!("k{node}");
        redis.say(&format!("SET {key} v")).expect("written");
        for other in cluster.nodes() {
            let mut redis = Resp::connect(cluster.client(other)).expect("it listens");
            let seen = redis.say(&format!("GET {key}")).expect("read");
            assert_eq!(seen.bytes(), Some(&b"v"[..]), "written at {node}, read at {other}");
        }
        let mut web = Http::connect(cluster.client(node)).expect("it listens");
        let answer = web.ask("GET", &super::key_path(key.as_bytes()), b"").expect("read");
        assert_eq!((answer.status, &answer.body[..]), (200, &b"v"[..]));
        let named = answer.header("x-credenza-master");
        let other = (node != master).then(|| format!("n{master}"));
        assert_eq!(named, other.as_deref(), "only what comes from elsewhere names the master");
    }
    // Buckets, too: created at one node, known at the next, emptied at a third.
    let bucket = |node: usize| Resp::connect(cluster.client(node)).expect("it listens");
    for round in 0..10 {
        let mut redis = bucket(1 + round % 3);
        redis.say(&format!("SET gone {round}")).expect("written");
        bucket(1 + (round + 1) % 3).say("FLUSHDB").expect("emptied");
        let mut redis = bucket(1 + (round + 2) % 3);
        assert_eq!(redis.say("GET gone").expect("read").bytes(), None);
        redis.say("SET kept 1").expect("written");
        let seen = bucket(1 + round % 3).say("GET kept").expect("read");
        assert_eq!(seen.bytes(), Some(&b"1"[..]), "what is written behind a clear stays");
    }
}

/// The answer to a write has the version, at any node: the next write needs no read.
#[test]
fn a_compare_and_set_loop_goes_from_write_to_write_at_any_node() {
    let scratch = Scratch::new("three-versions");
    let cluster = three(&scratch);
    cluster.must_serve();
    let path = super::key_path(b"loop");
    let kind = ("content-type", "application/octet-stream");
    let mut seen: Option<String> = None;
    for round in 0..9 {
        let mut web = Http::connect(cluster.client(1 + round % 3)).expect("it listens");
        let condition = match &seen {
            Some(tag) => ("if-match", tag.as_str()),
            None => ("if-none-match", "*"),
        };
        let value = round.to_string();
        let written = web.ask_with("PUT", &path, &[kind, condition], value.as_bytes());
        let written = written.expect("written");
        assert_eq!(written.status, 204, "round {round}: {}", written.text());
        let tag = written.header("etag").expect("the version").to_string();
        let read = web.ask("GET", &path, b"").expect("read");
        assert_eq!((read.text(), read.header("etag")), (value, Some(tag.as_str())));
        if let Some(before) = seen.replace(tag) {
            let lost = web.ask_with("PUT", &path, &[kind, ("if-match", &before)], b"lost");
            let lost = lost.expect("an answer");
            assert_eq!((lost.status, lost.header("etag")), (412, None));
        }
    }
    // The command line shows it, too.
    let url = format!("http://{}", cluster.client(cluster.follower()));
    let words = ["put", "loop", "last", "--json", "--url", &url];
    let done = systest::server::tool(&words).output().expect("it runs");
    let shown: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let read = Http::connect(cluster.client(1)).expect("it listens").ask("GET", &path, b"");
    let read = read.expect("read");
    assert_eq!(read.header("etag").map(String::from), Some(format!("\"{}\"", shown["version"])));
}

#[test]
fn arakoon_s_clients_are_sent_to_the_master_and_find_the_next_one() {
    let scratch = Scratch::new("three-arakoon");
    let mut cluster = three(&scratch);
    cluster.must_serve();
    let nodes = as_arakoon_has_it(&cluster);
    let mut client = Arakoon::master(&nodes).expect("a master");
    client.set(b"k", b"v").expect("written");
    let follower = cluster.follower();
    let master = format!("n{}", cluster.master());
    let mut other = Arakoon::connect(cluster.client(follower), "ricky").expect("it listens");
    assert_eq!(other.who_master().ok(), Some(Some(master.clone())));
    let refused = other.set(b"k", b"w").expect_err("it is not the master");
    assert_eq!((refused.code(), refused.message()), (Some(4), master));
    // It has the master's rows a little later, for reads that accept that.
    let mut other = Arakoon::connect(cluster.client(follower), "ricky").expect("it listens");
    other.freshness = 1;
    until("the row at a slave", || other.get(b"k").ok().filter(|value| value == b"v"));
    // On `drop_master` the master hands over, and answers when it is done.
    let before = client.who_master().expect("an answer");
    client.drop_master().expect("dropped");
    assert_ne!(client.who_master().expect("an answer"), before);
    let dies = cluster.master();
    assert_ne!(Some(format!("n{dies}")), before);
    cluster.kill(dies);
    let mut client = until("another master", || Arakoon::master(&nodes).ok());
    assert_eq!(client.get(b"k").ok(), Some(b"v".to_vec()), "nothing is lost");
    client.set(b"k", b"w").expect("written");
    assert_ne!(client.who_master().ok().flatten(), Some(format!("n{dies}")));
}
