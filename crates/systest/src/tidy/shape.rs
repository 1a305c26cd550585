//! Checks of lengths of files, functions and lines, of heads of files, and of words that must not
//! be in shipped code.

use super::source::{SourceFile, line_of, word_offsets};
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
    pub item: &'static str,
    /// Number of lines today.
    pub lines: usize,
    /// Reason why it may be longer.
    pub reason: &'static str,
}

/// Rule 4: lengths, with a list of exceptions that may only shrink.
pub fn lengths(workspace: &Workspace, exceptions: &[Exception]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut used_exceptions: Vec<(&str, String)> = Vec::new();
    for source in &workspace.sources {
        for (line, item, length, max, fix) in measure(source) {
            let exception = exceptions
                .iter()
                .find(|exception| exception.path == source.path && exception.item == item);
            if exception.is_some() {
                used_exceptions.push((&source.path, item.clone()));
            }
            match exception {
                Some(exception) if length > exception.lines => {
                    let fix = format!("{item} grew from {} to {length}: {fix}", exception.lines);
                    complaints.push(source.complaint("length", line, fix));
                }
                Some(exception) if length < exception.lines && length > max => {
                    let fix = format!("good: now lower the exception of {item} to {length}");
                    complaints.push(source.complaint("length", line, fix));
                }
                None if length > max => {
                    let fix = format!("{item}: {length} of at most {max}: {fix}");
                    complaints.push(source.complaint("length", line, fix));
                }
                Some(_) if length <= max => {
                    let fix = format!("good: now take the exception of {item} off the list");
                    complaints.push(source.complaint("length", line, fix));
                }
                _ => {}
            }
        }
    }
    for exception in exceptions {
        if !used_exceptions
            .iter()
            .any(|(path, item)| *path == exception.path && item == exception.item)
        {
            let fix = format!("take the exception of {} off the list: it is gone", exception.item);
            complaints.push(Complaint::new("length", exception.path, 1, fix));
        }
        if exception.reason.trim().is_empty() {
            let fix = format!("say why {} may be longer", exception.item);
            complaints.push(Complaint::new("length", exception.path, 1, fix));
        }
    }
    complaints
}

type Measure = (usize, String, usize, usize, &'static str);

fn measure(source: &SourceFile) -> Vec<Measure> {
    let lines = source.text.lines().count();
    let mut measures = vec![(
        1,
        "file".to_string(),
        lines,
        FILE_LINES_MAX,
        "cut it by subject, not by length: what in it could be named on its own?",
    )];
    for (line, name, length) in source.functions() {
        let fix = "give its parts names: what a reader may skip becomes a function";
        measures.push((line, name, length, FUNCTION_LINES_MAX, fix));
    }
    let is_too_wide = |line: &&str| line.chars().count() > LINE_COLUMNS_MAX;
    let wide_lines = source.text.lines().filter(|line| is_too_wide(line)).count();
    let first_wide_line =
        source.text.lines().position(|line| is_too_wide(&line)).map_or(1, |at| at + 1);
    let fix = "break lines at 100 columns (`cargo fmt` does it for code, not for comments)";
    measures.push((first_wide_line, "line".into(), wide_lines, 0, fix));
    measures
}

/// Rule 5: every file begins with a head comment; that of a crate or folder has Promises and Never.
pub fn file_heads(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in &workspace.sources {
        let head: Vec<_> = source.text.lines().take_while(|line| line.starts_with("//!")).collect();
        if head.first().is_none_or(|line| line.trim().len() < 8) {
            let fix = "begin the file with `//! ` and one sentence that says what it is for";
            complaints.push(source.complaint("sign", 1, fix.into()));
            continue;
        }
        let is_folder = matches!(source.name(), "mod.rs" | "lib.rs");
        if is_folder && !source.path.ends_with("/tests/mod.rs") {
            for part in ["Promises:", "Never:"] {
                if !head.iter().any(|line| line.starts_with(&format!("//! {part}"))) {
                    let fix = format!(
                        "a folder's sign says what it promises and what it never does: add \
                         `//! {part} ...`"
                    );
                    complaints.push(source.complaint("sign", 1, fix));
                }
            }
        }
    }
    for (path, text) in &workspace.texts {
        let mut lines = text.lines().filter(|line| !line.starts_with("#!"));
        let first_line = lines.next().unwrap_or("").trim_start();
        let (expected, is_valid) = match path.rsplit('.').next() {
            Some("py") => {
                ("\"\"\" or #", first_line.starts_with("\"\"\"") || first_line.starts_with("# "))
            }
            Some("sh") => ("# ", first_line.starts_with("# ")),
            Some("c") => ("/* or //", first_line.starts_with("/*") || first_line.starts_with("//")),
            Some("md") => {
                ("# and a title", first_line.starts_with('#') || first_line.starts_with('<'))
            }
            _ => continue,
        };
        if !is_valid {
            let fix =
                format!("begin the file with a sign ({expected}): one sentence on what it is for");
            complaints.push(Complaint::new("sign", path, 1, fix));
        }
    }
    complaints
}

/// Rule 6: every `select!` in `node` is biased; no `unwrap()`, `dbg!` or left-over note is shipped.
pub fn forbidden_leftovers(workspace: &Workspace) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for source in &workspace.sources {
        complaints.extend(check_selects(source));
        for (line, text) in source.shipped() {
            let fix = if text.contains(".unwrap()") {
                "`unwrap()` says nothing: `expect` with the reason it can't fail, or an error"
            } else if !word_offsets(text, "dbg!").is_empty() {
                "take `dbg!` out before it is kept"
            } else if !word_offsets(text, "todo!").is_empty()
                || !word_offsets(text, "unimplemented!").is_empty()
            {
                "write it, or answer `not_supported` in words: no stub is called done"
            } else {
                continue;
            };
            complaints.push(source.complaint("small", line, fix.into()));
        }
        for (at, line) in source.comments.lines().enumerate() {
            for note in ["FIXME", "TODO", "XXX"] {
                if !word_offsets(line, note).is_empty() {
                    let fix = format!(
                        "`{note}` is a note to nobody: do it, or write down what holds and why"
                    );
                    complaints.push(source.complaint("small", at + 1, fix));
                }
            }
        }
    }
    complaints
}

fn check_selects(source: &SourceFile) -> Vec<Complaint> {
    const CHECKED_CRATES: [&str; 10] = [
        "node",
        "replica_host",
        "bucket_moves",
        "metadata",
        "server",
        "dynamo",
        "replication",
        "replica_state",
        "runtime",
        "transport",
    ];
    if !CHECKED_CRATES.contains(&source.crate_name()) {
        return Vec::new();
    }
    let unbiased = word_offsets(&source.code, "select!").into_iter().filter(|at| {
        let rest = source.code[at + "select!".len()..].trim_start().trim_start_matches(['{', '(']);
        !rest.trim_start().starts_with("biased;")
    });
    unbiased.map(|at| {
        let fix = "a `select!` that is not biased rolls dice of its own: begin it with `biased;` \
                    and put what must win first";
        source.complaint("select", line_of(&source.code, at), fix.into())
    })
    .collect()
}
