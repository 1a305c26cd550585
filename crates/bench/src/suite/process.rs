//! Server process: started on its core, measured through /proc, ended only by its owner.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a server to end by itself after SIGTERM.
const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// Ticks a second in /proc/PID/stat: 100 on every current Linux.
const TICKS_PER_SECOND: f64 = 100.0;

/// Time without writes after which a store has settled: three times what it waits before it merges
/// because nobody asks it anything.
const QUIET: Duration = Duration::from_secs(30);
/// Interval of the look at what was written, and the most bytes of one that count as nothing.
const QUIET_STEP: Duration = Duration::from_secs(2);
const QUIET_STEP_BYTES: u64 = 256 * 1024;

/// A running server; ended when dropped.
pub struct Process {
    child: Child,
    log: std::path::PathBuf,
    /// True if its owner killed it, so that its end is no failure.
    is_killed: bool,
}

impl Process {
    /// Starts it with `data` as its working directory; its output goes to `log`.
    pub fn start(
        command: &[String],
        core: Option<usize>,
        data: &Path,
        log: &Path,
    ) -> Result<Process, String> {
        let command_line = with_parent_death_signal(bind_command(command, core));
        let file = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let stderr_file = file.try_clone().map_err(|error| error.to_string())?;
        let child = Command::new(&command_line[0])
            .args(&command_line[1..])
            .current_dir(data)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(stderr_file)
            .spawn();
        let child =
            child.map_err(|error| format!("can't start {}: {error}", command_line.join(" ")))?;
        Ok(Process { child, log: log.to_path_buf(), is_killed: false })
    }

    /// Returns an error if it has ended by itself, with the end of its output.
    pub fn check(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(_)) if self.is_killed => Ok(()),
            Ok(Some(status)) => Err(format!("the server ended ({status}): {}", self.last_output())),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Returns false once it has ended by itself with success; an error if it has failed.
    pub fn is_running(&mut self) -> Result<bool, String> {
        match self.child.try_wait() {
            Ok(None) => Ok(true),
            Ok(Some(status)) if status.success() => Ok(false),
            Ok(Some(status)) => Err(format!("it ended ({status}): {}", self.last_output())),
            Err(error) => Err(error.to_string()),
        }
    }

    fn last_output(&self) -> String {
        let output = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last: Vec<_> = output.lines().rev().take(3).collect();
        last.into_iter().rev().collect::<Vec<_>>().join(" | ")
    }

    /// Ends it with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        self.is_killed = true;
        // A process that has ended already can't be killed; then only the wait matters.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Returns its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the CPU seconds that it has used.
    pub fn cpu_seconds(&self) -> f64 {
        cpu_seconds(&self.child.id().to_string())
    }

    /// Returns the most memory that it has held, in bytes.
    pub fn memory_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    /// Returns the memory that it holds now, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// Returns the bytes that it has caused to be written to disks.
    pub fn written_bytes(&self) -> u64 {
        let io = std::fs::read_to_string(format!("/proc/{}/io", self.child.id()));
        written_bytes(&io.unwrap_or_default())
    }

    fn status_bytes(&self, name: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    }

    /// Sends SIGTERM, waits, and kills the process if it does not end in time.
    pub fn stop(&mut self) {
        let pid = Pid::from_child(&self.child);
        let begin = Instant::now();
        if let Ok(None) = self.child.try_wait() {
            // The process may have ended since the check; then the signal fails.
            let _ = kill_process(pid, Signal::TERM);
        }
        while let Ok(None) = self.child.try_wait() {
            if begin.elapsed() > STOP_TIMEOUT {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Processes of a server: one, or the members of a cluster.
pub struct Processes(pub Vec<Process>);

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

    /// Returns the most memory that they have held, in bytes: the sum of each one's own peak.
    pub fn memory_bytes(&self) -> u64 {
        self.0.iter().map(Process::memory_bytes).sum()
    }

    /// Returns the memory that they hold now, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.0.iter().map(Process::resident_bytes).sum()
    }

    /// Waits until they have written almost nothing for a while, at most `limit`.
    pub fn wait_until_settled(&self, limit: Duration) {
        let (begin, mut quiet_since) = (Instant::now(), Instant::now());
        let mut written = self.written_bytes();
        while begin.elapsed() < limit && quiet_since.elapsed() < QUIET {
            std::thread::sleep(QUIET_STEP);
            let now = self.written_bytes();
            if now.saturating_sub(written) > QUIET_STEP_BYTES {
                quiet_since = Instant::now();
            }
            written = now;
        }
    }

    /// Returns their numbers.
    pub fn ids(&self) -> Vec<u32> {
        self.0.iter().map(Process::id).collect()
    }
}

/// Returns the CPU seconds of a process, all its threads together.
fn cpu_seconds(pid: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    ticks(&stat).0 as f64 / TICKS_PER_SECOND
}

/// Returns the CPU seconds of this process and of the programs that it ran to their end.
pub fn own_cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let (own, children) = ticks(&stat);
    (own + children) as f64 / TICKS_PER_SECOND
}

/// Returns the CPU seconds of the programs that this process ran to their end.
pub fn ended_cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    ticks(&stat).1 as f64 / TICKS_PER_SECOND
}

/// Returns user plus system time in a line of /proc/PID/stat, its own and that of its ended
/// children. The name in the line may contain any character.
pub fn ticks(stat: &str) -> (u64, u64) {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields: Vec<_> = fields.split_whitespace().collect();
    let number = |index: usize| fields.get(index).and_then(|field| field.parse().ok());
    let sum = |index| number(index).unwrap_or(0u64) + number(index + 1).unwrap_or(0u64);
    (sum(11), sum(13))
}

/// Returns the bytes written to disks in the text of /proc/PID/io.
pub fn written_bytes(io: &str) -> u64 {
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
}

/// Wraps a command so that it gets SIGTERM when this program ends in any way: a killed suite leaves
/// no server behind. Without `setpriv` (of util-linux) the servers of a killed suite keep running.
fn with_parent_death_signal(command: Vec<String>) -> Vec<String> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&folders).any(|folder| folder.join("setpriv").is_file()) {
        return command;
    }
    let wrapper = ["setpriv", "--pdeathsig", "TERM", "--"].map(String::from);
    wrapper.into_iter().chain(command).collect()
}

/// Binds a command to a core, if one is given.
pub fn bind_command(command: &[String], core: Option<usize>) -> Vec<String> {
    let core = core.map(|core| ["taskset".to_string(), "-c".into(), core.to_string()]);
    core.into_iter().flatten().chain(command.iter().cloned()).collect()
}
