//! One file per command.
//!
//! Promises: a command that fails says so in one line that names the remedy, and exits with its
//! kind's code.
//! Never: does the work itself: online commands ask the native door, offline ones the store's
//! tools.
//! Read next: `serve.rs`, then `get.rs`.

mod serve;
mod settings;

use crate::failure::Outcome;
use clap::Subcommand;

/// All commands.
#[derive(Subcommand)]
pub enum Command {
    /// Serve: start a node
    #[command(after_help = serve::EXAMPLES)]
    Serve(serve::Serve),
    /// Show every setting of `serve`: its value in force and where it came from
    #[command(after_help = settings::EXAMPLES)]
    Settings(settings::Settings),
}

impl Command {
    /// Runs it to its end.
    pub fn run(self) -> Outcome {
        match self {
            Command::Serve(command) => command.run(),
            Command::Settings(command) => command.run(),
        }
    }
}
