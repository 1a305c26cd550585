//! Commands of operators, typed literally: nodes that join as a witness and as a learner, votes
//! that are given and taken, and buckets with their consistency and group.

use serde_json::Value;
use std::net::TcpListener;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use systest::client::{Resp, RespReply};
use systest::rigs::{Cluster, Options, Scratch, wait};
use systest::server::binary;

/// A node that `credenza cluster join` started.
struct Joined(Child);

impl Drop for Joined {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn joins(cluster: &Cluster, scratch: &Scratch, name: &str, part: &str) -> Joined {
    let member = cluster.client(1).to_string();
    let mut command = Command::new(binary());
    command.args(["cluster", "join", &member, "--name", name, "--join-as", part]);
    command.args(["--listen", &free(), "--peer-listen", &free(), "--lease-ms", "600"]);
    command.arg("--data").arg(scratch.join(name)).stdin(Stdio::null());
    Joined(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs"))
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn refused(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until a member has this role in a group, as the first node reports it.
fn must_be(cluster: &Cluster, group: u64, name: &str, part: &str) {
    wait(&format!("{name} as {part} of group {group}"), || {
        let status = cluster.status(1).ok_or("it does not answer")?;
        let mut groups = status["groups"].as_array().ok_or("no groups")?.iter();
        let about = groups.find(|about| about["id"] == group).ok_or("no such group")?;
        let mut members = about["members"].as_array().ok_or("no members")?.iter();
        let found = members.find(|member| member["name"] == name).map(|member| &member["part"]);
        if found == Some(&Value::from(part)) { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

fn must_take(cluster: &Cluster, key: &str) {
    wait("a write", || {
        let mut redis = Resp::connect(cluster.client(1)).map_err(|no| no.to_string())?;
        let answer = redis.say(&format!("SET {key} v")).map_err(|no| no.to_string())?;
        if answer == RespReply::Simple("OK".into()) { Ok(()) } else { Err(format!("{answer:?}")) }
    });
}

#[test]
fn nodes_join_as_what_they_are_to_be_and_votes_are_given_and_taken() {
    let scratch = Scratch::new("typed");
    let options = Options { lease: Duration::from_millis(600), ..Options::of(2) };
    let mut cluster = Cluster::start(&scratch, options);
    let tool =
        |cluster: &Cluster, words: &str| cluster.tool(1, &words.split(' ').collect::<Vec<_>>());
    let _witness = joins(&cluster, &scratch, "w", "witness");
    must_be(&cluster, 1, "w", "witness");
    // Two of three votes are left, one of them the witness's.
    cluster.kill(2);
    must_take(&cluster, "without-n2");
    cluster.begin(2);
    cluster.must_serve();

    let _learner = joins(&cluster, &scratch, "l", "learner");
    must_be(&cluster, 1, "l", "learner");
    said(&tool(&cluster, "cluster promote l --wait"));
    must_be(&cluster, 1, "l", "voter");
    let votes = refused(&tool(&cluster, "cluster add l"));
    assert!(votes.contains("l votes already"), "{votes}");
    said(&tool(&cluster, "cluster demote l --wait"));
    must_be(&cluster, 1, "l", "learner");
    said(&tool(&cluster, "group create --members n1"));
    said(&tool(&cluster, "cluster add l --group 2 --wait"));
    must_be(&cluster, 2, "l", "learner");

    let twice = Command::new(binary())
        .args(["cluster", "join", "127.0.0.1:1", "--join", "127.0.0.1:2"])
        .output();
    let twice = refused(&twice.expect("it runs"));
    assert!(twice.contains("named twice"), "{twice}");
}

#[test]
fn a_bucket_is_made_with_the_promise_and_in_the_group_it_is_to_have() {
    let scratch = Scratch::new("typed-buckets");
    let cluster = Cluster::start(&scratch, Options::of(3));
    let create = |words: &str| {
        let words = format!("bucket create {words}");
        cluster.tool(1, &words.split(' ').collect::<Vec<_>>())
    };
    said(&create("--consistency consistent --group 1 --replicas 3 orders"));
    let about = said(&cluster.tool(2, &["bucket", "describe", "orders", "--json"]));
    let about: Value = serde_json::from_str(&about).expect("JSON");
    assert_eq!(
        (&about["group"], &about["properties"]["consistency"]),
        (&1.into(), &"consistent".into())
    );
    said(&create("--promise consistent spelt-otherwise"));
    let five = refused(&create("--group 1 --replicas 5 others"));
    assert!(five.contains("group 1 has 3 voters, not 5"), "{five}");
    let none = refused(&create("--group 9 --replicas 3 others"));
    assert!(none.contains("no group 9"), "{none}");
    let eventual = refused(&create("--consistency eventual others"));
    assert!(eventual.contains("consistency"), "{eventual}");
}
