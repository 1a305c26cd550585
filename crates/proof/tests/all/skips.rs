//! The list of what a run in CI may skip: a rig that is missing there fails the run.

use proof::report::skip_line;
use proof::rigs::{Scratch, text};
use std::process::Command;

/// What `./check skips` makes of a file in which tests said this: whether it is content, and its
/// words.
fn judged(said: &str) -> (bool, String) {
    let scratch = Scratch::new("skips");
    let file = scratch.join("tests.log");
    std::fs::write(&file, said).expect("the scratch folder can be written");
    let mut command = Command::new(proof::tidy::root().join("check"));
    let done = command.args(["skips", text(&file)]).output().expect("bash runs");
    let words = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&words).into_owned())
}

#[test]
fn a_skip_that_is_not_on_the_list_fails_a_run_in_ci() {
    let rigs = [
        ("F-20 power loss on ext4", "needs root (mounts, groups, tracing)"),
        ("F-26 sync error", "needs `strace`, which is not installed"),
        ("F-08 cut cables", "needs network namespaces and macvtap, which the kernel refuses"),
        ("redis-py against the binary", "no virtual environment"),
    ];
    for (name, why) in rigs {
        let line = skip_line(name, why);
        let (content, words) = judged(&format!("test a ... ok\ntest b ... {line}\nok\n"));
        assert!(!content && words.contains(&line), "{line}: {words}");
    }
}

#[test]
fn skips_on_the_list_are_named_and_pass() {
    let lines = [
        skip_line("F-16 slow follower link", "takes its time: `make test-long`"),
        skip_line("F-41 death", "takes half a minute: CREDENZA_TEST_LONG=1"),
        skip_line("PyLabs", "CREDENZA_ARAKOON_CHECKOUT names no checkout: no registry has it"),
        skip_line("F-38 memory limit", "needs memory groups (v1) at /sys/fs/cgroup/memory"),
    ];
    let said = lines.iter().map(|line| format!("test some::name ... {line}\n"));
    let (content, words) = judged(&said.collect::<String>());
    assert!(content && lines.iter().all(|line| words.contains(line)), "{words}");
    assert!(judged("test a ... ok\n").0, "nothing was skipped");
}
