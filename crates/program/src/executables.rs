//! Paths of the workspace's other programs, which are installed in the same directory.

use std::path::PathBuf;

/// Returns the path of the program with this name in the directory of the running one. If there is
/// none, returns the name alone, which is looked up in PATH.
pub fn sibling_program(name: &str) -> PathBuf {
    let executable = std::env::current_exe().ok();
    let installed = executable.and_then(|path| Some(path.parent()?.join(name)));
    installed.filter(|path| path.is_file()).unwrap_or_else(|| name.into())
}
