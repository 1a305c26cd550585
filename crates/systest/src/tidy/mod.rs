//! Checks of the source tree: rules that can be verified by reading files.
//!
//! Promises: every complaint names file and line and says how to mend it; reading takes about a
//! second.
//! Never: runs the product; changes a file.
//! Read next: `crates.rs` (imports between crates), `circles.rs` (modules that import each other),
//! `names.rs` (names of types), `shape.rs` (lengths, heads), `prose.rs` (first words of comments),
//! `papers.rs` (documents), `walks.rs` (pages that follow a request through the code).

mod circles;
mod crates;
mod names;
mod papers;
mod prose;
mod shape;
mod source;
mod walks;

pub use circles::circles;
pub use crates::{CRATES, forbidden_words, imports, subjects};
pub use names::type_names;
pub use papers::{architecture, decisions, formats, links, settings, stories};
pub use prose::documentation;
pub use shape::{Exception, file_heads, lengths, small_things};
pub use source::{CRATE_FOLDERS, SourceFile};
pub use walks::walks;

use std::fmt;
use std::path::{Path, PathBuf};

/// Violation of a rule, at one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Complaint {
    /// Path from the root of the repository.
    pub path: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// Short name of the rule.
    pub rule: &'static str,
    /// Description of the violation, and how to mend it.
    pub mend: String,
}

impl Complaint {
    /// Returns a complaint about a line.
    pub fn new(rule: &'static str, path: &str, line: usize, mend: String) -> Complaint {
        Complaint { path: path.into(), line, rule, mend }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.mend)
    }
}

impl SourceFile {
    fn complaint(&self, rule: &'static str, line: usize, mend: String) -> Complaint {
        Complaint::new(rule, &self.path, line, mend)
    }
}

/// The whole source tree as text.
#[derive(Clone, Debug, Default)]
pub struct Workspace {
    /// Path of its root; empty for a made-up tree.
    pub root: PathBuf,
    /// All Rust files.
    pub sources: Vec<SourceFile>,
    /// All other text files: path, text.
    pub texts: Vec<(String, String)>,
    /// Paths of all files and folders, text or not.
    pub paths: Vec<String>,
}

impl Workspace {
    /// Reads the tree from its root, without files that git ignores.
    pub fn read(root: &Path) -> Workspace {
        let mut workspace = Workspace { root: root.into(), ..Workspace::default() };
        workspace.walk(root, "");
        workspace.paths.sort();
        workspace
    }

    /// Returns a made-up tree, for planted violations.
    pub fn of(files: &[(&str, &str)]) -> Workspace {
        let mut workspace = Workspace::default();
        for (path, text) in files {
            let slashes = path.match_indices('/').map(|(at, _)| path[..at].to_string());
            workspace.paths.extend(slashes);
            workspace.add(path, text.to_string());
        }
        workspace
    }

    fn add(&mut self, path: &str, text: String) {
        self.paths.push(path.into());
        if path.ends_with(".rs") {
            self.sources.push(SourceFile::new(path, &text));
        } else {
            self.texts.push((path.into(), text));
        }
    }

    fn walk(&mut self, folder: &Path, path: &str) {
        let entries = std::fs::read_dir(folder).expect("the workspace can be read");
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let inside = if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let ours = !matches!(name.as_str(), "target" | ".git" | "__pycache__" | ".venv");
            if !ours || (path.is_empty() && name == "data") {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.paths.push(inside.clone());
                self.walk(&entry.path(), &inside);
            } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
                self.add(&inside, text);
            } else {
                self.paths.push(inside);
            }
        }
    }

    /// Returns the text of a file that is not Rust. `None`: absent.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| known == path).map(|(_, text)| text.as_str())
    }

    /// Returns true if there is such a file or folder.
    pub fn holds(&self, path: &str) -> bool {
        self.paths.iter().any(|known| known == path.trim_end_matches('/'))
    }
}

/// Returns the root of the tree that this test was built in.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("crates/systest stands two folders deep").into()
}
