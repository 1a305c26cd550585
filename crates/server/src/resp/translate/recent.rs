//! Cache of a connection's last command, because clients mostly repeat it.

use super::table::{self, Command};

/// Last command of a connection, and the bytes that named it. Comparing these costs a fifth of a
/// look-up in the table, which must ignore case.
#[derive(Debug, Default)]
pub struct RecentCommand {
    /// At most as long as the longest name in the table.
    name: Vec<u8>,
    command: Option<&'static Command>,
}

impl RecentCommand {
    /// Finds the command of this name, like `table::find`.
    #[inline]
    pub fn find(&mut self, name: &[u8]) -> Option<&'static Command> {
        match self.command {
            Some(command) if self.name == name => Some(command),
            _ => self.look_up(name),
        }
    }

    fn look_up(&mut self, name: &[u8]) -> Option<&'static Command> {
        let command = table::find(name)?;
        self.name.clear();
        self.name.extend_from_slice(name);
        self.command = Some(command);
        Some(command)
    }
}
