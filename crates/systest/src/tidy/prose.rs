//! First words of documentation: a noun, or a verb in the third person.

use super::source::SourceFile;
use super::{Complaint, Workspace};

/// Words that begin a clause or a pronoun, after which a reader has to guess the subject.
const CLAUSE_WORDS: [&str; 26] = [
    "Everybody",
    "Everything",
    "From",
    "Has",
    "How",
    "It",
    "Nobody",
    "Nothing",
    "Of",
    "Same",
    "So",
    "They",
    "This",
    "Those",
    "Until",
    "What",
    "Whatever",
    "When",
    "Where",
    "Whether",
    "Which",
    "Who",
    "Whom",
    "Whose",
    "Whoever",
    "Why",
];

/// Rule 10: heads of files and doc comments of public items begin with a noun or a verb.
pub fn documentation(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in workspace.sources.iter().filter(|source| !source.crate_folder().is_empty()) {
        let lines: Vec<_> = source.text.lines().map(str::trim).collect();
        let head = lines.first().and_then(|line| line.strip_prefix("//! "));
        complaints.extend(head.and_then(|text| complaint(source, 0, text)));
        for (at, line) in lines.iter().enumerate() {
            let Some(text) = line.strip_prefix("/// ") else { continue };
            let is_continuation = at > 0 && lines[at - 1].starts_with("///");
            if !is_continuation && !source.tests[at] && is_public(&lines[at..]) {
                complaints.extend(complaint(source, at, text));
            }
        }
    }
    complaints
}

fn complaint(source: &SourceFile, at: usize, text: &str) -> Option<Complaint> {
    let word = text.split(|letter: char| !letter.is_alphabetic()).next()?;
    let is_clause = CLAUSE_WORDS.contains(&word) || text.starts_with("The same");
    let fix = "begin with a noun (\"Number of ...\") or a verb (\"Returns ...\")";
    is_clause.then(|| source.complaint("prose", at + 1, format!("`{word} ...`: {fix}")))
}

/// True if the item below these lines of documentation is public, in its crate or beyond.
fn is_public(lines: &[&str]) -> bool {
    let item = lines.iter().find(|line| !line.starts_with("//") && !line.starts_with("#["));
    item.is_some_and(|item| item.starts_with("pub ") || item.starts_with("pub("))
}
