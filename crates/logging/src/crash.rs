//! Crash log: the last events, written to a file when the node fails or panics, or on SIGUSR2.

use super::Logging;
use super::line;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Maximum number of files. The oldest are removed first.
const FILES_MAX: usize = 20;

/// Returns the folder of the crash logs of a data directory.
pub fn crash_directory(data: &Path) -> PathBuf {
    data.join("crash")
}

/// Writes `crash-<time>.log`. Returns its path.
pub fn write(directory: &Path, reason: &str, lines: &[String]) -> io::Result<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    remove_oldest(directory)?;
    let now = line::now();
    let name = line::time(now).replace(':', "");
    let mut path = directory.join(format!("crash-{name}.log"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = match options.open(&path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            path = directory.join(format!("crash-{name}-{}.log", now.subsec_nanos()));
            options.open(&path)?
        }
        other => other?,
    };
    let mut reason_line = String::from("reason:");
    line::append(&mut reason_line, "message", reason);
    let mut text = format!(
        "credenza {} crash log, written {}, the last {} events follow\n{reason_line}\n",
        env!("CARGO_PKG_VERSION"),
        line::time(now),
        lines.len()
    );
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    Ok(path)
}

fn remove_oldest(directory: &Path) -> io::Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name.starts_with("crash-") && name.ends_with(".log")) {
            paths.push(path);
        }
    }
    paths.sort();
    for path in paths.iter().take((paths.len() + 1).saturating_sub(FILES_MAX)) {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Installs a panic hook: a panic of any thread writes the crash log and aborts the process, so
/// that other threads never serve a half-changed state. Exempt are panics of the LSM library on
/// damaged bytes: the store catches them (`is_caught`) and reports damage.
pub fn install_panic_hook(logging: Logging, data: PathBuf, is_caught: fn() -> bool) {
    std::panic::set_hook(Box::new(move |info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let said = info.payload_as_str().unwrap_or("no message");
        if is_caught() {
            tracing::error!(%place, %said, "reading the store failed: taken for damage");
            return;
        }
        let thread = std::thread::current().name().unwrap_or("unnamed").to_string();
        let reason = format!("panic in thread {thread} at {place}: {said}");
        let mut line = String::from("credenza:");
        line::append(&mut line, "message", &reason);
        match logging.dump(&data, &reason) {
            Some(Ok(path)) => line.push_str(&format!("; crash log: {}", path.display())),
            Some(Err(error)) => line.push_str(&format!("; no crash log: {error}")),
            None => {}
        }
        logging.flush();
        eprintln!("{line}");
        std::process::abort();
    }));
}
