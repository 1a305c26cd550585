//! One run, from its settings to its folder of results.

use crate::config::{Config, Items};
use crate::console::print;
use crate::error::BenchError;
use crate::load::Collected;
use crate::report::{
    Csv, Curves, Folder, Live, Observers, ProgressPrinter, RunReport, describe_load, time_name,
};
use crate::{disk, drivers, load, machine};
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// Kind of progress display of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressDisplay {
    /// No display.
    Nothing,
    /// One line for every interval.
    Lines,
    /// A view of the whole terminal; lines if the output is not a terminal.
    Live,
}

/// Runs a load and writes its results; returns the folder and the report.
pub fn run(
    config: &Config,
    name: Option<&str>,
    display: ProgressDisplay,
) -> Result<(PathBuf, RunReport), BenchError> {
    machine::allow_many_files();
    let started = time_name(SystemTime::now());
    let name = name.unwrap_or(&started).to_string();
    let fdatasync_us_p50 = config.disk_dir.as_deref().map(disk::fdatasync_us).transpose()?;
    let target = drivers::prepare(&config.driver)?;
    let folder = Folder::create(&config.test_dir, &name)?;
    folder.write("config.toml", &config.text)?;
    let title = format!("{name}: {}, {} clients", target.version(), config.concurrent);
    if display != ProgressDisplay::Nothing {
        print(&describe_load(config, &target.version()))?;
    }
    let (mut csv, mut curves) = (Csv::create(&folder.path, config)?, Curves::default());
    let stop = stop_on_ctrl_c()?;
    let measured = {
        let (mut live, mut progress);
        let mut observers = Observers(vec![&mut csv, &mut curves]);
        match display {
            ProgressDisplay::Live if std::io::stdout().is_terminal() => {
                live = Live::new(config, title)?;
                observers.0.push(&mut live);
            }
            ProgressDisplay::Live | ProgressDisplay::Lines => {
                progress = ProgressPrinter::new(config);
                observers.0.push(&mut progress);
            }
            ProgressDisplay::Nothing => {}
        }
        load::run(config, &*target, &stop, &mut observers)
    };
    let (version, closed) = (target.version(), target.close());
    let collected = measured?;
    closed?;
    let report = RunReport {
        name,
        started,
        credenza: env!("CARGO_PKG_VERSION").into(),
        driver: config.driver.name().into(),
        server: version,
        machine: machine::Machine::current(),
        fdatasync_us_p50,
        config: config.text.clone(),
        ..RunReport::of(&collected)
    };
    folder.finish(config, &report, &collected, &curves)?;
    Ok((folder.path, report))
}

/// Runs the load of these settings and returns its measurements; displays and writes nothing.
/// `name`: the settings' name in errors.
pub fn measure(name: &str, settings: &str) -> Result<Collected, BenchError> {
    machine::allow_many_files();
    let config = Config::read(Items::parse(name, settings)?)?;
    let target = drivers::prepare(&config.driver)?;
    let measured =
        load::run(&config, &*target, &AtomicBool::new(false), &mut Observers(Vec::new()));
    let closed = target.close();
    let collected = measured?;
    closed?;
    Ok(collected)
}

/// Returns a flag that Ctrl-C sets, so that a run that is ended early writes its results.
fn stop_on_ctrl_c() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let ctrl_c_flag = stop.clone();
    // The thread lives as long as the process: a signal with a handler no longer ends the process.
    std::thread::spawn(move || {
        while runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
            ctrl_c_flag.store(true, Ordering::Relaxed);
        }
    });
    Ok(stop)
}
