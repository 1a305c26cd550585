//! One run of a suite: a fresh server, the load, and the resources used.

use super::coupons;
use super::failover;
use super::feeds;
use super::file::{Server, Suite, config};
use super::measure::Measure;
use super::process::{bind_command, own_cpu_seconds};
use super::progress::ProgressLine;
use super::results::Run;
use super::server::{StartedServer, run_command, start};
use super::work::{
    Placeholders, SpeedSource, Tool, Work, fill_placeholders, redis_benchmark, write_records,
};
use crate::flame::Recording;
use load_generator::load::{self, Collected};
use load_generator::machine::CoreBinding;
use load_generator::report::Percentiles;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

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

/// One point: a measure with a number of clients on a server.
pub struct PointRun<'a> {
    /// The suite.
    pub suite: &'a Suite,
    /// The measure.
    pub measure: &'a Measure,
    /// Name of the server.
    pub server: &'a str,
    /// Number of clients.
    pub clients: usize,
}

impl PointRun<'_> {
    /// Runs the point once. `flame_graph`: file that gets a flame graph of the server's processor
    /// time.
    pub fn run(&self, paths: &SuitePaths, flame_graph: Option<&Path>) -> Result<Run, String> {
        let PointRun { measure, server, clients, .. } = self;
        self.run_without_context(paths, flame_graph).map_err(|error| {
            format!("{} on {server} with {clients} clients: {error}", measure.name)
        })
    }

    fn run_without_context(
        &self,
        paths: &SuitePaths,
        flame_graph: Option<&Path>,
    ) -> Result<Run, String> {
        let PointRun { suite, measure, server: name, clients } = *self;
        let server = &suite.servers[name];
        let first_config = |placeholders: &Placeholders| {
            measure.config(server, clients, placeholders, suite.driver_core)
        };
        let mut started = start(suite, name, paths, &first_config)?;
        self.prepare(server, &started)?;
        if let Work::Tool(tool) = &measure.work {
            add_tool_placeholders(tool, clients, &mut started)?;
        }
        let recording = flame_graph.map(|file| {
            Recording::start(started.processes.ids(), started.config.warm_up, file.to_path_buf())
        });
        let baseline = (started.cpu_seconds(), own_cpu_seconds(), Instant::now());
        let result = self.work(server, &mut started)?;
        let seconds = baseline.2.elapsed().as_secs_f64();
        // A process that was killed has no times any more.
        let cpu_seconds = (started.cpu_seconds() - baseline.0).max(0.0);
        started.processes.check()?;
        let run = Run {
            version: started.target.version(),
            fdatasync_us: started.fdatasync_us,
            server_cpu: cpu_seconds / seconds,
            driver_cpu: (own_cpu_seconds() - baseline.1) / seconds,
            memory_bytes: started.processes.memory_bytes(),
            ..result
        };
        recording.map_or(Ok(()), Recording::finish)?;
        Ok(run)
    }

    /// Runs the load that is not measured.
    fn prepare(&self, server: &Server, started: &StartedServer) -> Result<(), String> {
        let Some(load) = &self.measure.prepare else { return Ok(()) };
        let core = self.suite.driver_core;
        let prepare = config(load, server, None, &started.placeholders, core)?;
        let mut progress = ProgressLine::new(format!("preparation of {}", self.measure.name));
        let result = load::run(&prepare, &*started.target, &AtomicBool::new(false), &mut progress);
        match result.map_err(|error| error.text)?.failed() {
            0 => Ok(()),
            failed => Err(format!("{failed} operations of the preparation failed")),
        }
    }

    /// Does the work that is measured.
    fn work(&self, server: &Server, started: &mut StartedServer) -> Result<Run, String> {
        let core = self.suite.driver_core;
        let _binding = self.bind_thread()?;
        match &self.measure.work {
            Work::Load(_) => {
                let mut progress = ProgressLine::new(self.measure.name.as_str());
                let stop = AtomicBool::new(false);
                let result = load::run(&started.config, &*started.target, &stop, &mut progress);
                let collected = result.map_err(|error| error.text)?;
                let mut run = run_from(&collected);
                if let Some(published) = &self.measure.published {
                    published.add_figures(&mut run, self.clients, collected.ok());
                }
                Ok(run)
            }
            Work::Tool(tool) => run_tool(tool, &started.placeholders, core),
            Work::Idle(time) => {
                std::thread::sleep(*time);
                Ok(Run::default())
            }
            Work::Failover(work) => failover::run(work, server, started, (self.clients, core)),
            Work::Coupons(work) => coupons::run(work, server, started, self.clients),
            Work::Feed(work) => feeds::run(work, started, self.clients),
        }
    }

    /// Binds this thread to the core of the load, for work that it does itself. The servers have
    /// their own core then: a process that is started meanwhile would inherit this one.
    fn bind_thread(&self) -> Result<Option<CoreBinding>, String> {
        let is_own_work = matches!(self.measure.work, Work::Coupons(_) | Work::Feed(_));
        let core = self.suite.server_core.and(self.suite.driver_core).filter(|_| is_own_work);
        core.map(CoreBinding::new).transpose()
    }
}

/// Returns throughput, latency and failures of a load.
pub fn run_from(collected: &Collected) -> Run {
    let errors = collected.operations.iter().flat_map(|operation| operation.errors.clone());
    Run {
        throughput: collected.throughput(),
        latency_us: Percentiles::from_histogram(&load_generator::report::merged_latency(collected)),
        failed: collected.failed(),
        errors: errors.collect(),
        ..Run::default()
    }
}

fn add_tool_placeholders(
    tool: &Tool,
    clients: usize,
    started: &mut StartedServer,
) -> Result<(), String> {
    started.placeholders.insert("clients", clients.to_string());
    started.placeholders.insert("units", tool.units.to_string());
    if tool.records {
        let file = started.data.0.join("records.tsv");
        write_records(&file, tool.units)?;
        started.placeholders.insert("records", file.display().to_string());
    }
    Ok(())
}

/// Runs a foreign tool to its end; returns its results.
fn run_tool(tool: &Tool, placeholders: &Placeholders, core: Option<usize>) -> Result<Run, String> {
    let command: Vec<_> =
        tool.command.iter().map(|argument| fill_placeholders(argument, placeholders)).collect();
    if !is_program_found(&command[0]) {
        return Err(absent(&command[0], &tool.install));
    }
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

/// Returns the message about a program that is not there; `install` is the command that installs
/// it, or empty.
pub fn absent(program: &str, install: &str) -> String {
    match install {
        "" => format!("the program `{program}` is not here (`make bench` sets it up)"),
        install => format!("the program `{program}` is not here: {install}"),
    }
}

/// Returns an error if a server can't be started here: its program is absent, or its driver is not
/// compiled in. The error says what to do.
pub fn check_installed(server: &Server, paths: &SuitePaths) -> Result<(), String> {
    let placeholders = Placeholders::from([
        ("program", paths.program.display().to_string()),
        ("peers", paths.peers.display().to_string()),
    ]);
    let program = fill_placeholders(&server.command[0], &placeholders);
    if !is_program_found(&program) {
        return Err(absent(&program, &server.install));
    }
    match cfg!(feature = "etcd") || !server.driver.text().contains("etcd_endpoints") {
        true => Ok(()),
        false => Err("the load tool was built without the driver `etcd`: `apt-get install -y \
                      protobuf-compiler libprotobuf-dev`, then `cargo build --release -p bench \
                      --features etcd`"
            .into()),
    }
}

/// Returns true if a program is there: a path, or a name in a folder of PATH.
pub fn is_program_found(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    match program.contains('/') {
        true => Path::new(program).is_file(),
        false => std::env::split_paths(&folders).any(|folder| folder.join(program).is_file()),
    }
}
