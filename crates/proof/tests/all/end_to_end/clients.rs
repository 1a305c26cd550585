//! Unmodified clients of other makers, in a virtual environment of their own.

use super::fresh;
use proof::report::skipped;
use proof::rigs::find;
use std::path::PathBuf;
use std::process::Command;

/// The virtual environment with the foreign clients: `./check` makes it, or this does.
fn python() -> Result<PathBuf, String> {
    let root = proof::tidy::root();
    let made = root.join("target/python/bin/python");
    if find("python3").is_none() {
        return Err("needs `python3`, which is not installed".into());
    }
    let has = |python: &PathBuf| {
        let mut command = Command::new(python);
        command.args(["-c", "import redis"]).output().is_ok_and(|done| done.status.success())
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
        pip.args(["install", "--quiet", "--disable-pip-version-check", "redis"]);
        if !venv || !pip.output().is_ok_and(|done| done.status.success()) {
            return Err("a virtual environment with `redis` can't be made (no network?)".into());
        }
    }
    Ok(python)
}

#[test]
fn redis_py_is_served_unchanged() {
    let name = "redis-py against the binary";
    let python = match python() {
        Ok(python) => python,
        Err(why) => return skipped(name, &why),
    };
    let (_scratch, server) = fresh("redis-py");
    let script = proof::tidy::root().join("crates/proof/clients/redis_round_trip.py");
    let done = Command::new(python)
        .arg(script)
        .arg(server.address.port().to_string())
        .output()
        .expect("python runs");
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}
