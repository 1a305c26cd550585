//! Operating a cluster, by the commands an operator types: it forms, loses and replaces members, is
//! restarted node by node, and refuses what would harm it.

use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, free_address};
use systest::server::{Server, Setup, binary, signal};

fn short_lease_options(nodes: usize) -> Options {
    Options { lease: Duration::from_millis(600), ..Options::new(nodes) }
}

/// Returns the output of a command, which must succeed.
fn stdout_of(output: &Output) -> String {
    let (out, error) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(out).into_owned()
}

/// Returns the error of a command, which must fail.
fn stderr_of(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn set(cluster: &Cluster, node: usize, key: &str, value: &str) {
    let mut redis = Resp::connect(cluster.client_address(node)).expect("it listens");
    let answer = redis.call_line(&format!("SET {key} {value}")).expect("it answers");
    assert_eq!(answer, RespReply::Simple("OK".into()), "node {node}");
}

fn get(cluster: &Cluster, node: usize, key: &str) -> RespReply {
    let mut redis = Resp::connect(cluster.client_address(node)).expect("it listens");
    redis.call_line(&format!("GET {key}")).expect("it answers")
}

/// Returns the names of a group's voters, sorted, as a node reports them.
fn voters(cluster: &Cluster, node: usize, group: u64) -> Vec<String> {
    let status = cluster.status(node).expect("it answers");
    let groups = status["groups"].as_array().expect("groups");
    let entry = groups.iter().find(|entry| entry["id"] == group).expect("the group");
    let members = entry["members"].as_array().expect("members").iter();
    let voters = members.filter(|member| member["part"] == "voter");
    let mut names: Vec<_> =
        voters.map(|member| member["name"].as_str().expect("a name").to_string()).collect();
    names.sort();
    names
}

fn may_restart(cluster: &Cluster, node: usize) -> bool {
    let status = cluster.status(node).expect("it answers");
    let groups = status["groups"].as_array().expect("groups");
    groups.iter().all(|entry| entry["expect_progress_possible"] == true)
}

#[test]
fn removed_member_is_succeeded_by_an_added_node() {
    let scratch = Scratch::new("cluster-life");
    let mut cluster = Cluster::start(&scratch, short_lease_options(3));
    set(&cluster, 2, "before", "1");
    let status = stdout_of(&cluster.tool(2, &["cluster", "status"]));
    for expected in ["as n2 sees it", "n1", "n3", "itself", "yes"] {
        assert!(status.contains(expected), "{expected}: {status}");
    }
    assert!(stdout_of(&cluster.tool(1, &["cluster", "plan"])).contains("nothing is to be done"));
    let error = stderr_of(&cluster.tool(1, &["cluster", "add", "n2"]));
    assert!(error.contains("n2 votes already"), "{error}");

    stdout_of(&cluster.tool(1, &["cluster", "remove", "n3", "--wait"]));
    let remaining_voters = ["n1".to_string(), "n2".to_string()];
    assert_eq!(
        (voters(&cluster, 1, 0), voters(&cluster, 1, 1)),
        (remaining_voters.to_vec(), remaining_voters.to_vec())
    );
    let status = cluster.status(1).expect("it answers");
    let alarms = status["alarms"].to_string();
    assert!(alarms.contains("two voters"), "{alarms}");
    assert!(!may_restart(&cluster, 1), "of two voters neither may go");
    assert_eq!(cluster.stop(3), Some(0));

    let fourth = cluster.add();
    wait_until("the fourth node's vote", || {
        let plan = cluster.tool(1, &["cluster", "plan"]);
        let voters = [0, 1].map(|group| voters(&cluster, 1, group));
        match voters.iter().all(|voters| voters == &["n1", "n2", "n4"]) {
            true => Ok(()),
            false => Err(format!("{voters:?} {}", String::from_utf8_lossy(&plan.stdout))),
        }
    });
    assert_eq!(get(&cluster, fourth, "before"), RespReply::Bulk(Some(b"1".to_vec())));
    set(&cluster, fourth, "after", "2");
    stdout_of(&cluster.tool(2, &["cluster", "move-master", "n4"]));
    wait_until("its mastership", || {
        let master = cluster.group_status(4, 1).and_then(|group_status| group_status.master);
        if master.as_deref() == Some("n4") { Ok(()) } else { Err(format!("{master:?}")) }
    });
    assert_eq!(get(&cluster, 1, "after"), RespReply::Bulk(Some(b"2".to_vec())));
    let unknown = stderr_of(&cluster.tool(1, &["cluster", "move-master", "n9"]));
    assert!(unknown.contains("n9"), "{unknown}");
}

#[test]
fn lost_node_is_replaced_by_fresh_node_of_the_same_name() {
    let scratch = Scratch::new("cluster-replace");
    let mut cluster = Cluster::start(&scratch, short_lease_options(3));
    set(&cluster, 1, "kept", "all-along");
    cluster.kill(2);
    let data = cluster.setup_mut(2).data.clone();
    std::fs::remove_dir_all(&data).expect("its disk is lost");
    let refusal = cluster.try_start(2).expect_err("its name is taken");
    assert!(refusal.output.contains("credenza cluster replace n2"), "{refusal}");
    assert_eq!(refusal.code, Some(4), "read again and decide again");
    stdout_of(&cluster.tool(3, &["cluster", "replace", "n2"]));
    cluster.start_node(2);
    cluster.must_converge();
    assert_eq!(get(&cluster, 2, "kept"), RespReply::Bulk(Some(b"all-along".to_vec())));
    let members = cluster.status(1).expect("it answers")["members"].clone();
    wait_until("the old one to be forgotten", || {
        let members = cluster.status(1).expect("it answers")["members"].clone();
        let count = members.as_array().map_or(0, Vec::len);
        if count == 3 { Ok(()) } else { Err(members.to_string()) }
    });
    assert!(members.to_string().contains("n2"));
    cluster.must_have_equal_rows();
}

#[test]
fn rolling_restart_keeps_serving_and_cluster_survives_mass_kill() {
    let scratch = Scratch::new("cluster-rolling");
    let mut cluster = Cluster::start(&scratch, short_lease_options(3));
    for node in cluster.nodes() {
        wait_until("leave to restart", || match may_restart(&cluster, node) {
            true => Ok(()),
            false => Err(cluster.describe()),
        });
        assert_eq!(cluster.stop(node), Some(0));
        let other = node % 3 + 1;
        set(&cluster, other, &format!("without{node}"), "served");
        cluster.start_node(node);
        cluster.must_converge();
    }
    for node in cluster.nodes() {
        for without in 1..=3 {
            let value = get(&cluster, node, &format!("without{without}"));
            assert_eq!(value, RespReply::Bulk(Some(b"served".to_vec())), "at {node}");
        }
    }
    // All are killed at once, as by a power cut: they must form the cluster again.
    cluster.nodes().for_each(|node| cluster.kill(node));
    cluster.start_all();
    cluster.must_converge();
    cluster.must_have_equal_rows();
}

#[test]
fn harmful_cluster_operations_are_refused_in_a_line_with_a_remedy() {
    let scratch = Scratch::new("cluster-refusals");
    let mut cluster = Cluster::start(&scratch, short_lease_options(2));
    let first = cluster.client_address(1).to_string();
    let refusal_of = |args: &[&str]| {
        let mut setup = Setup::new(&scratch.join("other"));
        setup.args = args.iter().map(ToString::to_string).collect();
        let refusal_of = Server::start(&setup).map(|_| ()).expect_err("refused");
        assert_eq!(
            refusal_of.output.lines().filter(|line| line.starts_with("credenza:")).count(),
            1
        );
        refusal_of.output
    };
    let unreached = refusal_of(&["--peer-listen", "127.0.0.1:0", "--join", &first]);
    assert!(unreached.contains("advertise"), "nobody can dial port 0: {unreached}");
    let peer = free_address().to_string();
    let peer_args = ["--name", "x", "--peer-listen", &peer, "--advertise", "127.0.0.1:1"];
    let lease = refusal_of(&[&peer_args[..], &["--join", &first, "--lease-ms", "5s"]].concat());
    assert!(lease.contains("--lease-ms 600"), "{lease}");
    let lonely = refusal_of(&["--name", "x", "--join", &first]);
    assert!(lonely.contains("peer_listen"), "{lonely}");
    let open = format!("0.0.0.0:{}", free_address().port());
    let open =
        refusal_of(&["--peer-listen", &open, "--advertise", "a:1", "--peer-advertise", &peer]);
    assert!(open.contains("insecure"), "{open}");
    let nobody = ["--peer-listen", "0.0.0.0:1", "--advertise", "a:1", "--insecure", "on"];
    let nobody = refusal_of(&nobody);
    assert!(nobody.contains("peer_advertise"), "{nobody}");
    let begun = refusal_of(&[]);
    assert!(begun.contains("repeat --join"), "a directory that began to join founds none: {begun}");
    let init = || {
        let data = scratch.join("new");
        let mut command = Command::new(binary());
        command.args(["cluster", "init", "--data"]).arg(data).output().expect("it runs")
    };
    let ids = stdout_of(&init());
    assert!(ids.starts_with("cluster ") && ids.lines().count() == 2, "{ids}");
    let second_init_error = stderr_of(&init());
    assert!(
        second_init_error
            .contains(ids.lines().next().expect("a line").trim_start_matches("cluster "))
    );
    // A member of a cluster does not start as a cluster of its own.
    assert_eq!(cluster.stop(2), Some(0));
    let args = std::mem::take(&mut cluster.setup_mut(2).args);
    let standalone_refusal = cluster.try_start(2).expect_err("it is one of two");
    assert!(standalone_refusal.output.contains("--peer-listen"), "{standalone_refusal}");
    cluster.setup_mut(2).args = args;
    cluster.start_node(2);
    cluster.must_converge();
}

#[test]
fn dev_command_runs_three_nodes_and_restarts_a_killed_node() {
    let scratch = Scratch::new("cluster-dev");
    let data = scratch.join("dev");
    let port = (20_000..60_000).step_by(37).find(|port| {
        let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        (0..3).all(|node| is_free(port + node * 10) && is_free(port + node * 10 + 1))
    });
    let port = port.expect("some ports are free");
    let (second, port) = (port + 10, port.to_string());
    let mut dev = Command::new(binary());
    dev.args(["dev", "--port", &port, "--data"]).arg(&data);
    dev.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    let mut dev = dev.spawn().expect("it runs");
    let mut args = BufReader::new(dev.stdout.take().expect("it is piped")).lines();
    let url = format!("http://127.0.0.1:{port}");
    let tool = |args: &[&str]| {
        let mut command = Command::new(binary());
        command.args(args).args(["--url", &url]).stdin(Stdio::null()).output().expect("it runs")
    };
    wait_until("three voters", || {
        let output = tool(&["group", "status", "--json"]);
        let groups: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let voters = groups[1]["members"]
            .as_array()
            .map_or(0, |members| members.iter().filter(|member| member["part"] == "voter").count());
        if voters == 3 { Ok(()) } else { Err(groups.to_string()) }
    });
    stdout_of(&tool(&["put", "hello", "world"]));
    assert_eq!(stdout_of(&tool(&["get", "hello"])), "world");
    let compared = stdout_of(&tool(&["group", "verify"]));
    assert_eq!(compared.matches("equal").count(), 2, "both groups: {compared}");
    let names_the_cluster =
        |line: std::io::Result<String>| line.expect("text").contains("one cluster");
    assert!(args.by_ref().any(names_the_cluster), "it says what to try");
    // One node dies: its death is detected, the others serve, and one command replaces it.
    let run_dev = |args: &[&str]| {
        let mut command = Command::new(binary());
        stdout_of(
            &command.arg("dev").args(args).arg("--data").arg(&data).output().expect("it runs"),
        )
    };
    assert_eq!(run_dev(&["kill", "n2"]).trim(), "n2 is killed");
    let down_line = args.by_ref().map_while(Result::ok).find(|line| line.starts_with("n2 is down"));
    assert!(down_line.is_some_and(|line| line.contains("2 of 3 nodes run: the rest goes on")));
    let hint = args.next().expect("a line").expect("text");
    assert!(hint.contains(&format!("dev restart n2 --data {}", data.display())), "{hint}");
    stdout_of(&tool(&["put", "hello", "again"]));
    assert_eq!(run_dev(&["restart", "n2"]).trim(), "n2 is back");
    wait_until("n2 is back", || {
        let mut get = Command::new(binary());
        get.args(["get", "hello", "--url", &format!("http://127.0.0.1:{second}")]);
        let output = get.stdin(Stdio::null()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
        if text == "again" { Ok(()) } else { Err(text) }
    });
    let mut other = Command::new(binary());
    other.args(["dev", "kill", "n9", "--data"]).arg(&data);
    let result = other.output().expect("it runs");
    assert!(String::from_utf8_lossy(&result.stderr).contains("n1, n2, n3"), "{result:?}");
    signal(dev.id(), Signal::INT);
    assert!(dev.wait().expect("it ends").success());
    for node in ["n1", "n2", "n3"] {
        let log = std::fs::read_to_string(data.join(format!("{node}.log"))).expect("a log");
        assert!(log.contains("stopped"), "{node} was stopped in order: {log}");
    }
}
