//! Names of types: each says what the type is, to a reader in another file.

use super::{Complaint, Workspace};
use std::collections::BTreeMap;

/// Largest number of types with one name, in all code that is shipped together.
const TIMES_MAX: usize = 2;
/// Names that every engineer takes for a convention, and reads with the module's: state behind a
/// lock, input and output of a machine, one end of a connection.
const CONVENTIONAL: [&str; 3] = ["Effect", "Event", "State"];
/// Words that are not nouns of the field: participles, adverbs, pronouns.
const NO_NOUNS: [&str; 33] = [
    "Answered", "Asked", "Asking", "Beside", "Came", "Cut", "Done", "Ended", "Found", "Given",
    "Going", "Heard", "Held", "Here", "Kept", "Known", "Landed", "Laid", "Left", "Only", "Reached",
    "Said", "Seen", "Sent", "Shown", "Staged", "Taken", "Then", "There", "Told", "What", "Which",
    "Written",
];

/// Reports names that too many types have, and names that are not nouns, except those in `known`, a
/// list that may only shrink.
pub fn type_names(workspace: &Workspace, known: &[&str]) -> Vec<Complaint> {
    let mut given: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for source in &workspace.sources {
        for (line, text) in source.shipped() {
            if let Some(name) = defined(text) {
                given.entry(name).or_default().push((&source.path, line));
            }
        }
    }
    let mut complaints = Vec::new();
    for (name, places) in &given {
        let often = places.len() > TIMES_MAX && !CONVENTIONAL.contains(name);
        let is_known = known.contains(name);
        let (path, line) = places[0];
        if (often || NO_NOUNS.contains(name)) && !is_known {
            let paths: Vec<_> = places.iter().map(|(path, _)| *path).collect();
            let mend = format!(
                "`{name}` is the name of {} types: name each by its noun in the field: {}",
                places.len(),
                paths.join(", ")
            );
            complaints.push(Complaint::new("names", path, line, mend));
        }
        if is_known && !often && !NO_NOUNS.contains(name) {
            let mend = format!("`{name}` is a good name by now: take it off the list");
            complaints.push(Complaint::new("names", path, line, mend));
        }
    }
    for name in known.iter().filter(|name| !given.contains_key(*name)) {
        let mend = format!("no type is called `{name}` any more: take it off the list");
        complaints.push(Complaint::new("names", "crates", 1, mend));
    }
    complaints
}

/// Returns the type that a line defines at its left margin; types inside functions are not checked.
fn defined(line: &str) -> Option<&str> {
    let mut rest = line;
    if let Some(behind) = rest.strip_prefix("pub") {
        let closed = behind.strip_prefix('(').and_then(|it| it.split_once(')'));
        rest = closed.map_or(behind, |(_, rest)| rest).strip_prefix(' ')?;
    }
    let kinds = ["struct ", "enum ", "trait ", "type "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    Some(&rest[..end])
}
