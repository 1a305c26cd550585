//! Commands of operators, typed literally: nodes that join as a witness and as a learner, votes
//! that are given and taken, and buckets with their consistency and group.

use serde_json::Value;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::{Scratch, free_address};
use systest::server::binary;

/// A node that `credenza cluster join` started.
struct JoinedNode(Child);

impl Drop for JoinedNode {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn join_node(cluster: &Cluster, scratch: &Scratch, name: &str, role: &str) -> JoinedNode {
    let member = cluster.client_address(1).to_string();
    let mut command = Command::new(binary());
    command.args(["cluster", "join", &member, "--name", name, "--join-as", role]);
    command.args([
        "--listen",
        &free_address().to_string(),
        "--peer-listen",
        &free_address().to_string(),
        "--lease-ms",
        "600",
    ]);
    command.arg("--data").arg(scratch.join(name)).stdin(Stdio::null());
    JoinedNode(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"))
}

fn stdout_of(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr_of(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until a member has this role in a group, as the first node reports it.
fn must_have_role(cluster: &Cluster, group: u64, name: &str, role: &str) {
    wait_until(&format!("{name} as {role} of group {group}"), || {
        let status = cluster.status(1).ok_or("it does not answer")?;
        let mut groups = status["groups"].as_array().ok_or("no groups")?.iter();
        let group_status = groups.find(|entry| entry["id"] == group).ok_or("no such group")?;
        let mut members = group_status["members"].as_array().ok_or("no members")?.iter();
        let found_role =
            members.find(|member| member["name"] == name).map(|member| &member["part"]);
        if found_role == Some(&Value::from(role)) { Ok(()) } else { Err(format!("{found_role:?}")) }
    });
}

fn must_accept_write(cluster: &Cluster, key: &str) {
    wait_until("a write", || {
        let mut client =
            Resp::connect(cluster.client_address(1)).map_err(|error| error.to_string())?;
        let reply = client.call_line(&format!("SET {key} v")).map_err(|error| error.to_string())?;
        if reply == RespReply::Simple("OK".into()) { Ok(()) } else { Err(format!("{reply:?}")) }
    });
}

#[test]
fn nodes_join_as_witness_or_learner_and_are_promoted_and_demoted() {
    let scratch = Scratch::new("typed");
    let options = Options { lease: Duration::from_millis(600), ..Options::new(2) };
    let mut cluster = Cluster::start(&scratch, options);
    let tool =
        |cluster: &Cluster, args: &str| cluster.tool(1, &args.split(' ').collect::<Vec<_>>());
    let _witness = join_node(&cluster, &scratch, "w", "witness");
    must_have_role(&cluster, 1, "w", "witness");
    // Two of three votes are left, one of them the witness's.
    cluster.kill(2);
    must_accept_write(&cluster, "without-n2");
    cluster.start_node(2);
    cluster.must_serve();

    let _learner = join_node(&cluster, &scratch, "l", "learner");
    must_have_role(&cluster, 1, "l", "learner");
    stdout_of(&tool(&cluster, "cluster promote l --wait"));
    must_have_role(&cluster, 1, "l", "voter");
    let refusal = stderr_of(&tool(&cluster, "cluster add l"));
    assert!(refusal.contains("l votes already"), "{refusal}");
    stdout_of(&tool(&cluster, "cluster demote l --wait"));
    must_have_role(&cluster, 1, "l", "learner");
    stdout_of(&tool(&cluster, "group create --members n1"));
    stdout_of(&tool(&cluster, "cluster add l --group 2 --wait"));
    must_have_role(&cluster, 2, "l", "learner");

    let twice = Command::new(binary())
        .args(["cluster", "join", "127.0.0.1:1", "--join", "127.0.0.1:2"])
        .output();
    let twice = stderr_of(&twice.expect("it runs"));
    assert!(twice.contains("named twice"), "{twice}");
}

#[test]
fn bucket_is_created_with_requested_consistency_and_group() {
    let scratch = Scratch::new("typed-buckets");
    let cluster = Cluster::start(&scratch, Options::new(3));
    let create = |args: &str| {
        let args = format!("bucket create {args}");
        cluster.tool(1, &args.split(' ').collect::<Vec<_>>())
    };
    stdout_of(&create("--consistency consistent --group 1 --replicas 3 orders"));
    let bucket = stdout_of(&cluster.tool(2, &["bucket", "describe", "orders", "--json"]));
    let bucket: Value = serde_json::from_str(&bucket).expect("JSON");
    assert_eq!(
        (&bucket["group"], &bucket["properties"]["consistency"]),
        (&1.into(), &"consistent".into())
    );
    stdout_of(&create("--promise consistent spelt-otherwise"));
    let refusal = stderr_of(&create("--group 1 --replicas 5 others"));
    assert!(refusal.contains("group 1 has 3 voters, not 5"), "{refusal}");
    let none = stderr_of(&create("--group 9 --replicas 3 others"));
    assert!(none.contains("no group 9"), "{none}");
    let eventual = stderr_of(&create("--consistency eventual others"));
    assert!(eventual.contains("consistency"), "{eventual}");
}
