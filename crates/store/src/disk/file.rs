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
    /// Opens an existing directory. The last part of `path` must not be a link.
    pub fn open(path: &Path) -> Result<FileDisk, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory =
            retry_on_intr(|| fs::open(path, flags, Mode::empty())).map_err(|error| {
                StoreError::io(format!("can't open {}", path.display()), error.into())
            })?;
        Ok(FileDisk { directory })
    }

    /// Creates a file of `length` zero bytes that has no name in the directory, and vanishes when
    /// it is closed.
    pub(super) fn create_unnamed(&self, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let descriptor = retry_on_intr(|| fs::openat(&self.directory, ".", flags, mode))?;
        reserve(&descriptor, length)?;
        Ok(Arc::new(OpenFile { descriptor }))
    }

    /// Uses a directory that is already open.
    pub(crate) fn from_descriptor(directory: OwnedFd) -> FileDisk {
        FileDisk { directory }
    }
}

impl Disk for FileDisk {
    fn create(&self, name: &str, length: u64) -> io::Result<Arc<dyn DiskFile>> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let descriptor =
            retry_on_intr(|| fs::openat(&self.directory, check_name(name), flags, mode))?;
        if let Err(error) = reserve(&descriptor, length) {
            // Frees the reserved space; the first error is the one that is returned.
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
        // Without NONBLOCK a pipe with this name would block the start for ever.
        let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = || fs::openat(&self.directory, check_name(name), flags, Mode::empty());
        let descriptor = retry_on_intr(open).map_err(open_error)?;
        if FileType::from_raw_mode(fs::fstat(&descriptor)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Arc::new(OpenFile { descriptor }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(fs::renameat(&self.directory, check_name(from), &self.directory, check_name(to))?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(fs::unlinkat(&self.directory, check_name(name), AtFlags::empty())?)
    }

    fn sync_directory(&self) -> io::Result<()> {
        Ok(sync_uninterrupted(|| fs::fsync(&self.directory))?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            // A name that is not UTF-8 is not a file of the log.
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

/// Reserves the space of a new file.
fn reserve(descriptor: &OwnedFd, length: u64) -> Result<(), Errno> {
    match retry_on_intr(|| fs::fallocate(descriptor, FallocateFlags::empty(), 0, length)) {
        Err(Errno::OPNOTSUPP) => retry_on_intr(|| fs::ftruncate(descriptor, length)),
        other => other,
    }
}

/// Converts the reason for which a file can't be opened. A lack of descriptors, which is temporary,
/// becomes `WouldBlock`.
pub(super) fn open_error(error: Errno) -> io::Error {
    match error {
        Errno::MFILE | Errno::NFILE => io::Error::new(io::ErrorKind::WouldBlock, error),
        other => other.into(),
    }
}

/// Checks that a name has no separators.
fn check_name(name: &str) -> &str {
    assert!(!name.is_empty() && !name.contains('/'), "files of a disk have plain names");
    name
}

/// A file, open for as long as a handle exists.
struct OpenFile {
    descriptor: OwnedFd,
}

impl DiskFile for OpenFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        write_full(bytes, offset, |rest, at| rustix::io::pwrite(&self.descriptor, rest, at))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_full(buffer, offset, |rest, at| rustix::io::pread(&self.descriptor, rest, at))
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(sync_uninterrupted(|| fs::fdatasync(&self.descriptor))?)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(u64::try_from(fs::fstat(&self.descriptor)?.st_size).expect("sizes are positive"))
    }
}

/// Calls `sync` until it is not interrupted.
///
/// A failed sync is never repeated: the kernel reports a write-back error only once, so a second
/// sync would succeed. An interrupted sync has not failed: no local file system of Linux lets a
/// signal end the wait for the pages short of killing the process, and where a sync can be
/// interrupted (FUSE, while its server syncs), the pages' errors were checked and reported before
/// that. The standard library's `File::sync_data` repeats an interrupted sync too, and so do the
/// trees behind the log.
pub(super) fn sync_uninterrupted(sync: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    retry_on_intr(sync)
}

/// Calls `write` until all bytes are written: the system may write fewer bytes, or be interrupted.
pub(super) fn write_full(
    mut bytes: &[u8],
    mut offset: u64,
    mut write: impl FnMut(&[u8], u64) -> Result<usize, Errno>,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match write(bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                bytes = &bytes[count..];
                offset += count as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Calls `read` until the buffer is full or the file ends.
pub(super) fn read_full(
    buffer: &mut [u8],
    offset: u64,
    mut read: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(filled)
}
