//! The program `credenza`, which suites start as a server.

use std::path::PathBuf;

/// Its name.
const NAME: &str = "credenza";

/// Returns the server that lies beside this program; else its name, which is looked up in PATH.
pub fn server_program() -> PathBuf {
    let here = std::env::current_exe().ok();
    let beside = here.and_then(|path| Some(path.parent()?.join(NAME)));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| NAME.into())
}
