//! Log levels as `GET|PUT /v1/admin/log-levels` changes them; the log belongs to `cli`.

use base::Result;

/// The levels of the log, one per section (`log`, `store`, `consensus`, `node`, `front-ends`, ...).
///
/// `app` hands an implementation to the front-ends; the native front-end shows and changes it.
pub trait LogLevels: Send + Sync {
    /// Every section with its level's word (`off error warn info debug trace`), in the sections'
    /// order.
    fn levels(&self) -> Vec<(String, String)>;

    /// Changes these sections (`all` names every one) or none of them: an unknown section or level
    /// is `malformed`, in words.
    fn set(&self, changes: &[(String, String)]) -> Result<()>;
}
