//! Test of the list of skips that a run in CI or a long run may have: any other missing tool fails
//! the run.

use std::os::unix::fs::symlink;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};
use systest::environment::{Root, Scratch, find_tool, missing, path_str};
use systest::fault_injection::FileSystem;
use systest::report::skip_line;

/// Runs `./check skips` on a file with the output of tests; returns its success and its output.
fn run_skip_check(log: &str) -> (bool, String) {
    // Two tests may run at the same time: they need folders of different names.
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let scratch = Scratch::new(&format!("skips-{}", NEXT.fetch_add(1, Ordering::Relaxed)));
    let file = scratch.join("tests.log");
    std::fs::write(&file, log).expect("the scratch folder can be written");
    let mut command = Command::new(systest::tidy::root().join("check"));
    let result = command.args(["skips", path_str(&file)]).output().expect("bash runs");
    let output = [result.stdout, result.stderr].concat();
    (result.status.success(), String::from_utf8_lossy(&output).into_owned())
}

#[test]
fn unlisted_skip_fails_a_ci_run() {
    let tools = [
        ("F-20 power loss on ext4", "needs root (mounts, groups, tracing)"),
        ("F-26 sync error", "needs `strace`, which is not installed (Debian: strace)"),
        ("F-08 cut cables", "needs network namespaces and macvtap, which the kernel refuses"),
        ("redis-py against the binary", "no virtual environment"),
    ];
    for (name, reason) in tools {
        let line = skip_line(name, reason);
        let (passed, output) = run_skip_check(&format!("test a ... ok\ntest b ... {line}\nok\n"));
        assert!(!passed && output.contains(&line), "{line}: {output}");
    }
}

#[test]
fn listed_skips_are_printed_and_pass() {
    let lines = [
        skip_line("F-16 slow follower link", "takes its time: `make test-long`"),
        skip_line("F-41 death", "takes half a minute: CREDENZA_TEST_LONG=1"),
        skip_line("PyLabs", "CREDENZA_ARAKOON_CHECKOUT names no checkout: no registry has it"),
        skip_line("F-38 memory limit", "needs memory groups (v1) at /sys/fs/cgroup/memory"),
    ];
    let log_lines = lines.iter().map(|line| format!("test some::name ... {line}\n"));
    let (passed, output) = run_skip_check(&log_lines.collect::<String>());
    assert!(passed && lines.iter().all(|line| output.contains(line)), "{output}");
    assert!(run_skip_check("test a ... ok\n").0, "nothing was skipped");
}

/// Runs one test in its short or its long form, on a machine that has no tool but those by which
/// `./check` reads its list.
fn run_without_tools(name: &str, variables: &[(&str, &str)]) -> Output {
    let scratch = Scratch::new(&format!("no-tools-{}-{}", name.len(), variables.len()));
    for tool in ["bash", "dirname", "grep", "sed"] {
        symlink(find_tool(tool).expect("./check needs it"), scratch.join(tool))
            .expect("it is ours");
    }
    let mut command = Command::new(std::env::current_exe().expect("a test has a path"));
    command.args(["--exact", name, "--nocapture"]).env("PATH", scratch.path());
    command.env_remove("CREDENZA_TEST_LONG").env_remove("CREDENZA_ARAKOON_PYTHON");
    command.envs(variables.iter().copied());
    command.output().expect("a test can be run")
}

#[test]
fn missing_tool_fails_the_long_form_and_names_its_package() {
    let name = "end_to_end::redis_tools::redis_cli_works_unchanged";
    let line = "redis-cli against the binary: skipped: needs `redis-cli`, which is not installed \
                (Debian: redis-tools)";
    let stderr_of = |result: &Output| String::from_utf8_lossy(&result.stderr).into_owned();
    let short = run_without_tools(name, &[]);
    assert!(short.status.success() && stderr_of(&short).contains(line), "{}", stderr_of(&short));
    let long = run_without_tools(name, &[("CREDENZA_TEST_LONG", "1")]);
    assert!(!long.status.success() && stderr_of(&long).contains(line), "{}", stderr_of(&long));
    assert!(stderr_of(&long).contains("needs all its tools"), "{}", stderr_of(&long));
}

#[test]
fn long_form_skips_tests_on_the_skip_list() {
    let name = "end_to_end::arakoon::arakoon_python_client_works_unchanged";
    let result = run_without_tools(name, &[("CREDENZA_TEST_LONG", "1")]);
    let stderr = String::from_utf8_lossy(&result.stderr);
    assert!(result.status.success() && stderr.contains("names no checkout"), "{stderr}");
}

#[test]
fn packages_named_for_missing_tools_are_installed_by_check() {
    let script = std::fs::read_to_string(systest::tidy::root().join("check")).expect("it is there");
    let list = |name: &str| {
        let line = script.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix("=\""));
        line.expect("a list").trim_end_matches('"').split(' ').collect::<Vec<_>>()
    };
    let installed = [list("TOOL_PACKAGES"), list("LONG_PACKAGES")].concat();
    let systems = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Memory { files: 1 }];
    let mut tools: Vec<_> = systems.iter().flat_map(|system| system.tools()).copied().collect();
    tools.extend(["ip", "nsenter", "fsfreeze", "prlimit", "setpriv", "strace", "eatmydata"]);
    tools.extend(["redis-cli", "redis-benchmark", "curl", "haproxy", "slowhttptest", "python3"]);
    tools.extend(["systemd-analyze", "systemd-socket-activate"]);
    tools.extend(["libfaketime", "tclsh", "mvn", "java", "fuser", "pgrep", "unshare"]);
    for tool in tools {
        let message = systest::environment::not_installed(tool);
        let package = message.rsplit("(Debian: ").next().and_then(|rest| rest.strip_suffix(')'));
        assert!(package.is_some_and(|it| installed.contains(&it)), "{message}: {installed:?}");
    }
    assert_eq!(missing(Root::Spared, &["bash", "sed"]), None);
}

#[test]
fn rigs_are_set_up_first_in_complete_and_long_runs() {
    let script = std::fs::read_to_string(systest::tidy::root().join("check")).expect("it is there");
    for (form, first) in [("\nall)\n", "tools"), ("\nlong)\n", "tools $LONG_PACKAGES")] {
        let mut steps = script.split_once(form).expect(form).1.lines().map(str::trim_start);
        assert_eq!(steps.find(|step| !step.starts_with('#')), Some(first), "{form}");
    }
}
