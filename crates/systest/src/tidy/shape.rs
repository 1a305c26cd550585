//! Checks of lengths of files, functions and lines, of heads of files, and of words that must not
//! be in shipped code.

use super::source::{SourceFile, line_of, words};
use super::{Complaint, Workspace};

/// Longest file, in lines.
pub const FILE_LINES_MAX: usize = 400;
/// Longest function, in lines from signature to closing brace.
pub const FUNCTION_LINES_MAX: usize = 70;
/// Longest line, in columns.
pub const LINE_COLUMNS_MAX: usize = 100;

/// A file or function that may be longer. The number may only shrink.
pub struct Exception {
    /// Path of the file.
    pub path: &'static str,
    /// `file`, `line` (the number of lines that are too long), or a function's name.
    pub what: &'static str,
    /// Number of lines today.
    pub lines: usize,
    /// Reason why it may be longer.
    pub why: &'static str,
}

/// Rule 4: lengths, with a list of exceptions that may only shrink.
pub fn lengths(workspace: &Workspace, exceptions: &[Exception]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut seen: Vec<(&str, String)> = Vec::new();
    for source in &workspace.sources {
        for (line, what, length, max, mend) in measured(source) {
            let known =
                exceptions.iter().find(|known| known.path == source.path && known.what == what);
            if known.is_some() {
                seen.push((&source.path, what.clone()));
            }
            match known {
                Some(known) if length > known.lines => {
                    let mend = format!("{what} grew from {} to {length}: {mend}", known.lines);
                    complaints.push(source.complaint("length", line, mend));
                }
                Some(known) if length < known.lines && length > max => {
                    let mend = format!("good: now lower the exception of {what} to {length}");
                    complaints.push(source.complaint("length", line, mend));
                }
                None if length > max => {
                    let mend = format!("{what}: {length} of at most {max}: {mend}");
                    complaints.push(source.complaint("length", line, mend));
                }
                Some(_) if length <= max => {
                    let mend = format!("good: now take the exception of {what} off the list");
                    complaints.push(source.complaint("length", line, mend));
                }
                _ => {}
            }
        }
    }
    for known in exceptions {
        if !seen.iter().any(|(path, what)| *path == known.path && what == known.what) {
            let mend = format!("take the exception of {} off the list: it is gone", known.what);
            complaints.push(Complaint::new("length", known.path, 1, mend));
        }
        if known.why.trim().is_empty() {
            let mend = format!("say why {} may be longer", known.what);
            complaints.push(Complaint::new("length", known.path, 1, mend));
        }
    }
    complaints
}

type Measure = (usize, String, usize, usize, &'static str);

fn measured(source: &SourceFile) -> Vec<Measure> {
    let lines = source.text.lines().count();
    let mut all = vec![(
        1,
        "file".to_string(),
        lines,
        FILE_LINES_MAX,
        "cut it by subject, not by length: what in it could be named on its own?",
    )];
    for (line, name, length) in source.functions() {
        let mend = "give its parts names: what a reader may skip becomes a function";
        all.push((line, name, length, FUNCTION_LINES_MAX, mend));
    }
    let wide = |line: &&str| line.chars().count() > LINE_COLUMNS_MAX;
    let count = source.text.lines().filter(|line| wide(line)).count();
    let first = source.text.lines().position(|line| wide(&line)).map_or(1, |at| at + 1);
    let mend = "break lines at 100 columns (`cargo fmt` does it for code, not for comments)";
    all.push((first, "line".into(), count, 0, mend));
    all
}

/// Rule 5: every file begins with a head comment; that of a crate or folder has Promises and Never.
pub fn file_heads(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in &workspace.sources {
        let sign: Vec<_> = source.text.lines().take_while(|line| line.starts_with("//!")).collect();
        if sign.first().is_none_or(|line| line.trim().len() < 8) {
            let mend = "begin the file with `//! ` and one sentence that says what it is for";
            complaints.push(source.complaint("sign", 1, mend.into()));
            continue;
        }
        let is_folder = matches!(source.name(), "mod.rs" | "lib.rs");
        if is_folder && !source.path.ends_with("/tests/mod.rs") {
            for part in ["Promises:", "Never:"] {
                if !sign.iter().any(|line| line.starts_with(&format!("//! {part}"))) {
                    let mend = format!(
                        "a folder's sign says what it promises and what it never does: add \
                         `//! {part} ...`"
                    );
                    complaints.push(source.complaint("sign", 1, mend));
                }
            }
        }
    }
    for (path, text) in &workspace.texts {
        let mut lines = text.lines().filter(|line| !line.starts_with("#!"));
        let first = lines.next().unwrap_or("").trim_start();
        let (kind, good) = match path.rsplit('.').next() {
            Some("py") => ("\"\"\" or #", first.starts_with("\"\"\"") || first.starts_with("# ")),
            Some("sh") => ("# ", first.starts_with("# ")),
            Some("c") => ("/* or //", first.starts_with("/*") || first.starts_with("//")),
            Some("md") => ("# and a title", first.starts_with('#') || first.starts_with('<')),
            _ => continue,
        };
        if !good {
            let mend =
                format!("begin the file with a sign ({kind}): one sentence on what it is for");
            complaints.push(Complaint::new("sign", path, 1, mend));
        }
    }
    complaints
}

/// Rule 6: every `select!` in `node` is biased; no `unwrap()`, `dbg!` or left-over note is shipped.
pub fn small_things(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in &workspace.sources {
        complaints.extend(selects(source));
        for (line, text) in source.shipped() {
            let mend = if text.contains(".unwrap()") {
                "`unwrap()` says nothing: `expect` with the reason it can't fail, or an error"
            } else if !words(text, "dbg!").is_empty() {
                "take `dbg!` out before it is kept"
            } else if !words(text, "todo!").is_empty() || !words(text, "unimplemented!").is_empty()
            {
                "write it, or answer `not_supported` in words: no stub is called done"
            } else {
                continue;
            };
            complaints.push(source.complaint("small", line, mend.into()));
        }
        for (at, line) in source.comments.lines().enumerate() {
            for note in ["FIXME", "TODO", "XXX"] {
                if !words(line, note).is_empty() {
                    let mend = format!(
                        "`{note}` is a note to nobody: do it, or write down what holds and why"
                    );
                    complaints.push(source.complaint("small", at + 1, mend));
                }
            }
        }
    }
    complaints
}

fn selects(source: &SourceFile) -> Vec<Complaint> {
    let covered = ["node", "metadata", "server", "dynamo", "replication", "runtime", "transport"];
    if !covered.contains(&source.crate_name()) {
        return Vec::new();
    }
    let fair = words(&source.code, "select!").into_iter().filter(|at| {
        let rest = source.code[at + "select!".len()..].trim_start().trim_start_matches(['{', '(']);
        !rest.trim_start().starts_with("biased;")
    });
    fair.map(|at| {
        let mend = "a `select!` that is not biased rolls dice of its own: begin it with `biased;` \
                    and put what must win first";
        source.complaint("select", line_of(&source.code, at), mend.into())
    })
    .collect()
}
