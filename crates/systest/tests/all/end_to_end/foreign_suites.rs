//! Third-party suites and clients that take minutes, or need their own compiler: Redis' test suite,
//! Arakoon's system tests, Riak's Java client. The long form runs them.

use super::arakoon::find_python2;
use super::{output, start_server};
use std::path::PathBuf;
use std::process::Command;
use systest::environment::{Root, Scratch, missing, path_str};
use systest::report::{is_long_form, skipped};
use systest::server::binary;

/// Returns the path of a file of `clients/`.
fn client(name: &str) -> PathBuf {
    systest::tidy::root().join("crates/systest/clients").join(name)
}

/// Returns true, and prints a skip, in the short form.
fn is_left_to_long_form(name: &str) -> bool {
    if !is_long_form() {
        skipped(name, "takes minutes: CREDENZA_TEST_LONG=1");
    }
    !is_long_form()
}

/// Runs a command, which must succeed; returns its output.
fn run_ok(command: Command) -> String {
    let result = output(command);
    let stdout = String::from_utf8_lossy(&result.stdout).into_owned();
    assert!(result.status.success(), "{stdout}{}", String::from_utf8_lossy(&result.stderr));
    stdout
}

#[test]
fn redis_test_suite_passes_except_listed_tests() {
    let name = "Redis' own test suite against the binary";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = missing(Root::Spared, &["tclsh", "python3", "curl", "apt-get"]) {
        return skipped(name, &reason);
    }
    let mut download = Command::new(client("redis_source.sh"));
    download.arg(systest::tidy::root().join("target/redis-suite"));
    let source = run_ok(download);
    let (_scratch, mut server) = start_server("redis-suite");
    let mut suite = Command::new("python3");
    suite.arg(client("redis_suite.py")).arg(server.address.port().to_string()).arg(source.trim());
    println!("{name}: {}", run_ok(suite).trim());
    server.must_be_healthy();
}

#[test]
fn riak_java_client_reads_and_resolves_siblings() {
    let name = "Riak's Java client against the binary";
    if is_left_to_long_form(name) {
        return;
    }
    if let Some(reason) = missing(Root::Spared, &["mvn", "java"]) {
        return skipped(name, &reason);
    }
    let (_scratch, server) = start_server("riak-java");
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(client("riak_java/pom.xml"));
    let folder = systest::tidy::root().join("target/riak-java");
    maven.arg(format!("-Dfolder={}", folder.display())).args(["compile", "exec:java"]);
    maven.arg(format!("-Dexec.args={}", server.address.port()));
    let stdout = run_ok(maven);
    assert!(stdout.contains("3 siblings read and resolved"), "{stdout}");
}

#[test]
fn arakoon_system_tests_pass_except_listed_tests() {
    let name = "Arakoon's own system tests against the binary";
    if is_left_to_long_form(name) {
        return;
    }
    let Some(checkout) = std::env::var_os("CREDENZA_ARAKOON_CHECKOUT").map(PathBuf::from) else {
        let reason = "CREDENZA_ARAKOON_CHECKOUT names no checkout: no registry has it";
        return skipped(name, reason);
    };
    let Some(python) = find_python2() else {
        return skipped(name, "needs `python2.7` with `nose`, which is not installed");
    };
    let tools = ["unshare", "ip", "fuser", "pgrep"];
    if let Some(reason) = missing(Root::Needed, &tools) {
        return skipped(name, &reason);
    }
    let scratch = Scratch::new("arakoon-system");
    // The suite's ports are fixed, and it kills any process that listens there: so it runs in its
    // own network namespace.
    let mut isolated_suite = Command::new("unshare");
    isolated_suite
        .args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
        .arg(python);
    isolated_suite.arg(client("arakoon_system.py")).arg(checkout).arg(binary());
    isolated_suite.arg(path_str(&scratch.join("home")));
    println!("{name}: {}", run_ok(isolated_suite).trim());
}
