//! Test of the page about HTTP: its examples are run; its routes, operations and reasons are those
//! of the server.

use super::{fresh, http};
use std::collections::BTreeSet;
use std::process::Command;
use systest::report::skipped;
use systest::rigs::{Root, missing};

fn page() -> String {
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
            } else if let Some((_, said)) = examples.last_mut() {
                said.push_str(line);
                said.push('\n');
            }
        }
    }
    examples
}

/// Returns the session id in the answer to opening a session. `None`: another answer.
fn session(answer: &str) -> Option<&str> {
    let id = answer.strip_prefix("{\"session\":\"")?.strip_suffix("\"}")?;
    id.bytes().all(|byte| byte.is_ascii_digit()).then_some(id)
}

/// Returns true if a text is as shown, where an ellipsis stands for any text.
fn is_as_shown(text: &str, shown: &str) -> bool {
    let mut parts = shown.split('…');
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
fn an_ellipsis_stands_for_anything_and_nothing_else_does() {
    assert!(is_as_shown("a", "a") && !is_as_shown("a", "b") && !is_as_shown("ab", "a"));
    assert!(is_as_shown("a1b2c", "a…b…c") && is_as_shown("abc", "a…c"));
    assert!(!is_as_shown("a1c", "a…b…c") && !is_as_shown("ab1", "a…b"));
}

#[test]
fn every_example_of_the_page_is_true() {
    if let Some(why) = missing(Root::Spared, &["curl"]) {
        return skipped("examples of docs/use/http.md", &why);
    }
    let (_scratch, server) = fresh("http-page");
    let examples = examples(&page());
    assert!(examples.len() > 20, "only {} examples found", examples.len());
    // A session's id differs from run to run: pairs of the page's id and the server's.
    let mut sessions: Vec<(String, String)> = Vec::new();
    for (command, shown) in examples {
        let mut here = command.replace("127.0.0.1:7711", &server.address.to_string());
        for (shown, said) in &sessions {
            here = here.replace(shown, said);
        }
        let done = Command::new("sh").args(["-c", &here]).output().expect("a shell runs");
        let said = String::from_utf8_lossy(&done.stdout).replace('\r', "");
        // A shell's prompt begins a line whether or not the answer ended one.
        let (said, shown) = (said.trim_end(), shown.trim_end());
        if let (Some(shown), Some(said)) = (session(shown), session(said)) {
            sessions.push((shown.into(), said.into()));
            continue;
        }
        assert!(is_as_shown(said, shown), "{command}\nsays\n{said}\nthe page shows\n{shown}");
    }
}

#[test]
fn the_page_lists_every_route_operation_and_reason() {
    let (_scratch, server) = fresh("http-page-routes");
    let document = http(&server).ask("GET", "/openapi.json", b"").expect("answers").json();
    let page = page();
    let row = |word: &str| word.trim_matches([' ', '`']).to_string();
    let section = |title: &str| {
        let part = page.split(title).nth(1).unwrap_or_else(|| panic!("no section {title}"));
        let rows = part.split("\n## ").next().unwrap_or("").lines();
        let cells =
            rows.filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
        cells.flat_map(|cell| cell.split(',')).map(row).collect::<BTreeSet<String>>()
    };
    let mut routes = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        let methods = methods.as_object().expect("methods").keys();
        routes.extend(methods.map(|method| format!("{} {path}", method.to_ascii_uppercase())));
    }
    assert_eq!(section("\n## All routes\n"), routes);
    let schemas = document["components"]["schemas"].as_object().expect("schemas");
    let words = |family: &str| -> BTreeSet<String> {
        schemas.keys().filter_map(|name| name.strip_prefix(family)).map(String::from).collect()
    };
    let operations = &words("Update_") | &words("Read_");
    assert_eq!(section("\n## Updates and sequences\n"), operations);
    let detail = &schemas["ErrorDetail"]["properties"];
    let mut errors: BTreeSet<String> = BTreeSet::new();
    for list in [&detail["reason"]["enum"], &detail["kind"]["enum"]] {
        errors.extend(
            list.as_array().expect("words").iter().filter_map(|w| w.as_str()).map(String::from),
        );
    }
    assert_eq!(section("\n## Errors\n"), errors);
}
