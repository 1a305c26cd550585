//! Unmodified third-party clients, in a virtual environment of their own.

use super::fresh;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use systest::report::{skipped, times};
use systest::rigs::{Root, missing};

/// Returns the Python of the virtual environment with the third-party clients: `./check all`
/// creates it, or this function does, once.
pub fn python() -> Result<PathBuf, String> {
    static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    MADE.get_or_init(make).clone()
}

fn make() -> Result<PathBuf, String> {
    let root = systest::tidy::root();
    let made = root.join("target/python/bin/python");
    if let Some(why) = missing(Root::Spared, &["python3"]) {
        return Err(why);
    }
    let has = |python: &PathBuf| {
        let mut command = Command::new(python);
        let all = "import redis, schemathesis, openapi_spec_validator, importlib.util as known; \
                   assert known.find_spec('riak') and known.find_spec('openapi_python_client')";
        command.args(["-c", all]);
        command.output().is_ok_and(|done| done.status.success())
    };
    if has(&made) {
        return Ok(made);
    }
    let own = root.join("target/tmp/python");
    let python = own.join("bin/python");
    if !has(&python) {
        let venv = Command::new("python3").args(["-m", "venv"]).arg(&own).output();
        let venv = venv.is_ok_and(|done| done.status.success());
        let mut pip = Command::new(own.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "-r"]);
        pip.arg(root.join("crates/systest/clients/requirements.txt"));
        if !venv || !pip.output().is_ok_and(|done| done.status.success()) {
            return Err("a virtual environment can't be made (no network, no python3-venv?)".into());
        }
    }
    Ok(python)
}

/// Runs one of the scripts in `clients/`, which must succeed; returns its output.
fn run(python: PathBuf, script: &str, words: &[String]) -> String {
    let script = systest::tidy::root().join("crates/systest/clients").join(script);
    let done = Command::new(python).arg(script).args(words).output().expect("python runs");
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success(), "{said}{}", String::from_utf8_lossy(&done.stderr));
    said
}

#[test]
fn redis_py_is_served_unchanged() {
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skipped("redis-py against the binary", &why),
    };
    let (_scratch, server) = fresh("redis-py");
    run(python, "redis_round_trip.py", &[server.address.port().to_string()]);
}

#[test]
fn the_openapi_document_is_valid_and_the_server_does_what_it_says() {
    let name = "schemathesis against the binary";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skipped(name, &why),
    };
    let (_scratch, mut server) = fresh("openapi");
    let seconds = times(20, 600);
    let seed = std::env::var("CREDENZA_SEED").unwrap_or("11".into());
    let words = [server.address.port().to_string(), seconds.to_string(), seed];
    let said = run(python, "openapi_fuzz.py", &words);
    server.must_be_unhurt();
    for line in said.lines() {
        println!("{name}: {line}");
    }
}

#[test]
fn a_generated_client_has_every_operation_and_works() {
    let name = "openapi-python-client against the binary";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skipped(name, &why),
    };
    let (_scratch, server) = fresh("openapi-client");
    let said = run(python, "openapi_client.py", &[server.address.port().to_string()]);
    println!("{name}: {}", said.trim());
}
