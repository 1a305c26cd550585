//! Environment of an experiment: required tools and rights, permits, scratch folders, commands, and
//! measurements of a process.
//!
//! A scratch folder is deleted when it is dropped; the remains of a killed run are deleted by the
//! next.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, Once, PoisonError};

/// Returns the first requirement of an experiment that the machine lacks, as text. `None`: it has
/// all.
pub fn missing(root: Root, tools: &[&str]) -> Option<String> {
    if root == Root::Needed && !rustix::process::geteuid().is_root() {
        return Some("needs root (mounts, groups, tracing)".into());
    }
    tools.iter().find(|tool| find_tool(tool).is_none()).map(|tool| not_installed(tool))
}

/// Returns the message for an absent tool, with the package to install.
pub fn not_installed(tool: &str) -> String {
    format!("needs `{tool}`, which is not installed (Debian: {})", package(tool))
}

/// Returns the Debian package of a tool; `./check` installs it.
fn package(tool: &str) -> &str {
    match tool {
        "apt-cache" => "apt",
        "ip" => "iproute2",
        "cc" => "gcc",
        "findmnt" | "fsfreeze" | "nsenter" | "prlimit" | "setpriv" | "unshare" => "util-linux",
        "fuser" => "psmisc",
        "java" => "openjdk-17-jdk-headless",
        "libfaketime" => "faketime",
        "mkfs.ext4" => "e2fsprogs",
        "mkfs.xfs" => "xfsprogs",
        "mvn" => "maven",
        "pgrep" => "procps",
        "python3" => "python3-venv",
        "redis-benchmark" | "redis-cli" => "redis-tools",
        "systemd-analyze" | "systemd-socket-activate" => "systemd",
        "tclsh" => "tcl",
        "testssl" => "testssl.sh",
        tool => tool,
    }
}

/// Ports of `free_address`. Below those that the kernel gives to connections and to port 0: any
/// client may get one of those just before a server takes it.
const FREE_PORTS: Range<u16> = 12_000..32_000;

/// Returns an address of loopback whose port nobody uses, and that no other call in this process
/// returned: drawn, since other test programs may run.
pub fn free_address() -> SocketAddr {
    static RETURNED: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    let mut returned = RETURNED.lock().unwrap_or_else(PoisonError::into_inner);
    let mut draws = std::iter::repeat_with(|| rand::random_range(FREE_PORTS)).take(10_000);
    let port = draws.find(|&port| {
        let address = (Ipv4Addr::LOCALHOST, port);
        !returned.contains(&port) && TcpListener::bind(address).is_ok()
    });
    let port = port.expect("one of 20,000 ports is free");
    returned.insert(port);
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Need of an experiment for root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// Root is required: the experiment mounts, limits or traces.
    Needed,
    /// Any user may run it.
    Spared,
}

/// Returns the path of a tool. `None`: not found. System folders are searched too, since they may
/// not be in PATH.
pub fn find_tool(tool: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    path.split(':').map(|folder| Path::new(folder).join(tool)).find(|path| path.is_file())
}

/// Runs a command to its end.
pub fn run(args: &[&str]) -> Output {
    let tool = find_tool(args[0]).unwrap_or_else(|| args[0].into());
    let output = Command::new(tool).args(&args[1..]).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{}: {error}", args[0]))
}

/// Runs a command that must succeed; returns its output.
pub fn run_ok(args: &[&str]) -> String {
    let output = run(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}", args.join(" "), stderr.trim());
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// Number of experiments that run at the same time in the short form: most of them wait for timers
/// and disks, so one more fills the processors. The long form measures, and runs one at a time.
const EXPERIMENTS_AT_ONCE: usize = 2;

static RUNNING_EXPERIMENTS: Mutex<usize> = Mutex::new(0);
static EXPERIMENT_ENDED: Condvar = Condvar::new();

/// Permit to run an experiment; others wait until it is dropped.
#[must_use = "the experiment runs as long as its permit lives"]
pub struct ExperimentPermit(());

/// Waits until one more experiment may run; returns its permit.
pub fn experiment() -> ExperimentPermit {
    let limit = if crate::report::is_long_form() { 1 } else { EXPERIMENTS_AT_ONCE };
    let running = RUNNING_EXPERIMENTS.lock().unwrap_or_else(PoisonError::into_inner);
    let permitted = EXPERIMENT_ENDED.wait_while(running, |running| *running >= limit);
    *permitted.unwrap_or_else(PoisonError::into_inner) += 1;
    ExperimentPermit(())
}

impl Drop for ExperimentPermit {
    fn drop(&mut self) {
        *RUNNING_EXPERIMENTS.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        EXPERIMENT_ENDED.notify_one();
    }
}

/// Sets a stop flag when dropped, also on a panic. A scope waits for all its threads, so a failed
/// test whose threads are never stopped would run for ever.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A folder that is deleted at the end of the test.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Creates a folder named after the experiment; first deletes the remains of killed runs.
    pub fn new(name: &str) -> Scratch {
        static SWEEP: Once = Once::new();
        crate::report::print_panics();
        let parent = crate::tidy::root().join("target/tmp");
        SWEEP.call_once(|| sweep(&parent));
        let path = parent.join(format!("systest-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the target folder can be written");
        Scratch { path }
    }

    /// Creates a folder in memory, where a sync costs nothing. `None`: the machine has no such
    /// place.
    pub fn in_memory(name: &str) -> Option<Scratch> {
        static SWEEP: Once = Once::new();
        let parent = Path::new("/dev/shm");
        SWEEP.call_once(|| sweep(parent));
        let path = parent.join(format!("systest-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir(&path).ok()?;
        Some(Scratch { path })
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a path inside it.
    pub fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Scratch {
    /// Deletes the folder; `CREDENZA_KEEP=1` keeps that of a failed test.
    fn drop(&mut self) {
        if std::env::var_os("CREDENZA_KEEP").is_none() || !std::thread::panicking() {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Unmounts and deletes the remains of runs whose process has ended.
fn sweep(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("systest-").and_then(|rest| rest.split('-').next());
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        if Path::new(&format!("/proc/{pid}")).exists() {
            continue;
        }
        for mounted in mounted_below(&entry.path()) {
            // A file system that a killed test froze would block its writers for ever.
            let _ = run(&["fsfreeze", "-u", &mounted]);
            let _ = run(&["umount", "-l", &mounted]);
        }
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

/// Returns the mount points below a folder, innermost first.
fn mounted_below(folder: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mut points: Vec<String> =
        points.filter(|point| Path::new(point).starts_with(folder)).map(String::from).collect();
    points.sort_by_key(|point| std::cmp::Reverse(point.len()));
    points
}

/// Compiles a small C program of `crates/systest/helpers`, once; returns its path.
pub fn compile_helper(name: &str) -> PathBuf {
    static BUILD_LOCK: Mutex<()> = Mutex::new(());
    let _guard = BUILD_LOCK.lock().unwrap_or_else(|broken| broken.into_inner());
    let source = crate::tidy::root().join(format!("crates/systest/helpers/{name}.c"));
    let folder = crate::tidy::root().join("target/tmp/helpers");
    std::fs::create_dir_all(&folder).expect("the target folder can be written");
    let modified = |path: &Path| path.metadata().and_then(|metadata| metadata.modified()).ok();
    let program = folder.join(name);
    if modified(&program) < modified(&source) {
        let temporary = folder.join(format!("{name}-{}", std::process::id()));
        run_ok(&["cc", "-O1", "-Wall", "-o", path_str(&temporary), path_str(&source)]);
        std::fs::rename(&temporary, &program).expect("both are in one folder");
    }
    program
}

/// Returns a path as text.
pub fn path_str(path: &Path) -> &str {
    path.to_str().expect("our paths are text")
}

/// Returns the bytes of memory that a process holds now.
pub fn resident_bytes(pid: u32) -> u64 {
    process_bytes(pid, "status", "VmRSS:").unwrap_or(0)
}

/// Returns the bytes of a process' memory that are in huge pages now. `None`: it has ended.
pub fn huge_page_bytes(pid: u32) -> Option<u64> {
    process_bytes(pid, "smaps_rollup", "AnonHugePages:")
}

/// Reads a number of bytes from a file of the kernel about a process, which states it in KiB.
fn process_bytes(pid: u32, file: &str, field: &str) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kib: u64 = rest.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// Returns the number of sockets that a process holds now.
pub fn sockets(pid: u32) -> usize {
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = descriptors.filter_map(|file| std::fs::read_link(file.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

/// Returns the seconds of processor time that a process has used.
pub fn cpu_seconds(pid: u32) -> f64 {
    const TICKS_PER_SECOND: f64 = 100.0; // fixed on Linux for what user space sees
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = text.rsplit(')').next().unwrap_or_default();
    let fields = after_name.split_whitespace().skip(11).take(2);
    fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS_PER_SECOND
}
