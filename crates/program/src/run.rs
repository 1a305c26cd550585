//! Run of a program: from the arguments of its command line to its exit code.

use crate::failure::Failure;
use crate::usage_error::{RemovedArgumentHint, format_usage_error, has_json_flag, is_help};
use clap::{Command, FromArgMatches};
use std::ffi::OsString;
use std::process::ExitCode;

/// Parses the command line of this process, calls `work` with the result, and returns the exit
/// code.
///
/// A failure goes to standard error: as a line that begins with `name`, or as a JSON object if
/// `wants_json` returns true. Help and version are printed, and end the process.
pub fn run<Args: FromArgMatches, E: Into<Failure>>(
    name: &str,
    command: Command,
    removed_hint: RemovedArgumentHint,
    wants_json: impl FnOnce(&Args) -> bool,
    work: impl FnOnce(Args) -> Result<(), E>,
) -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().collect();
    let matches = command.clone().try_get_matches_from(&args);
    let (failure, json) = match matches.and_then(|matches| Args::from_arg_matches(&matches)) {
        Ok(parsed) => {
            let json = wants_json(&parsed);
            match work(parsed) {
                Ok(()) => return ExitCode::SUCCESS,
                Err(error) => (error.into(), json),
            }
        }
        Err(error) => {
            let json = has_json_flag(&args);
            // Requested help is no failure. Help that clap prints for a missing command is one, for
            // a script.
            if is_help(&error) && (!json || !error.use_stderr()) {
                error.exit();
            }
            (Failure::invalid(format_usage_error(&error, &args, command, removed_hint)), json)
        }
    };
    failure.print(name, json);
    ExitCode::from(failure.exit_code())
}
