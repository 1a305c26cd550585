//! Log levels as `GET|PUT /v1/admin/log-levels` shows and changes them. `cli` owns the log.

use base::Result;

/// Levels of the log, one per section (`log`, `store`, `consensus`, `node`, `front-ends`, ...).
///
/// `cli` passes an implementation to the front-ends; the native front-end shows and changes it.
pub trait LogLevels: Send + Sync {
    /// Returns every section with the name of its level (`off error warn info debug trace`), in the
    /// order of the sections.
    fn levels(&self) -> Vec<(String, String)>;

    /// Sets the levels of these sections (`all` means every one), or of none: an unknown section or
    /// level is a `Malformed` error that names it.
    fn set(&self, changes: &[(String, String)]) -> Result<()>;
}
