//! Third-party suites and clients that take minutes, or need their own compiler: Redis' test suite,
//! Arakoon's system tests, Riak's Java client. The long form runs them.

use super::arakoon::python2;
use super::{fresh, output};
use std::path::PathBuf;
use std::process::Command;
use systest::report::{long, skipped};
use systest::rigs::{Root, Scratch, missing, text};
use systest::server::binary;

/// Returns the path of a file of `clients/`.
fn client(name: &str) -> PathBuf {
    systest::tidy::root().join("crates/systest/clients").join(name)
}

/// Returns true, and prints a skip, in the short form.
fn waits(name: &str) -> bool {
    if !long() {
        skipped(name, "takes minutes: CREDENZA_TEST_LONG=1");
    }
    !long()
}

/// Runs a command, which must succeed; returns its output.
fn must(command: Command) -> String {
    let done = output(command);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    said
}

#[test]
fn redis_own_test_suite_passes_but_for_what_is_listed() {
    let name = "Redis' own test suite against the binary";
    if waits(name) {
        return;
    }
    if let Some(why) = missing(Root::Spared, &["tclsh", "python3", "curl", "apt-get"]) {
        return skipped(name, &why);
    }
    let mut bring = Command::new(client("redis_source.sh"));
    bring.arg(systest::tidy::root().join("target/redis-suite"));
    let source = must(bring);
    let (_scratch, mut server) = fresh("redis-suite");
    let mut suite = Command::new("python3");
    suite.arg(client("redis_suite.py")).arg(server.address.port().to_string()).arg(source.trim());
    println!("{name}: {}", must(suite).trim());
    server.must_be_unhurt();
}

#[test]
fn riak_s_java_client_reads_and_resolves_siblings() {
    let name = "Riak's Java client against the binary";
    if waits(name) {
        return;
    }
    if let Some(why) = missing(Root::Spared, &["mvn", "java"]) {
        return skipped(name, &why);
    }
    let (_scratch, server) = fresh("riak-java");
    let mut maven = Command::new("mvn");
    maven.args(["-q", "-B", "-f"]).arg(client("riak_java/pom.xml"));
    let folder = systest::tidy::root().join("target/riak-java");
    maven.arg(format!("-Dfolder={}", folder.display())).args(["compile", "exec:java"]);
    maven.arg(format!("-Dexec.args={}", server.address.port()));
    let said = must(maven);
    assert!(said.contains("3 siblings read and resolved"), "{said}");
}

#[test]
fn arakoon_s_own_system_tests_pass_but_for_what_is_listed() {
    let name = "Arakoon's own system tests against the binary";
    if waits(name) {
        return;
    }
    let Some(checkout) = std::env::var_os("CREDENZA_ARAKOON_CHECKOUT").map(PathBuf::from) else {
        let why = "CREDENZA_ARAKOON_CHECKOUT names no checkout: no registry has it";
        return skipped(name, why);
    };
    let Some(python) = python2() else {
        return skipped(name, "needs `python2.7` with `nose`, which is not installed");
    };
    let tools = ["unshare", "ip", "fuser", "pgrep"];
    if let Some(why) = missing(Root::Needed, &tools) {
        return skipped(name, &why);
    }
    let scratch = Scratch::new("arakoon-system");
    // The suite's ports are fixed, and it kills any process that listens there: so it runs in its
    // own network namespace.
    let mut alone = Command::new("unshare");
    alone.args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"]).arg(python);
    alone.arg(client("arakoon_system.py")).arg(checkout).arg(binary());
    alone.arg(text(&scratch.join("home")));
    println!("{name}: {}", must(alone).trim());
}
