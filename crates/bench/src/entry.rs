//! Entry point of the programs that are built of this crate.

use crate::wrong::Wrong;
use clap::{Command, FromArgMatches};
use std::process::ExitCode;

/// Reads the words of this process' command line, does what they say, and returns the exit code.
///
/// A failure goes to standard error: as a line that begins with `name`, or as one JSON object where
/// `wants_json` says so. Help and version are printed, and end the process.
pub fn run_program<Words: FromArgMatches>(
    name: &str,
    command: Command,
    wants_json: fn(&Words) -> bool,
    run: impl FnOnce(Words) -> Result<(), Wrong>,
) -> ExitCode {
    let matches = command.try_get_matches();
    let (done, json) = match matches.and_then(|matches| Words::from_arg_matches(&matches)) {
        Ok(words) => {
            let json = wants_json(&words);
            (run(words), json)
        }
        // A program wants an object also where its words can't be read.
        Err(error) if error.use_stderr() && std::env::args_os().any(|word| word == "--json") => {
            let complaint = error.render().to_string();
            let first = complaint.lines().next().unwrap_or_default();
            (Err(first.strip_prefix("error: ").unwrap_or(first).into()), true)
        }
        Err(error) => error.exit(),
    };
    let Err(wrong) = done else { return ExitCode::SUCCESS };
    print(name, &wrong, json);
    ExitCode::from(wrong.kind.exit_code())
}

fn print(name: &str, wrong: &Wrong, as_json: bool) {
    let (kind, exit_code) = (wrong.kind.word(), wrong.kind.exit_code());
    let object = serde_json::json!({
        "kind": kind, "reason": null, "text": wrong.text, "exit_code": exit_code,
    });
    match as_json {
        true => eprintln!("{object}"),
        false => eprintln!("{name}: {wrong}"),
    }
}
