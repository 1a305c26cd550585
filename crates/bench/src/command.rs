//! The words of `credenza bench`.

use crate::{codec, quick, suite};
use clap::{Args, Subcommand};
use load_generator::config::{Config, Items, convert_terms, is_erlang, read_erlang};
use load_generator::console::{print, print_progress, print_report, read};
use load_generator::error::BenchError;
use load_generator::{disk, job};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Examples below the help.
pub const EXAMPLES: &str = "\
Examples:
  credenza bench quick                          load the node at CREDENZA_URL for 5 seconds
  credenza bench quick --mix 50:50 -c 64        as many writes as reads, by 64 clients
  credenza bench load.toml                      run a load, write tests/<time>/
  credenza bench load.toml --set concurrent=64  the same with another number of clients
  credenza bench old.config --set concurrent=64  a config of Basho Bench, as it is
  credenza bench suite                          servers beside each other
  credenza bench suite --quick --only redis-sync   one point of it, a short look
  credenza bench suite growth --sizes 1,4,16    a store of 1, 4 and 16 million rows
  credenza bench suite queries --quick          feeds of changes and indexes, a short look
  credenza bench coupons                        indexes beside PouchDB, and what others published
  credenza bench coupons --quick -d target/bench   a short look, results in this folder
  credenza bench coupons --documents docs       write docs/performance/coupons.md
  credenza bench pages docs                     pages anew from their numbers, without measuring
  credenza bench flames docs                    flame graphs of what falls short
  credenza bench disk data                      how fast the disk makes writes durable
  credenza bench codec                          how fast numbers become bytes and come back";

/// Returns the examples of one command, as a part of its help.
pub fn examples_of(command: &str) -> String {
    let prefix = format!("  credenza bench {command}");
    let lines: Vec<_> = EXAMPLES.lines().filter(|line| line.starts_with(&prefix)).collect();
    if lines.is_empty() { String::new() } else { format!("Examples:\n{}", lines.join("\n")) }
}

/// Loads servers and measures them.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Args, Debug)]
struct RunArguments {
    /// Files of settings, TOML or Basho Bench's terms; later ones replace what earlier ones say
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Folder for runs [default: test_dir of the settings, or ./tests]
    #[arg(short = 'd', long, value_name = "DIR")]
    results_dir: Option<PathBuf>,
    /// The run's name [default: the time, UTC]
    #[arg(short = 'n', long, value_name = "NAME")]
    name: Option<String>,
    /// A setting, as a line of the file; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Show the run on the whole terminal while it goes on
    #[arg(long)]
    live: bool,
}

#[derive(Subcommand, Debug)]
enum BenchCommand {
    /// Load a node that runs for a few seconds, without a file of settings
    Quick(quick::QuickArguments),
    /// Put servers beside each other: start them, load them turn by turn, compare
    Suite(SuiteArguments),
    /// Find coupons by an index: load, queries, updates, beside PouchDB (the suite `coupons`)
    Coupons(ExperimentArguments),
    /// Write the pages of all suites anew from the numbers beside them; nothing is measured
    Pages {
        /// Folder of documents
        #[arg(value_name = "DIR", default_value = "docs")]
        documents: PathBuf,
    },
    /// Run each load that missed its goal again and draw where the server's time goes (needs perf)
    Flames(FlameArguments),
    /// Measure how long the disk under a directory takes to make a write durable
    Disk {
        /// A directory on that disk
        directory: PathBuf,
    },
    /// Measure the codec of numbers and strings
    Codec {
        /// Seconds each way is measured
        #[arg(long, value_name = "N", default_value_t = 2)]
        seconds: u64,
    },
}

#[derive(Args, Debug)]
struct SuiteArguments {
    /// The suite: a file, or `performance`, `available`, `cluster`, `large`, `both-cores`,
    /// `arakoon`, `growth`, `garbage`, `coupons`, `queries`, `pgo`, `cost`, `training` or `smoke`
    #[arg(value_name = "SUITE", default_value = "performance")]
    file: String,
    #[command(flatten)]
    experiment: ExperimentArguments,
    /// Sizes of growing stores in millions of rows, such as `1,4,16`
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    sizes: Vec<u64>,
    /// A setting of every load, as a line of the file; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

// Arguments of every suite. A comment of documentation would become the help of both commands.
#[derive(Args, Debug)]
struct ExperimentArguments {
    /// A short look: few rounds of few seconds
    #[arg(long)]
    quick: bool,
    /// Write the suite's document (performance.md, performance/growth.md) into this folder
    #[arg(long, value_name = "DIR")]
    documents: Option<PathBuf>,
    /// Folder for results
    #[arg(short = 'd', long, value_name = "DIR", default_value = "tests")]
    results_dir: PathBuf,
    /// Folder for the servers' data [default: within the results]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The server's program [default: the one beside the load tool]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Folder with the programs of the peers
    #[arg(long, value_name = "DIR", default_value = "target/peers")]
    peers: PathBuf,
    /// Continue the newest run of the suite, if it is of this commit and machine
    #[arg(long)]
    resume: bool,
    /// Run each point so often
    #[arg(long, value_name = "N")]
    repeat: Option<usize>,
    /// Run this point or measure only; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

#[derive(Args, Debug)]
struct FlameArguments {
    /// Folder of documents, with the numbers of the suites
    #[arg(value_name = "DIR", default_value = "docs")]
    documents: PathBuf,
    /// Folder for the servers' data and output
    #[arg(short = 'd', long, value_name = "DIR", default_value = "tests")]
    results_dir: PathBuf,
    /// Folder with the programs of the peers
    #[arg(long, value_name = "DIR", default_value = "target/peers")]
    peers: PathBuf,
    /// Only loads of this suite; may be repeated
    #[arg(long, value_name = "NAME")]
    suite: Vec<String>,
}

/// Runs the command; the error is one sentence. `json`: the report is JSON, and nothing else is
/// printed.
pub fn run(arguments: BenchArguments, json: bool) -> Result<(), BenchError> {
    match arguments.command {
        None => run_load(arguments.run, json),
        Some(BenchCommand::Quick(arguments)) => arguments.run(json),
        Some(BenchCommand::Suite(arguments)) => run_suite(arguments),
        Some(BenchCommand::Coupons(arguments)) => run_coupons(arguments),
        Some(BenchCommand::Pages { documents }) => Ok(suite::write_pages(&documents)?),
        Some(BenchCommand::Flames(arguments)) => draw_flame_graphs(arguments),
        Some(BenchCommand::Disk { directory }) => Ok(print(&disk::run(&directory, json)?)?),
        Some(BenchCommand::Codec { seconds }) => {
            Ok(print(&codec::run(Duration::from_secs(seconds.min(3_600)), json)?)?)
        }
    }
}

fn run_load(arguments: RunArguments, json: bool) -> Result<(), BenchError> {
    if arguments.files.is_empty() && arguments.settings.is_empty() {
        let text = "say which load: `credenza bench quick` loads the node at CREDENZA_URL for a \
                    few seconds, `credenza bench FILE` does what a file of settings says (see \
                    `credenza bench --help`)";
        return Err(text.into());
    }
    let mut items = read_settings(&arguments.files)?;
    items.merge(parse_settings(&arguments.settings)?);
    let mut config = Config::read(items)?;
    if let Some(directory) = arguments.results_dir {
        config.test_dir = directory;
    }
    let display = match (json, arguments.live) {
        (true, _) => job::ProgressDisplay::Nothing,
        (false, true) => job::ProgressDisplay::Live,
        (false, false) => job::ProgressDisplay::Lines,
    };
    let (folder, report) = job::run(&config, arguments.name.as_deref(), display)?;
    print_report(&report, &folder, json)?;
    if config.shutdown_on_error && report.failed > 0 {
        let text = "the run was ended by an error, as `shutdown_on_error` asks";
        return Err(BenchError::unavailable(text));
    }
    Ok(())
}

/// Merges the settings of all files. Configs of Basho Bench are converted first, because some of
/// their keys change the meaning of others, so that all must be known.
fn read_settings(files: &[PathBuf]) -> Result<Items, String> {
    let (mut terms, mut overrides) = (BTreeMap::new(), Items::default());
    for file in files {
        let (name, text) = (file.display().to_string(), read(file)?);
        if is_erlang(&text) {
            terms.extend(read_erlang(&name, &text)?);
        } else {
            overrides.merge(Items::parse(&name, &text)?);
        }
    }
    let mut items = if terms.is_empty() { Items::default() } else { convert_terms(terms)? };
    items.merge(overrides);
    Ok(items)
}

fn run_suite(arguments: SuiteArguments) -> Result<(), BenchError> {
    let overrides = suite::LoadOverrides {
        quick: arguments.experiment.quick,
        settings: parse_settings(&arguments.settings)?,
        sizes: arguments.sizes,
    };
    // A failed print is ignored: the results are in files.
    let mut print_line = |line: &str| drop(print(line));
    arguments.experiment.run(&arguments.file, overrides, &mut print_line)
}

fn run_coupons(arguments: ExperimentArguments) -> Result<(), BenchError> {
    let quick = arguments.quick;
    let overrides = suite::LoadOverrides { quick, ..suite::LoadOverrides::default() };
    arguments.run("coupons", overrides, &mut print_progress)
}

impl ExperimentArguments {
    /// Runs a suite and prints its text. `print_line` gets a line for each run.
    fn run(
        self,
        file: &str,
        overrides: suite::LoadOverrides,
        print_line: &mut dyn FnMut(&str),
    ) -> Result<(), BenchError> {
        let text = suite::suite_text(file)?;
        let options = suite::SuiteOptions {
            results: self.results_dir,
            data: self.data_dir,
            program: self.program,
            peers: self.peers,
            documents: self.documents,
            repeat: self.repeat,
            only: self.only,
            resume: self.resume,
            overrides,
        };
        let (folder, text) = suite::run(file, &text, &options, print_line)?;
        Ok(print(&format!("\n{text}\nwritten to {}\n", folder.display()))?)
    }
}

fn draw_flame_graphs(arguments: FlameArguments) -> Result<(), BenchError> {
    let options = suite::SuiteOptions {
        results: arguments.results_dir,
        peers: arguments.peers,
        documents: Some(arguments.documents),
        only: arguments.suite,
        ..suite::SuiteOptions::default()
    };
    // A failed print is ignored: the graphs are files.
    Ok(suite::draw_flame_graphs(&options, &mut |line| drop(print(line)))?)
}

fn parse_settings(lines: &[String]) -> Result<Items, String> {
    let mut items = Items::default();
    for line in lines {
        items.merge(Items::parse(&format!("--set {line}"), &toml_line(line))?);
    }
    Ok(items)
}

/// Converts a setting to a line of TOML: `driver=resp` becomes `driver = "resp"`, because a value
/// that is not TOML is a text.
fn toml_line(setting: &str) -> String {
    if Items::parse("", setting).is_ok() {
        return setting.to_string();
    }
    match setting.split_once('=') {
        Some((key, value)) => format!("{key} = {}", toml::Value::String(value.trim().into())),
        None => setting.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bench_subcommands_each_have_a_help_example() {
        let command = BenchArguments::augment_args(clap::Command::new("bench"));
        let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert!(names.len() > 3, "{names:?}");
        for name in names {
            assert!(examples_of(name).contains("credenza bench"), "{name}");
        }
    }
}
