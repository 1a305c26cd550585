//! Test of the page about HTTP: its examples are run; its routes, operations and reasons are those
//! of the server.

use super::{http, start_server};
use std::collections::BTreeSet;
use std::process::Command;
use systest::environment::{Root, missing};
use systest::report::skipped;

fn read_page() -> String {
    let path = systest::tidy::root().join("docs/use/http.md");
    std::fs::read_to_string(path).expect("the page is there")
}

/// Returns the examples: a command, and the output it must have.
fn examples(page: &str) -> Vec<(String, String)> {
    let mut examples: Vec<(String, String)> = Vec::new();
    for block in page.split("```sh\n").skip(1) {
        let block = block.split("```").next().unwrap_or("");
        for line in block.lines() {
            if let Some(command) = line.strip_prefix("$ ") {
                examples.push((command.into(), String::new()));
            } else if let Some((_, expected)) = examples.last_mut() {
                expected.push_str(line);
                expected.push('\n');
            }
        }
    }
    examples
}

/// Returns the session id in the answer to opening a session. `None`: another answer.
fn session_id(answer: &str) -> Option<&str> {
    let id = answer.strip_prefix("{\"session\":\"")?.strip_suffix("\"}")?;
    id.bytes().all(|byte| byte.is_ascii_digit()).then_some(id)
}

/// Returns true if a text matches the example, where an ellipsis stands for any text.
fn matches_pattern(text: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[test]
fn ellipsis_in_http_page_example_matches_any_text() {
    assert!(matches_pattern("a", "a") && !matches_pattern("a", "b") && !matches_pattern("ab", "a"));
    assert!(matches_pattern("a1b2c", "a…b…c") && matches_pattern("abc", "a…c"));
    assert!(!matches_pattern("a1c", "a…b…c") && !matches_pattern("ab1", "a…b"));
}

#[test]
fn http_page_examples_match_the_server() {
    if let Some(reason) = missing(Root::Spared, &["curl"]) {
        return skipped("examples of docs/use/http.md", &reason);
    }
    let (_scratch, server) = start_server("http-page");
    let examples = examples(&read_page());
    assert!(examples.len() > 20, "only {} examples found", examples.len());
    // A session's id differs from run to run: pairs of the page's id and the server's.
    let mut sessions: Vec<(String, String)> = Vec::new();
    for (command, expected) in examples {
        let mut local_command = command.replace("127.0.0.1:7711", &server.address.to_string());
        for (expected, output) in &sessions {
            local_command = local_command.replace(expected, output);
        }
        let result =
            Command::new("sh").args(["-c", &local_command]).output().expect("a shell runs");
        let output = String::from_utf8_lossy(&result.stdout).replace('\r', "");
        // The shell's prompt starts a new line even if the answer has no final newline.
        let (output, expected) = (output.trim_end(), expected.trim_end());
        if let (Some(expected), Some(output)) = (session_id(expected), session_id(output)) {
            sessions.push((expected.into(), output.into()));
            continue;
        }
        assert!(
            matches_pattern(output, expected),
            "{command}\nsays\n{output}\nthe page shows\n{expected}"
        );
    }
}

#[test]
fn http_page_lists_every_route_operation_and_reason() {
    let (_scratch, server) = start_server("http-page-routes");
    let document = http(&server).request("GET", "/openapi.json", b"").expect("answers").json();
    let page = read_page();
    let cell_text = |cell: &str| cell.trim_matches([' ', '`']).to_string();
    let section = |title: &str| {
        let part = page.split(title).nth(1).unwrap_or_else(|| panic!("no section {title}"));
        let rows = part.split("\n## ").next().unwrap_or("").lines();
        let cells =
            rows.filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
        cells.flat_map(|cell| cell.split(',')).map(cell_text).collect::<BTreeSet<String>>()
    };
    let mut routes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let methods = methods.as_object().expect("methods").keys();
        routes.extend(methods.map(|method| format!("{} {path}", method.to_ascii_uppercase())));
    }
    assert_eq!(section("\n## All routes\n"), routes);
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let names_of = |family: &str| -> BTreeSet<String> {
        schemas.keys().filter_map(|name| name.strip_prefix(family)).map(String::from).collect()
    };
    let operations = &names_of("Update_") | &names_of("Read_");
    assert_eq!(section("\n## Updates and sequences\n"), operations);
    let detail = &schemas["ErrorDetail"]["properties"];
    let mut errors: BTreeSet<String> = BTreeSet::new();
    for list in [&detail["reason"]["enum"], &detail["kind"]["enum"]] {
        errors.extend(
            list.as_array()
                .expect("words")
                .iter()
                .filter_map(|name| name.as_str())
                .map(String::from),
        );
    }
    assert_eq!(section("\n## Errors\n"), errors);
}
