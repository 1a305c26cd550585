//! Writer of the audit log: appends lines, begins new files, removes the oldest.
//!
//! A failed write is undone where that is possible, and the writer is opened again. What a crash
//! left behind the last whole line stays: the first line that is written behind it reports it.

use crate::chain::{ChainHead, LineNotes, TornTail};
use crate::folder::{self, LogFile};
use crate::line::{self, LINE_BYTES_MAX};
use crate::record::{AuditEntry, AuditRecord};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Lines at the end of a file among which the last sound one is looked for.
const DAMAGED_LINES_MAX: u64 = 10_000;

/// Bounds of an audit log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditLimits {
    /// Most files; the oldest is removed for a new one.
    pub files_max: u64,
    /// Largest file, in bytes. It may be exceeded by one line, which reports torn bytes.
    pub file_bytes_max: u64,
}

impl Default for AuditLimits {
    fn default() -> AuditLimits {
        AuditLimits { files_max: 16, file_bytes_max: 64 << 20 }
    }
}

/// Open audit log. There is at most one for a folder: the data directory's lock sees to that.
pub struct AuditWriter {
    folder: PathBuf,
    limits: AuditLimits,
    number: u64,
    file: File,
    /// Size of the file.
    bytes: u64,
    head: ChainHead,
    /// Number of the last line that was there when it was opened.
    recovered_seq: u64,
}

/// End of a file: its last sound line, and what follows that.
struct FileEnd {
    /// Size of the file.
    bytes: u64,
    /// `None`: it has no sound line.
    head: Option<ChainHead>,
    torn: Option<TornTail>,
    /// True if the last sound line is whole but for its newline.
    lacks_newline: bool,
}

impl AuditWriter {
    /// Opens the log behind its last line, and writes a line that says so. Creates the folder if
    /// there is none.
    pub fn open(folder: &Path, limits: AuditLimits, at_ms: u64) -> io::Result<AuditWriter> {
        folder::create(folder)?;
        let files = folder::files(folder)?;
        let Some(last) = files.last() else {
            let first = LogFile::new(folder, 1);
            let end = FileEnd { bytes: 0, head: None, torn: None, lacks_newline: false };
            let first = (first.create()?, first.number);
            return AuditWriter::begin(folder, limits, first, (end, Some(1)), at_ms);
        };
        let file = last.open_to_append()?;
        let mut end = read_end(&file, &last.name())?;
        let has_line = end.head.is_some();
        for former in files.iter().rev().skip(1) {
            if end.head.is_some() {
                break;
            }
            end.head = read_end(&former.open_to_read()?, &former.name())?.head;
        }
        let first = (!has_line).then_some(last.number);
        AuditWriter::begin(folder, limits, (file, last.number), (end, first), at_ms)
    }

    /// Writes the first line behind the end of a file. `first`: number of the file, if the line is
    /// its first sound one.
    fn begin(
        folder: &Path,
        limits: AuditLimits,
        (file, number): (File, u64),
        (end, first): (FileEnd, Option<u64>),
        at_ms: u64,
    ) -> io::Result<AuditWriter> {
        let (folder, head) = (folder.to_path_buf(), end.head.unwrap_or_default());
        let (bytes, recovered_seq) = (end.bytes, head.seq);
        let mut writer = AuditWriter { folder, limits, number, file, bytes, head, recovered_seq };
        let record =
            AuditRecord { who: "(node)".into(), operation: "open_audit_log", ..Default::default() };
        let entry = AuditEntry { at_ms, record };
        let mut out = Vec::new();
        if end.torn.is_some() || end.lacks_newline {
            // Torn bytes end here. They and their report are in one file, whatever its size.
            out.push(b'\n');
        }
        let notes = LineNotes { file: first, torn: end.torn.as_ref() };
        let head = line::encode(&writer.head, &entry, notes, &mut out);
        writer.write(&out)?;
        writer.head = head;
        folder::sync(&writer.folder)?;
        Ok(writer)
    }

    /// Returns the number of the last line.
    pub fn seq(&self) -> u64 {
        self.head.seq
    }

    /// Returns the number of the last line that was there when the log was opened.
    pub fn recovered_seq(&self) -> u64 {
        self.recovered_seq
    }

    /// Appends the entries in order. After an error the writer must be opened again; some of the
    /// entries may have been written.
    pub fn append(&mut self, entries: &[AuditEntry]) -> io::Result<()> {
        let mut out = Vec::new();
        let mut head = self.head;
        for entry in entries {
            let begin = out.len();
            let next = line::encode(&head, entry, LineNotes::default(), &mut out);
            if self.bytes + out.len() as u64 <= self.limits.file_bytes_max {
                head = next;
                continue;
            }
            // The opening line is there already: no file is left without a line.
            out.truncate(begin);
            self.write(&out)?;
            out.clear();
            self.rotate()?;
            let notes = LineNotes { file: Some(self.number), torn: None };
            head = line::encode(&head, entry, notes, &mut out);
        }
        self.write(&out)?;
        self.head = head;
        Ok(())
    }

    /// Makes all lines durable.
    pub fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.file.write_all(bytes);
        match &written {
            Ok(()) => self.bytes += bytes.len() as u64,
            // Part of a line may be there, which nobody was told of. If that can't be undone, it is
            // what a crash leaves.
            Err(_) => drop(self.file.set_len(self.bytes)),
        }
        written
    }

    /// Begins the next file, and removes those that are too many.
    fn rotate(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        let next = LogFile::new(&self.folder, self.number + 1);
        self.file = next.create()?;
        (self.number, self.bytes) = (next.number, 0);
        let files = folder::files(&self.folder)?;
        let most = usize::try_from(self.limits.files_max.max(1)).unwrap_or(usize::MAX);
        for file in &files[..files.len().saturating_sub(most)] {
            std::fs::remove_file(&file.path)?;
        }
        folder::sync(&self.folder)
    }
}

/// Reads the end of a file: the last sound line, and the bytes behind it.
fn read_end(file: &File, name: &str) -> io::Result<FileEnd> {
    let bytes = file.metadata()?.len();
    let mut end = folder::line_begin(file, bytes)?;
    if let Some(head) = read_line(file, end, bytes)? {
        return Ok(FileEnd { bytes, head: Some(head), torn: None, lacks_newline: true });
    }
    let (mut head, mut lines) = (None, 0);
    while head.is_none() && end > 0 && lines < DAMAGED_LINES_MAX {
        let begin = folder::line_begin(file, end - 1)?;
        head = read_line(file, begin, end - 1)?;
        if head.is_none() {
            end = begin;
        }
        lines += 1;
    }
    let torn = match bytes > end {
        true => Some(torn_tail(file, (end, bytes), name)?),
        false => None,
    };
    Ok(FileEnd { bytes, head, torn, lacks_newline: false })
}

/// Reads the line between two positions. `None`: it is not sound.
fn read_line(file: &File, begin: u64, end: u64) -> io::Result<Option<ChainHead>> {
    let length = usize::try_from(end - begin).unwrap_or(usize::MAX);
    if length > LINE_BYTES_MAX {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    file.read_exact_at(&mut bytes, begin)?;
    Ok(line::parse(&bytes).ok().map(|line| line.head))
}

fn torn_tail(file: &File, (begin, end): (u64, u64), name: &str) -> io::Result<TornTail> {
    let (mut hasher, mut block, mut at) = (blake3::Hasher::new(), vec![0; 64 * 1024], begin);
    while at < end {
        let length = usize::try_from(end - at).unwrap_or(usize::MAX).min(block.len());
        let read = file.read_at(&mut block[..length], at)?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        hasher.update(&block[..read]);
        at += read as u64;
    }
    let hash = hasher.finalize().to_hex().to_string();
    Ok(TornTail { file: name.into(), bytes: end - begin, hash })
}
