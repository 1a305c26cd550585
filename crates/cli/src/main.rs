//! Program `credenza`: parses the command line, runs the command, returns the exit code.

mod args;
mod commands;
mod examples;
mod log_control;
mod offline;
mod output;
mod paint;
mod reload;
mod renames;
mod service_manager;
mod signals;
#[cfg(test)]
mod tests;

use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// mimalloc is faster than the system's allocator at short-lived small objects from many threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const ABOUT: &str = "Credenza: a distributed key-value database in one binary";
const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 the answer is no, 2 mend the request, 3 not allowed, 4 conflict: read again
and decide again, 5 unavailable: nothing happened, retry, 6 unknown: it may have happened, read
before retrying, 7 data are damaged: see `credenza verify --help`.";

/// Version that the program reports. A build with mutants must never be mistaken for a normal one.
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

/// Returns the whole command line, with examples in the help of every command.
fn command_line() -> clap::Command {
    examples::add_examples(CommandLine::command())
}

fn main() -> ExitCode {
    let wants_json = |line: &CommandLine| line.json;
    program::run("credenza", command_line(), renames::rename_hint, wants_json, |line| {
        line.command.run(line.json)
    })
}
