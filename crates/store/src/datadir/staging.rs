//! Staging folder that gets its name when it is whole: a checkpoint that was cut short is never
//! taken for a data directory.

use crate::StoreError;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::path::{Path, PathBuf};

const ENDING: &str = ".unfinished";

/// A folder that is being made. Dropped before it is finished, it is taken away again.
#[derive(Debug)]
pub struct StagedFile {
    path: PathBuf,
    target: PathBuf,
    finished: bool,
}

impl StagedFile {
    /// For a folder that does not exist yet; the folder around it is made (mode 0700) if it is
    /// missing. What an earlier attempt at the same name left behind is removed.
    pub fn begin(target: &Path) -> Result<StagedFile, StoreError> {
        let failed = |source| failed("make", target, source);
        let (Some(above), Some(_)) = (target.parent(), target.file_name()) else {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        };
        match fs::mkdir(above, Mode::RWXU) {
            Ok(()) => sync_folder(above.parent().unwrap_or(above)).map_err(failed)?,
            Err(Errno::EXIST) => {}
            Err(error) => return Err(failed(error.into())),
        }
        let path = beside(target);
        match std::fs::remove_dir_all(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
        Ok(StagedFile { path, target: target.to_owned(), finished: false })
    }

    /// Path under which the copy is made. The folder does not exist yet.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Renames the folder to its target, durably. The caller has written and synced all of its
    /// content.
    pub fn finish(mut self) -> Result<(), StoreError> {
        let above = self.target.parent().unwrap_or(Path::new("."));
        std::fs::rename(&self.path, &self.target)
            .and_then(|()| sync_folder(above))
            .map_err(|source| failed("name", &self.target, source))?;
        self.finished = true;
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if !self.finished {
            // Whatever stays is removed by the next attempt, and refused as a data directory.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the folder beside a target that holds it until it is whole, and again during its
/// removal.
pub(super) fn beside(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    target.with_file_name(format!(".{name}{ENDING}"))
}

/// Returns true if the folder's name is that of a copy that was cut short.
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
    fn a_folder_has_its_name_only_when_it_is_whole() {
        let home = std::env::temp_dir().join(format!("unfinished-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&home);
        std::fs::create_dir(&home).expect("a folder of our own");
        let target = home.join("copies/one");
        let begun = StagedFile::begin(&target).expect("nothing is there");
        let beside = begun.path().to_owned();
        std::fs::create_dir(&beside).expect("begun");
        std::fs::write(beside.join("half"), b"x").expect("begun");
        std::mem::forget(begun); // the process dies here
        assert!(!target.exists() && beside.exists());
        let refused = DataDir::open(&beside).expect_err("half a copy");
        assert!(refused.to_string().contains("cut short"), "{refused}");
        let again = StagedFile::begin(&target).expect("the leftover is removed");
        assert!(!beside.exists());
        std::fs::create_dir(again.path()).expect("begun");
        again.finish().expect("whole");
        assert!(target.exists() && !beside.exists());
        let dropped = StagedFile::begin(&home.join("copies/two")).expect("nothing is there");
        let beside = dropped.path().to_owned();
        std::fs::create_dir(&beside).expect("begun");
        drop(dropped);
        assert!(!beside.exists());
        std::fs::remove_dir_all(&home).expect("ours");
    }
}
