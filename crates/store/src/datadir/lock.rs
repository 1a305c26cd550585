//! Lock that admits one process to a data directory.

use super::{LOCK, OpenDirectory, read_lock_file};
use crate::StoreError;
use rustix::fs::{self, AtFlags, FlockOperation, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// Lock of a data directory, held until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(OwnedFd);

impl Lock {
    /// Locks the directory and writes this process id into the file. `Locked` if another process
    /// has it.
    pub(super) fn acquire(dir: &OpenDirectory<'_>) -> Result<Lock, StoreError> {
        let file = dir.open(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        let lock = Lock::take(dir, file, FlockOperation::NonBlockingLockExclusive)?;
        let id = format!("{}\n", std::process::id());
        fs::ftruncate(&lock.0, 0)
            .and_then(|()| rustix::io::pwrite(&lock.0, id.as_bytes(), 0))
            .map_err(dir.failed("write", LOCK))?;
        Ok(lock)
    }

    /// Locks the directory against writers, and changes nothing in it. `None`: it has no lock file.
    /// `Locked` if another process has it for writing.
    pub(super) fn acquire_to_read(dir: &OpenDirectory<'_>) -> Result<Option<Lock>, StoreError> {
        let found = fs::statat(dir.directory, LOCK, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_err_and(|error| error == Errno::NOENT) {
            return Ok(None);
        }
        let file = dir.open(LOCK, OFlags::RDONLY)?;
        Lock::take(dir, file, FlockOperation::NonBlockingLockShared).map(Some)
    }

    fn take(
        dir: &OpenDirectory<'_>,
        file: OwnedFd,
        operation: FlockOperation,
    ) -> Result<Lock, StoreError> {
        match fs::flock(&file, operation) {
            Ok(()) => Ok(Lock(file)),
            Err(Errno::WOULDBLOCK) => {
                let holder = read_lock_file(&file).unwrap_or_default();
                let digits = holder.trim_ascii().iter().all(u8::is_ascii_digit);
                let holder = match std::str::from_utf8(holder.trim_ascii()) {
                    Ok(id) if digits && !id.is_empty() => format!("process {id}"),
                    _ => "another process".to_owned(),
                };
                Err(StoreError::Locked { holder })
            }
            Err(error) => Err(dir.failed("lock", LOCK)(error)),
        }
    }

    /// Returns a second descriptor of the same open file, as a child process has one.
    #[cfg(test)]
    pub(super) fn duplicate_descriptor(&self) -> OwnedFd {
        self.0.try_clone().expect("a file can be opened twice")
    }
}

impl Drop for Lock {
    /// Unlocks explicitly. Closing alone would leave the file locked as long as a child that this
    /// process is forking holds the descriptor, which it does until it executes its program.
    fn drop(&mut self) {
        // The process id may belong to another process by the time it is read. Fails for a reader,
        // which has written none.
        let _ = fs::ftruncate(&self.0, 0);
        let _ = fs::flock(&self.0, FlockOperation::Unlock);
    }
}
