//! Groups, by an operator's commands: created, shown at any node, placed, and present again after
//! all nodes were killed.

use serde_json::Value;
use std::process::Output;
use std::time::Duration;
use systest::rigs::{Cluster, Options, Scratch, wait};

/// Returns the output of a command, which must succeed.
fn said(output: &Output) -> String {
    let (out, error) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(out).into_owned()
}

/// Returns a group as a node's command shows it, once it has these members.
fn shown(cluster: &Cluster, node: usize, group: u64, members: &[&str]) -> Value {
    let mut found = Value::Null;
    wait("the group", || {
        let output = cluster.tool(node, &["group", "status", "--json"]);
        let all: Value = serde_json::from_slice(&output.stdout).map_err(|no| no.to_string())?;
        let groups = all.as_array().ok_or("no groups")?;
        let about = groups.iter().find(|about| about["group"] == group).ok_or("not there")?;
        let there = about["members"].as_array().ok_or("no members")?.iter();
        let mut names: Vec<_> = there.filter_map(|member| member["name"].as_str()).collect();
        names.sort_unstable();
        if names != members || about["master"].is_null() {
            return Err(about.to_string());
        }
        found = about.clone();
        Ok(())
    });
    found
}

#[test]
fn groups_are_made_shown_placed_and_there_again_after_all_were_killed() {
    let scratch = Scratch::new("groups");
    let options = Options { lease: Duration::from_millis(600), ..Options::of(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let made = said(&cluster.tool(1, &["group", "create"]));
    assert!(made.starts_with("group 2: "), "{made}");
    for name in ["n1", "n2", "n3", "--group 2"] {
        assert!(made.contains(name), "{made}");
    }
    let one = said(&cluster.tool(2, &["group", "create", "--members", "n1", "--json"]));
    let one: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!((&one["group"], &one["replicas"]), (&Value::from(3), &Value::from(1)));
    // Any node finds a group's members, also without being one.
    let of_one = shown(&cluster, 3, 3, &["n1"]);
    assert_eq!((&of_one["local"], &of_one["master"]), (&false.into(), &"n1".into()));
    shown(&cluster, 1, 2, &["n1", "n2", "n3"]);
    let more = cluster.tool(1, &["group", "create", "--replicas", "5"]);
    let why = String::from_utf8_lossy(&more.stderr).into_owned();
    assert!(!more.status.success() && why.contains("--join"), "{why}");

    for node in 1..=3 {
        cluster.kill(node);
    }
    for node in 1..=3 {
        cluster.begin(node);
    }
    shown(&cluster, 2, 2, &["n1", "n2", "n3"]);
    shown(&cluster, 2, 3, &["n1"]);
    said(&cluster.tool(3, &["group", "members", "3", "n2", "n3"]));
    let moved = shown(&cluster, 1, 3, &["n2", "n3"]);
    assert_eq!(moved["plan"], Value::Array(Vec::new()));
    assert!(said(&cluster.tool(1, &["cluster", "plan"])).contains("nothing is to be done"));
}
