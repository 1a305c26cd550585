//! Verification of the audit log: follows the chain through all files, and finds the first line
//! that is not as it was written.
//!
//! The end of a chain proves nothing: lines may be cut off behind it, or the log may be written
//! anew from some line on. A line that was noted elsewhere (`expected`) shows that.

use crate::chain::{ChainHead, TornTail};
use crate::folder::{self, LogFile};
use crate::line::{self, LINE_BYTES_MAX, ParsedLine};
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Number of files.
    pub files: u64,
    /// Number of sound lines, up to the first broken one.
    pub lines: u64,
    /// Number of the first line that is kept.
    pub first_seq: u64,
    /// Last sound line.
    pub last: ChainHead,
    /// Torn bytes that crashes left, each reported by the line behind it.
    pub torn: Vec<TornTail>,
    /// Number of bytes behind the last line. The node is writing, or a crash left them and no start
    /// has reported them yet.
    pub unfinished_bytes: u64,
    /// First broken line. `None`: the chain is sound.
    pub broken: Option<BrokenLine>,
}

/// Place at which the chain is broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokenLine {
    /// Name of the file.
    pub file: String,
    /// Number of the line in its file, from 1.
    pub line: u64,
    /// Description of the fault.
    pub description: String,
}

/// Lines that are not sound, in front of a line that may report them.
struct Span {
    broken: BrokenLine,
    hasher: blake3::Hasher,
    bytes: u64,
    /// True if a newline ends it, which is counted only if more follows.
    has_newline: bool,
    /// True if it has a newline in it: then it is no torn line.
    has_lines: bool,
}

impl Span {
    fn new(broken: BrokenLine) -> Span {
        let hasher = blake3::Hasher::new();
        Span { broken, hasher, bytes: 0, has_newline: false, has_lines: false }
    }

    fn extend(&mut self, chunk: &[u8]) {
        if std::mem::take(&mut self.has_newline) {
            self.hasher.update(b"\n");
            (self.bytes, self.has_lines) = (self.bytes + 1, true);
        }
        let content = chunk.strip_suffix(b"\n").unwrap_or(chunk);
        self.hasher.update(content);
        self.bytes += content.len() as u64;
        self.has_newline = content.len() < chunk.len();
    }

    /// Returns true if these are the torn bytes that a line reports.
    fn is(&self, torn: &TornTail) -> bool {
        !self.has_lines
            && self.broken.file == torn.file
            && self.bytes == torn.bytes
            && self.hasher.finalize().to_hex().as_str() == torn.hash
    }
}

/// State of a verification.
#[derive(Default)]
struct Walk {
    report: AuditReport,
    span: Option<Span>,
    expected: Option<ChainHead>,
    /// Number of the file of which no sound line was read yet.
    begins_file: Option<u64>,
}

/// Verifies the log in a folder. `expected`: a line that was noted elsewhere, which must be there.
///
/// Errors: a file can't be read.
pub fn verify(folder: &Path, expected: Option<ChainHead>) -> io::Result<AuditReport> {
    let files = folder::files(folder)?;
    let mut walk = Walk { expected, ..Walk::default() };
    let mut former: Option<u64> = None;
    for (at, file) in files.iter().enumerate() {
        if let Some(former) = former.filter(|former| former + 1 != file.number) {
            let missing = LogFile::new(folder, former + 1).name();
            walk.fail(&missing, 1, "the file is missing");
        }
        if walk.report.broken.is_none() {
            walk.file(file, at + 1 == files.len())?;
        }
        former = Some(file.number);
    }
    walk.report.files = files.len() as u64;
    walk.check_expected(files.last());
    Ok(walk.report)
}

impl Walk {
    fn fail(&mut self, file: &str, line: u64, description: impl Into<String>) {
        let broken = BrokenLine { file: file.into(), line, description: description.into() };
        self.report.broken.get_or_insert(broken);
    }

    /// Follows the chain through a file, up to the first broken line.
    fn file(&mut self, file: &LogFile, is_last: bool) -> io::Result<()> {
        let mut reader = BufReader::new(file.open_to_read()?);
        let (name, mut number, mut chunk) = (file.name(), 0, Vec::new());
        let mut continues = false;
        self.begins_file = Some(file.number);
        while self.report.broken.is_none() {
            chunk.clear();
            let most = LINE_BYTES_MAX as u64 + 1;
            if (&mut reader).take(most).read_until(b'\n', &mut chunk)? == 0 {
                break;
            }
            number += u64::from(!continues);
            let is_whole = chunk.ends_with(b"\n");
            let is_line = is_whole && !continues;
            // A part of a line that is too long.
            continues = !is_whole && chunk.len() as u64 == most;
            match is_line {
                true => self.line(&name, number, &chunk),
                false if is_whole || continues || self.span.is_some() => {
                    self.damage(&name, number, &chunk, "it is too long");
                }
                // The node is writing it, or a crash tore it.
                false => self.report.unfinished_bytes = chunk.len() as u64,
            }
        }
        if let Some(span) = self.span.take() {
            self.report.broken.get_or_insert(span.broken);
        }
        if self.report.unfinished_bytes > 0 && !is_last {
            self.fail(&name, number, "it is torn, and no line reports that");
        }
        Ok(())
    }

    fn line(&mut self, name: &str, number: u64, chunk: &[u8]) {
        let line = chunk.strip_suffix(b"\n").unwrap_or(chunk);
        match line::parse(line).and_then(|parsed| self.follow(parsed)) {
            Ok(parsed) => self.accept(name, number, parsed),
            Err(fault) => self.damage(name, number, chunk, fault),
        }
    }

    /// Checks that a line follows the last one.
    fn follow(&self, line: ParsedLine) -> Result<ParsedLine, &'static str> {
        let last = &self.report.last;
        match self.report.lines {
            // The lines before the first were removed with their files, unless it is number 1.
            0 if line.head.seq != 1 => Ok(line),
            _ if line.head.seq != last.seq + 1 => {
                Err("it does not have the number that follows that of the line before")
            }
            _ if line.before != last.hash => Err("it does not follow the line before"),
            _ => Ok(line),
        }
        .and_then(|line| match line.file == self.begins_file {
            true => Ok(line),
            false => Err("lines of its file are missing before it"),
        })
    }

    fn accept(&mut self, name: &str, number: u64, line: ParsedLine) {
        match (self.span.take(), line.torn) {
            (None, None) => {}
            (Some(span), Some(torn)) if span.is(&torn) => self.report.torn.push(torn),
            (Some(span), _) => {
                self.report.broken = Some(span.broken);
                return;
            }
            (None, Some(_)) => return self.fail(name, number, "torn bytes before it are missing"),
        }
        if self.report.lines == 0 {
            self.report.first_seq = line.head.seq;
        }
        if self.expected.is_some_and(|it| it.seq == line.head.seq && it != line.head) {
            return self.fail(name, number, "it is another line than the expected one");
        }
        self.report.lines += 1;
        self.report.last = line.head;
        self.begins_file = None;
    }

    fn damage(&mut self, name: &str, number: u64, chunk: &[u8], fault: &str) {
        let broken =
            || BrokenLine { file: name.into(), line: number, description: fault.to_string() };
        self.span.get_or_insert_with(|| Span::new(broken())).extend(chunk);
    }

    /// Checks that the expected line is among those that were read.
    fn check_expected(&mut self, last: Option<&LogFile>) {
        let Some(expected) = self.expected else { return };
        let name = last.map(LogFile::name).unwrap_or_default();
        if self.report.lines == 0 || expected.seq > self.report.last.seq {
            let seq = self.report.last.seq;
            self.fail(&name, 1, format!("the expected line is missing: the log ends with {seq}"));
        } else if expected.seq < self.report.first_seq {
            let seq = self.report.first_seq;
            let text = format!("the expected line is missing: the log begins with {seq}");
            self.fail(&name, 1, text);
        }
    }
}
