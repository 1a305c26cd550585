//! Program `credenza-bench`, which `credenza bench` executes.

use bench::{BenchArguments, EXAMPLES};
use clap::{CommandFactory, Parser};
use std::process::ExitCode;

/// The server's allocator, so that the load tool uses little CPU time on the server's machine.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The command line.
#[derive(Parser)]
#[command(name = "credenza-bench", bin_name = "credenza bench", version, after_help = EXAMPLES)]
#[command(about = "Load servers and measure them")]
#[command(max_term_width = 100)]
struct CommandLine {
    /// Answer in JSON where there is an answer, and say errors as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    arguments: BenchArguments,
}

fn main() -> ExitCode {
    let command = CommandLine::command().mut_subcommands(|sub| {
        let examples = bench::examples_of(sub.get_name());
        if examples.is_empty() { sub } else { sub.after_help(examples) }
    });
    let run = |line: CommandLine| bench::run(line.arguments, line.json);
    program::run("credenza", command, |_, _| None, |line| line.json, run)
}
