//! Checks of the source tree: rules that can be verified by reading files.
//!
//! Promises: every complaint names file and line and says how to fix it; reading takes about a
//! second.
//! Never: runs the product; changes a file.
//! Read next: `crates.rs` (imports between crates), `crate_sizes.rs` (lines of crates),
//! `import_cycles.rs` (modules that import each other), `names.rs` (names of types), `shape.rs`
//! (lengths, heads), `prose.rs` (first words of comments), `documents.rs` (documents),
//! `walkthroughs.rs` (pages that follow a request through the code).

mod crate_sizes;
mod crates;
mod documents;
mod import_cycles;
mod names;
mod prose;
mod shape;
mod source;
mod walkthroughs;
mod words;

pub use crate_sizes::{CRATE_LINES_MAX, crate_sizes};
pub use crates::{CRATES, forbidden_words, imports};
pub use documents::{architecture, decisions, formats, links, settings, stories};
pub use import_cycles::{import_cycles, subjects};
pub use names::type_names;
pub use prose::documentation;
pub use shape::{Exception, file_heads, forbidden_leftovers, lengths};
pub use source::{CRATE_FOLDERS, SourceFile};
pub use walkthroughs::walkthroughs;

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
    /// Description of the violation, and how to fix it.
    pub fix: String,
}

impl Complaint {
    /// Returns a complaint about a line.
    pub fn new(rule: &'static str, path: &str, line: usize, mend: String) -> Complaint {
        Complaint { path: path.into(), line, rule, fix: mend }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.fix)
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
        workspace.read_folder(root, "");
        workspace.paths.sort();
        workspace
    }

    /// Returns a made-up tree, for planted violations.
    pub fn from_files(files: &[(&str, &str)]) -> Workspace {
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

    fn read_folder(&mut self, folder: &Path, path: &str) {
        let entries = std::fs::read_dir(folder).expect("the workspace can be read");
        let mut entries: Vec<_> = entries.flatten().collect();
        entries.sort_by_key(|entry| entry.file_name());
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let relative_path =
                if path.is_empty() { name.clone() } else { format!("{path}/{name}") };
            let is_included = !matches!(name.as_str(), "target" | ".git" | "__pycache__" | ".venv");
            if !is_included || (path.is_empty() && name == "data") {
                continue;
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                self.paths.push(relative_path.clone());
                self.read_folder(&entry.path(), &relative_path);
            } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
                self.add(&relative_path, text);
            } else {
                self.paths.push(relative_path);
            }
        }
    }

    /// Returns the text of a file that is not Rust. `None`: absent.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.iter().find(|(known, _)| known == path).map(|(_, text)| text.as_str())
    }

    /// Returns true if there is such a file or folder.
    pub fn contains(&self, path: &str) -> bool {
        self.paths.iter().any(|known| known == path.trim_end_matches('/'))
    }
}

/// Returns the root of the tree that this test was built in.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).expect("crates/systest stands two folders deep").into()
}
