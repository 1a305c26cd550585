//! Groups, by an operator's commands: created, shown at any node, placed, and present again after
//! all nodes were killed.

use serde_json::Value;
use std::process::Output;
use std::time::Duration;
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::Scratch;

/// Returns the output of a command, which must succeed.
fn stdout_of(output: &Output) -> String {
    let (out, error) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{error}");
    String::from_utf8_lossy(out).into_owned()
}

/// Returns a group as a node's command shows it, once it has these members.
fn wait_for_group(cluster: &Cluster, node: usize, group: u64, members: &[&str]) -> Value {
    let mut found = Value::Null;
    wait_until("the group", || {
        let output = cluster.tool(node, &["group", "status", "--json"]);
        let all: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let groups = all.as_array().ok_or("no groups")?;
        let entry = groups.iter().find(|entry| entry["group"] == group).ok_or("not there")?;
        let member_entries = entry["members"].as_array().ok_or("no members")?.iter();
        let mut names: Vec<_> =
            member_entries.filter_map(|member| member["name"].as_str()).collect();
        names.sort_unstable();
        if names != members || entry["master"].is_null() {
            return Err(entry.to_string());
        }
        found = entry.clone();
        Ok(())
    });
    found
}

#[test]
fn groups_are_created_placed_and_restored_after_all_nodes_die() {
    let scratch = Scratch::new("groups");
    let options = Options { lease: Duration::from_millis(600), ..Options::new(3) };
    let mut cluster = Cluster::start(&scratch, options);
    let output = stdout_of(&cluster.tool(1, &["group", "create"]));
    assert!(output.starts_with("group 2: "), "{output}");
    for name in ["n1", "n2", "n3", "--group 2"] {
        assert!(output.contains(name), "{output}");
    }
    let one = stdout_of(&cluster.tool(2, &["group", "create", "--members", "n1", "--json"]));
    let one: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!((&one["group"], &one["replicas"]), (&Value::from(3), &Value::from(1)));
    // A node that is not a member of the group reports its members, too.
    let single_member = wait_for_group(&cluster, 3, 3, &["n1"]);
    assert_eq!((&single_member["local"], &single_member["master"]), (&false.into(), &"n1".into()));
    wait_for_group(&cluster, 1, 2, &["n1", "n2", "n3"]);
    let result = cluster.tool(1, &["group", "create", "--replicas", "5"]);
    let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
    assert!(!result.status.success() && stderr.contains("--join"), "{stderr}");

    for node in 1..=3 {
        cluster.kill(node);
    }
    for node in 1..=3 {
        cluster.start_node(node);
    }
    wait_for_group(&cluster, 2, 2, &["n1", "n2", "n3"]);
    wait_for_group(&cluster, 2, 3, &["n1"]);
    stdout_of(&cluster.tool(3, &["group", "members", "3", "n2", "n3"]));
    let moved = wait_for_group(&cluster, 1, 3, &["n2", "n3"]);
    assert_eq!(moved["plan"], Value::Array(Vec::new()));
    assert!(stdout_of(&cluster.tool(1, &["cluster", "plan"])).contains("nothing is to be done"));
}
