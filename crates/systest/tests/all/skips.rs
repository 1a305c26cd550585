//! Test of the list of skips that a run in CI or a long run may have: any other missing rig fails
//! the run.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use systest::report::skip_line;
use systest::rigs::{Root, Scratch, System, find, missing, text};

/// Runs `./check skips` on a file with the output of tests; returns its success and its output.
fn judged(said: &str) -> (bool, String) {
    // Two tests may run at the same time: they need folders of different names.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let scratch = Scratch::new(&format!("skips-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    let file = scratch.join("tests.log");
    std::fs::write(&file, said).expect("the scratch folder can be written");
    let mut command = Command::new(systest::tidy::root().join("check"));
    let done = command.args(["skips", text(&file)]).output().expect("bash runs");
    let words = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&words).into_owned())
}

#[test]
fn a_skip_that_is_not_on_the_list_fails_a_run_in_ci() {
    let rigs = [
        ("F-20 power loss on ext4", "needs root (mounts, groups, tracing)"),
        ("F-26 sync error", "needs `strace`, which is not installed (Debian: strace)"),
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

/// Runs one test in its short or its long form, on a machine that has no tool but those by which
/// `./check` reads its list.
fn run_without_tools(name: &str, variables: &[(&str, &str)]) -> Output {
    let scratch = Scratch::new(&format!("no-tools-{}-{}", name.len(), variables.len()));
    for tool in ["bash", "dirname", "grep", "sed"] {
        symlink(find(tool).expect("./check needs it"), scratch.join(tool)).expect("it is ours");
    }
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", name, "--nocapture"]).env("PATH", scratch.path());
    command.env_remove("CREDENZA_TEST_LONG").env_remove("CREDENZA_ARAKOON_PYTHON");
    command.envs(variables.iter().copied());
    command.output().expect("a test can be run")
}

#[test]
fn a_missing_rig_fails_the_long_form_and_names_its_package() {
    let name = "end_to_end::redis_tools::redis_cli_is_served_unchanged";
    let line = "redis-cli against the binary: skipped: needs `redis-cli`, which is not installed \
                (Debian: redis-tools)";
    let said = |done: &Output| String::from_utf8_lossy(&done.stderr).into_owned();
    let short = run_without_tools(name, &[]);
    assert!(short.status.success() && said(&short).contains(line), "{}", said(&short));
    let long = run_without_tools(name, &[("CREDENZA_TEST_LONG", "1")]);
    assert!(!long.status.success() && said(&long).contains(line), "{}", said(&long));
    assert!(said(&long).contains("needs all its rigs"), "{}", said(&long));
}

#[test]
fn the_long_form_skips_what_the_list_names() {
    let name = "end_to_end::arakoon::arakoon_s_own_python_client_is_served_unchanged";
    let done = run_without_tools(name, &[("CREDENZA_TEST_LONG", "1")]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("names no checkout"), "{said}");
}

#[test]
fn the_packages_of_missing_tools_are_those_that_check_installs() {
    let script = std::fs::read_to_string(systest::tidy::root().join("check")).expect("it is there");
    let list = |name: &str| {
        let line = script.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("=\""));
        line.expect("a list").trim_end_matches('"').split(' ').collect::<Vec<_>>()
    };
    let installed = [list("RIG_PACKAGES"), list("LONG_PACKAGES")].concat();
    let systems = [System::Ext4, System::Xfs, System::Memory { files: 1 }];
    let mut tools: Vec<_> = systems.iter().flat_map(|system| system.tools()).copied().collect();
    tools.extend(["ip", "nsenter", "fsfreeze", "prlimit", "setpriv", "strace", "eatmydata"]);
    tools.extend(["redis-cli", "redis-benchmark", "curl", "haproxy", "slowhttptest", "python3"]);
    tools.extend(["libfaketime", "tclsh", "mvn", "java", "fuser", "pgrep", "unshare"]);
    for tool in tools {
        let words = systest::rigs::not_installed(tool);
        let package = words.rsplit("(Debian: ").next().and_then(|rest| rest.strip_suffix(')'));
        assert!(package.is_some_and(|it| installed.contains(&it)), "{words}: {installed:?}");
    }
    assert_eq!(missing(Root::Spared, &["bash", "sed"]), None);
}

#[test]
fn rigs_are_set_up_before_a_complete_run_and_before_a_long_one() {
    let script = std::fs::read_to_string(systest::tidy::root().join("check")).expect("it is there");
    for (form, first) in [("\nall)\n", "rigs"), ("\nlong)\n", "rigs $LONG_PACKAGES")] {
        let mut steps = script.split_once(form).expect(form).1.lines().map(str::trim_start);
        assert_eq!(steps.find(|step| !step.starts_with('#')), Some(first), "{form}");
    }
}
