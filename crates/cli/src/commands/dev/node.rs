//! One node of `credenza dev`: a separate process, with its folder and its log beside it.

use program::{Failure, Outcome};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// A node that this process started.
pub struct DevNode {
    /// `n1`, `n2`, ...
    pub name: String,
    command: Command,
    log: PathBuf,
    process: Child,
    /// True if its exit was reported.
    is_exit_reported: bool,
}

impl DevNode {
    /// Starts `credenza serve` with these arguments; its output goes to a log in the folder.
    pub fn start(folder: &Path, name: String, arguments: &[String]) -> Outcome<DevNode> {
        let log = folder.join(format!("{name}.log"));
        let executable =
            std::env::current_exe().map_err(|error| Failure::file("run", &log, &error))?;
        let mut command = Command::new(executable);
        command.arg("serve").args(arguments);
        let process = spawn(&mut command, &log)?;
        Ok(DevNode { name, command, log, process, is_exit_reported: false })
    }

    /// Restarts it with the same arguments. It must have ended.
    pub fn restart(&mut self) -> Outcome {
        self.process = spawn(&mut self.command, &self.log)?;
        self.is_exit_reported = false;
        Ok(())
    }

    /// Returns true if its process runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.try_wait(), Ok(None))
    }

    /// Returns its exit status once, after it has ended. `None`: it runs, or its end was reported.
    pub fn take_exit_status(&mut self) -> Option<ExitStatus> {
        let status = self.process.try_wait().ok()?.filter(|_| !self.is_exit_reported);
        self.is_exit_reported |= status.is_some();
        status
    }

    /// Stops it cleanly.
    pub fn stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it, as a crash would.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        if let Some(id) = Pid::from_raw(self.process.id().cast_signed()) {
            // An ended child process keeps its id until it is waited for.
            let _ = kill_process(id, signal);
        }
    }

    /// Returns the last error that it logged, with the log's path.
    pub fn last_error(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let line = text.lines().rev().find(|line| line.starts_with("credenza: "));
        let line = line.unwrap_or("it said nothing").trim_start_matches("credenza: ");
        format!("{line} ({})", self.log.display())
    }
}

fn spawn(command: &mut Command, log: &Path) -> Outcome<Child> {
    let io_failure = |error| Failure::file("run", log, &error);
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(log);
    let file = file.map_err(io_failure)?;
    let stderr_file = file.try_clone().map_err(io_failure)?;
    command.stdin(Stdio::null()).stdout(file).stderr(stderr_file).spawn().map_err(io_failure)
}

/// Describes for people how a process ended.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(0), _) => "it was stopped".into(),
        (Some(code), _) => format!("it ended with code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "it ended".into(),
    }
}
