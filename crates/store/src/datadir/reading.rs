//! Opening of a data directory that is only read: a checkpoint, or a copy on a medium that can't be
//! written.
//!
//! Promises: no file, folder or permission in it changes; a process that has it open for writing is
//! noticed, and one that opens it meanwhile is refused, if it has a lock file.

use super::lock::Lock;
use super::{DataDir, FOLDERS, OpenDirectory, refuse_unfinished};
use crate::StoreError;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

impl DataDir {
    /// Opens an existing data directory to read it. Nothing may be written through the result.
    /// Folders that a copy lost stay missing. Errors: as for [`DataDir::open`].
    pub fn open_to_read(path: &Path) -> Result<DataDir, StoreError> {
        refuse_unfinished(path)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = fs::open(path, flags, Mode::empty()).map_err(|error| {
            let description = format!("can't open the data directory {}", path.display());
            StoreError::io(description, error.into())
        })?;
        let dir = OpenDirectory { path, directory: &directory };
        let lock = Lock::acquire_to_read(&dir)?;
        for folder in FOLDERS {
            match fs::statat(&directory, folder, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(found) if FileType::from_raw_mode(found.st_mode) == FileType::Directory => {}
                Ok(_) => {
                    return Err(dir.refused(folder, "it is a symbolic link, or not a directory"));
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(dir.failed("look at", folder)(error)),
            }
        }
        match dir.read_identity()? {
            Some(identity) => Ok(DataDir::of(path.to_owned(), identity, false, directory, lock)),
            None => Err(dir.refused("", "no node has started in it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::path::PathBuf;

    /// Returns mode, size and times of change of everything below a folder.
    fn state(folder: &Path) -> BTreeMap<PathBuf, (u32, u64, i64, i64)> {
        let mut found = BTreeMap::new();
        let mut pending = vec![folder.to_path_buf()];
        while let Some(path) = pending.pop() {
            let metadata = std::fs::symlink_metadata(&path).expect("there");
            if metadata.is_dir() {
                let entries = std::fs::read_dir(&path).expect("lists");
                pending.extend(entries.map(|entry| entry.expect("lists").path()));
            }
            let (changed, changed_ns) = (metadata.ctime(), metadata.ctime_nsec());
            found.insert(path, (metadata.mode(), metadata.len(), changed, changed_ns));
        }
        found
    }

    #[test]
    fn opening_to_read_changes_nothing_and_needs_no_lock_file() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("data");
        let node = DataDir::open(&path).expect("makes").node;
        // As a backup tool leaves it: read-only, without the lock and empty folders.
        std::fs::remove_file(path.join("LOCK")).expect("ours");
        std::fs::remove_dir(path.join("crash")).expect("ours");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o555)).expect("sets");
        let before = state(&path);
        let data = DataDir::open_to_read(&path).expect("opens");
        assert_eq!((data.node, data.is_fresh), (node, false));
        assert_eq!(data.members().expect("reads"), None);
        data.check_log().expect("reads");
        drop(data);
        assert_eq!(state(&path), before);
        let nothing = parent.path().join("nothing");
        assert!(DataDir::open_to_read(&nothing).is_err() && !nothing.exists());
    }

    #[test]
    fn reader_and_writer_of_a_data_directory_exclude_each_other() {
        let parent = tempfile::tempdir().expect("a directory");
        let path = parent.path().join("data");
        let writer = DataDir::open(&path).expect("makes");
        let refused = DataDir::open_to_read(&path).expect_err("in use").to_string();
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(writer);
        let readers = [DataDir::open_to_read(&path), DataDir::open_to_read(&path)];
        assert!(readers.iter().all(Result::is_ok), "two may read");
        assert!(matches!(DataDir::open(&path), Err(StoreError::Locked { .. })));
        drop(readers);
        DataDir::open(&path).expect("opens");
    }

    #[test]
    fn links_in_a_directory_that_is_read_are_refused() {
        for planted in ["LOCK", "IDENTITY", "log", "store"] {
            let parent = tempfile::tempdir().expect("a directory");
            let path = parent.path().join("data");
            drop(DataDir::open(&path).expect("makes"));
            let target = parent.path().join("moved");
            std::fs::rename(path.join(planted), &target).expect("moves");
            symlink(&target, path.join(planted)).expect("links");
            let refused = DataDir::open_to_read(&path).expect_err(planted).to_string();
            assert!(refused.contains("link") && refused.contains(planted), "{refused}");
        }
    }
}
