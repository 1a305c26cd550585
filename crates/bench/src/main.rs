//! The program `credenza-bench`, which `credenza bench` becomes.

use bench::{BenchArguments, EXAMPLES, Wrong};
use clap::{CommandFactory, FromArgMatches, Parser};
use std::process::ExitCode;

/// As in the server, whose load tool is to cost as little beside it as it can.
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
    let matches = command.try_get_matches();
    let (done, json) = match matches.and_then(|matches| CommandLine::from_arg_matches(&matches)) {
        Ok(line) => (bench::run(line.arguments, line.json), line.json),
        // A program wants an object also where its words can't be read.
        Err(error) if error.use_stderr() && std::env::args_os().any(|word| word == "--json") => {
            let complaint = error.render().to_string();
            let first = complaint.lines().next().unwrap_or_default();
            (Err(first.strip_prefix("error: ").unwrap_or(first).into()), true)
        }
        Err(error) => error.exit(),
    };
    let Err(wrong) = done else { return ExitCode::SUCCESS };
    print(&wrong, json);
    ExitCode::from(wrong.kind.exit_code())
}

/// Says what is wrong on standard error as `credenza` does: in a line, or as one JSON object.
fn print(wrong: &Wrong, as_json: bool) {
    let (kind, exit_code) = (wrong.kind.word(), wrong.kind.exit_code());
    let object = serde_json::json!({
        "kind": kind, "reason": null, "text": wrong.text, "exit_code": exit_code,
    });
    match as_json {
        true => eprintln!("{object}"),
        false => eprintln!("credenza: {wrong}"),
    }
}
