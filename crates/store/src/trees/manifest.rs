//! The two files that say which tables make up the tree: `current` names the newest list and its
//! checksum, `v{id}` is that list. The crate below writes them atomically but does not compare the
//! checksum when it opens; we do.
//!
//! `current`: list id u64, xxh3-128 of the list file u128, checksum kind u8 (0); little endian.

use std::any::Any;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use crate::StoreError;

/// The directory of table files.
pub(crate) const TABLES: &str = "tables";
/// The file that names the newest list.
pub(crate) const CURRENT: &str = "current";

const CURRENT_BYTES: usize = 8 + 16 + 1;

/// Both files, as they are on disk, proven to belong together.
pub(crate) struct Manifest {
    /// Which list.
    pub id: u64,
    /// The list's file.
    pub path: PathBuf,
    /// Bytes of `current`.
    pub current: Vec<u8>,
    /// Bytes of the list.
    pub list: Vec<u8>,
}

impl Manifest {
    /// Reads and checks both files. None: there is no tree here yet. Tables without a list are
    /// damage: opening would begin a new tree and throw them away.
    pub fn read(path: &Path) -> Result<Option<Manifest>, StoreError> {
        let current_path = path.join(CURRENT);
        if !current_path.try_exists().map_err(|why| read_error(&current_path, why))? {
            return match has_files(&path.join(TABLES))? {
                true => Err(damage(&current_path, "the file is missing")),
                false => Ok(None),
            };
        }
        let current = read(&current_path)?;
        let Ok(fixed) = <[u8; CURRENT_BYTES]>::try_from(current.as_slice()) else {
            return Err(damage(&current_path, "25 bytes were expected"));
        };
        let (id, rest) = fixed.split_at(8);
        let (sum, kind) = rest.split_at(16);
        let id = u64::from_le_bytes(id.try_into().expect("split at 8"));
        let sum = u128::from_le_bytes(sum.try_into().expect("split at 16"));
        if kind != [0] {
            return Err(damage(&current_path, "the checksum's kind is unknown"));
        }
        let list_path = path.join(format!("v{id}"));
        if !list_path.try_exists().map_err(|why| read_error(&list_path, why))? {
            return Err(damage(&list_path, "the file is missing, or `current` is damaged"));
        }
        let list = read(&list_path)?;
        if xxh3_128(&list) != sum {
            return Err(damage(&list_path, "the checksum in `current` does not match"));
        }
        Ok(Some(Manifest { id, path: list_path, current, list }))
    }
}

/// Damage at the beginning of a file, or at a place that is not known.
pub(crate) fn damage(path: &Path, what: &str) -> StoreError {
    StoreError::Corrupt { file: path.display().to_string(), offset: 0, what: what.into() }
}

/// The words for an error of the crate below.
pub(crate) fn error(path: &Path, error: lsm_tree::Error) -> StoreError {
    match error {
        lsm_tree::Error::Io(source) if source.kind() == std::io::ErrorKind::UnexpectedEof => {
            damage(path, "the file ends too early")
        }
        lsm_tree::Error::Io(source) => StoreError::io(path.display().to_string(), source),
        lsm_tree::Error::InvalidVersion(found) => {
            StoreError::Version { found: found.into(), known: 3 }
        }
        lsm_tree::Error::ChecksumMismatch { .. } => damage(path, "a checksum does not match"),
        other => damage(path, &other.to_string()),
    }
}

/// The words for a panic of the crate below, which means bytes that have no sense.
pub(crate) fn panic_words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|why| read_error(path, why))
}

fn read_error(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::io(format!("read {}", path.display()), source)
}

fn has_files(path: &Path) -> Result<bool, StoreError> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(read_error(path, why)),
    }
}
