//! F-59: tests of the experiments themselves. Each rule that keeps data safe is broken in the real
//! binary, once, and the experiment that guards it must fail with its checker's message.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use systest::environment::{Scratch, experiment, find_tool};
use systest::report::{is_long_form, print_line, skipped};
use systest::server::{MUTANT_VARIABLE, Server, Setup};

/// A broken rule, the experiment that must fail, and the messages by which its checker is
/// recognized.
struct Mutant {
    rule: &'static str,
    fault: &'static str,
    experiment: &'static str,
    verdict: &'static [&'static str],
}

const MUTANTS: [Mutant; 6] = [
    Mutant {
        rule: "SkipSyncs",
        fault: "F-20",
        experiment: "faults::power::power_loss_on_ext4_loses_nothing_acknowledged",
        verdict: &[" lost ("],
    },
    Mutant {
        rule: "KeepMastershipWithoutLease",
        fault: "F-08",
        experiment: "cluster::wires::cluster_stays_linearizable_under_link_cuts_and_bad_packets",
        verdict: &["a master that is cut off answers", "not linearizable"],
    },
    Mutant {
        rule: "AcceptInvalidFrames",
        fault: "F-22",
        experiment: "cluster::damage::damaged_file_at_one_node_is_detected_and_never_served",
        verdict: &["damaged rows were served"],
    },
    Mutant {
        rule: "DeleteHintBeforeAck",
        fault: "F-41",
        experiment: "available::five_available_nodes_converge_after_kills_cuts_and_slow_links",
        verdict: &["\nlost: "],
    },
    Mutant {
        rule: "ForgetSessionOutcomes",
        fault: "F-60",
        experiment: "cluster::once::retries_after_lost_responses_apply_once_at_any_node",
        verdict: &["each applied once", "an answer was not that of the first attempt"],
    },
    Mutant {
        rule: SKIP_FRONT_END_RIGHTS,
        fault: "S8",
        experiment: "access::matrix::every_operation_is_allowed_and_denied_as_the_documents_say_\
                     in_every_protocol",
        verdict: &[": denied expected, Granted"],
    },
];

/// Rule that only the node that opens a forwarded request keeps.
pub const SKIP_FRONT_END_RIGHTS: &str = "SkipFrontEndRights";

/// Maximum number of tries: some mutants are caught only by chance.
const TRIES_MAX: usize = 5;
/// Time limit of an experiment in its short form.
const TRY_MAX: Duration = Duration::from_secs(900);

/// Outcome of one try.
#[derive(Debug, PartialEq, Eq)]
enum TryOutcome {
    /// The checker reported the mutant.
    Caught,
    /// The experiment passed.
    Survived,
    /// The experiment can't run on this machine.
    Skipped(String),
}

#[test]
fn mutants_are_caught_by_the_experiments_that_guard_their_rules() {
    let name = "F-59 mutants";
    if !is_long_form() {
        return skipped(name, "takes its time: `make test-long`");
    }
    if let Some(reason) = missing_builder() {
        return skipped(name, reason);
    }
    let _permit = experiment();
    let scratch = Scratch::new("f59");
    let started = Instant::now();
    let binary = build();
    let version = Command::new(&binary).arg("--version").output().expect("it was built").stdout;
    let version = String::from_utf8_lossy(&version).into_owned();
    assert!(version.contains("BROKEN-ON-PURPOSE"), "it passes for one that is shipped: {version}");
    let (mut mutants_run, mut summary, mut survivors) = (0, String::new(), Vec::new());
    for mutant in &MUTANTS {
        let Mutant { rule, fault, .. } = mutant;
        let attempt = || mutant.try_once(&binary, &scratch);
        let (mut tries, mut outcome) = (1, attempt());
        while outcome == TryOutcome::Survived && tries < TRIES_MAX {
            (tries, outcome) = (tries + 1, attempt());
        }
        match outcome {
            TryOutcome::Skipped(reason) => {
                skipped(&format!("{name}: {rule}"), &reason);
                continue;
            }
            TryOutcome::Survived => survivors.push(*rule),
            TryOutcome::Caught => summary += &format!(" {rule}={fault}:{tries}"),
        }
        mutants_run += 1;
    }
    let (killed, seconds) = (mutants_run - survivors.len(), started.elapsed().as_secs());
    print_line(&format!(
        "{name}: killed={killed} of {mutants_run}, at which try:{summary} seconds={seconds}"
    ));
    assert!(survivors.is_empty(), "no experiment notices {survivors:?}");
}

impl Mutant {
    /// Runs the experiment once, alone, in its short form, with a binary that breaks the rule.
    fn try_once(&self, binary: &Path, scratch: &Scratch) -> TryOutcome {
        let log_path = scratch.join("said");
        let file =
            || File::options().create(true).append(true).open(&log_path).expect("it is ours");
        let _ = std::fs::remove_file(&log_path);
        let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
        command.args(["--exact", self.experiment, "--nocapture"]);
        command.env("CREDENZA_BINARY", binary).env(MUTANT_VARIABLE, self.rule);
        command.env_remove("CREDENZA_TEST_LONG");
        command.stdin(Stdio::null()).stdout(file()).stderr(file());
        let status = run_to_end(&mut command);
        let output = std::fs::read_to_string(&log_path).expect("it is text");
        let tail = || output.lines().rev().take(30).collect::<Vec<_>>().join("\n");
        let Some(status) = status else { panic!("{}: no end:\n{}", self.rule, tail()) };
        assert!(output.contains("running 1 test"), "{}: no such experiment", self.experiment);
        let is_verdict = self.verdict.iter().any(|text| output.contains(text));
        match (status.success(), output.split_once(": skipped: ")) {
            (true, Some((_, reason))) => {
                TryOutcome::Skipped(reason.lines().next().unwrap_or_default().into())
            }
            (true, None) => TryOutcome::Survived,
            (false, _) if is_verdict => TryOutcome::Caught,
            (false, _) => panic!("{}: it failed for another reason:\n{}", self.rule, tail()),
        }
    }
}

/// Runs a command with all its processes to the end, or kills them all at the time limit.
fn run_to_end(command: &mut Command) -> Option<ExitStatus> {
    let mut child = command.process_group(0).spawn().expect("a test can be run");
    let deadline = Instant::now() + TRY_MAX;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let group = Pid::from_raw(child.id() as i32).expect("a child's id is not 0");
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    None
}

/// Returns the reason why no binary can be built here. `None`: one can.
pub fn missing_builder() -> Option<&'static str> {
    let has_cargo = find_tool("cargo").is_some() || std::env::var_os("CARGO").is_some();
    (!has_cargo).then_some("needs `cargo`, which is not installed")
}

/// Builds the binary whose rules can be broken, in its own folder.
pub fn build() -> PathBuf {
    let folder = systest::tidy::root().join("target/mutants");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(["build", "--quiet", "--locked", "-p", "credenza", "--bin", "credenza"]);
    command.args(["--features", "mutants", "--target-dir"]).arg(&folder);
    let output = command.current_dir(systest::tidy::root()).output().expect("cargo runs");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the binary does not build: {stderr}");
    folder.join("debug/credenza")
}

#[test]
fn release_binary_refuses_to_enable_a_mutant() {
    let scratch = Scratch::new("no-mutant");
    for mutant in &MUTANTS {
        let setup = Setup::new(&scratch.join("data")).env(MUTANT_VARIABLE, mutant.rule);
        let refusal = Server::start(&setup).expect_err("it may not be ignored");
        assert_eq!(refusal.code, Some(2), "{refusal}");
        let is_reported = refusal.output.contains("this program has no mutants");
        assert!(is_reported && refusal.output.contains(mutant.rule), "{refusal}");
        assert!(!setup.data.exists(), "it touched its data");
    }
}
