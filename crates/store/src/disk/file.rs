//! The real disk: a directory held open, its files opened relative to it and never through a link.

use super::{Access, Disk, DiskFile};
use crate::StoreError;
use rustix::fs::{self, AtFlags, Dir, FallocateFlags, FileType, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A directory of the file system.
pub struct FileDisk {
    directory: OwnedFd,
}

impl FileDisk {
    /// Opens a directory that is there. The last part of `path` must not be a link.
    pub fn open(path: &Path) -> Result<FileDisk, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory =
            retry_on_intr(|| fs::open(path, flags, Mode::empty())).map_err(|error| {
                StoreError::io(format!("can't open {}", path.display()), error.into())
            })?;
        Ok(FileDisk { directory })
    }

    /// A directory that is open already.
    pub(crate) fn of(directory: OwnedFd) -> FileDisk {
        FileDisk { directory }
    }
}

impl Disk for FileDisk {
    fn create(&self, name: &str, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let descriptor = retry_on_intr(|| fs::openat(&self.directory, plain(name), flags, mode))?;
        let reserve = || fs::fallocate(&descriptor, FallocateFlags::empty(), 0, length);
        let reserved = match retry_on_intr(reserve) {
            Err(Errno::OPNOTSUPP) => retry_on_intr(|| fs::ftruncate(&descriptor, length)),
            other => other,
        };
        if let Err(error) = reserved {
            // What was reserved goes back to whoever filled the disk; the first error is the one
            // that counts.
            let _ = fs::unlinkat(&self.directory, name, AtFlags::empty());
            return Err(error.into());
        }
        Ok(Arc::new(OpenFile { descriptor }))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let access = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        // Without NONBLOCK a planted pipe would hold the start for ever.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || fs::openat(&self.directory, plain(name), flags, Mode::empty());
        let descriptor = retry_on_intr(open).map_err(refused)?;
        if FileType::from_raw_mode(fs::fstat(&descriptor)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new(OpenFile { descriptor }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.directory, plain(from), &self.directory, plain(to))?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.directory, plain(name), AtFlags::empty())?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(sync_through(|| fs::fsync(&self.directory))?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            // A name that is no text is none of ours.
            if let Some(name) = name.to_str().filter(|name| *name != "." && *name != "..") {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn free_space(&self) -> io::Result<u64> {
        let figures = fs::fstatvfs(&self.directory)?;
        Ok(figures.f_bavail.saturating_mul(figures.f_frsize))
    }
}

/// Converts the reason for which a file can't be opened. A lack of descriptors, which passes by
/// itself, becomes `WouldBlock`.
pub(super) fn refused(error: Errno) -> io::Error {
    match error {
        Errno::MFILE | Errno::NFILE => io::Error::new(io::ErrorKind::WouldBlock, error),
        other => other.into(),
    }
}

/// Checks that a name is a plain word, as the log's files have.
fn plain(name: &str) -> &str {
    assert!(!name.is_empty() && !name.contains('/'), "files of a disk have plain names");
    name
}

struct OpenFile {
    descriptor: OwnedFd,
}

impl DiskFile for OpenFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_whole(bytes, offset, |rest, at| rustix::io::pwrite(&self.descriptor, rest, at))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_whole(buffer, offset, |rest, at| rustix::io::pread(&self.descriptor, rest, at))
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(sync_through(|| fs::fdatasync(&self.descriptor))?)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(u64::try_from(fs::fstat(&self.descriptor)?.st_size).expect("sizes are positive"))
    }
}

/// Calls `sync` until it is not interrupted.
///
/// A failed sync is never tried again, for it has used up the error that a second one would have to
/// report. An interrupted one is none: no local file system of Linux lets a signal end the wait for
/// its pages short of killing the process, and where one can be interrupted (FUSE, while its server
/// syncs), the pages' errors were looked at, and reported, before that. The standard library's
/// `File::sync_data` goes on likewise, so the trees behind the log do too.
pub(super) fn sync_through(sync: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    retry_on_intr(sync)
}

/// Calls `write` until all bytes are written: the system may take fewer than it is given, or be
/// interrupted.
pub(super) fn write_whole(
    mut bytes: &[u8],
    mut offset: u64,
    mut write: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => {
                bytes = &bytes[taken..];
                offset += taken as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Calls `read` until the buffer is full or the file ends.
pub(super) fn read_whole(
    buffer: &mut [u8],
    offset: u64,
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(given) => filled += given,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}
