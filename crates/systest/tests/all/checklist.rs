//! Table of the security checklist: every requirement has a row, and every test that a row names
//! exists.

use std::collections::BTreeSet;
use systest::tidy::{Workspace, root};

const PAGE: &str = "docs/run/security.md";
/// Requirements of the checklist that this table answers, as ranges of their numbers.
const DEFAULTS: [(u32, u32); 1] = [(1, 6)];
const CHECKS: [(u32, u32); 6] = [(1, 16), (24, 35), (38, 38), (40, 42), (45, 49), (50, 51)];

fn required_ids() -> BTreeSet<String> {
    let ids = |letter: char, ranges: &[(u32, u32)]| {
        let numbers = ranges.iter().flat_map(|(from, to)| *from..=*to);
        numbers.map(|number| format!("{letter}{number}")).collect::<Vec<_>>()
    };
    [ids('D', &DEFAULTS), ids('S', &CHECKS)].concat().into_iter().collect()
}

/// Returns the rows of the table: id, and the cell of tests.
fn rows(page: &str) -> Vec<(String, String)> {
    let begin = page.find("\n## Checklist\n").expect("the page has its checklist");
    let part = &page[begin + 1..];
    let part = &part[..part[3..].find("\n## ").map_or(part.len(), |end| end + 3)];
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let id = cells.next()?.to_string();
        let tests = cells.nth(1)?.trim_end_matches(" |").to_string();
        id.starts_with(['D', 'S']).then_some((id, tests))
    };
    part.lines().filter_map(row).collect()
}

#[test]
fn every_security_requirement_has_a_row_whose_tests_exist() {
    let workspace = Workspace::read(&root());
    let page = workspace.text(PAGE).expect("the page is there");
    let rows = rows(page);
    let ids: BTreeSet<_> = rows.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(ids.len(), rows.len(), "an id stands twice");
    assert_eq!(ids, required_ids());
    let exists = |name: &str| {
        let definition = format!("fn {name}(");
        workspace.sources.iter().any(|source| source.code.contains(&definition))
    };
    let mut wrong = Vec::new();
    for (id, tests) in &rows {
        let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
        if names.is_empty() && !tests.contains("*open*") {
            wrong.push(format!("{id} names no test, and does not say that it is open"));
        }
        let missing = names.into_iter().filter(|name| !exists(name));
        wrong.extend(missing.map(|name| format!("{id} names {name}, which does not exist")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
