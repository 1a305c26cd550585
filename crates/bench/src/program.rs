//! The program `credenza`, which suites start as a server.

use std::path::PathBuf;

/// Its name.
const NAME: &str = "credenza";

/// Finds the server: it lies beside this program, or in a directory of PATH.
///
/// Errors: a sentence that names the remedy.
pub fn server() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = here.parent().map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = folder.into_iter().chain(std::env::split_paths(&path));
    all.map(|folder| folder.join(NAME)).find(|program| program.is_file()).ok_or_else(|| {
        format!(
            "there is no `{NAME}` beside {} and none in PATH: build it (`cargo build --release -p \
             app -p bench`) or install it",
            here.display()
        )
    })
}
