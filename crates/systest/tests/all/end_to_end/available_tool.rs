//! Available buckets from the command line: siblings, data types, lists of keys.

use super::{fails, fresh, http, tool};
use serde_json::Value;
use systest::rigs::{Cluster, Options, Scratch, wait};
use systest::server::Server;

const FRUIT: &str = "available/fruit";

fn in_fruit(server: &Server, words: &[&str]) -> String {
    tool(server, &[words, &["-b", FRUIT]].concat())
}

fn as_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn context(server: &Server, key: &str) -> String {
    let found = as_json(&in_fruit(server, &["siblings", key, "--json"]));
    found["context"].as_str().expect("a context").to_string()
}

#[test]
fn siblings_are_shown_and_resolved_by_the_commands_that_the_error_names() {
    let (_scratch, server) = fresh("siblings-tool");
    for value in ["ripe", "green"] {
        in_fruit(&server, &["put", "ripe fig", value, "--beside"]);
    }
    let said = fails(&server, &["get", "ripe fig", "-b", FRUIT], 4);
    for command in [
        "`credenza siblings 'ripe fig' -b available/fruit`",
        "`credenza put 'ripe fig' -b available/fruit --context CONTEXT VALUE`",
    ] {
        assert!(said.contains(command), "{command}: {said}");
    }
    let shown = in_fruit(&server, &["siblings", "ripe fig"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with("1 ") && lines[2].starts_with("2 "), "{shown}");
    assert!(shown.contains("  ripe\n") && shown.contains("  green\n"), "{shown}");
    let seen = context(&server, "ripe fig");
    assert!(lines[3] == format!("context  {seen}"), "{shown}");
    assert!(seen.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    // A write with an old context does not replace values written since.
    in_fruit(&server, &["put", "ripe fig", "late", "--beside"]);
    in_fruit(&server, &["put", "ripe fig", "sweet", "--context", &seen]);
    let shown = in_fruit(&server, &["siblings", "ripe fig"]);
    assert!(shown.contains("late") && shown.contains("sweet") && !shown.contains("green"));
    let seen = context(&server, "ripe fig");
    in_fruit(&server, &["put", "ripe fig", "sweet", "--context", &seen]);
    assert_eq!(in_fruit(&server, &["get", "ripe fig"]), "sweet");
    let seen = context(&server, "ripe fig");
    in_fruit(&server, &["delete", "ripe fig", "--context", &seen]);
    fails(&server, &["get", "ripe fig", "-b", FRUIT], 1);
    fails(&server, &["siblings", "nothing", "-b", FRUIT], 1);
    fails(&server, &["put", "ripe fig", "x", "-b", FRUIT, "--context", "?"], 2);
}

#[test]
fn contexts_are_taken_in_the_alphabet_in_which_they_were_given_out_before() {
    let (_scratch, server) = fresh("contexts-before");
    let mut connection = http(&server);
    let path = "/v1/buckets/available/fruit/siblings/fig";
    // Contexts hold random bytes: after this many writes some have characters of only one of the
    // two base64 alphabets.
    let mut differing = 0;
    for round in 0..60 {
        let value = format!("value {round}");
        connection.ask("PUT", path, value.as_bytes()).expect("answers");
        let found = connection.ask("GET", path, b"").expect("answers").json();
        let given = found["context"].as_str().expect("a context");
        let padding = "=".repeat((4 - given.len() % 4) % 4);
        let before = format!("{}{padding}", given.replace('-', "+").replace('_', "/"));
        differing += usize::from(before.contains(['+', '/']));
        for context in [before.replace('+', "%2B"), before] {
            let to = format!("{path}?context={context}");
            let stored = connection.ask("PUT", &to, value.as_bytes()).expect("answers");
            assert_eq!(stored.status, 200, "{context}: {}", stored.text());
            let found = connection.ask("GET", path, b"").expect("answers").json();
            let count = found["siblings"].as_array().map_or(0, Vec::len);
            assert!((1..=2).contains(&count), "{found}");
        }
        let seen = connection.ask("GET", path, b"").expect("answers").json();
        let to = format!("{path}?context={}", seen["context"].as_str().unwrap_or_default());
        assert_eq!(connection.ask("DELETE", &to, b"").expect("answers").status, 200);
    }
    assert!(differing > 0, "no context tried the letters in which the alphabets differ");
}

#[test]
fn keys_of_either_consistency_are_listed_in_order_and_page_by_page() {
    let (_scratch, server) = fresh("keys-tool");
    for bucket in ["default", FRUIT] {
        for key in ["b:2", "a", "b:1", "b:10", "c"] {
            tool(&server, &["put", key, "v", "-b", bucket]);
        }
        let list = |words: &[&str]| tool(&server, &[&["keys", "-b", bucket], words].concat());
        assert_eq!(list(&[]), "a\nb:1\nb:10\nb:2\nc\n", "{bucket}");
        assert_eq!(list(&["--prefix", "b:"]), "b:1\nb:10\nb:2\n");
        assert_eq!(list(&["--prefix", "b:1", "--limit", "1"]), "b:1\n");
        assert_eq!(list(&["--from", "b:10", "--to", "c"]), "b:10\nb:2\n");
        assert_eq!(list(&["--prefix", "x"]), "");
        assert_eq!(list(&["-n", "1", "--json"]), "{\"key\":\"a\"}\n");
        let (mut pages, mut path) = (Vec::new(), String::from("keys?limit=2"));
        loop {
            let bucket = if bucket == FRUIT { FRUIT } else { "default/default" };
            let path_now = format!("/v1/buckets/{bucket}/{path}");
            let page = http(&server).ask("GET", &path_now, b"").expect("answers").json();
            pages.push(page["keys"].to_string());
            let Some(last) = page["continue"].as_str() else { break };
            path = format!("keys?limit=2&after={last}");
        }
        pages.retain(|page| page != "[]");
        assert_eq!(pages, [r#"["a","b:1"]"#, r#"["b:10","b:2"]"#, r#"["c"]"#], "{bucket}");
    }
    let said = fails(&server, &["range", "-b", FRUIT], 2);
    assert!(said.contains("credenza keys"), "{said}");
    fails(&server, &["keys", "-b", "cellar"], 2);
}

#[test]
fn data_types_are_changed_and_shown() {
    let (_scratch, server) = fresh("datatype-tool");
    let kinds = [("tallies", "counter"), ("carts", "set"), ("people", "map"), ("seen", "hll")];
    for (name, kind) in kinds {
        let kind = format!("datatype={kind}");
        tool(&server, &["type", "create", name, "consistency=available", &kind]);
    }
    let run = |bucket: &str, words: &[&str]| {
        tool(&server, &[&["datatype"], words, &["-b", bucket]].concat())
    };
    assert_eq!(run("tallies/web", &["increment", "home"]), "1\n");
    assert_eq!(run("tallies/web", &["increment", "home", "-5"]), "-4\n");
    assert_eq!(run("tallies/web", &["decrement", "home", "2"]), "-6\n");
    assert_eq!(run("tallies/web", &["get", "home"]), "-6\n");
    fails(&server, &["datatype", "get", "nothing", "-b", "tallies/web"], 1);

    assert_eq!(run("carts/web", &["add", "ann", "tea", "milk"]), "milk\ntea\n");
    let seen = as_json(&run("carts/web", &["get", "ann", "--json"]));
    let seen = seen["context"].as_str().expect("a context");
    run("carts/web", &["add", "ann", "tea"]);
    // The context has seen only the first tea.
    assert_eq!(run("carts/web", &["remove", "ann", "tea", "--context", seen]), "milk\ntea\n");
    assert_eq!(run("carts/web", &["remove", "ann", "tea"]), "milk\n");
    assert_eq!(run("seen/web", &["add", "home", "a", "b", "a"]), "2\n");

    run("people/web", &["increment", "ann", "--field", "visits_counter"]);
    run("people/web", &["assign", "ann", "Ann", "--field", "name_register"]);
    run("people/web", &["enable", "ann", "--field", "paid_flag"]);
    let inner = ["add", "ann", "x", "--field", "home_map", "--field", "tags_set"];
    let all = as_json(&run("people/web", &inner));
    assert_eq!(all["home_map"]["tags_set"][0], "x", "{all}");
    assert_eq!((&all["visits_counter"], &all["name_register"]), (&1.into(), &"Ann".into()));
    let less = as_json(&run("people/web", &["remove-field", "ann", "paid_flag", "home_map"]));
    assert!(less["paid_flag"].is_null() && less["home_map"].is_null(), "{less}");
    let operation = r#"{"update":{"visits_counter":5}}"#;
    let more = as_json(&run("people/web", &["update", "ann", operation]));
    assert_eq!(more["visits_counter"], 6);
    fails(&server, &["datatype", "update", "ann", "{", "-b", "people/web"], 2);
}

#[test]
fn siblings_of_three_nodes_are_resolved_at_any_of_them() {
    let scratch = Scratch::new("three-siblings-tool");
    let cluster = Cluster::start(&scratch, Options::of(3));
    let run = |node: usize, words: &[&str]| {
        let done = cluster.tool(node, &[words, &["-b", FRUIT]].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        match done.status.success() {
            true => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
            false => Err(said),
        }
    };
    for (node, value) in [(1, "ripe"), (2, "green")] {
        wait("a write", || run(node, &["put", "fig", value, "--beside"]).map(|_| ()));
    }
    let said = run(3, &["get", "fig"]).expect_err("it has siblings");
    assert!(said.contains("credenza siblings fig -b available/fruit"), "{said}");
    let found = as_json(&run(3, &["siblings", "fig", "--json"]).expect("they are there"));
    assert_eq!(found["siblings"].as_array().map(Vec::len), Some(2), "{found}");
    let seen = found["context"].as_str().expect("a context");
    run(3, &["put", "fig", "sweet", "--context", seen]).expect("resolved");
    for node in 1..=3 {
        assert_eq!(run(node, &["get", "fig"]).as_deref(), Ok("sweet"), "node {node}");
        assert_eq!(run(node, &["keys"]).as_deref(), Ok("fig\n"), "node {node}");
    }
}
