//! Damage to files: bytes that change on a disk, by themselves or by an unfinished write.
//!
//! Promises: a file is changed in place: its name, its length (unless it is cut) and its open
//! handles stay.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Returns the files of one folder, oldest name first.
pub fn list_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> =
        entries.map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    files
}

/// Returns the offset after the last byte that is not zero, the end of the data in a preallocated
/// file; 0 if its writer has removed the file.
pub fn data_end(path: &Path) -> usize {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return 0,
        bytes => bytes.expect("ours to read"),
    };
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

/// Returns the segment of a log that holds the newest bytes, and their end.
pub fn log_tail(log: &Path) -> (PathBuf, usize) {
    let modified = |path: &PathBuf| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let written = list_files(log).into_iter().filter(|path| data_end(path) > 4096);
    let newest = written.max_by_key(modified).expect("a life leaves a segment");
    let end = data_end(&newest);
    (newest, end)
}

/// Kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// One bit changes.
    Flip,
    /// Up to 4 KiB become zero.
    Zeros,
    /// The rest of the file is cut off.
    Cut,
}

/// Damages a file at one offset.
pub fn damage_file(path: &Path, at: usize, damage: Damage) {
    let file = File::options().read(true).write(true).open(path).expect("ours to write");
    let length = file.metadata().expect("it is open").len();
    match damage {
        Damage::Flip => {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at as u64).expect("it lies within the file");
            byte[0] ^= 0x10;
            file.write_all_at(&byte, at as u64).expect("ours to write");
        }
        Damage::Zeros => {
            let count = (length - at as u64).min(4_096) as usize;
            file.write_all_at(&vec![0; count], at as u64).expect("ours to write");
        }
        Damage::Cut => file.set_len(at as u64).expect("ours to write"),
    }
}
