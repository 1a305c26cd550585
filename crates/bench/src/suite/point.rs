//! One run of a suite: a fresh server, the load, and the resources used.

use super::file::{Measure, Server, Suite, config};
use super::process::{Process, bind_command, own_cpu_seconds};
use super::results::Run;
use super::work::{
    PORTS, Placeholders, SpeedSource, Tool, Work, fill_placeholders, redis_benchmark, write_records,
};
use crate::config::{Config, DriverConfig};
use crate::drivers::Target;
use crate::error::BenchError;
use crate::load::{self, Collected, NullObserver};
use crate::report::Percentiles;
use crate::{disk, drivers};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Time limit for a server's first answer.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Time for which a command of the setup is retried.
const SETUP_TIMEOUT: Duration = Duration::from_secs(20);

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
pub struct DataDirectory(PathBuf);

impl Drop for DataDirectory {
    fn drop(&mut self) {
        // A directory that can't be removed stays visible beside the results.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that answers, with fresh data. A drop ends it and deletes its data.
pub struct StartedServer {
    /// Connection to the server.
    pub target: Box<dyn Target>,
    /// The server's processes, which end before their data is deleted.
    pub processes: Processes,
    /// Its data.
    pub data: DataDirectory,
    /// Values of the placeholders.
    pub placeholders: Placeholders,
    /// Settings of its first load.
    pub config: Config,
    /// Median time of a 4 KiB write with fdatasync before the start, microseconds.
    pub fdatasync_us: f64,
}

/// Starts a server and prepares it; `config_of` returns the settings of its first load.
pub fn start(
    suite: &Suite,
    name: &str,
    paths: &SuitePaths,
    config_of: &dyn Fn(&Placeholders) -> Result<Config, String>,
) -> Result<StartedServer, String> {
    let server = &suite.servers[name];
    let data = DataDirectory(paths.data.join(format!("{name}-{}", std::process::id())));
    // A killed run of the same number may have left a directory.
    let _ = std::fs::remove_dir_all(&data.0);
    std::fs::create_dir_all(&data.0).map_err(|error| error.to_string())?;
    let fdatasync_us = disk::fdatasync_us(&data.0)?;
    let placeholders = assign_placeholders(paths, &data.0)?;
    let config = config_of(&placeholders)?;
    let log = paths.logs.join(format!("{name}.log"));
    let commands = std::iter::once(&server.command).chain(&server.other_commands).enumerate();
    let started: Result<Vec<_>, _> = commands
        .map(|(number, command)| {
            let command: Vec<_> =
                command.iter().map(|argument| fill_placeholders(argument, &placeholders)).collect();
            let log =
                if number == 0 { log.clone() } else { log.with_extension(format!("{number}.log")) };
            Process::start(&command, suite.server_core, &data.0, &log)
        })
        .collect();
    let mut processes = Processes(started?);
    let target = wait_until_ready(&config, &mut processes).map_err(|error| error.text)?;
    set_up(server, &placeholders)?;
    Ok(StartedServer { target, processes, data, placeholders, config, fdatasync_us })
}

/// Runs one point once.
pub fn run(
    suite: &Suite,
    measure: &Measure,
    name: &str,
    clients: usize,
    paths: &SuitePaths,
) -> Result<Run, String> {
    let server = &suite.servers[name];
    let with_context =
        |error: String| format!("{} on {name} with {clients} clients: {error}", measure.name);
    let first_config = |placeholders: &Placeholders| {
        measure.config(server, clients, placeholders, suite.driver_core)
    };
    let StartedServer { target, mut processes, data, mut placeholders, config, fdatasync_us } =
        start(suite, name, paths, &first_config).map_err(with_context)?;
    if let Some(load) = &measure.prepare {
        let prepare = self::config(load, server, None, &placeholders, suite.driver_core)?;
        let result = load::run(&prepare, &*target, &AtomicBool::new(false), &mut NullObserver);
        let failed = result.map_err(|error| with_context(error.text))?.failed();
        if failed > 0 {
            return Err(with_context(format!("{failed} operations of the preparation failed")));
        }
    }
    if let Work::Tool(tool) = &measure.work {
        placeholders.insert("clients", clients.to_string());
        placeholders.insert("units", tool.units.to_string());
        if tool.records {
            let file = data.0.join("records.tsv");
            write_records(&file, tool.units).map_err(with_context)?;
            placeholders.insert("records", file.display().to_string());
        }
    }
    let baseline = (processes.cpu_seconds(), own_cpu_seconds(), Instant::now());
    let result = match &measure.work {
        Work::Load(_) => {
            let result = load::run(&config, &*target, &AtomicBool::new(false), &mut NullObserver);
            result.map(|collected| run_from(&collected)).map_err(|error| error.text)
        }
        Work::Tool(tool) => run_tool(tool, &placeholders, suite.driver_core),
        Work::Idle(time) => {
            std::thread::sleep(*time);
            Ok(Run::default())
        }
    };
    let result = result.map_err(with_context)?;
    let seconds = baseline.2.elapsed().as_secs_f64();
    processes.check().map_err(with_context)?;
    Ok(Run {
        version: target.version(),
        fdatasync_us,
        server_cpu: (processes.cpu_seconds() - baseline.0) / seconds,
        driver_cpu: (own_cpu_seconds() - baseline.1) / seconds,
        memory_bytes: processes.memory_bytes(),
        ..result
    })
}

fn run_from(collected: &Collected) -> Run {
    let errors = collected.operations.iter().flat_map(|operation| operation.errors.clone());
    Run {
        throughput: collected.throughput(),
        latency_us: Percentiles::from_histogram(&crate::report::merged_latency(collected)),
        failed: collected.failed(),
        errors: errors.collect(),
        ..Run::default()
    }
}

/// Runs a foreign tool to its end; returns its results.
fn run_tool(tool: &Tool, placeholders: &Placeholders, core: Option<usize>) -> Result<Run, String> {
    let command: Vec<_> =
        tool.command.iter().map(|argument| fill_placeholders(argument, placeholders)).collect();
    let command = bind_command(&command, core);
    let begin = Instant::now();
    let said = run_command(&command)?;
    let seconds = begin.elapsed().as_secs_f64();
    match tool.speed_source {
        SpeedSource::Time => {
            Ok(Run { throughput: tool.units as f64 / seconds.max(1e-9), ..Run::default() })
        }
        SpeedSource::RedisBenchmark => {
            let table = redis_benchmark(&said);
            let (throughput, latency_us) =
                table.ok_or_else(|| format!("{}: no table in {said:?}", command.join(" ")))?;
            Ok(Run { throughput, latency_us, ..Run::default() })
        }
    }
}

fn assign_placeholders(paths: &SuitePaths, data: &Path) -> Result<Placeholders, String> {
    let mut placeholders = Placeholders::from([
        ("data", data.display().to_string()),
        ("program", paths.program.display().to_string()),
        ("peers", paths.peers.display().to_string()),
    ]);
    // The listeners stay open until all ports are known, so that the ports differ.
    let mut listeners = Vec::new();
    for name in PORTS {
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| Ok((listener.local_addr()?, listener)))
        };
        let (address, listener) = free().map_err(|error| error.to_string())?;
        placeholders.insert(name, address.port().to_string());
        listeners.push(listener);
    }
    Ok(placeholders)
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

    /// Returns the bytes that they have caused to be written to disks.
    pub fn written_bytes(&self) -> u64 {
        self.0.iter().map(Process::written_bytes).sum()
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
fn wait_until_ready(
    config: &Config,
    processes: &mut Processes,
) -> Result<Box<dyn Target>, BenchError> {
    if matches!(config.driver, DriverConfig::Etcd(_)) && !cfg!(feature = "etcd") {
        return drivers::prepare(&config.driver);
    }
    let begin = Instant::now();
    loop {
        processes.check()?;
        match drivers::prepare(&config.driver) {
            Ok(target) => return Ok(target),
            Err(error) if begin.elapsed() > READY_TIMEOUT => {
                let text = format!("the server does not answer: {error}");
                return Err(BenchError::unavailable(text));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn set_up(server: &Server, placeholders: &Placeholders) -> Result<(), String> {
    for command in &server.setup {
        let command: Vec<_> =
            command.iter().map(|argument| fill_placeholders(argument, placeholders)).collect();
        let begin = Instant::now();
        // The cluster's other members may not have started yet.
        while let Err(error) = run_command(&command) {
            if begin.elapsed() > SETUP_TIMEOUT {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// Runs a command to its end and returns its output. Fails if the command does.
fn run_command(command: &[String]) -> Result<String, String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(String::new()) };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", command.join(" ")))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", command.join(" "), stderr.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns true if a server can be started here: its program exists, and its driver is compiled in.
pub fn is_installed(server: &Server, paths: &SuitePaths) -> bool {
    let placeholders = Placeholders::from([
        ("program", paths.program.display().to_string()),
        ("peers", paths.peers.display().to_string()),
    ]);
    let is_etcd = |text: &String| text.contains("etcd_endpoints");
    let is_driver_available = cfg!(feature = "etcd") || !is_etcd(&server.driver.text());
    let program = fill_placeholders(&server.command[0], &placeholders);
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let is_program_found = match program.contains('/') {
        true => Path::new(&program).is_file(),
        false => std::env::split_paths(&folders).any(|folder| folder.join(&program).is_file()),
    };
    is_driver_available && is_program_found
}
