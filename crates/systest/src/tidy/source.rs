//! Rust file as the rules see it: its code without comments and strings, and its lines of test
//! code.
//!
//! Not a parser. It knows comments, strings, characters and braces, which is enough to count lines
//! of functions and to find forbidden words in code, and not in a comment or a message.

/// Folders of the repository that hold crates: shipped crates and their tests, and research beside
/// them.
pub const CRATE_FOLDERS: [&str; 2] = ["crates", "research"];

/// One file, prepared for the rules.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path from the root of the repository, with `/`.
    pub path: String,
    /// Text of the file.
    pub text: String,
    /// The text with comments and the inside of strings blanked.
    pub code: String,
    /// The text with everything but comments blanked.
    pub comments: String,
    /// True for each line of test code.
    pub tests: Vec<bool>,
}

impl SourceFile {
    /// Prepares a file's text.
    pub fn new(path: &str, text: &str) -> SourceFile {
        let (code, comments) = Scanner::new(text).split();
        let tests = test_lines(path, &code);
        SourceFile { path: path.into(), text: text.into(), code, comments, tests }
    }

    /// Returns the lines of shipped code: number from 1, text.
    pub fn shipped(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.code.lines().enumerate();
        lines.filter(|(at, _)| !self.tests[*at]).map(|(at, line)| (at + 1, line))
    }

    /// Returns the folder of the crate that the file belongs to, `crates/store`; empty outside of
    /// crates.
    pub fn crate_folder(&self) -> &str {
        let mut slashes = self.path.match_indices('/').map(|(at, _)| at);
        let (Some(first), Some(second)) = (slashes.next(), slashes.next()) else { return "" };
        if CRATE_FOLDERS.contains(&&self.path[..first]) { &self.path[..second] } else { "" }
    }

    /// Returns the name of the crate that the file belongs to: the last part of its crate's folder.
    pub fn crate_name(&self) -> &str {
        self.crate_folder().rsplit('/').next().unwrap_or("")
    }

    /// Returns the file's name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// Returns every function with a body: first line (from 1), name, lines from signature to
    /// closing brace.
    pub fn functions(&self) -> Vec<(usize, String, usize)> {
        let mut functions = Vec::new();
        for at in word_offsets(&self.code, "fn") {
            let rest = &self.code[at + 2..];
            let name: String = rest
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            if name.is_empty() {
                continue; // a function pointer's type
            }
            if let Some(end) = body_end(&self.code, at) {
                let first = line_of(&self.code, at);
                functions.push((first, name, line_of(&self.code, end) + 1 - first));
            }
        }
        functions
    }
}

/// Returns the byte offsets at which `word` is a whole word.
pub fn word_offsets(code: &str, word: &str) -> Vec<usize> {
    let is_word_char = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let first_char = word.chars().next();
    let last_char = word.chars().next_back();
    code.match_indices(word)
        .filter(|(at, _)| {
            !(is_word_char(first_char) && is_word_char(code[..*at].chars().next_back()))
        })
        .filter(|(at, _)| {
            !(is_word_char(last_char) && is_word_char(code[at + word.len()..].chars().next()))
        })
        .map(|(at, _)| at)
        .collect()
}

/// Returns the line (from 1) of a byte offset.
pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].bytes().filter(|byte| *byte == b'\n').count() + 1
}

/// Returns the offset of the closing brace of the body that begins after `from`. `None`: a
/// declaration without a body.
fn body_end(code: &str, from: usize) -> Option<usize> {
    let (mut brackets, mut braces) = (0_i32, 0_i32);
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' => brackets += 1,
            b')' | b']' => brackets -= 1,
            b';' if brackets == 0 && braces == 0 => return None,
            b'{' => braces += 1,
            b'}' => {
                braces -= 1;
                if braces == 0 {
                    return Some(offset);
                }
            }
            _ => {}
        }
    }
    None
}

fn test_lines(path: &str, code: &str) -> Vec<bool> {
    let lines = code.lines().count();
    let is_test_file = path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("_tests.rs")
        || path.starts_with("crates/systest/")
        || path.starts_with("crates/fuzz/");
    let mut tests = vec![is_test_file; lines];
    for (at, _) in code.match_indices("#[cfg(test)]") {
        let after = at + "#[cfg(test)]".len();
        let end = body_end(code, after).or_else(|| code[after..].find(';').map(|to| after + to));
        let end = end.unwrap_or(after);
        for is_test in &mut tests[line_of(code, at) - 1..line_of(code, end)] {
            *is_test = true;
        }
    }
    tests
}

/// Scanner that sorts a file's characters into code, comments and the inside of strings.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    code: String,
    comments: String,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0, code: String::new(), comments: String::new() }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Moves `bytes` bytes into one of the two outputs (or none), and blanks into the other.
    fn emit(&mut self, bytes: usize, into: ScanOutput) {
        for c in self.text[self.at..self.at + bytes].chars() {
            let blank = if c == '\n' { '\n' } else { ' ' };
            self.code.push(if into == ScanOutput::Code { c } else { blank });
            self.comments.push(if into == ScanOutput::Comments { c } else { blank });
        }
        self.at += bytes;
    }

    fn split(mut self) -> (String, String) {
        while let Some(c) = self.rest().chars().next() {
            let rest = self.rest();
            if rest.starts_with("//") {
                self.emit(rest.find('\n').unwrap_or(rest.len()), ScanOutput::Comments);
            } else if rest.starts_with("/*") {
                self.emit(block_comment(rest), ScanOutput::Comments);
            } else if let Some((opening, length)) = raw_string(rest, self.code.chars().next_back())
            {
                self.emit(opening, ScanOutput::Code);
                self.emit(length, ScanOutput::Nothing);
            } else if c == '"' {
                self.emit(1, ScanOutput::Code);
                self.emit(quoted_length(&rest[1..], '"'), ScanOutput::Nothing);
                if !self.rest().is_empty() {
                    self.emit(1, ScanOutput::Code);
                }
            } else if c == '\'' && is_char_literal(rest) {
                self.emit(
                    (quoted_length(&rest[1..], '\'') + 2).min(rest.len()),
                    ScanOutput::Nothing,
                );
            } else {
                self.emit(c.len_utf8(), ScanOutput::Code);
            }
        }
        (self.code, self.comments)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ScanOutput {
    Code,
    Comments,
    Nothing,
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// Recognizes `r"` or `r#"` and so on: returns the lengths of the opening and of the rest.
fn raw_string(rest: &str, before: Option<char>) -> Option<(usize, usize)> {
    if before.is_some_and(|c| c.is_alphanumeric() || c == '_') && before != Some('b') {
        return None;
    }
    let hashes = rest.strip_prefix('r')?.bytes().take_while(|byte| *byte == b'#').count();
    let opening = 1 + hashes + 1;
    rest[1 + hashes..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(hashes));
    let length = rest[opening..].find(&close).map_or(rest.len() - opening, |at| at + close.len());
    Some((opening, length))
}

/// Returns the bytes up to the closing mark, without it; a backslash escapes the next character.
fn quoted_length(rest: &str, close: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == close => return at,
            _ => {}
        }
    }
    rest.len()
}

/// Returns true for a character `'a'`, false for the lifetime `'a`.
fn is_char_literal(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}
