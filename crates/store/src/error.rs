//! Error of the store, sorted by what its caller can do about it.

use std::io;

/// Reasons for which a call of the store fails.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The operating system refused. The state of the store is unknown until it is opened again.
    #[error("{description}: {source}")]
    Io {
        /// The operation that was tried, with the file's name.
        description: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Bytes on disk are not the ones that were written.
    #[error("{file} is damaged at byte {offset}: {description}")]
    Corrupt {
        /// The damaged file.
        file: String,
        /// Offset of the first bad byte or block in the file, in bytes.
        offset: u64,
        /// Description of the damage.
        description: String,
    },
    /// The disk is full. Nothing was lost; calls succeed again once there is space.
    #[error("the disk is full")]
    Full,
    /// Another process holds the data directory.
    #[error("the data directory is in use by {holder}")]
    Locked {
        /// Process that holds the lock, as it describes itself in the lock file.
        holder: String,
    },
    /// The files were written in a format that this program does not know.
    #[error("the data is in format {found}, this program knows format {known}")]
    Version {
        /// The format found.
        found: u32,
        /// The newest format this program reads.
        known: u32,
    },
    /// A program of a later feature level has written the data directory.
    #[error(
        "the data directory is at feature level {found}, and this program (credenza {}) knows \
         levels up to {}: run {program}",
        env!("CARGO_PKG_VERSION"), base::FeatureLevel::HIGHEST
    )]
    Level {
        /// Level of the directory.
        found: u32,
        /// Program to run, in words.
        program: String,
    },
    /// An earlier failure closed the store for good. It has to be opened again.
    #[error("the store is closed because of an earlier failure")]
    Closed,
}

impl StoreError {
    /// Converts an error of the operating system; `description` names the operation. A full disk
    /// becomes `Full`.
    pub fn io(description: impl Into<String>, source: io::Error) -> StoreError {
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::Full,
            _ => StoreError::Io { description: description.into(), source },
        }
    }
}
