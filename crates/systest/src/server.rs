//! Server process: the real binary as a child process, which is started, awaited, killed by its own
//! id, and restarted.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Longest wait for the ready line, on a busy machine.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// Environment variable with the rule that servers break, when a test of these tests has built them
/// for it (F-59).
pub const MUTANT_VARIABLE: &str = "CREDENZA_MUTANT";

/// Setup of a server's start.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The data directory.
    pub data: PathBuf,
    /// Value of `--listen`; empty: any free port of loopback.
    pub listen: String,
    /// Further arguments of the command line.
    pub args: Vec<String>,
    /// Further environment.
    pub environment: Vec<(String, String)>,
    /// Command that runs the server (`strace ...`): its arguments precede the server's.
    pub wrapper: Vec<String>,
    /// True if neither `--data` nor `--listen` is passed: a file among the arguments sets both.
    pub from_file: bool,
    /// Program that runs instead of the one under test, as one of a former release.
    pub program: Option<PathBuf>,
}

impl Setup {
    /// Returns a setup with this data directory and the product's defaults.
    pub fn new(data: &Path) -> Setup {
        Setup { data: data.into(), ..Setup::default() }
    }

    /// Returns a setup by a configuration file, which sets this data directory.
    pub fn from_file(data: &Path) -> Setup {
        Setup { from_file: true, ..Setup::new(data) }
    }

    /// Adds flags of the command line, each with its value; an earlier one of the same name is
    /// replaced.
    pub fn with_args(mut self, args: &[&str]) -> Setup {
        for pair in args.chunks(2) {
            let position = self.args.iter().position(|arg| arg == pair[0]);
            if let Some(at) = position {
                self.args.drain(at..(at + 2).min(self.args.len()));
            }
            self.args.extend(pair.iter().map(|arg| arg.to_string()));
        }
        self
    }

    /// Adds an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Setup {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// Sets the command that runs the server.
    pub fn with_wrapper(mut self, wrapper: &[&str]) -> Setup {
        self.wrapper = wrapper.iter().map(|arg| arg.to_string()).collect();
        self
    }

    /// Returns true if a failpoint makes the server panic.
    fn has_panic_failpoint(&self) -> bool {
        let is_panic = |(name, value): &(String, String)| {
            name == "CREDENZA_FAILPOINT" && value.contains("=panic")
        };
        self.environment.iter().any(is_panic)
    }

    fn command(&self) -> Command {
        let listen = if self.listen.is_empty() { "127.0.0.1:0" } else { &self.listen };
        let mut args: Vec<std::ffi::OsString> =
            self.wrapper.iter().map(std::ffi::OsString::from).collect();
        args.push(self.program.as_deref().unwrap_or_else(|| binary()).into());
        args.push("serve".into());
        if !self.from_file {
            args.extend(["--data".into(), self.data.clone().into_os_string()]);
            args.extend(["--listen".into(), listen.into()]);
        }
        args.extend(self.args.iter().map(std::ffi::OsString::from));
        let mut command = Command::new(&args[0]);
        command.args(&args[1..]);
        let is_inherited = |name: &str| name.starts_with("CREDENZA_") && name != MUTANT_VARIABLE;
        for (name, _) in std::env::vars().filter(|(name, _)| is_inherited(name)) {
            command.env_remove(name);
        }
        command.envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }
}

/// A server process. A drop kills it, waits for its end, and fails the test if it ever panicked
/// without a failpoint for it.
#[derive(Debug)]
pub struct Server {
    child: Child,
    is_wrapped: bool,
    /// Address that it listens on.
    pub address: SocketAddr,
    /// Setup of its start.
    pub setup: Setup,
    /// Time from the start of the process to the ready line.
    pub ready_after: Duration,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts it and waits for the ready line. Fails with its output and exit code.
    pub fn start(setup: &Setup) -> Result<Server, StartRefusal> {
        binary(); // building it is no part of starting
        let started = Instant::now();
        let mut child = setup.command().spawn().map_err(|error| StartRefusal {
            code: None,
            output: format!("{}: {error}", binary().display()),
        })?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        let pipe = child.stderr.take().expect("stderr is piped");
        let collected = lines.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                collected.lock().expect("no panic holds it").push(line);
            }
        });
        loop {
            let output = lines.lock().expect("no panic holds it").clone();
            if let Some(address) = output.iter().find_map(|line| ready_address(line)) {
                let ready_after = started.elapsed();
                let is_wrapped = !setup.wrapper.is_empty();
                let setup = setup.clone();
                return Ok(Server { child, is_wrapped, address, setup, ready_after, lines });
            }
            let exit_status = child.try_wait().expect("a child can be waited for");
            if exit_status.is_some() || started.elapsed() > READY_TIMEOUT {
                let _ = child.kill();
                let status = child.wait().expect("a child can be waited for");
                std::thread::sleep(Duration::from_millis(50)); // the last lines are on their way
                let output = lines.lock().expect("no panic holds it").join("\n");
                return Err(StartRefusal { code: status.code(), output });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Starts it; fails the test with its output if it does not become ready.
    pub fn must_start(setup: &Setup) -> Server {
        Server::start(setup).unwrap_or_else(|refusal| panic!("the server did not start: {refusal}"))
    }

    /// Returns the server's own process id, not its wrapper's.
    pub fn pid(&self) -> u32 {
        if self.is_wrapped { child_of(self.child.id()) } else { self.child.id() }
    }

    /// Kills it with SIGKILL, as a crash would.
    pub fn kill(&mut self) {
        signal(self.pid(), rustix::process::Signal::KILL);
        let _ = self.child.wait();
    }

    /// Sends SIGTERM and waits. `None`: it does not end within the time.
    pub fn stop(&mut self, timeout: Duration) -> Option<ExitStatus> {
        signal(self.pid(), rustix::process::Signal::TERM);
        self.wait(timeout)
    }

    /// Waits for its end. `None`: it does not end within the time.
    pub fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                std::thread::sleep(Duration::from_millis(20)); // its last lines are on their way
                return Some(status);
            }
            if Instant::now() > deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Returns true if the process still runs.
    pub fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Fails the test unless the process runs and none of its threads has panicked.
    pub fn must_be_healthy(&mut self) {
        let output = self.stderr_text();
        assert!(!reports_panic(&output), "a thread panicked: {output}");
        assert!(self.is_alive(), "it died: {output}");
    }

    /// Waits for its end, and fails the test unless it died at the failpoint it was armed with, and
    /// not by a panic before it.
    pub fn must_have_died_at_failpoint(&mut self, timeout: Duration) {
        let status = self.wait(timeout);
        let refusal = StartRefusal {
            code: status.and_then(|status| status.code()),
            output: self.stderr_text(),
        };
        assert!(status.is_some(), "it lives on: {refusal}");
        refusal.must_have_died_at_failpoint();
    }

    /// Returns its output on stderr so far.
    pub fn stderr_text(&self) -> String {
        self.lines.lock().expect("no panic holds it").join("\n")
    }

    /// Returns its URL for HTTP clients.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns a command of the tool with this server's address.
    pub fn tool(&self, args: &[&str]) -> Command {
        let mut command = tool(args);
        command.args(["--url", &self.url()]);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill_if_running();
        // A program built to break a rule may panic because of it; the checkers decide whether that
        // was noticed.
        let is_panic_expected =
            self.setup.has_panic_failpoint() || std::env::var_os(MUTANT_VARIABLE).is_some();
        if !is_panic_expected && !std::thread::panicking() {
            let output = self.stderr_text();
            assert!(!reports_panic(&output), "a thread panicked: {output}");
        }
    }
}

impl Server {
    fn kill_if_running(&mut self) {
        if self.is_alive() {
            if self.is_wrapped && self.pid() != self.child.id() {
                signal(self.pid(), rustix::process::Signal::KILL);
            }
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Refusal to start: a server that did not become ready.
#[derive(Clone, Debug)]
pub struct StartRefusal {
    /// Its exit code. `None`: it did not end by itself.
    pub code: Option<i32>,
    /// Its output.
    pub output: String,
}

impl StartRefusal {
    /// Fails the test if one of its threads panicked.
    pub fn must_not_panic(&self) {
        assert!(!reports_panic(&self.output), "a thread panicked: {self}");
    }

    /// Fails the test unless it died at the failpoint it was armed with.
    pub fn must_have_died_at_failpoint(&self) {
        self.must_not_panic();
        let expected = Some(store::failpoint::EXIT_CODE);
        assert_eq!(self.code, expected, "no death at the armed place: {self}");
    }
}

/// Returns true if the output reports a panic, by the node's own hook or by Rust's.
pub fn reports_panic(output: &str) -> bool {
    output.contains("panic in thread ") || output.contains("panicked at ")
}

impl std::fmt::Display for StartRefusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {:?}: {}", self.code, self.output)
    }
}

/// Returns a command of the tool without an address.
pub fn tool(args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).stdin(Stdio::null());
    command
}

/// Sends a signal to a process this test started.
pub fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a child's id is not 0");
    let _ = rustix::process::kill_process(pid, signal);
}

/// Parses `credenza: ready on ADDR (node NAME, cluster ID)`.
fn ready_address(line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once("credenza: ready on ")?;
    rest.split(' ').next()?.parse().ok()
}

/// Returns the child of a wrapper, or the wrapper itself if it became the server.
pub fn child_of(pid: u32) -> u32 {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |id: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        let parent = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1));
        parent.and_then(|parent| parent.parse::<u32>().ok()) == Some(pid)
    };
    ids.find(is_child).unwrap_or(pid)
}

/// Returns the binary under test: `CREDENZA_BINARY`, or one built once from this workspace.
pub fn binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| match std::env::var_os("CREDENZA_BINARY") {
        Some(path) => path.into(),
        None => build(),
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/test");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(["build", "--quiet", "-p", "credenza", "-p", "bench", "--bins"]);
    if profile.file_name().is_some_and(|name| name == "release") {
        command.arg("--release");
    }
    let output = command.current_dir(crate::tidy::root()).output().expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the binary does not build: {stderr}");
    profile.join("credenza")
}
