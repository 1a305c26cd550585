//! Unmodified third-party clients, in a virtual environment of their own.

use super::start_server;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use systest::environment::{Root, missing};
use systest::report::{short_or_long, skipped};

/// Returns the Python of the virtual environment with the third-party clients: `./check all`
/// creates it, or this function does, once.
pub fn find_python() -> Result<PathBuf, String> {
    static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    PYTHON.get_or_init(make_environment).clone()
}

fn make_environment() -> Result<PathBuf, String> {
    let root = systest::tidy::root();
    let shared_python = root.join("target/python/bin/python");
    if let Some(reason) = missing(Root::Spared, &["python3"]) {
        return Err(reason);
    }
    let has_clients = |python: &PathBuf| {
        let mut command = Command::new(python);
        let check = "import redis, schemathesis, openapi_spec_validator, importlib.util as known; \
                   assert known.find_spec('riak') and known.find_spec('openapi_python_client')";
        command.args(["-c", check]);
        command.output().is_ok_and(|result| result.status.success())
    };
    if has_clients(&shared_python) {
        return Ok(shared_python);
    }
    let own_environment = root.join("target/tmp/python");
    let python = own_environment.join("bin/python");
    if !has_clients(&python) {
        let venv = Command::new("python3").args(["-m", "venv"]).arg(&own_environment).output();
        let venv = venv.is_ok_and(|result| result.status.success());
        let mut pip = Command::new(own_environment.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check", "-r"]);
        pip.arg(root.join("crates/systest/clients/requirements.txt"));
        if !venv || !pip.output().is_ok_and(|result| result.status.success()) {
            return Err("a virtual environment can't be made (no network, no python3-venv?)".into());
        }
    }
    Ok(python)
}

/// Runs one of the scripts in `clients/`, which must succeed; returns its output.
fn run_script(python: PathBuf, script: &str, args: &[String]) -> String {
    let script = systest::tidy::root().join("crates/systest/clients").join(script);
    let result = Command::new(python).arg(script).args(args).output().expect("python runs");
    let stdout = String::from_utf8_lossy(&result.stdout).into_owned();
    assert!(result.status.success(), "{stdout}{}", String::from_utf8_lossy(&result.stderr));
    stdout
}

#[test]
fn redis_py_client_works_unchanged() {
    let python = match find_python() {
        Ok(python) => python,
        Err(reason) => return skipped("redis-py against the binary", &reason),
    };
    let (_scratch, server) = start_server("redis-py");
    run_script(python, "redis_round_trip.py", &[server.address.port().to_string()]);
}

#[test]
fn server_conforms_to_its_valid_openapi_document() {
    let name = "schemathesis against the binary";
    let python = match find_python() {
        Ok(python) => python,
        Err(reason) => return skipped(name, &reason),
    };
    let (_scratch, mut server) = start_server("openapi");
    let seconds = short_or_long(20, 600);
    let seed = std::env::var("CREDENZA_SEED").unwrap_or("11".into());
    let args = [server.address.port().to_string(), seconds.to_string(), seed];
    let stdout = run_script(python, "openapi_fuzz.py", &args);
    server.must_be_healthy();
    for line in stdout.lines() {
        println!("{name}: {line}");
    }
}

#[test]
fn generated_openapi_client_has_every_operation_and_works() {
    let name = "openapi-python-client against the binary";
    let python = match find_python() {
        Ok(python) => python,
        Err(reason) => return skipped(name, &reason),
    };
    let (_scratch, server) = start_server("openapi-client");
    let stdout = run_script(python, "openapi_client.py", &[server.address.port().to_string()]);
    println!("{name}: {}", stdout.trim());
}
