//! F-59: tests of the experiments themselves. Each rule that keeps data safe is broken in the real
//! binary, once, and the experiment that guards it must fail with its checker's message.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use systest::report::{long, say, skipped};
use systest::rigs::{Scratch, experiment, find};
use systest::server::{MUTANT, Server, Setup};

/// A broken rule, the experiment that must fail, and the messages by which its checker is
/// recognized.
struct Mutant {
    rule: &'static str,
    fault: &'static str,
    experiment: &'static str,
    verdict: &'static [&'static str],
}

const MUTANTS: [Mutant; 5] = [
    Mutant {
        rule: "SyncsNothing",
        fault: "F-20",
        experiment: "faults::power::power_loss_on_ext4_loses_nothing_acknowledged",
        verdict: &[" lost ("],
    },
    Mutant {
        rule: "MasterWithoutLease",
        fault: "F-08",
        experiment: "cluster::wires::a_cluster_whose_cables_are_cut_stays_one",
        verdict: &["a master that is cut off answers", "not linearizable"],
    },
    Mutant {
        rule: "BelievesFrames",
        fault: "F-22",
        experiment: "cluster::damage::damage_at_one_node_is_found_and_never_served",
        verdict: &["damaged rows were served"],
    },
    Mutant {
        rule: "HintGoesFirst",
        fault: "F-41",
        experiment: "available::five_nodes_bear_deaths_cuts_and_a_node_that_limps",
        verdict: &["\nlost: "],
    },
    Mutant {
        rule: "RetriesApplyAgain",
        fault: "F-60",
        experiment: "cluster::once::retries_of_lost_answers_apply_once_at_any_node",
        verdict: &["each applied once", "an answer was not that of the first attempt"],
    },
];

/// Number of tries: some mutants are caught only by chance.
const TRIES: usize = 5;
/// Time limit of an experiment in its short form.
const TRY_MAX: Duration = Duration::from_secs(900);

/// Outcome of one try.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The checker reported the mutant.
    Caught,
    /// The experiment passed.
    Survived,
    /// The experiment can't run on this machine.
    Skipped(String),
}

#[test]
fn every_mutant_is_caught_by_the_experiment_that_guards_its_rule() {
    let name = "F-59 mutants";
    if !long() {
        return skipped(name, "takes its time: `make test-long`");
    }
    if find("cargo").is_none() && std::env::var_os("CARGO").is_none() {
        return skipped(name, "needs `cargo`, which is not installed");
    }
    let _permit = experiment();
    let scratch = Scratch::new("f59");
    let begun = Instant::now();
    let binary = build();
    let said = Command::new(&binary).arg("--version").output().expect("it was built").stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(said.contains("BROKEN-ON-PURPOSE"), "it passes for one that is shipped: {said}");
    let (mut tried, mut words, mut survivors) = (0, String::new(), Vec::new());
    for mutant in &MUTANTS {
        let Mutant { rule, fault, .. } = mutant;
        let end = || mutant.try_once(&binary, &scratch);
        let (mut tries, mut last) = (1, end());
        while last == End::Survived && tries < TRIES {
            (tries, last) = (tries + 1, end());
        }
        match last {
            End::Skipped(why) => {
                skipped(&format!("{name}: {rule}"), &why);
                continue;
            }
            End::Survived => survivors.push(*rule),
            End::Caught => words += &format!(" {rule}={fault}:{tries}"),
        }
        tried += 1;
    }
    let (killed, seconds) = (tried - survivors.len(), begun.elapsed().as_secs());
    say(&format!("{name}: killed={killed} of {tried}, at which try:{words} seconds={seconds}"));
    assert!(survivors.is_empty(), "no experiment notices {survivors:?}");
}

impl Mutant {
    /// Runs the experiment once, alone, in its short form, with a binary that breaks the rule.
    fn try_once(&self, binary: &Path, scratch: &Scratch) -> End {
        let path = scratch.join("said");
        let file = || File::options().create(true).append(true).open(&path).expect("it is ours");
        let _ = std::fs::remove_file(&path);
        let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
        command.args(["--exact", self.experiment, "--nocapture"]);
        command.env("CREDENZA_BINARY", binary).env(MUTANT, self.rule);
        command.env_remove("CREDENZA_TEST_LONG");
        command.stdin(Stdio::null()).stdout(file()).stderr(file());
        let status = to_its_end(&mut command);
        let said = std::fs::read_to_string(&path).expect("it is text");
        let tail = || said.lines().rev().take(30).collect::<Vec<_>>().join("\n");
        let Some(status) = status else { panic!("{}: no end:\n{}", self.rule, tail()) };
        assert!(said.contains("running 1 test"), "{}: no such experiment", self.experiment);
        let is_verdict = self.verdict.iter().any(|words| said.contains(words));
        match (status.success(), said.split_once(": skipped: ")) {
            (true, Some((_, why))) => End::Skipped(why.lines().next().unwrap_or_default().into()),
            (true, None) => End::Survived,
            (false, _) if is_verdict => End::Caught,
            (false, _) => panic!("{}: it failed for another reason:\n{}", self.rule, tail()),
        }
    }
}

/// Runs a command with all its processes to the end, or kills them all at the time limit.
fn to_its_end(command: &mut Command) -> Option<ExitStatus> {
    let mut child = command.process_group(0).spawn().expect("a test can be run");
    let until = Instant::now() + TRY_MAX;
    while Instant::now() < until {
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

/// Builds the binary whose rules can be broken, in its own folder.
fn build() -> PathBuf {
    let folder = systest::tidy::root().join("target/mutants");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(["build", "--quiet", "--locked", "-p", "credenza", "--bin", "credenza"]);
    command.args(["--features", "mutants", "--target-dir"]).arg(&folder);
    let built = command.current_dir(systest::tidy::root()).output().expect("cargo runs");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the binary does not build: {said}");
    folder.join("debug/credenza")
}

#[test]
fn a_program_that_is_shipped_can_not_be_told_to_break_a_rule() {
    let scratch = Scratch::new("no-mutant");
    for mutant in &MUTANTS {
        let setup = Setup::on(&scratch.join("data")).env(MUTANT, mutant.rule);
        let refusal = Server::start(&setup).expect_err("it may not be ignored");
        assert_eq!(refusal.code, Some(2), "{refusal}");
        let is_told = refusal.words.contains("this program breaks no rule");
        assert!(is_told && refusal.words.contains(mutant.rule), "{refusal}");
        assert!(!setup.data.exists(), "it touched its data");
    }
}
