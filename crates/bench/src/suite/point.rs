//! One run of a suite: a fresh server, the load, and the resources used.

use super::file::{Measure, Server, Suite, config};
use super::process::{Process, bound, our_cpu_seconds};
use super::results::Run;
use super::work::{Gives, PORTS, Tool, Words, Work, filled, redis_benchmark, write_records};
use crate::config::{Config, DriverConfig};
use crate::drivers::Target;
use crate::load::{self, Collected, ReportRow, RunObserver};
use crate::report::Percentiles;
use crate::wrong::Wrong;
use crate::{disk, drivers};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Time limit for a server's first answer.
const READY_MAX: Duration = Duration::from_secs(60);

/// Time for which a command of the setup is retried.
const SETUP_MAX: Duration = Duration::from_secs(20);

/// Paths of a suite.
pub struct SuitePaths {
    /// The server's program.
    pub program: PathBuf,
    /// The folder of the peers' programs.
    pub peers: PathBuf,
    /// Folder of the data directories.
    pub data: PathBuf,
    /// Folder of the servers' output.
    pub logs: PathBuf,
}

/// A data directory, deleted on drop.
pub struct Data(PathBuf);

impl Drop for Data {
    fn drop(&mut self) {
        // A directory that can't be removed stays visible beside the results.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Nobody;

impl RunObserver for Nobody {
    fn row(&mut self, _row: &ReportRow) -> Result<(), String> {
        Ok(())
    }
}

/// A server that answers, with fresh data. A drop ends it and deletes its data.
pub struct Started {
    /// Connection to the server.
    pub target: Box<dyn Target>,
    /// The server's processes, which end before their data is deleted.
    pub process: Processes,
    /// Its data.
    pub data: Data,
    /// Values of the placeholders.
    pub words: Words,
    /// Settings of its first load.
    pub config: Config,
    /// Median time of a 4 KiB write with fdatasync before the start, microseconds.
    pub fdatasync_us: f64,
}

/// Starts a server and prepares it; `config_of` returns the settings of its first load.
pub fn start(
    suite: &Suite,
    name: &str,
    place: &SuitePaths,
    config_of: &dyn Fn(&Words) -> Result<Config, String>,
) -> Result<Started, String> {
    let server = &suite.servers[name];
    let data = Data(place.data.join(format!("{name}-{}", std::process::id())));
    // A killed run of the same number may have left a directory.
    let _ = std::fs::remove_dir_all(&data.0);
    std::fs::create_dir_all(&data.0).map_err(|error| error.to_string())?;
    let fdatasync_us = disk::fdatasync_us(&data.0)?;
    let words = words(place, &data.0)?;
    let config = config_of(&words)?;
    let log = place.logs.join(format!("{name}.log"));
    let commands = std::iter::once(&server.command).chain(&server.others).enumerate();
    let started: Result<Vec<_>, _> = commands
        .map(|(number, command)| {
            let command: Vec<_> = command.iter().map(|word| filled(word, &words)).collect();
            let log =
                if number == 0 { log.clone() } else { log.with_extension(format!("{number}.log")) };
            Process::start(&command, suite.server_core, &data.0, &log)
        })
        .collect();
    let mut process = Processes(started?);
    let target = ready(&config, &mut process).map_err(|wrong| wrong.text)?;
    set_up(server, &words)?;
    Ok(Started { target, process, data, words, config, fdatasync_us })
}

/// Runs one point once.
pub fn run(
    suite: &Suite,
    measure: &Measure,
    name: &str,
    clients: usize,
    place: &SuitePaths,
) -> Result<Run, String> {
    let server = &suite.servers[name];
    let of = |error: String| format!("{} on {name} with {clients} clients: {error}", measure.name);
    let first = |words: &Words| measure.config(server, clients, words, suite.driver_core);
    let Started { target, mut process, data, mut words, config, fdatasync_us } =
        start(suite, name, place, &first).map_err(of)?;
    if let Some(load) = &measure.prepare {
        let prepare = self::config(load, server, None, &words, suite.driver_core)?;
        let done = load::run(&prepare, &*target, &AtomicBool::new(false), &mut Nobody);
        let failed = done.map_err(|wrong| of(wrong.text))?.failed();
        if failed > 0 {
            return Err(of(format!("{failed} operations of the preparation failed")));
        }
    }
    if let Work::Tool(tool) = &measure.work {
        words.insert("clients", clients.to_string());
        words.insert("units", tool.units.to_string());
        if tool.records {
            let file = data.0.join("records.tsv");
            write_records(&file, tool.units).map_err(of)?;
            words.insert("records", file.display().to_string());
        }
    }
    let before = (process.cpu_seconds(), our_cpu_seconds(), Instant::now());
    let done = match &measure.work {
        Work::Load(_) => {
            let done = load::run(&config, &*target, &AtomicBool::new(false), &mut Nobody);
            done.map(|collected| run_of(&collected)).map_err(|wrong| wrong.text)
        }
        Work::Tool(tool) => run_tool(tool, &words, suite.driver_core),
        Work::Idle(time) => {
            std::thread::sleep(*time);
            Ok(Run::default())
        }
    };
    let done = done.map_err(of)?;
    let seconds = before.2.elapsed().as_secs_f64();
    process.check().map_err(of)?;
    Ok(Run {
        version: target.version(),
        fdatasync_us,
        server_cpu: (process.cpu_seconds() - before.0) / seconds,
        driver_cpu: (our_cpu_seconds() - before.1) / seconds,
        memory_bytes: process.memory_bytes(),
        ..done
    })
}

fn run_of(collected: &Collected) -> Run {
    let errors = collected.operations.iter().flat_map(|one| one.errors.clone());
    Run {
        throughput: collected.throughput(),
        latency_us: Percentiles::of(&crate::report::merged(collected)),
        failed: collected.failed(),
        errors: errors.collect(),
        ..Run::default()
    }
}

/// Runs a foreign tool to its end; returns its results.
fn run_tool(tool: &Tool, words: &Words, core: Option<usize>) -> Result<Run, String> {
    let command: Vec<_> = tool.command.iter().map(|word| filled(word, words)).collect();
    let command = bound(&command, core);
    let begin = Instant::now();
    let said = said_by(&command)?;
    let seconds = begin.elapsed().as_secs_f64();
    match tool.gives {
        Gives::Time => {
            Ok(Run { throughput: tool.units as f64 / seconds.max(1e-9), ..Run::default() })
        }
        Gives::RedisBenchmark => {
            let found = redis_benchmark(&said);
            let (throughput, latency_us) =
                found.ok_or_else(|| format!("{}: no table in {said:?}", command.join(" ")))?;
            Ok(Run { throughput, latency_us, ..Run::default() })
        }
    }
}

fn words(place: &SuitePaths, data: &Path) -> Result<Words, String> {
    let mut words = Words::from([
        ("data", data.display().to_string()),
        ("program", place.program.display().to_string()),
        ("peers", place.peers.display().to_string()),
    ]);
    // All ports are held until all are known, so that they differ.
    let mut held = Vec::new();
    for word in PORTS {
        let free = || TcpListener::bind("127.0.0.1:0").and_then(|at| Ok((at.local_addr()?, at)));
        let (address, listener) = free().map_err(|error| error.to_string())?;
        words.insert(word, address.port().to_string());
        held.push(listener);
    }
    Ok(words)
}

/// Processes of a server: one, or the members of a cluster.
pub struct Processes(Vec<Process>);

impl Processes {
    /// Returns an error if one has ended by itself.
    pub fn check(&mut self) -> Result<(), String> {
        self.0.iter_mut().try_for_each(Process::check)
    }

    /// Returns the CPU seconds that they have used.
    pub fn cpu_seconds(&self) -> f64 {
        self.0.iter().map(Process::cpu_seconds).sum()
    }

    fn memory_bytes(&self) -> u64 {
        self.0.iter().map(Process::memory_bytes).sum()
    }

    /// Returns the memory that they hold now, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.0.iter().map(Process::resident_bytes).sum()
    }
}

/// Waits until the server answers; returns a connection to it. Fails if a process ends or the time
/// limit passes.
fn ready(config: &Config, process: &mut Processes) -> Result<Box<dyn Target>, Wrong> {
    if matches!(config.driver, DriverConfig::Etcd(_)) && !cfg!(feature = "etcd") {
        return drivers::prepare(&config.driver);
    }
    let begin = Instant::now();
    loop {
        process.check()?;
        match drivers::prepare(&config.driver) {
            Ok(target) => return Ok(target),
            Err(error) if begin.elapsed() > READY_MAX => {
                let text = format!("the server does not answer: {error}");
                return Err(Wrong::unreachable(text));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn set_up(server: &Server, words: &Words) -> Result<(), String> {
    for command in &server.setup {
        let command: Vec<_> = command.iter().map(|word| filled(word, words)).collect();
        let begin = Instant::now();
        // The cluster's other members may not have started yet.
        while let Err(error) = said_by(&command) {
            if begin.elapsed() > SETUP_MAX {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// Runs a command to its end and returns its output. Fails if the command does.
fn said_by(command: &[String]) -> Result<String, String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(String::new()) };
    let done = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{}: {error}", command.join(" ")))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{}: {}", command.join(" "), said.trim()));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Returns true if a server can be started here: its program exists, and its driver is compiled in.
pub fn is_here(server: &Server, place: &SuitePaths) -> bool {
    let words = Words::from([
        ("program", place.program.display().to_string()),
        ("peers", place.peers.display().to_string()),
    ]);
    let is_etcd = |text: &String| text.contains("etcd_endpoints");
    let driver_is_there = cfg!(feature = "etcd") || !is_etcd(&server.driver.text());
    let program = filled(&server.command[0], &words);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_found = match program.contains('/') {
        true => Path::new(&program).is_file(),
        false => std::env::split_paths(&folders).any(|folder| folder.join(&program).is_file()),
    };
    driver_is_there && is_found
}
