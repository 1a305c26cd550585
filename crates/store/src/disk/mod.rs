//! Disk of the log: its only way to the file system.
//!
//! A [`Disk`] is one flat directory; a [`DiskFile`] is an open file in it and stays open as long as
//! it is held, so a process that has run out of descriptors can still append, sync and roll.
//!
//! Promises: a write or read is complete or an error; a failed call always returns an error.
//! Never: tries a sync again; follows a symbolic link.
//! Read next: `file.rs` (the real one), `memory.rs` (a simulated one, which records what a power
//! cut may lose).

mod crash;
mod file;
mod measure;
mod memory;
#[cfg(test)]
mod tests;

pub use crash::crash_states;
pub use file::FileDisk;
pub use measure::{SyncFigures, measure_sync};
pub use memory::{DiskCall, Honesty, MemoryDisk};

use std::io;
use std::sync::Arc;

/// Access mode of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read only; works on a read-only file system too.
    Read,
    /// Read and write.
    Write,
}

/// A flat directory of files. Names are plain: no separators, no links.
pub trait Disk: Send + Sync {
    /// Creates a file of `length` zero bytes with its space reserved; an error if the name exists.
    /// Neither its name nor its content is durable before the syncs.
    fn create(&self, name: &str, length: u64) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens an existing file. An error of the kind `WouldBlock`: no descriptor is left at the
    /// moment.
    fn open(&self, name: &str, access: Access) -> io::Result<Arc<dyn DiskFile>>;
    /// Renames a file. Durable after `sync_directory`.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Durable after `sync_directory`.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes all current names durable.
    fn sync_directory(&self) -> io::Result<()>;
    /// Returns all names, sorted.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Returns the free space in bytes.
    fn free_space(&self) -> io::Result<u64>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Writes all of `bytes` at `offset`, within the file's size.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Fills `buffer` from `offset` on. Returns the number of bytes read, which is less only at the
    /// end of the file.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes everything written so far durable. After an error the state is unknown, and the call
    /// must not be repeated.
    fn sync_data(&self) -> io::Result<()>;
    /// Returns the file's size in bytes.
    fn size(&self) -> io::Result<u64>;
}
