//! Sizes of crates: lines that are compiled as one, and have to be read as one.
//!
//! A line counts if it is in a Rust file of the crate and is not a test's: comments and empty lines
//! count, files under `tests/` and files called `tests.rs` do not, nor do modules inside a file
//! behind `#[cfg(test)]`. Crates that consist of tests (`systest`, `fuzz`) have none.

use super::{Complaint, Workspace};
use std::collections::BTreeMap;

/// Most lines of a crate without tests.
pub const CRATE_LINES_MAX: usize = 12_000;

/// Crates that may have more, each with its bound and the reason.
const LARGE_CRATES: [(&str, usize, &str); 1] =
    [("server", 30_000, "a folder for each protocol, which knows no other protocol")];

/// Reports crates with too many lines.
pub fn crate_sizes(workspace: &Workspace) -> Vec<Complaint> {
    let mut lines: BTreeMap<&str, usize> = BTreeMap::new();
    for source in &workspace.sources {
        *lines.entry(source.crate_folder()).or_default() += source.shipped().count();
    }
    lines.remove("");
    let large = |folder: &str| {
        let name = folder.rsplit('/').next();
        LARGE_CRATES.iter().find(|(known, ..)| Some(*known) == name)
    };
    let too_large = lines.into_iter().filter_map(|(folder, lines)| {
        let (max, why) = match large(folder) {
            Some((_, max, why)) => (*max, format!(" ({why})")),
            None => (CRATE_LINES_MAX, String::new()),
        };
        (lines > max).then(|| {
            let fix = format!(
                "{lines} lines without tests, of at most {max}{why}: cut out the part that the \
                 fewest paths cross (`grep -rn crate:: {folder}/src` shows them); what it needs \
                 of the rest it gets by a trait (docs/decisions/0037-smaller-crates.md)"
            );
            Complaint::new("crate size", folder, 1, fix)
        })
    });
    too_large.collect()
}
