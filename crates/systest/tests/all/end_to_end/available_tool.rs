//! Available buckets from the command line: siblings, data types, lists of keys.

use super::{http, must_fail, start_server, tool};
use serde_json::Value;
use systest::cluster::{Cluster, Options, wait_until};
use systest::environment::Scratch;
use systest::server::Server;

const FRUIT: &str = "available/fruit";

fn fruit_tool(server: &Server, args: &[&str]) -> String {
    tool(server, &[args, &["-b", FRUIT]].concat())
}

fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn read_context(server: &Server, key: &str) -> String {
    let found = parse_json(&fruit_tool(server, &["siblings", key, "--json"]));
    found["context"].as_str().expect("a context").to_string()
}

#[test]
fn siblings_are_listed_and_resolved_by_commands_the_error_names() {
    let (_scratch, server) = start_server("siblings-tool");
    for value in ["ripe", "green"] {
        fruit_tool(&server, &["put", "ripe fig", value, "--beside"]);
    }
    let stderr = must_fail(&server, &["get", "ripe fig", "-b", FRUIT], 4);
    for command in [
        "`credenza siblings 'ripe fig' -b available/fruit`",
        "`credenza put 'ripe fig' -b available/fruit --context CONTEXT VALUE`",
    ] {
        assert!(stderr.contains(command), "{command}: {stderr}");
    }
    let shown = fruit_tool(&server, &["siblings", "ripe fig"]);
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[1].starts_with("1 ") && lines[2].starts_with("2 "), "{shown}");
    assert!(shown.contains("  ripe\n") && shown.contains("  green\n"), "{shown}");
    let context_text = read_context(&server, "ripe fig");
    assert!(lines[3] == format!("context  {context_text}"), "{shown}");
    assert!(context_text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    // A write with an old context does not replace values written since.
    fruit_tool(&server, &["put", "ripe fig", "late", "--beside"]);
    fruit_tool(&server, &["put", "ripe fig", "sweet", "--context", &context_text]);
    let shown = fruit_tool(&server, &["siblings", "ripe fig"]);
    assert!(shown.contains("late") && shown.contains("sweet") && !shown.contains("green"));
    let context_text = read_context(&server, "ripe fig");
    fruit_tool(&server, &["put", "ripe fig", "sweet", "--context", &context_text]);
    assert_eq!(fruit_tool(&server, &["get", "ripe fig"]), "sweet");
    let context_text = read_context(&server, "ripe fig");
    fruit_tool(&server, &["delete", "ripe fig", "--context", &context_text]);
    must_fail(&server, &["get", "ripe fig", "-b", FRUIT], 1);
    must_fail(&server, &["siblings", "nothing", "-b", FRUIT], 1);
    must_fail(&server, &["put", "ripe fig", "x", "-b", FRUIT, "--context", "?"], 2);
}

#[test]
fn context_in_standard_base64_is_accepted_like_url_safe_base64() {
    let (_scratch, server) = start_server("contexts-before");
    let mut connection = http(&server);
    let path = "/v1/buckets/available/fruit/siblings/fig";
    // Contexts hold random bytes: after this many writes some have characters of only one of the
    // two base64 alphabets.
    let mut differing = 0;
    for round in 0..60 {
        let value = format!("value {round}");
        connection.request("PUT", path, value.as_bytes()).expect("answers");
        let found = connection.request("GET", path, b"").expect("answers").json();
        let context_text = found["context"].as_str().expect("a context");
        let padding = "=".repeat((4 - context_text.len() % 4) % 4);
        let standard_base64 =
            format!("{}{padding}", context_text.replace('-', "+").replace('_', "/"));
        differing += usize::from(standard_base64.contains(['+', '/']));
        for context in [standard_base64.replace('+', "%2B"), standard_base64] {
            let path_with_context = format!("{path}?context={context}");
            let stored =
                connection.request("PUT", &path_with_context, value.as_bytes()).expect("answers");
            assert_eq!(stored.status, 200, "{context}: {}", stored.text());
            let found = connection.request("GET", path, b"").expect("answers").json();
            let count = found["siblings"].as_array().map_or(0, Vec::len);
            assert!((1..=2).contains(&count), "{found}");
        }
        let found = connection.request("GET", path, b"").expect("answers").json();
        let path_with_context =
            format!("{path}?context={}", found["context"].as_str().unwrap_or_default());
        assert_eq!(
            connection.request("DELETE", &path_with_context, b"").expect("answers").status,
            200
        );
    }
    assert!(differing > 0, "no context tried the letters in which the alphabets differ");
}

#[test]
fn keys_of_both_consistencies_are_listed_in_order_and_paged() {
    let (_scratch, server) = start_server("keys-tool");
    for bucket in ["default", FRUIT] {
        for key in ["b:2", "a", "b:1", "b:10", "c"] {
            tool(&server, &["put", key, "v", "-b", bucket]);
        }
        let list = |args: &[&str]| tool(&server, &[&["keys", "-b", bucket], args].concat());
        assert_eq!(list(&[]), "a\nb:1\nb:10\nb:2\nc\n", "{bucket}");
        assert_eq!(list(&["--prefix", "b:"]), "b:1\nb:10\nb:2\n");
        assert_eq!(list(&["--prefix", "b:1", "--limit", "1"]), "b:1\n");
        assert_eq!(list(&["--from", "b:10", "--to", "c"]), "b:10\nb:2\n");
        assert_eq!(list(&["--prefix", "x"]), "");
        assert_eq!(list(&["-n", "1", "--json"]), "{\"key\":\"a\"}\n");
        let (mut pages, mut path) = (Vec::new(), String::from("keys?limit=2"));
        loop {
            let bucket = if bucket == FRUIT { FRUIT } else { "default/default" };
            let page_path = format!("/v1/buckets/{bucket}/{path}");
            let page = http(&server).request("GET", &page_path, b"").expect("answers").json();
            pages.push(page["keys"].to_string());
            let Some(last) = page["continue"].as_str() else { break };
            path = format!("keys?limit=2&after={last}");
        }
        pages.retain(|page| page != "[]");
        assert_eq!(pages, [r#"["a","b:1"]"#, r#"["b:10","b:2"]"#, r#"["c"]"#], "{bucket}");
    }
    let stderr = must_fail(&server, &["range", "-b", FRUIT], 2);
    assert!(stderr.contains("credenza keys"), "{stderr}");
    must_fail(&server, &["keys", "-b", "cellar"], 2);
}

#[test]
fn data_types_are_updated_and_read_from_the_command_line() {
    let (_scratch, server) = start_server("datatype-tool");
    let kinds = [("tallies", "counter"), ("carts", "set"), ("people", "map"), ("seen", "hll")];
    for (name, kind) in kinds {
        let kind = format!("datatype={kind}");
        tool(&server, &["type", "create", name, "consistency=available", &kind]);
    }
    let run = |bucket: &str, args: &[&str]| {
        tool(&server, &[&["datatype"], args, &["-b", bucket]].concat())
    };
    assert_eq!(run("tallies/web", &["increment", "home"]), "1\n");
    assert_eq!(run("tallies/web", &["increment", "home", "-5"]), "-4\n");
    assert_eq!(run("tallies/web", &["decrement", "home", "2"]), "-6\n");
    assert_eq!(run("tallies/web", &["get", "home"]), "-6\n");
    must_fail(&server, &["datatype", "get", "nothing", "-b", "tallies/web"], 1);

    assert_eq!(run("carts/web", &["add", "ann", "tea", "milk"]), "milk\ntea\n");
    let context = parse_json(&run("carts/web", &["get", "ann", "--json"]));
    let context = context["context"].as_str().expect("a context");
    run("carts/web", &["add", "ann", "tea"]);
    // The context covers only the first value.
    assert_eq!(run("carts/web", &["remove", "ann", "tea", "--context", context]), "milk\ntea\n");
    assert_eq!(run("carts/web", &["remove", "ann", "tea"]), "milk\n");
    assert_eq!(run("seen/web", &["add", "home", "a", "b", "a"]), "2\n");

    run("people/web", &["increment", "ann", "--field", "visits_counter"]);
    run("people/web", &["assign", "ann", "Ann", "--field", "name_register"]);
    run("people/web", &["enable", "ann", "--field", "paid_flag"]);
    let inner = ["add", "ann", "x", "--field", "home_map", "--field", "tags_set"];
    let map = parse_json(&run("people/web", &inner));
    assert_eq!(map["home_map"]["tags_set"][0], "x", "{map}");
    assert_eq!((&map["visits_counter"], &map["name_register"]), (&1.into(), &"Ann".into()));
    let map_after_removal =
        parse_json(&run("people/web", &["remove-field", "ann", "paid_flag", "home_map"]));
    assert!(
        map_after_removal["paid_flag"].is_null() && map_after_removal["home_map"].is_null(),
        "{map_after_removal}"
    );
    let operation = r#"{"update":{"visits_counter":5}}"#;
    let map_after_update = parse_json(&run("people/web", &["update", "ann", operation]));
    assert_eq!(map_after_update["visits_counter"], 6);
    must_fail(&server, &["datatype", "update", "ann", "{", "-b", "people/web"], 2);
}

#[test]
fn siblings_written_at_two_nodes_are_resolved_at_a_third() {
    let scratch = Scratch::new("three-siblings-tool");
    let cluster = Cluster::start(&scratch, Options::new(3));
    let run = |node: usize, args: &[&str]| {
        let result = cluster.tool(node, &[args, &["-b", FRUIT]].concat());
        let stderr = String::from_utf8_lossy(&result.stderr).into_owned();
        match result.status.success() {
            true => Ok(String::from_utf8_lossy(&result.stdout).into_owned()),
            false => Err(stderr),
        }
    };
    for (node, value) in [(1, "ripe"), (2, "green")] {
        wait_until("a write", || run(node, &["put", "fig", value, "--beside"]).map(|_| ()));
    }
    let stderr = run(3, &["get", "fig"]).expect_err("it has siblings");
    assert!(stderr.contains("credenza siblings fig -b available/fruit"), "{stderr}");
    let found = parse_json(&run(3, &["siblings", "fig", "--json"]).expect("they are there"));
    assert_eq!(found["siblings"].as_array().map(Vec::len), Some(2), "{found}");
    let context = found["context"].as_str().expect("a context");
    run(3, &["put", "fig", "sweet", "--context", context]).expect("resolved");
    for node in 1..=3 {
        assert_eq!(run(node, &["get", "fig"]).as_deref(), Ok("sweet"), "node {node}");
        assert_eq!(run(node, &["keys"]).as_deref(), Ok("fig\n"), "node {node}");
    }
}
