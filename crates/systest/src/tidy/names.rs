//! Names of types: each says what the type is, to a reader in another file.

use super::{Complaint, Workspace};
use std::collections::BTreeMap;

/// Largest number of types with one name, in all code that is shipped together.
const TYPES_PER_NAME_MAX: usize = 2;
/// Names that every engineer takes for a convention, and reads with the module's: state behind a
/// lock, input and output of a machine, one end of a connection.
const CONVENTIONAL: [&str; 3] = ["Effect", "Event", "State"];
/// Words that are not nouns of the field: participles, adverbs, pronouns.
const NOT_NOUNS: [&str; 33] = [
    "Answered", "Asked", "Asking", "Beside", "Came", "Cut", "Done", "Ended", "Found", "Given",
    "Going", "Heard", "Held", "Here", "Kept", "Known", "Landed", "Laid", "Left", "Only", "Reached",
    "Said", "Seen", "Sent", "Shown", "Staged", "Taken", "Then", "There", "Told", "What", "Which",
    "Written",
];

/// Reports names that too many types have, and names that are not nouns, except those in `known`, a
/// list that may only shrink.
pub fn type_names(workspace: &Workspace, known: &[&str]) -> Vec<Complaint> {
    let mut definitions: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in &workspace.sources {
        for (line, text) in source.shipped() {
            if let Some(name) = defined_type(text) {
                definitions.entry(name).or_default().push((&source.path, line));
            }
        }
    }
    let mut complaints = Vec::new();
    for (name, places) in &definitions {
        let is_too_frequent = places.len() > TYPES_PER_NAME_MAX && !CONVENTIONAL.contains(name);
        let is_known = known.contains(name);
        let (path, line) = places[0];
        if (is_too_frequent || NOT_NOUNS.contains(name)) && !is_known {
            let paths: Vec<_> = places.iter().map(|(path, _)| *path).collect();
            let fix = format!(
                "`{name}` is the name of {} types: name each by its noun in the field: {}",
                places.len(),
                paths.join(", ")
            );
            complaints.push(Complaint::new("names", path, line, fix));
        }
        if is_known && !is_too_frequent && !NOT_NOUNS.contains(name) {
            let fix = format!("`{name}` is a good name by now: take it off the list");
            complaints.push(Complaint::new("names", path, line, fix));
        }
    }
    for name in known.iter().filter(|name| !definitions.contains_key(*name)) {
        let fix = format!("no type is called `{name}` any more: take it off the list");
        complaints.push(Complaint::new("names", "crates", 1, fix));
    }
    complaints
}

/// Returns the type that a line defines at its left margin; types inside functions are not checked.
fn defined_type(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(after_pub) = rest.strip_prefix("pub") {
        let visibility = after_pub.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        rest = visibility.map_or(after_pub, |(_, rest)| rest).strip_prefix(' ')?;
    }
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}
