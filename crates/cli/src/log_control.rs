//! Log levels of a serving process, as requests of operators read and change them.

use logging::Logging;

/// Levels of this log.
pub struct LogControl(pub Logging);

impl server::LogLevels for LogControl {
    fn levels(&self) -> Vec<(String, String)> {
        self.0.levels()
    }

    fn set(&self, changes: &[(String, String)]) -> base::Result<()> {
        self.0.set(changes)
    }
}
