//! Checkpoints that stand in a node's folder of them: a list, and their removal.
//!
//! Promises: only a directory with an identity counts as a checkpoint, and links are not followed;
//! a removal that is cut short leaves nothing that is taken for a checkpoint.

use super::identity::IDENTITY;
use super::staging::{beside, failed, is_unfinished, sync_folder};
use super::{LOCK, LOCK_BYTES_MAX};
use crate::StoreError;
use rustix::fs::{self, FlockOperation};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A checkpoint as it stands in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// Its name.
    pub name: String,
    /// False if it is being made, or was cut short.
    pub is_whole: bool,
    /// Time of its making, in milliseconds since 1970, by the file system.
    pub made_ms: u64,
    /// Bytes of all its files. Those of tables that the node still has take no space of their own.
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
        let is_whole = !is_unfinished(&path);
        match looked_at(&path, is_whole) {
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
    must_be_free(&path)?;
    // The rename comes first, durably: half a checkpoint must not look like a whole one. No call
    // makes one of this name meanwhile, because the name is taken.
    let beside = beside(&path);
    remove_all(&beside).map_err(failed)?;
    match std::fs::rename(&path, &beside) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other.and_then(|()| sync_folder(folder)).map_err(failed)?,
    }
    remove_all(&beside).map_err(failed)?;
    Ok(true)
}

fn remove_all(path: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// True for a directory with an identity, no link to one.
fn is_checkpoint(path: &Path) -> io::Result<bool> {
    let is_directory = std::fs::symlink_metadata(path)?.is_dir();
    Ok(is_directory && std::fs::symlink_metadata(path.join(IDENTITY)).is_ok_and(|it| it.is_file()))
}

/// `None` if it is no checkpoint.
fn looked_at(path: &Path, is_whole: bool) -> io::Result<Option<StoredCheckpoint>> {
    let metadata = std::fs::symlink_metadata(path)?;
    if !metadata.is_dir() || is_whole && !is_checkpoint(path)? {
        return Ok(None);
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    Ok(Some(StoredCheckpoint { name, is_whole, made_ms: made_ms(&metadata), bytes: bytes(path)? }))
}

fn made_ms(metadata: &Metadata) -> u64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.and_then(|since| u64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

/// Bytes of all files below a folder.
fn bytes(path: &Path) -> io::Result<u64> {
    let (mut sum, mut waiting): (u64, Vec<PathBuf>) = (0, vec![path.into()]);
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            if metadata.is_dir() {
                waiting.push(entry.path());
            } else {
                sum = sum.saturating_add(metadata.len());
            }
        }
    }
    Ok(sum)
}

/// `Locked` if a process has it open as its data directory.
fn must_be_free(path: &Path) -> Result<(), StoreError> {
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
            let by = match read {
                Ok(1..) => format!("process {}", holder.trim()),
                _ => "another process".into(),
            };
            Err(StoreError::Locked { by })
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
    fn checkpoints_are_listed_and_removed_and_nothing_else_is() {
        let home = std::env::temp_dir().join(format!("checkpoints-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        let folder = home.join("checkpoints");
        assert_eq!(checkpoints(&folder).expect("none is fine"), []);
        std::fs::create_dir_all(&folder).expect("a folder of our own");
        drop(DataDir::open(&folder.join("monday")).expect("made"));
        drop(DataDir::open(&home.join("elsewhere")).expect("made"));
        std::fs::create_dir(folder.join("notes")).expect("ours");
        std::fs::create_dir(folder.join(".tuesday.unfinished")).expect("ours");
        std::fs::write(folder.join(".tuesday.unfinished/half"), b"12345").expect("ours");
        symlink(home.join("elsewhere"), folder.join("link")).expect("ours");
        let found = checkpoints(&folder).expect("listed");
        let shown: Vec<_> = found.iter().map(|it| (it.name.as_str(), it.is_whole)).collect();
        assert_eq!(shown, [(".tuesday.unfinished", false), ("monday", true)]);
        assert_eq!(found[0].bytes, 5);
        assert!(found[1].made_ms > 0 && found[1].bytes > 0);

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
        assert!(home.join("elsewhere").exists() && folder.join("notes").exists());
        std::fs::remove_dir_all(&home).expect("ours");
    }
}
