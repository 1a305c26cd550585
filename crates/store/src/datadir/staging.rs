//! Staging folder that gets its name when it is complete: an interrupted checkpoint is never opened
//! as a data directory.

use crate::StoreError;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

const ENDING: &str = ".unfinished";

/// A folder that is being written. Dropped before `finish`, it is removed.
#[derive(Debug)]
pub struct StagingFolder {
    path: PathBuf,
    target: PathBuf,
    is_finished: bool,
}

impl StagingFolder {
    /// Begins a folder that does not exist yet. Creates its parent (mode 0700) if that is missing.
    /// Removes the leftover of an earlier attempt at the same name.
    pub fn begin(target: &Path) -> Result<StagingFolder, StoreError> {
        let failed = |source| failed("make", target, source);
        let (Some(parent), Some(_)) = (target.parent(), target.file_name()) else {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        };
        match fs::mkdir(parent, Mode::RWXU) {
            Ok(()) => sync_folder(parent.parent().unwrap_or(parent)).map_err(failed)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let path = staging_path(target);
        match std::fs::remove_dir_all(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(StagingFolder { path, target: target.to_owned(), is_finished: false })
    }

    /// Path at which the caller writes the copy. The folder does not exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the folder to its target, durably. The caller has written and synced all of its
    /// content.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let parent = self.target.parent().unwrap_or(Path::new("."));
        std::fs::rename(&self.path, &self.target)
            .and_then(|()| sync_folder(parent))
            .map_err(|source| failed("name", &self.target, source))?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for StagingFolder {
    fn drop(&mut self) {
        if !self.is_finished {
            // A leftover is removed by the next attempt, and refused as a data directory.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the path of a target's staging folder, a sibling that is also used during its removal.
pub(super) fn staging_path(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}{ENDING}"))
}

/// Returns true if the path is that of a staging folder: an incomplete copy.
pub(super) fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.starts_with('.') && name.ends_with(ENDING)
}

/// Makes creations, renames and removals in a folder durable.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = fs::open(path, flags, Mode::empty())?;
    Ok(fs::fsync(folder)?)
}

pub(super) fn failed(verb: &str, target: &Path, source: io::Error) -> StoreError {
    StoreError::io(format!("can't {verb} {}", target.display()), source)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataDir;

    #[test]
    fn staged_folder_gets_its_name_only_when_complete() {
        let root = std::env::temp_dir().join(format!("unfinished-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&root);
        std::fs::create_dir(&root).expect("a folder of our own");
        let target = root.join("copies/one");
        let interrupted = StagingFolder::begin(&target).expect("nothing is there");
        let staged = interrupted.path().to_owned();
        std::fs::create_dir(&staged).expect("begun");
        std::fs::write(staged.join("half"), b"x").expect("begun");
        std::mem::forget(interrupted); // the process dies here
        assert!(!target.exists() && staged.exists());
        let refused = DataDir::open(&staged).expect_err("half a copy");
        assert!(refused.to_string().contains("incomplete copy"), "{refused}");
        let second = StagingFolder::begin(&target).expect("the leftover is removed");
        assert!(!staged.exists());
        std::fs::create_dir(second.path()).expect("begun");
        second.finish().expect("whole");
        assert!(target.exists() && !staged.exists());
        let dropped = StagingFolder::begin(&root.join("copies/two")).expect("nothing is there");
        let staged = dropped.path().to_owned();
        std::fs::create_dir(&staged).expect("begun");
        drop(dropped);
        assert!(!staged.exists());
        std::fs::remove_dir_all(&root).expect("ours");
    }
}
