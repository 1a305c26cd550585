//! Folders for targets that need files: in memory where the system has such a place, as files are
//! written at every input.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Once;
use tempfile::TempDir;

/// Beginning of the folders' names; the process' id follows.
const PREFIX: &str = "credenza-fuzz-";

/// Returns a new folder, removed when it is dropped. A process that is ended leaves its folders to
/// the next one.
pub fn folder() -> TempDir {
    static CLEARED: Once = Once::new();
    let in_memory = Path::new("/dev/shm");
    let parent = if in_memory.is_dir() { in_memory.into() } else { std::env::temp_dir() };
    CLEARED.call_once(|| remove_leftovers(&parent));
    let prefix = format!("{PREFIX}{}-", std::process::id());
    tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).expect("a folder")
}

fn remove_leftovers(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the paths of all files in a folder, relative to it, in order.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(folder, Path::new(""), &mut found);
    found.sort();
    found
}

fn collect(folder: &Path, inside: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder.join(inside)).into_iter().flatten().flatten() {
        let path = inside.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => collect(folder, &path, found),
            _ => found.push(path),
        }
    }
}

/// Makes `to` a copy of a folder, whatever it was before.
pub fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    for file in files(from) {
        let target = to.join(&file);
        fs::create_dir_all(target.parent().expect("it is in a folder")).expect("a folder");
        fs::copy(from.join(&file), target).expect("a copy");
    }
}
