//! Other programs of this workspace, which are installed beside each other.

use std::path::PathBuf;

/// Returns the program of this name that lies beside the running one; else the name, which is
/// looked up in PATH.
pub fn beside_this_program(name: &str) -> PathBuf {
    let here = std::env::current_exe().ok();
    let beside = here.and_then(|path| Some(path.parent()?.join(name)));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| name.into())
}
