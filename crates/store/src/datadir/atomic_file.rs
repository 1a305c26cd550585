//! Small files of text with a checksum in their last line, there whole or not at all.
//!
//! Promises: what `replace` returned for is read after any crash; a crash before leaves what was
//! there, or nothing.

use crate::StoreError;
use crate::disk::{Access, Disk};
use base::codec::checksum;
use std::io;
use std::path::Path;

/// One of these files: its name, and what its first line begins with.
pub(super) struct AtomicFile {
    pub name: &'static str,
    pub beside: &'static str,
    pub head: &'static str,
    pub bytes_max: usize,
}

impl AtomicFile {
    /// Writes the file under a temporary name, syncs it, and renames it, durably.
    pub fn replace(&self, disk: &dyn Disk, path: &Path, lines: &str) -> Result<(), StoreError> {
        let front = format!("{}\n{lines}", self.head);
        let text = format!("{front}checksum {:016x}\n", checksum(front.as_bytes(), 0));
        let write = || {
            match disk.remove(self.beside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = disk.create(self.beside, text.len() as u64)?;
            file.write_at(text.as_bytes(), 0)?;
            file.sync_data()?;
            disk.rename(self.beside, self.name)?;
            disk.sync_directory()
        };
        write().map_err(self.failed("write", path))
    }

    /// Reads the lines without the first and the last. `None`: there is no such file.
    pub fn read(&self, disk: &dyn Disk, path: &Path) -> Result<Option<Vec<String>>, StoreError> {
        let failed = self.failed("read", path);
        let file = match disk.open(self.name, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let size = usize::try_from(file.size().map_err(&failed)?).unwrap_or(usize::MAX);
        if size > self.bytes_max {
            return Err(self.damaged(path, "it is too large"));
        }
        let mut bytes = vec![0; size];
        let given = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(given);
        self.parse(&bytes, path).map(Some)
    }

    fn parse(&self, bytes: &[u8], path: &Path) -> Result<Vec<String>, StoreError> {
        let damaged = |what| self.damaged(path, what);
        let mut lines = checked(bytes).map_err(damaged)?.lines();
        if lines.next() != Some(self.head) {
            return Err(damaged("a newer version of this program wrote it"));
        }
        Ok(lines.map(String::from).collect())
    }

    /// Returns the `Corrupt` error of this file; `what` describes the damage.
    pub fn damaged(&self, path: &Path, what: &str) -> StoreError {
        let file = path.join(self.name).display().to_string();
        StoreError::Corrupt { file, offset: 0, what: what.into() }
    }

    fn failed(&self, verb: &str, path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
        let what = format!("can't {verb} {}", path.join(self.name).display());
        move |error| StoreError::io(what.clone(), error)
    }
}

/// Returns the lines before the last, which is their checksum. The error describes the damage.
pub(super) fn checked(bytes: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
    let (front, last) = text
        .strip_suffix('\n')
        .and_then(|text| text.rsplit_once('\n'))
        .ok_or("lines are missing")?;
    let front = &text[..=front.len()];
    if last != format!("checksum {:016x}", checksum(front.as_bytes(), 0)) {
        return Err("its checksum does not hold");
    }
    Ok(front)
}

/// An id as these files write it.
pub(super) fn id(text: &str) -> Option<u64> {
    (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok())?
}
