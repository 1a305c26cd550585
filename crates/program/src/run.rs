//! Run of a program: from the words of its command line to its exit code.

use crate::failure::Failure;
use crate::words::{FormerWords, asks_for_json, complaint, is_help};
use clap::{Command, FromArgMatches};
use std::ffi::OsString;
use std::process::ExitCode;

/// Parses the command line of this process, calls `work` with the result, and returns the exit
/// code.
///
/// A failure goes to standard error: as a line that begins with `name`, or as a JSON object if
/// `wants_json` returns true. Help and version are printed, and end the process.
pub fn run<Words: FromArgMatches, E: Into<Failure>>(
    name: &str,
    command: Command,
    former: FormerWords,
    wants_json: impl FnOnce(&Words) -> bool,
    work: impl FnOnce(Words) -> Result<(), E>,
) -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let matches = command.clone().try_get_matches_from(&words);
    let (failure, json) = match matches.and_then(|matches| Words::from_arg_matches(&matches)) {
        Ok(read) => {
            let json = wants_json(&read);
            match work(read) {
                Ok(()) => return ExitCode::SUCCESS,
                Err(error) => (error.into(), json),
            }
        }
        Err(error) => {
            let json = asks_for_json(&words);
            // Help on request is no failure. Help for lack of a command is a failure to a script.
            if is_help(&error) && (!json || !error.use_stderr()) {
                error.exit();
            }
            (Failure::invalid(complaint(&error, &words, command, former)), json)
        }
    };
    failure.print(name, json);
    ExitCode::from(failure.exit_code())
}
