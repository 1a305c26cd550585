//! Walks: the pages that follow one request or message through the code, step by step.

use super::{Complaint, Workspace};
use std::collections::BTreeSet;

/// Pages that hold a walk.
const WALKS: [&str; 5] = [
    "docs/inside/life-of-a-write.md",
    "docs/inside/life-of-an-available-write.md",
    "docs/inside/life-of-a-read.md",
    "docs/inside/life-of-a-peer-message.md",
    "docs/inside/life-of-a-ring-change.md",
];
/// Most steps of a walk: a path that needs more has too many stations.
const STEPS_MAX: usize = 12;

/// Rule 11: a walk is the page's first table, `| step | file | function | text |`. It has at most
/// twelve steps, each in one file and one function that exist, and comes to no file twice.
pub fn walks(workspace: &Workspace) -> Vec<Complaint> {
    WALKS.into_iter().flat_map(|page| walk(workspace, page)).collect()
}

fn walk(workspace: &Workspace, page: &str) -> Vec<Complaint> {
    let complaint = |line: usize, mend: String| Complaint::new("walks", page, line, mend);
    // A made-up workspace has no pages.
    let Some(text) = workspace.text(page) else {
        let is_made_up = workspace.root.as_os_str().is_empty();
        return if is_made_up { Vec::new() } else { vec![complaint(1, "is missing".into())] };
    };
    let numbered = text.lines().enumerate();
    let table = numbered.skip_while(|(_, line)| !line.starts_with('|'));
    let steps: Vec<_> = table.take_while(|(_, line)| line.starts_with('|')).skip(2).collect();
    let mut complaints = Vec::new();
    if steps.is_empty() || steps.len() > STEPS_MAX {
        let mend = format!("has {} steps: one to {STEPS_MAX}", steps.len());
        complaints.push(complaint(1, mend));
    }
    let mut files = BTreeSet::new();
    for (at, line) in steps {
        let cells: Vec<_> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, _, file, function, ..] = cells[..] else {
            complaints.push(complaint(at + 1, "a step is `| 1 | file | function | text |`".into()));
            continue;
        };
        if !files.insert(file) {
            complaints.push(complaint(at + 1, format!("`{file}` is visited twice")));
        }
        let source = workspace.sources.iter().find(|source| source.path == file);
        let names = |code: &str| code.contains(&format!("fn {function}"));
        if !source.is_some_and(|source| names(&source.code)) {
            let mend = format!("`{file}` has no function `{function}`: name where the step is now");
            complaints.push(complaint(at + 1, mend));
        }
    }
    complaints
}
