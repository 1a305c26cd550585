//! A connection's last command, which mostly comes again.

use super::table::{self, Command};

/// The last command that a connection named, and the bytes it named it by: to compare these costs a
/// fifth of what a look into the table does, in whatever case they are.
#[derive(Debug, Default)]
pub struct RecentCommand {
    /// No longer than the longest name of the table.
    name: Vec<u8>,
    command: Option<&'static Command>,
}

impl RecentCommand {
    /// The command of this name, as `table::find` has it.
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
