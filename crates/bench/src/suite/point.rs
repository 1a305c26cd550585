//! One run of a suite: a fresh server, the load, what it cost.

use super::file::{Measure, Server, Suite, Words, config, filled};
use super::process::{Process, cpu_seconds};
use super::results::Run;
use crate::config::{Config, DriverConfig};
use crate::drivers::Target;
use crate::load::{self, Row, View};
use crate::report::Percentiles;
use crate::{disk, drivers};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long a server may take until it answers.
const READY_MAX: Duration = Duration::from_secs(60);

/// Where things are.
pub struct Place {
    /// This program.
    pub program: PathBuf,
    /// The folder of the peers' programs.
    pub peers: PathBuf,
    /// Where data directories are made.
    pub data: PathBuf,
    /// Where the servers' words are kept.
    pub logs: PathBuf,
}

/// A data directory that goes away with this.
struct Data(PathBuf);

impl Drop for Data {
    fn drop(&mut self) {
        // What can't be removed stays where the results are, in sight.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Nobody;

impl View for Nobody {
    fn row(&mut self, _row: &Row) -> Result<(), String> {
        Ok(())
    }
}

/// Runs one point once.
pub fn run(
    suite: &Suite,
    measure: &Measure,
    name: &str,
    clients: usize,
    place: &Place,
) -> Result<Run, String> {
    let server = &suite.servers[name];
    let of = |error: String| format!("{} on {name} with {clients} clients: {error}", measure.name);
    let data = Data(place.data.join(format!("{name}-{}", std::process::id())));
    // Left by an earlier run of the same number that was killed.
    let _ = std::fs::remove_dir_all(&data.0);
    std::fs::create_dir_all(&data.0).map_err(|error| of(error.to_string()))?;
    let fdatasync_us = disk::fdatasync_us(&data.0).map_err(of)?;
    let words = words(place, &data.0)?;
    let config = measure.config(server, clients, &words, suite.driver_core)?;
    let command: Vec<_> = server.command.iter().map(|word| filled(word, &words)).collect();
    let log = place.logs.join(format!("{name}.log"));
    let mut process = Process::start(&command, suite.server_core, &data.0, &log).map_err(of)?;
    let target = ready(&config, &mut process).map_err(of)?;
    set_up(server, &words).map_err(of)?;
    if let Some(load) = &measure.prepare {
        let prepare = self::config(load, server, None, &words, suite.driver_core)?;
        let done = load::run(&prepare, &*target, &AtomicBool::new(false), &mut Nobody);
        let failed = done.map_err(of)?.failed();
        if failed > 0 {
            return Err(of(format!("{failed} operations of the preparation failed")));
        }
    }
    let before = (process.cpu_seconds(), cpu_seconds("self"), Instant::now());
    let collected =
        load::run(&config, &*target, &AtomicBool::new(false), &mut Nobody).map_err(of)?;
    let seconds = before.2.elapsed().as_secs_f64();
    process.check().map_err(of)?;
    let errors = collected.operations.iter().flat_map(|one| one.errors.clone()).collect();
    Ok(Run {
        version: target.version(),
        throughput: collected.throughput(),
        latency_us: Percentiles::of(&crate::report::merged(&collected)),
        failed: collected.failed(),
        errors,
        fdatasync_us,
        server_cpu: (process.cpu_seconds() - before.0) / seconds,
        driver_cpu: (cpu_seconds("self") - before.1) / seconds,
        memory_bytes: process.memory_bytes(),
    })
}

fn words(place: &Place, data: &Path) -> Result<Words, String> {
    // Both are held until both are known, so that they differ.
    let free = || TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string());
    let (one, two) = (free()?, free()?);
    let port = |listener: &TcpListener| match listener.local_addr() {
        Ok(address) => Ok(address.port().to_string()),
        Err(error) => Err(error.to_string()),
    };
    Ok(Words::from([
        ("data", data.display().to_string()),
        ("port", port(&one)?),
        ("port2", port(&two)?),
        ("program", place.program.display().to_string()),
        ("peers", place.peers.display().to_string()),
    ]))
}

/// Waits until the server answers.
fn ready(config: &Config, process: &mut Process) -> Result<Box<dyn Target>, String> {
    if matches!(config.driver, DriverConfig::Etcd(_)) && !cfg!(feature = "etcd") {
        return drivers::prepare(&config.driver);
    }
    let begin = Instant::now();
    loop {
        process.check()?;
        match drivers::prepare(&config.driver) {
            Ok(target) => return Ok(target),
            Err(error) if begin.elapsed() > READY_MAX => {
                return Err(format!("the server does not answer: {error}"));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn set_up(server: &Server, words: &Words) -> Result<(), String> {
    for command in &server.setup {
        let command: Vec<_> = command.iter().map(|word| filled(word, words)).collect();
        let Some((program, arguments)) = command.split_first() else { continue };
        let done = Command::new(program).args(arguments).output();
        let done = done.map_err(|error| format!("{}: {error}", command.join(" ")))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("{}: {}", command.join(" "), said.trim()));
        }
    }
    Ok(())
}
