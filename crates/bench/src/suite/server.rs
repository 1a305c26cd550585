//! Start of a server with fresh data: its processes, its relays, and the commands that set it up.

use super::file::{Server, Suite};
use super::metrics::{scrape, sum_of};
use super::point::SuitePaths;
use super::process::{Process, Processes};
use super::relay::Relay;
use super::work::{LEADER, PORTS, Placeholders, RELAYS, SURVIVORS, fill_placeholders};
use load_generator::config::{Config, DriverConfig};
use load_generator::drivers::{Call, Target};
use load_generator::error::BenchError;
use load_generator::{disk, drivers};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a server's first answer.
const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Pause between two tries of a server that does not answer yet.
const READY_PAUSE: Duration = Duration::from_millis(50);
/// Time for which a command of the setup is retried, and a leader is looked for.
const SETUP_TIMEOUT: Duration = Duration::from_secs(20);

/// A data directory, deleted on drop.
pub struct DataDirectory(pub PathBuf);

impl Drop for DataDirectory {
    fn drop(&mut self) {
        // A directory that can't be removed stays visible beside the results.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Command of a process, and the file of its output.
type ProcessCommand = (Vec<String>, PathBuf);

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
    commands: Vec<ProcessCommand>,
    core: Option<usize>,
    /// CPU seconds of processes that were ended by `start_again`.
    ended_cpu_seconds: f64,
    _relays: Vec<Relay>,
}

/// Creates the directory that a run of this name has for itself.
pub fn create_data(paths: &SuitePaths, name: &str) -> Result<DataDirectory, String> {
    let data = DataDirectory(paths.data.join(format!("{name}-{}", std::process::id())));
    // A killed run of the same number may have left a directory.
    let _ = std::fs::remove_dir_all(&data.0);
    std::fs::create_dir_all(&data.0).map_err(|error| error.to_string())?;
    Ok(data)
}

/// Starts a server and prepares it; `config_of` returns the settings of its first load.
pub fn start(
    suite: &Suite,
    name: &str,
    paths: &SuitePaths,
    config_of: &dyn Fn(&Placeholders) -> Result<Config, String>,
) -> Result<StartedServer, String> {
    let server = &suite.servers[name];
    let data = create_data(paths, name)?;
    let fdatasync_us = disk::fdatasync_us(&data.0)?;
    let (placeholders, listeners) = assign_placeholders(paths, &data.0)?;
    let config = config_of(&placeholders)?;
    let relays = server.delay.map_or(Ok(Vec::new()), |delay| start_relays(listeners, delay))?;
    let log = paths.logs.join(format!("{name}.log"));
    let commands = std::iter::once(&server.command).chain(&server.other_commands).enumerate();
    let commands: Vec<ProcessCommand> = commands
        .map(|(number, command)| {
            let command: Vec<_> =
                command.iter().map(|argument| fill_placeholders(argument, &placeholders)).collect();
            let log =
                if number == 0 { log.clone() } else { log.with_extension(format!("{number}.log")) };
            (command, log)
        })
        .collect();
    let mut processes = start_processes(&commands, suite.server_core, &data.0)?;
    // A client that begins in a bucket is refused until the bucket is there.
    set_up(server, &placeholders, &mut processes)?;
    let target = wait_until_ready(&config, &mut processes).map_err(|error| error.text)?;
    Ok(StartedServer {
        target,
        processes,
        data,
        placeholders,
        config,
        fdatasync_us,
        commands,
        core: suite.server_core,
        ended_cpu_seconds: 0.0,
        _relays: relays,
    })
}

fn start_processes(
    commands: &[ProcessCommand],
    core: Option<usize>,
    data: &Path,
) -> Result<Processes, String> {
    let started = commands.iter().map(|(command, log)| Process::start(command, core, data, log));
    started.collect::<Result<_, _>>().map(Processes)
}

impl StartedServer {
    /// Ends the processes with SIGKILL and starts them again on their data. Returns the time from
    /// the start to the first answer of a read.
    pub fn restart(&mut self) -> Result<Duration, String> {
        self.processes.0.iter_mut().for_each(Process::kill);
        let begin = Instant::now();
        self.processes = start_processes(&self.commands, self.core, &self.data.0)?;
        self.target = wait_until_ready(&self.config, &mut self.processes)
            .and_then(|target| {
                call_once(&*target, &Call::Get(b"lone"), "first read").map(|()| target)
            })
            .map_err(|error| error.text)?;
        Ok(begin.elapsed())
    }

    /// Ends the processes with SIGTERM, one after the other, and starts them again on their data.
    /// Returns once the first of them answers.
    pub fn start_again(&mut self) -> Result<(), String> {
        self.ended_cpu_seconds = self.cpu_seconds();
        self.processes.0.iter_mut().for_each(Process::stop);
        self.processes = start_processes(&self.commands, self.core, &self.data.0)?;
        let target = wait_until_ready(&self.config, &mut self.processes);
        self.target = target.map_err(|error| error.text)?;
        Ok(())
    }

    /// Returns the CPU seconds of the processes, with those before they were started again.
    pub fn cpu_seconds(&self) -> f64 {
        self.ended_cpu_seconds + self.processes.cpu_seconds()
    }

    /// Kills one process with SIGKILL.
    pub fn kill(&mut self, index: usize) {
        self.processes.0[index].kill();
    }

    /// Returns the index of the process that leads, by a metric that is above 0 there alone, and
    /// sets the placeholders of its port and of the other processes' ports.
    pub fn find_leader(&mut self, metric: &str) -> Result<usize, String> {
        let ports = [PORTS[0], PORTS[2], PORTS[4]];
        let address = |port: &str| -> Option<SocketAddr> {
            Some(([127, 0, 0, 1], self.placeholders.get(port)?.parse().ok()?).into())
        };
        let leads = |port: &&str| {
            let text = address(port).and_then(|address| scrape(address).ok());
            text.and_then(|text| sum_of(&text, metric)).is_some_and(|value| value > 0.0)
        };
        let begin = Instant::now();
        let leader = loop {
            match ports.iter().position(leads) {
                Some(leader) => break leader,
                None if begin.elapsed() > SETUP_TIMEOUT => {
                    return Err(format!("no process has `{metric}` above 0: nobody leads"));
                }
                None => std::thread::sleep(READY_PAUSE),
            }
        };
        let port = self.placeholders.get(ports[leader]).cloned().unwrap_or_default();
        self.placeholders.insert(LEADER, port);
        let survivors = ports.iter().enumerate().filter(|(index, _)| *index != leader);
        for ((_, port), survivor) in survivors.zip(SURVIVORS) {
            let port = self.placeholders.get(port).cloned().unwrap_or_default();
            self.placeholders.insert(survivor, port);
        }
        Ok(leader)
    }
}

/// Makes one call of a new client, whose name is for errors. A row that is read may be absent.
pub fn call_once(target: &dyn Target, call: &Call<'_>, name: &str) -> Result<(), BenchError> {
    let mut driver = target.driver(1)?;
    driver.begin(0, call);
    driver.send(0);
    let (begin, mut answered) = (Instant::now(), None);
    while answered.is_none() && begin.elapsed() < READY_TIMEOUT {
        driver.wait(READY_PAUSE, &mut |_, _, answer| {
            answered = Some(answer.map(drop).map_err(|failure| failure.kind));
        });
    }
    match answered {
        Some(Ok(())) => Ok(()),
        Some(Err(kind)) => Err(BenchError::unavailable(format!("the {name} failed: {kind}"))),
        None => Err(BenchError::unavailable(format!("the {name} was not answered"))),
    }
}

/// Returns values of all placeholders of a server, and the listeners of its relays' ports.
fn assign_placeholders(
    paths: &SuitePaths,
    data: &Path,
) -> Result<(Placeholders, Vec<(TcpListener, u16)>), String> {
    let mut placeholders = Placeholders::from([
        ("data", data.display().to_string()),
        ("program", paths.program.display().to_string()),
        ("peers", paths.peers.display().to_string()),
    ]);
    // The listeners stay open until all ports are known, so that the ports differ.
    let mut listeners = Vec::new();
    for name in PORTS.into_iter().chain(RELAYS) {
        let free = || {
            TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| Ok((listener.local_addr()?.port(), listener)))
        };
        let (port, listener) = free().map_err(|error| error.to_string())?;
        placeholders.insert(name, port.to_string());
        listeners.push((listener, port));
    }
    let first = placeholders.get(PORTS[0]).cloned().unwrap_or_default();
    placeholders.insert(LEADER, first);
    let relays = listeners.split_off(PORTS.len());
    let targets = listeners.iter().map(|(_, port)| *port);
    let relays = relays.into_iter().map(|(listener, _)| listener).zip(targets).collect();
    Ok((placeholders, relays))
}

fn start_relays(listeners: Vec<(TcpListener, u16)>, delay: Duration) -> Result<Vec<Relay>, String> {
    let relays = listeners.into_iter();
    relays
        .map(|(listener, port)| Relay::start(listener, ([127, 0, 0, 1], port).into(), delay))
        .collect()
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
            Err(_) => std::thread::sleep(READY_PAUSE),
        }
    }
}

/// Runs the commands that prepare a server. Fails if a process ends or the time limit of a command
/// passes.
fn set_up(
    server: &Server,
    placeholders: &Placeholders,
    processes: &mut Processes,
) -> Result<(), String> {
    for command in &server.setup {
        let command: Vec<_> =
            command.iter().map(|argument| fill_placeholders(argument, placeholders)).collect();
        let begin = Instant::now();
        // The server, or the cluster's other members, may not have started yet.
        while let Err(error) = run_command(&command) {
            processes.check()?;
            if begin.elapsed() > SETUP_TIMEOUT {
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}

/// Runs a command to its end and returns its output. Fails if the command does.
pub fn run_command(command: &[String]) -> Result<String, String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(String::new()) };
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", command.join(" ")))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", command.join(" "), stderr.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
