//! The binary: parse, run, exit code.

mod arakoon;
mod client;
mod commands;
mod examples;
mod failure;
mod given;
mod logging;
mod machine;
mod notify;
mod offline;
mod output;
mod paint;
mod records;
mod settings;
mod usage;

use clap::{CommandFactory, FromArgMatches, Parser};
use failure::Outcome;
use std::ffi::OsString;
use std::process::ExitCode;

/// Short-lived small objects from many threads: where mimalloc is ahead of the system's allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ABOUT: &str = "Credenza: a distributed key-value database in one binary";
const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 the answer is no, 2 mend the request, 3 not allowed, 4 conflict: read again
and decide again, 5 unavailable: nothing happened, retry, 6 unknown: it may have happened, read
before retrying, 7 data are damaged: see `credenza check --help`.";

/// What it calls itself. One whose rules can be broken must never be taken for another.
const VERSION: &str = if cfg!(feature = "mutants") {
    concat!(env!("CARGO_PKG_VERSION"), "-BROKEN-ON-PURPOSE (feature `mutants`: for tests only)")
} else {
    env!("CARGO_PKG_VERSION")
};

/// The command line.
#[derive(Parser)]
#[command(name = "credenza", version = VERSION, about = ABOUT, after_help = EXIT_CODES)]
#[command(max_term_width = 100)]
struct CommandLine {
    /// Answer in JSON where there is an answer, and say errors as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: commands::Command,
}

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let command = examples::complete(CommandLine::command());
    let matches = command.clone().try_get_matches_from(&words);
    match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(line) => end(line.command.run(line.json), line.json),
        Err(error) => {
            let json = usage::asks_for_json(&words);
            if usage::is_help(&error) && (!json || !error.use_stderr()) {
                error.exit();
            }
            end(Err(usage::failure(&error, &words, command)), json)
        }
    }
}

/// The exit code, once a failure is said.
fn end(outcome: Outcome, json: bool) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            failure.print(json);
            ExitCode::from(failure.exit_code())
        }
    }
}
