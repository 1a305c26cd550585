//! Operating a cluster, by the commands an operator types: it forms, loses and replaces members, is
//! restarted node by node, and refuses what would harm it.

use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::rigs::{Cluster, Options, Scratch, wait};
use systest::server::{Server, Setup, binary, signal};

fn quick(nodes: usize) -> Options {
    Options { lease: Duration::from_millis(600), ..Options::of(nodes) }
}

/// Returns the output of a command, which must succeed.
fn said(output: &Output) -> String {
    let (out, error) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(out).into_owned()
}

/// Returns the error of a command, which must fail.
fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn set(cluster: &Cluster, node: usize, key: &str, value: &str) {
    let mut redis = Resp::connect(cluster.client(node)).expect("it listens");
    let answer = redis.say(&format!("SET {key} {value}")).expect("it answers");
    assert_eq!(answer, RespReply::Simple("OK".into()), "node {node}");
}

fn get(cluster: &Cluster, node: usize, key: &str) -> RespReply {
    let mut redis = Resp::connect(cluster.client(node)).expect("it listens");
    redis.say(&format!("GET {key}")).expect("it answers")
}

/// Returns the names of a group's voters, sorted, as a node reports them.
fn voters(cluster: &Cluster, node: usize, group: u64) -> Vec<String> {
    let status = cluster.status(node).expect("it answers");
    let groups = status["groups"].as_array().expect("groups");
    let about = groups.iter().find(|about| about["id"] == group).expect("the group");
    let members = about["members"].as_array().expect("members").iter();
    let voters = members.filter(|member| member["part"] == "voter");
    let mut names: Vec<_> =
        voters.map(|member| member["name"].as_str().expect("a name").to_string()).collect();
    names.sort();
    names
}

fn may_restart(cluster: &Cluster, node: usize) -> bool {
    let status = cluster.status(node).expect("it answers");
    let groups = status["groups"].as_array().expect("groups");
    groups.iter().all(|about| about["expect_progress_possible"] == true)
}

#[test]
fn a_cluster_loses_a_member_and_another_takes_its_place() {
    let scratch = Scratch::new("cluster-life");
    let mut cluster = Cluster::start(&scratch, quick(3));
    set(&cluster, 2, "before", "1");
    let status = said(&cluster.tool(2, &["cluster", "status"]));
    for wanted in ["as n2 sees it", "n1", "n3", "itself", "yes"] {
        assert!(status.contains(wanted), "{wanted}: {status}");
    }
    assert!(said(&cluster.tool(1, &["cluster", "plan"])).contains("nothing is to be done"));
    let last = refused(&cluster.tool(1, &["cluster", "add", "n2"]));
    assert!(last.contains("n2 votes already"), "{last}");

    said(&cluster.tool(1, &["cluster", "remove", "n3", "--wait"]));
    let left = ["n1".to_string(), "n2".to_string()];
    assert_eq!((voters(&cluster, 1, 0), voters(&cluster, 1, 1)), (left.to_vec(), left.to_vec()));
    let status = cluster.status(1).expect("it answers");
    let warnings = status["warnings"].to_string();
    assert!(warnings.contains("two voters"), "{warnings}");
    assert!(!may_restart(&cluster, 1), "of two voters neither may go");
    assert_eq!(cluster.stop(3), Some(0));

    let fourth = cluster.add();
    wait("the fourth node's vote", || {
        let plan = cluster.tool(1, &["cluster", "plan"]);
        let voters = voters(&cluster, 1, 1);
        match voters == ["n1", "n2", "n4"] {
            true => Ok(()),
            false => Err(format!("{voters:?} {}", String::from_utf8_lossy(&plan.stdout))),
        }
    });
    assert_eq!(get(&cluster, fourth, "before"), RespReply::Bulk(Some(b"1".to_vec())));
    set(&cluster, fourth, "after", "2");
    said(&cluster.tool(2, &["cluster", "move-master", "n4"]));
    wait("its mastership", || {
        let master = cluster.said(4, 1).and_then(|said| said.master);
        if master.as_deref() == Some("n4") { Ok(()) } else { Err(format!("{master:?}")) }
    });
    assert_eq!(get(&cluster, 1, "after"), RespReply::Bulk(Some(b"2".to_vec())));
    let unknown = refused(&cluster.tool(1, &["cluster", "move-master", "n9"]));
    assert!(unknown.contains("n9"), "{unknown}");
}

#[test]
fn a_lost_node_is_replaced_by_a_fresh_one_of_its_name() {
    let scratch = Scratch::new("cluster-replace");
    let mut cluster = Cluster::start(&scratch, quick(3));
    set(&cluster, 1, "kept", "all-along");
    cluster.kill(2);
    let data = cluster.how(2).data.clone();
    std::fs::remove_dir_all(&data).expect("its disk is lost");
    let taken = cluster.try_to_begin(2).expect_err("its name is taken");
    assert!(taken.words.contains("credenza cluster replace n2"), "{taken}");
    assert_eq!(taken.code, Some(4), "read again and decide again");
    said(&cluster.tool(3, &["cluster", "replace", "n2"]));
    cluster.begin(2);
    cluster.must_settle();
    assert_eq!(get(&cluster, 2, "kept"), RespReply::Bulk(Some(b"all-along".to_vec())));
    let members = cluster.status(1).expect("it answers")["members"].clone();
    wait("the old one to be forgotten", || {
        let members = cluster.status(1).expect("it answers")["members"].clone();
        let count = members.as_array().map_or(0, Vec::len);
        if count == 3 { Ok(()) } else { Err(members.to_string()) }
    });
    assert!(members.to_string().contains("n2"));
    cluster.must_be_level();
}

#[test]
fn every_node_is_restarted_in_turn_while_the_others_serve() {
    let scratch = Scratch::new("cluster-rolling");
    let mut cluster = Cluster::start(&scratch, quick(3));
    for node in cluster.nodes() {
        wait("leave to restart", || match may_restart(&cluster, node) {
            true => Ok(()),
            false => Err(cluster.words()),
        });
        assert_eq!(cluster.stop(node), Some(0));
        let other = node % 3 + 1;
        set(&cluster, other, &format!("without{node}"), "served");
        cluster.begin(node);
        cluster.must_settle();
    }
    for node in cluster.nodes() {
        for without in 1..=3 {
            let value = get(&cluster, node, &format!("without{without}"));
            assert_eq!(value, RespReply::Bulk(Some(b"served".to_vec())), "at {node}");
        }
    }
    // All are killed at once, as by a power cut: they must find each other again.
    cluster.nodes().for_each(|node| cluster.kill(node));
    cluster.begin_all();
    cluster.must_settle();
    cluster.must_be_level();
}

#[test]
fn what_would_harm_a_cluster_is_refused_in_a_line_that_names_the_remedy() {
    let scratch = Scratch::new("cluster-refusals");
    let mut cluster = Cluster::start(&scratch, quick(2));
    let first = cluster.client(1).to_string();
    let refusal = |words: &[&str]| {
        let mut setup = Setup::on(&scratch.join("other"));
        setup.words = words.iter().map(ToString::to_string).collect();
        let refusal = Server::start(&setup).map(|_| ()).expect_err("refused");
        assert_eq!(refusal.words.lines().filter(|line| line.starts_with("credenza:")).count(), 1);
        refusal.words
    };
    let unreached = refusal(&["--peer-listen", "127.0.0.1:0", "--join", &first]);
    assert!(unreached.contains("advertise"), "nobody can dial port 0: {unreached}");
    let free = free_port().to_string();
    let peer = format!("127.0.0.1:{free}");
    let here = ["--name", "x", "--peer-listen", &peer, "--advertise", "127.0.0.1:1"];
    let lease = refusal(&[&here[..], &["--join", &first, "--lease-ms", "5s"]].concat());
    assert!(lease.contains("--lease-ms 600"), "{lease}");
    let lonely = refusal(&["--name", "x", "--join", &first]);
    assert!(lonely.contains("peer_listen"), "{lonely}");
    let open = format!("0.0.0.0:{free}");
    let open = refusal(&["--peer-listen", &open, "--advertise", "a:1", "--peer-advertise", &peer]);
    assert!(open.contains("insecure"), "{open}");
    let nobody = ["--peer-listen", "0.0.0.0:1", "--advertise", "a:1", "--insecure", "on"];
    let nobody = refusal(&nobody);
    assert!(nobody.contains("peer_advertise"), "{nobody}");
    let begun = refusal(&[]);
    assert!(begun.contains("--join again"), "a directory that began to join founds none: {begun}");
    let init = || {
        let data = scratch.join("new");
        let mut command = Command::new(binary());
        command.args(["cluster", "init", "--data"]).arg(data).output().expect("it runs")
    };
    let ids = said(&init());
    assert!(ids.starts_with("cluster ") && ids.lines().count() == 2, "{ids}");
    let again = refused(&init());
    assert!(again.contains(ids.lines().next().expect("a line").trim_start_matches("cluster ")));
    // A member of a cluster does not start as a cluster of its own.
    assert_eq!(cluster.stop(2), Some(0));
    let words = std::mem::take(&mut cluster.how(2).words);
    let alone = cluster.try_to_begin(2).expect_err("it is one of two");
    assert!(alone.words.contains("--peer-listen"), "{alone}");
    cluster.how(2).words = words;
    cluster.begin(2);
    cluster.must_settle();
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

#[test]
fn three_nodes_on_one_machine_by_one_command() {
    let scratch = Scratch::new("cluster-dev");
    let data = scratch.join("dev");
    let port = (20_000..60_000).step_by(37).find(|port| {
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        (0..3).all(|node| free(port + node * 10) && free(port + node * 10 + 1))
    });
    let port = port.expect("some ports are free");
    let (second, port) = (port + 10, port.to_string());
    let mut dev = Command::new(binary());
    dev.args(["dev", "--port", &port, "--data"]).arg(&data);
    dev.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut dev = dev.spawn().expect("it runs");
    let mut words = BufReader::new(dev.stdout.take().expect("it is piped")).lines();
    let url = format!("http://127.0.0.1:{port}");
    let tool = |words: &[&str]| {
        let mut command = Command::new(binary());
        command.args(words).args(["--url", &url]).stdin(Stdio::null()).output().expect("it runs")
    };
    wait("three voters", || {
        let output = tool(&["group", "status", "--json"]);
        let groups: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let voters = groups[1]["members"]
            .as_array()
            .map_or(0, |members| members.iter().filter(|member| member["part"] == "voter").count());
        if voters == 3 { Ok(()) } else { Err(groups.to_string()) }
    });
    said(&tool(&["put", "hello", "world"]));
    assert_eq!(said(&tool(&["get", "hello"])), "world");
    let compared = said(&tool(&["group", "verify"]));
    assert_eq!(compared.matches("equal").count(), 2, "both groups: {compared}");
    let told = |line: std::io::Result<String>| line.expect("text").contains("one cluster");
    assert!(words.by_ref().any(told), "it says what to try");
    // One node dies: it is detected, the others go on, and one command restores it.
    let dev_says = |words: &[&str]| {
        let mut command = Command::new(binary());
        said(&command.arg("dev").args(words).arg("--data").arg(&data).output().expect("it runs"))
    };
    assert_eq!(dev_says(&["kill", "n2"]).trim(), "n2 is killed");
    let down = words.by_ref().map_while(Result::ok).find(|line| line.starts_with("n2 is down"));
    assert!(down.is_some_and(|line| line.contains("2 of 3 nodes run: the rest goes on")));
    let how = words.next().expect("a line").expect("text");
    assert!(how.contains(&format!("dev restart n2 --data {}", data.display())), "{how}");
    said(&tool(&["put", "hello", "again"]));
    assert_eq!(dev_says(&["restart", "n2"]).trim(), "n2 is back");
    wait("n2 is back", || {
        let mut get = Command::new(binary());
        get.args(["get", "hello", "--url", &format!("http://127.0.0.1:{second}")]);
        let output = get.stdin(Stdio::null()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
        if text == "again" { Ok(()) } else { Err(text) }
    });
    let mut other = Command::new(binary());
    other.args(["dev", "kill", "n9", "--data"]).arg(&data);
    let refused = other.output().expect("it runs");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("n1, n2, n3"), "{refused:?}");
    signal(dev.id(), Signal::INT);
    assert!(dev.wait().expect("it ends").success());
    for node in ["n1", "n2", "n3"] {
        let log = std::fs::read_to_string(data.join(format!("{node}.log"))).expect("a log");
        assert!(log.contains("stopped"), "{node} was stopped in order: {log}");
    }
}
