//! The lock that keeps a data directory to one process.

use super::{LOCK, OpenDirectory, read};
use crate::StoreError;
use rustix::fs::{self, FlockOperation, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// A data directory is this one's until it is dropped.
#[derive(Debug)]
pub(super) struct Lock(OwnedFd);

impl Lock {
    /// `Locked` if another has it.
    pub(super) fn take(at: &OpenDirectory<'_>) -> Result<Lock, StoreError> {
        let file = at.open(LOCK, OFlags::RDWR | OFlags::CREATE)?;
        match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let holder = read(&file).unwrap_or_default();
                let digits = holder.trim_ascii().iter().all(u8::is_ascii_digit);
                let by = match std::str::from_utf8(holder.trim_ascii()) {
                    Ok(id) if digits && !id.is_empty() => format!("process {id}"),
                    _ => "another process".to_owned(),
                };
                return Err(StoreError::Locked { by });
            }
            Err(error) => return Err(at.failed("lock", LOCK)(error)),
        }
        let lock = Lock(file);
        let id = format!("{}\n", std::process::id());
        fs::ftruncate(&lock.0, 0)
            .and_then(|()| rustix::io::pwrite(&lock.0, id.as_bytes(), 0))
            .map_err(at.failed("write", LOCK))?;
        Ok(lock)
    }

    /// Returns a second descriptor of the same open file, as a child process has one.
    #[cfg(test)]
    pub(super) fn twin(&self) -> OwnedFd {
        self.0.try_clone().expect("a file can be opened twice")
    }
}

impl Drop for Lock {
    /// Unlocks explicitly. Closing alone would leave the file locked as long as a child that this
    /// process is just making holds it, which it does until it becomes another program.
    fn drop(&mut self) {
        // The number may belong to another process by the time it is read.
        let _ = fs::ftruncate(&self.0, 0);
        let _ = fs::flock(&self.0, FlockOperation::Unlock);
    }
}
