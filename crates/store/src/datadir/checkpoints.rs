//! Checkpoints in a node's folder: their list, and their removal.
//!
//! Promises: only a directory with an identity counts as a checkpoint, and links are not followed;
//! an interrupted removal leaves no folder that counts as a checkpoint.

use super::identity::IDENTITY;
use super::staging::{failed, is_unfinished, staging_path, sync_folder};
use super::{LOCK, LOCK_BYTES_MAX};
use crate::StoreError;
use rustix::fs::{self, FlockOperation};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A checkpoint in the folder of checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// Name of the checkpoint.
    pub name: String,
    /// False if it is being written, or was interrupted.
    pub is_complete: bool,
    /// Creation time by the file system, in milliseconds since 1970.
    pub created_ms: u64,
    /// Bytes of all its files. Files that the node's store still links take no additional space.
    pub bytes: u64,
}

/// Lists the checkpoints in a folder, by their names; none if the folder is missing.
pub fn checkpoints(folder: &Path) -> Result<Vec<StoredCheckpoint>, StoreError> {
    let failed = |source| failed("list", folder, source);
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        let is_complete = !is_unfinished(&path);
        match inspect(&path, is_complete) {
            Ok(Some(checkpoint)) => found.push(checkpoint),
            Ok(None) => {}
            // Another call removed or renamed it meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Removes a checkpoint. Returns false if there is none of this name. `Locked` if a process has it
/// open.
pub fn remove_checkpoint(folder: &Path, name: &str) -> Result<bool, StoreError> {
    let path = folder.join(name);
    let is_inside = path.parent() == Some(folder) && path.file_name() == Some(name.as_ref());
    if !is_inside || is_unfinished(&path) {
        return Ok(false);
    }
    let failed = |source| failed("remove", &path, source);
    match is_checkpoint(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => {
            if !other.map_err(failed)? {
                return Ok(false);
            }
        }
    }
    check_unlocked(&path)?;
    // The rename comes first, durably: half a checkpoint must not look like a complete one. No call
    // creates one of this name meanwhile, because the name exists.
    let staged = staging_path(&path);
    remove_all(&staged).map_err(failed)?;
    match std::fs::rename(&path, &staged) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other.and_then(|()| sync_folder(folder)).map_err(failed)?,
    }
    remove_all(&staged).map_err(failed)?;
    Ok(true)
}

fn remove_all(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Returns true for a directory with an identity that is not a symbolic link.
fn is_checkpoint(path: &Path) -> io::Result<bool> {
    let is_directory = std::fs::symlink_metadata(path)?.is_dir();
    Ok(is_directory
        && std::fs::symlink_metadata(path.join(IDENTITY)).is_ok_and(|metadata| metadata.is_file()))
}

/// Describes the checkpoint at a path. `None`: it is no checkpoint.
fn inspect(path: &Path, is_complete: bool) -> io::Result<Option<StoredCheckpoint>> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_dir() || is_complete && !is_checkpoint(path)? {
        return Ok(None);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    Ok(Some(StoredCheckpoint {
        name,
        is_complete,
        created_ms: created_ms(&metadata),
        bytes: total_bytes(path)?,
    }))
}

fn created_ms(metadata: &Metadata) -> u64 {
    let elapsed = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    elapsed.and_then(|elapsed| u64::try_from(elapsed.as_millis()).ok()).unwrap_or(0)
}

/// Returns the bytes of all files below a folder.
fn total_bytes(path: &Path) -> io::Result<u64> {
    let (mut sum, mut pending): (u64, Vec<PathBuf>) = (0, vec![path.into()]);
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                pending.push(entry.path());
            } else {
                sum = sum.saturating_add(metadata.len());
            }
        }
    }
    Ok(sum)
}

/// Checks that no process has it open as its data directory, else `Locked`.
fn check_unlocked(path: &Path) -> Result<(), StoreError> {
    let lock = path.join(LOCK);
    let mut file = match File::open(&lock) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file.map_err(|source| failed("open", &lock, source))?,
    };
    match fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let read = file.by_ref().take(LOCK_BYTES_MAX as u64).read_to_string(&mut holder);
            let holder = match read {
                Ok(1..) => format!("process {}", holder.trim()),
                _ => "another process".into(),
            };
            Err(StoreError::Locked { holder })
        }
        Err(error) => Err(failed("lock", &lock, error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataDir;
    use std::os::unix::fs::symlink;

    #[test]
    fn checkpoints_are_listed_and_removed_and_other_folders_kept() {
        let root = std::env::temp_dir().join(format!("checkpoints-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        let folder = root.join("checkpoints");
        assert_eq!(checkpoints(&folder).expect("none is fine"), []);
        std::fs::create_dir_all(&folder).expect("a folder of our own");
        drop(DataDir::open(&folder.join("monday")).expect("made"));
        drop(DataDir::open(&root.join("elsewhere")).expect("made"));
        std::fs::create_dir(folder.join("notes")).expect("ours");
        std::fs::create_dir(folder.join(".tuesday.unfinished")).expect("ours");
        std::fs::write(folder.join(".tuesday.unfinished/half"), b"12345").expect("ours");
        symlink(root.join("elsewhere"), folder.join("link")).expect("ours");
        let found = checkpoints(&folder).expect("listed");
        let listed: Vec<_> = found
            .iter()
            .map(|checkpoint| (checkpoint.name.as_str(), checkpoint.is_complete))
            .collect();
        assert_eq!(listed, [(".tuesday.unfinished", false), ("monday", true)]);
        assert_eq!(found[0].bytes, 5);
        assert!(found[1].created_ms > 0 && found[1].bytes > 0);

        let remove = |name: &str| remove_checkpoint(&folder, name);
        for name in
            ["notes", "link", "friday", "", ".", "..", "../elsewhere", "monday/", "a/../monday"]
        {
            assert!(!remove(name).expect(name), "{name}");
        }
        assert!(!remove(".tuesday.unfinished").expect("it may be under way"));
        let open = DataDir::open(&folder.join("monday")).expect("opened");
        let refused = remove("monday").expect_err("it is in use");
        assert!(matches!(refused, StoreError::Locked { .. }), "{refused}");
        drop(open);
        std::fs::create_dir(folder.join(".monday.unfinished")).expect("of a removal cut short");
        assert!(remove("monday").expect("removed") && !folder.join("monday").exists());
        assert!(!folder.join(".monday.unfinished").exists());
        assert!(!remove("monday").expect("it is gone"));
        assert!(root.join("elsewhere").exists() && folder.join("notes").exists());
        std::fs::remove_dir_all(&root).expect("ours");
    }
}
