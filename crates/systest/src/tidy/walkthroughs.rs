//! Walkthroughs: the pages that follow one request or message through the code, step by step.

use super::{Complaint, Workspace};
use std::collections::BTreeSet;

/// Pages that contain a walkthrough.
const WALKTHROUGHS: [&str; 5] = [
    "docs/inside/life-of-a-write.md",
    "docs/inside/life-of-an-available-write.md",
    "docs/inside/life-of-a-read.md",
    "docs/inside/life-of-a-peer-message.md",
    "docs/inside/life-of-a-ring-change.md",
];
/// Largest number of steps of a walkthrough: a path that needs more has too many stations.
const STEPS_MAX: usize = 12;

/// Rule 11: a walkthrough is the page's first table, `| step | file | function | text |`. It has at
/// most twelve steps, each in one file and one function that exist, and comes to no file twice.
pub fn walkthroughs(workspace: &Workspace) -> Vec<Complaint> {
    WALKTHROUGHS.into_iter().flat_map(|page| check_walkthrough(workspace, page)).collect()
}

fn check_walkthrough(workspace: &Workspace, page: &str) -> Vec<Complaint> {
    let new_complaint = |line: usize, fix: String| Complaint::new("walks", page, line, fix);
    // A workspace of planted files has no pages.
    let Some(text) = workspace.text(page) else {
        let is_made_up = workspace.root.as_os_str().is_empty();
        return if is_made_up { Vec::new() } else { vec![new_complaint(1, "is missing".into())] };
    };
    let lines = text.lines().enumerate();
    let table = lines.skip_while(|(_, line)| !line.starts_with('|'));
    let steps: Vec<_> = table.take_while(|(_, line)| line.starts_with('|')).skip(2).collect();
    let mut complaints = Vec::new();
    if steps.is_empty() || steps.len() > STEPS_MAX {
        let fix = format!("has {} steps: one to {STEPS_MAX}", steps.len());
        complaints.push(new_complaint(1, fix));
    }
    let mut files = BTreeSet::new();
    for (at, line) in steps {
        let cells: Vec<_> = line.split('|').map(|cell| cell.trim().trim_matches('`')).collect();
        let [_, _, file, function, ..] = cells[..] else {
            complaints
                .push(new_complaint(at + 1, "a step is `| 1 | file | function | text |`".into()));
            continue;
        };
        if !files.insert(file) {
            complaints.push(new_complaint(at + 1, format!("`{file}` is visited twice")));
        }
        let source = workspace.sources.iter().find(|source| source.path == file);
        let defines = |code: &str| code.contains(&format!("fn {function}"));
        if !source.is_some_and(|source| defines(&source.code)) {
            let fix = format!("`{file}` has no function `{function}`: name where the step is now");
            complaints.push(new_complaint(at + 1, fix));
        }
    }
    complaints
}
