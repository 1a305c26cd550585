//! `credenza serve`: one node, from start to stop.

use super::{access_file, certificates, rejoin, token};
use crate::log_control::LogControl;
use crate::reload::Reloader;
use crate::service_manager;
use base::Kind;
use logging::Logging;
use node::{BeatStatus, Node, Watch, round};
use program::{Failure, Outcome};
use rustix::fs::Mode;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::{FrontEnds, LogLevels, ServerSettings};
use settings::{Flags, Settings, memory_bytes};
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

pub const EXAMPLES: &str = "\
Examples:
  credenza serve                                   data in ./data, clients on 127.0.0.1:7711
  credenza serve --data /srv/credenza --name a --log-level info,node=debug
  credenza serve --config /etc/credenza.toml
  credenza serve --name n2 --data n2 --listen 127.0.0.1:7721 --peer-listen 127.0.0.1:7722 \\
    --join 127.0.0.1:7711                          a second node of a cluster
  credenza serve --arakoon-config /etc/arakoon/ricky.ini --name arakoon_0

Signals: TERM or INT stops gracefully (a second one: at once), HUP reads the settings file and the
files of TLS again (`credenza reload`), USR2 writes the crash log.";

/// Memory below which the allocator has the settings of [`SPARING_ALLOCATOR`].
const MEMORY_SCARCE_BYTES: u64 = 1 << 30;
/// Settings of the allocator that keep a small process small. Freed memory is returned to the
/// system at once. Huge pages are not asked for: one of 2 MiB stays resident while anything in it
/// is used, and under large values a process of 160 MiB took 258.
const SPARING_ALLOCATOR: [(&str, &str); 2] =
    [("MIMALLOC_PURGE_DELAY", "0"), ("MIMALLOC_ALLOW_THP", "0")];
/// Watch over the loop that serves signals and looks at the files of TLS, once a minute.
const SERVING_WATCH: Watch = Watch::Every(Duration::from_secs(300));
/// Time limit for runtime threads to end after everything is stopped.
const THREADS_END_MS_MAX: u64 = 1_000;

/// `credenza serve`.
#[derive(clap::Args)]
pub struct Serve {
    #[command(flatten)]
    flags: Flags,
}

/// `credenza cluster join`.
#[derive(clap::Args)]
pub struct Join {
    /// Client addresses of members, comma-separated
    #[arg(value_name = "HOST:PORT")]
    member: String,
    #[command(flatten)]
    flags: Flags,
}

impl Join {
    /// Serves, as `serve --join` does, until a signal or a failure.
    pub fn run(mut self) -> Outcome {
        if !self.flags.set_if_absent("join", self.member) {
            return Err(Failure::invalid("the member to join at is named twice: leave out --join"));
        }
        Serve { flags: self.flags }.run()
    }
}

impl Serve {
    /// Serves until a signal or a failure, which the service manager shows with its remedy.
    pub fn run(self) -> Outcome {
        restart_if_memory_is_scarce();
        let outcome = self.serve();
        if let Err(failure) = &outcome {
            service_manager::status(failure.sentence());
        }
        outcome
    }

    fn serve(self) -> Outcome {
        let mut settings = self.flags.settings(&|name| std::env::var(name).ok())?;
        let log = Logging::new(&settings.levels, settings.crash_log, Box::new(std::io::stderr()));
        log.install();
        let data = settings.node.data_dir.clone();
        logging::install_panic_hook(log.clone(), data, store::panics::is_caught);
        arm_failpoint()?;
        break_requested_rule()?;
        // The LSM library creates tables and copies without an explicit mode.
        rustix::process::umask(Mode::RWXG | Mode::RWXO);
        let files = raise_limits(settings.open_files);
        tracing::info!(
            version = crate::VERSION,
            threads = settings.threads,
            open_files = files,
            data = %settings.node.data_dir.display(),
            "starting"
        );
        for warning in &settings.warnings {
            tracing::warn!("{warning}");
        }
        token::load(&mut settings)?;
        access_file::load(&mut settings)?;
        certificates::open(&mut settings)?;
        let reloader = Reloader::new(&self.flags, &log, settings.server.tls.clone())?;
        settings.server.reload = Some(Arc::new(reloader));
        let runtime = runtime(settings.threads)?;
        let outcome = runtime.block_on(serve(settings, log.clone()));
        runtime.shutdown_timeout(Duration::from_millis(THREADS_END_MS_MAX));
        log.flush();
        outcome
    }
}

/// Restarts this process with settings of the allocator if memory is scarce, as in a small
/// container. The allocator reads its settings before `main`. Values that the operator set stay.
fn restart_if_memory_is_scarce() {
    let is_scarce = memory_bytes().is_some_and(|bytes| bytes < MEMORY_SCARCE_BYTES);
    let missing =
        SPARING_ALLOCATOR.into_iter().filter(|(name, _)| std::env::var_os(name).is_none());
    let missing: Vec<_> = missing.collect();
    if is_scarce && !missing.is_empty() {
        let mut command = Command::new("/proc/self/exe");
        let error = command.args(std::env::args_os().skip(1)).envs(missing).exec();
        eprintln!("credenza: the allocator keeps more memory than it needs: {error}");
    }
}

/// Arms the fail point that a test requested by an environment variable.
fn arm_failpoint() -> Outcome {
    match std::env::var("CREDENZA_FAILPOINT") {
        Ok(words) => {
            tracing::warn!(%words, "this process will die where a test wants it");
            store::failpoint::arm(&words).map_err(|words| Failure::new(Kind::Invalid, words))
        }
        Err(_) => Ok(()),
    }
}

/// Breaks the rule that a test requested by an environment variable, in a binary with mutants.
fn break_requested_rule() -> Outcome {
    if cfg!(feature = "mutants") {
        tracing::error!("this program is for tests: it can be told to lose and invent data");
    }
    match std::env::var("CREDENZA_MUTANT") {
        Ok(name) => {
            tracing::error!(%name, "a test wants this rule to be broken");
            node::break_rule(&name).map_err(|words| Failure::new(Kind::Invalid, words))
        }
        Err(_) => Ok(()),
    }
}

/// Starts the node, serves, and stops.
async fn serve(settings: Settings, log: Logging) -> Outcome {
    let data = settings.node.data_dir.clone();
    let mut signals = Signals::new()?;
    let levels: Arc<dyn LogLevels> = Arc::new(LogControl(log.clone()));
    let server = ServerSettings { log_levels: Some(levels), ..settings.server.clone() };
    service_manager::status("starting: the data directory is recovered");
    // The reason code is meant for requests; an address error needs only the text.
    let listeners = FrontEnds::bind_with(server, service_manager::listeners()?)
        .map_err(|error| Failure::new(error.kind(), error.text()))?;
    let clusterless = listeners.clusterless();
    let node = tokio::select! {
        biased;
        () = signals.stop() => return Ok(()),
        node = rejoin::start(&settings, &clusterless) => node?,
        never = listeners.refuse_until_started() => match never {},
    };
    create_checkpoint_folder(&data)?;
    let front_ends = listeners.open(node.clone());
    let address = front_ends.addresses().first().map(ToString::to_string).unwrap_or_default();
    let status = node.status();
    let serving_text = format!("serving on {address} as {}", status.name);
    service_manager::ready(&serving_text);
    tracing::info!(node = %status.name, cluster = %status.cluster, "ready");
    log.flush();
    eprintln!("credenza: ready on {address} (node {}, cluster {})", status.name, status.cluster);
    let serving = serve_until_stopped(&node, &front_ends, (&mut signals, &log), &settings);
    let serving = node.watch_loop("signals and certificates", SERVING_WATCH, serving);
    let failure = tokio::select! {
        biased;
        failure = serving => failure,
        never = service_manager::watch(&serving_text, || tasks_to_restart(&node)) => match never {},
    };
    service_manager::stopping();
    match failure {
        Some(failure) => {
            dump(&log, &data, &failure.to_string());
            Err(failure)
        }
        None => stop(&node, front_ends, &mut signals).await,
    }
}

/// Returns the tasks for which the service manager is to restart the node, each with what it does.
fn tasks_to_restart(node: &Node) -> Vec<String> {
    let text = |beat: BeatStatus| format!("{} {}", beat.name, beat.activity_text());
    node.tasks_to_restart().into_iter().map(text).collect()
}

/// Creates the folder of online checkpoints; symbolic links are not followed.
fn create_checkpoint_folder(data: &Path) -> Outcome {
    let path = data.join("checkpoints");
    let created = match std::fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let metadata = std::fs::symlink_metadata(&path);
            metadata.and_then(|metadata| match metadata.is_dir() {
                true => Ok(()),
                false => Err(ErrorKind::NotADirectory.into()),
            })
        }
        other => other,
    };
    created.map_err(|error| Failure::file("make", &path, &error))
}

/// Serves until a signal (`None`) or the failure of the node.
async fn serve_until_stopped(
    node: &Node,
    front_ends: &FrontEnds,
    (signals, log): (&mut Signals, &Logging),
    settings: &Settings,
) -> Option<Failure> {
    let mut look = certificates::look_interval();
    loop {
        tokio::select! {
            biased;
            error = node.wait_failed() => {
                rejoin::record_damage(settings, node, &error);
                return Some(error.into());
            }
            signal = signals.next() => match signal {
                OperatorSignal::Stop => return None,
                OperatorSignal::Dump => dump(log, &settings.node.data_dir, "asked by SIGUSR2"),
                OperatorSignal::Reload => reload(front_ends).await,
            },
            _ = round::rest(look.tick()) => certificates::look(settings).await,
        }
    }
}

/// Reads the settings again. The log has what changed.
async fn reload(front_ends: &FrontEnds) {
    match front_ends.shared().reload().await {
        Ok(reply) if reply == api::ReloadReply::default() => {
            tracing::info!("reload: no setting has another value");
        }
        Ok(_) => {} // Each change has a line.
        Err(error) => tracing::error!(%error, "the settings can't be reloaded"),
    }
}

/// Finishes requests in flight; a second signal stops immediately.
async fn stop(node: &Node, front_ends: FrontEnds, signals: &mut Signals) -> Outcome {
    tracing::info!("stopping");
    tokio::select! {
        biased;
        () = signals.stop() => {
            tracing::warn!("stopped at once by a second signal");
            Ok(())
        }
        result = async {
            // Both at the same time: other nodes take over mastership while clients are
            // disconnected.
            tokio::join!(front_ends.close(), node.step_down());
            node.stop().await
        } => {
            tracing::info!("stopped");
            result.map_err(Failure::from)
        }
    }
}

fn dump(log: &Logging, data: &Path, reason: &str) {
    match log.dump(data, reason) {
        Some(Ok(path)) => tracing::warn!(file = %path.display(), reason, "crash log written"),
        Some(Err(error)) => tracing::error!(%error, "the crash log can't be written"),
        None => tracing::warn!("no crash log: the setting crash_log is off"),
    }
}

fn runtime(threads: usize) -> Outcome<Runtime> {
    let mut builder = match threads {
        1 => Builder::new_current_thread(),
        _ => Builder::new_multi_thread(),
    };
    builder.worker_threads(threads).enable_all().thread_name("serve").build().map_err(|error| {
        Failure::new(Kind::Unavailable, format!("can't start {threads} threads: {error}"))
    })
}

/// Raises the limit of open files up to `wish`, as far as the system permits, and disables core
/// files, which would hold keys and values. Returns the limit of open files now in force.
fn raise_limits(wish: u64) -> u64 {
    let no_core_file = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    if let Err(error) = setrlimit(Resource::Core, no_core_file) {
        tracing::warn!(%error, "core files stay possible");
    }
    let limit = getrlimit(Resource::Nofile);
    let granted = limit.maximum.map_or(wish, |most| most.min(wish));
    let new_limit = Rlimit { current: Some(granted), ..limit };
    match limit.current {
        Some(current) if current < granted => match setrlimit(Resource::Nofile, new_limit) {
            Ok(()) => granted,
            Err(error) => {
                tracing::warn!(%error, wish, "open files stay limited");
                current
            }
        },
        current => current.unwrap_or(wish),
    }
}

/// Request of a signal.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OperatorSignal {
    Stop,
    Dump,
    Reload,
}

/// The signals that a node handles.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    dump: Signal,
    hang_up: Signal,
    /// Request of a hang-up: a terminal that closes ends the node that it started.
    on_hang_up: OperatorSignal,
}

impl Signals {
    fn new() -> Outcome<Signals> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                Failure::new(Kind::Unavailable, format!("can't listen to signals: {error}"))
            })
        };
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            dump: listen(SignalKind::user_defined2())?,
            hang_up: listen(SignalKind::hangup())?,
            on_hang_up: match std::io::stdin().is_terminal() {
                true => OperatorSignal::Stop,
                false => OperatorSignal::Reload,
            },
        })
    }

    /// Waits for the next signal.
    async fn next(&mut self) -> OperatorSignal {
        tokio::select! {
            biased;
            // First, so that a dump requested just before the stop is still written.
            _ = self.dump.recv() => OperatorSignal::Dump,
            _ = self.terminate.recv() => OperatorSignal::Stop,
            _ = self.interrupt.recv() => OperatorSignal::Stop,
            _ = self.hang_up.recv() => self.on_hang_up,
        }
    }

    /// Waits for a signal to stop, and ignores all others before it.
    async fn stop(&mut self) {
        while self.next().await != OperatorSignal::Stop {}
    }
}
