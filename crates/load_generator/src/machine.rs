//! The machine a run happens on: its description, and its cores, files and disk.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Description of the machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Number of cores that this process may use.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Name and version of the kernel.
    pub kernel: String,
}

impl Machine {
    /// Returns the description of this machine; unknown fields are empty.
    pub fn current() -> Machine {
        let field = |file: &str, name: &str| {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split_once(':').map_or("", |(_, value)| value).trim().to_string()
        };
        let memory_kib = field("/proc/meminfo", "MemTotal");
        let memory_kib = memory_kib.trim_end_matches(" kB").parse().unwrap_or(0u64);
        let system = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        Machine {
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            memory_bytes: memory_kib * 1024,
            kernel: format!("{} {}", text(system.sysname()), text(system.release())),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Machine { processor, cores, memory_bytes, kernel } = self;
        let memory_gb = memory_bytes.div_ceil(1 << 30);
        write!(f, "{processor}, {cores} cores, {memory_gb} GB of memory, {kernel}")
    }
}

/// Returns the short commit of the work tree that this process runs in, with a `+` behind it if
/// files that are tracked were changed. Empty: there is no work tree, or no git.
pub fn current_commit() -> String {
    let git = |arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
        output.status.success().then_some(text)
    };
    let Some(commit) = git(&["rev-parse", "--short", "HEAD"]) else { return String::new() };
    // Documents change while suites write them; the program is what counts.
    let changes = git(&["status", "--porcelain", "-uno", "--", ":/crates", ":/Cargo.lock"]);
    match changes.is_some_and(|changes| changes.is_empty()) {
        true => commit,
        false => format!("{commit}+"),
    }
}

/// Binds the calling thread to a core.
pub fn bind_to_core(core: usize) -> Result<(), String> {
    let mut cores = rustix::thread::CpuSet::new();
    cores.set(core);
    rustix::thread::sched_setaffinity(None, &cores)
        .map_err(|error| format!("can't bind a thread to core {core}: {error}"))
}

/// Binding of the calling thread, and of threads that it starts, to one core. Its drop binds the
/// calling thread to the cores of before.
#[must_use]
pub struct CoreBinding {
    previous: rustix::thread::CpuSet,
}

impl CoreBinding {
    /// Binds the calling thread.
    pub fn new(core: usize) -> Result<CoreBinding, String> {
        let previous = rustix::thread::sched_getaffinity(None)
            .map_err(|error| format!("can't read the cores of a thread: {error}"))?;
        bind_to_core(core)?;
        Ok(CoreBinding { previous })
    }
}

impl Drop for CoreBinding {
    fn drop(&mut self) {
        // The thread had these cores before; without them it would only be slower.
        let _ = rustix::thread::sched_setaffinity(None, &self.previous);
    }
}

/// Raises the limit of open files as far as allowed: each connection needs one.
pub fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // A refusal is ignored: connecting reports it when the files run out.
    let _ = setrlimit(Resource::Nofile, limit);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity};

    #[test]
    fn core_binding_ends_with_its_drop() {
        let cores = || sched_getaffinity(None).expect("a thread has cores");
        let before = cores();
        let core = (0..CpuSet::MAX_CPU).find(|core| before.is_set(*core)).expect("a core");
        let binding = CoreBinding::new(core).expect("bound");
        assert!(cores().count() == 1 && cores().is_set(core));
        drop(binding);
        assert!((0..CpuSet::MAX_CPU).all(|core| cores().is_set(core) == before.is_set(core)));
    }
}
