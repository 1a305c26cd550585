//! Small text files with a checksum in their last line, replaced atomically.
//!
//! Promises: once `replace` returned, its content is read after any crash; a crash before that
//! leaves the earlier content, or no file.

use crate::StoreError;
use crate::disk::{Access, Disk};
use base::codec::checksum;
use std::io;
use std::path::Path;

/// Description of one of these files.
pub(super) struct AtomicFile {
    pub name: &'static str,
    /// Name of the file while it is written.
    pub temporary: &'static str,
    /// First line: identifies the content and its version.
    pub header: &'static str,
    /// Maximum size in bytes; a larger file is damaged.
    pub bytes_max: usize,
}

impl AtomicFile {
    /// Writes the file under a temporary name, syncs it, and renames it, durably.
    pub fn replace(&self, disk: &dyn Disk, path: &Path, lines: &str) -> Result<(), StoreError> {
        let front = format!("{}\n{lines}", self.header);
        let text = format!("{front}checksum {:016x}\n", checksum(front.as_bytes(), 0));
        let write = || {
            match disk.remove(self.temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = disk.create(self.temporary, text.len() as u64)?;
            file.write_at(text.as_bytes(), 0)?;
            file.sync_data()?;
            disk.rename(self.temporary, self.name)?;
            disk.sync_directory()
        };
        write().map_err(self.failed("write", path))
    }

    /// Reads the lines between the header and the checksum. `None`: there is no such file.
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
        let count = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(count);
        self.parse(&bytes, path).map(Some)
    }

    fn parse(&self, bytes: &[u8], path: &Path) -> Result<Vec<String>, StoreError> {
        let damaged = |description| self.damaged(path, description);
        let mut lines = verify_checksum(bytes).map_err(damaged)?.lines();
        if lines.next() != Some(self.header) {
            return Err(damaged("a newer version of this program wrote it"));
        }
        Ok(lines.map(String::from).collect())
    }

    /// Returns the `Corrupt` error of this file; `description` names the damage.
    pub fn damaged(&self, path: &Path, description: &str) -> StoreError {
        let file = path.join(self.name).display().to_string();
        StoreError::Corrupt { file, offset: 0, description: description.into() }
    }

    fn failed(&self, verb: &str, path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
        let description = format!("can't {verb} {}", path.join(self.name).display());
        move |error| StoreError::io(description.clone(), error)
    }
}

/// Returns the lines before the last, which holds their checksum. The error describes the damage.
pub(super) fn verify_checksum(bytes: &[u8]) -> Result<&str, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not text")?;
    let (front, last) = text
        .strip_suffix('\n')
        .and_then(|text| text.rsplit_once('\n'))
        .ok_or("lines are missing")?;
    let front = &text[..=front.len()];
    if last != format!("checksum {:016x}", checksum(front.as_bytes(), 0)) {
        return Err("its checksum does not match");
    }
    Ok(front)
}

/// Parses an id of 16 hexadecimal digits.
pub(super) fn parse_id(text: &str) -> Option<u64> {
    (text.len() == 16).then(|| u64::from_str_radix(text, 16).ok())?
}
