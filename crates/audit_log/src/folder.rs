//! Folder of the audit log: names, creation and listing of its files.
//!
//! Never: follows a link.

use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const BEGIN: &str = "audit-";
const END: &str = ".jsonl";
/// Number of digits of a file's number.
const DIGITS: usize = 10;
/// Size of the blocks in which a file is read from its end, in bytes.
const BLOCK_BYTES: u64 = 64 * 1024;

/// File of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogFile {
    /// Number of the file; later ones have higher numbers.
    pub number: u64,
    /// Path of the file.
    pub path: PathBuf,
}

impl LogFile {
    /// Returns the file of this number in a folder.
    pub fn new(folder: &Path, number: u64) -> LogFile {
        LogFile { number, path: folder.join(format!("{BEGIN}{number:0DIGITS$}{END}")) }
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Creates it. Errors: it exists already.
    pub fn create(&self) -> io::Result<File> {
        OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&self.path)
    }

    /// Opens it to append.
    pub fn open_to_append(&self) -> io::Result<File> {
        self.open_with(OpenOptions::new().read(true).append(true))
    }

    /// Opens it to read.
    pub fn open_to_read(&self) -> io::Result<File> {
        self.open_with(OpenOptions::new().read(true))
    }

    fn open_with(&self, options: &mut OpenOptions) -> io::Result<File> {
        // Without waiting for the other end of a pipe.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = options.custom_flags(flags.bits() as i32).open(&self.path)?;
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file")),
        }
    }
}

/// Creates the folder, unless it is there.
pub fn create(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            match std::fs::symlink_metadata(folder)?.is_dir() {
                true => Ok(()),
                false => Err(ErrorKind::NotADirectory.into()),
            }
        }
        created => created,
    }
}

/// Makes the names in the folder durable.
pub fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns the files of the log, in the order of their numbers.
pub fn files(folder: &Path) -> io::Result<Vec<LogFile>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        files.extend(name.to_str().and_then(number_of).map(|it| LogFile::new(folder, it)));
    }
    files.sort_by_key(|file| file.number);
    Ok(files)
}

fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(BEGIN)?.strip_suffix(END)?;
    let is_number = digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

/// Returns the position of the last newline in the first `end` bytes of a file.
pub fn last_newline(file: &File, mut end: u64) -> io::Result<Option<u64>> {
    let mut block = vec![0; BLOCK_BYTES as usize];
    while end > 0 {
        let begin = end.saturating_sub(BLOCK_BYTES);
        let bytes = &mut block[..(end - begin) as usize];
        file.read_exact_at(bytes, begin)?;
        if let Some(at) = bytes.iter().rposition(|byte| *byte == b'\n') {
            return Ok(Some(begin + at as u64));
        }
        end = begin;
    }
    Ok(None)
}

/// Returns the position behind the last newline in the first `end` bytes; 0 if there is none.
pub fn line_begin(file: &File, end: u64) -> io::Result<u64> {
    Ok(last_newline(file, end)?.map_or(0, |at| at + 1))
}
