//! Faulty clocks of one process, which jump or run at another speed, through libfaketime.
//!
//! The machine's own clock is never touched: a library between the process and libc changes the
//! time that this process reads.

use std::fs;
use std::path::{Path, PathBuf};

/// Path of the library on Debian, below a folder named after the machine's architecture.
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// The clock of one process.
#[derive(Debug)]
pub struct NodeClock {
    /// File from which the library reads the clock's error at every call.
    file: PathBuf,
}

impl NodeClock {
    /// Returns the reason why no clock can be made. `None`: it can.
    pub fn missing() -> Option<String> {
        library().is_none().then(|| crate::environment::not_installed("libfaketime"))
    }

    /// Returns a correct clock whose wall time can be shifted; its monotonic time never is.
    pub fn new(file: PathBuf) -> NodeClock {
        let clock = NodeClock { file };
        clock.set_offset(0);
        clock
    }

    /// Sets the error of the process's wall time, in seconds.
    pub fn set_offset(&self, seconds: i64) {
        // The file is replaced by rename: a file that is being written could be read half.
        let replacement = self.file.with_extension("fresh");
        fs::write(&replacement, format!("{seconds:+}\n"))
            .expect("the scratch folder can be written");
        fs::rename(&replacement, &self.file).expect("both are in one folder");
    }

    /// Returns the variables that the process's environment must hold from its start.
    pub fn environment(&self) -> Vec<(String, String)> {
        let file = self.file.to_str().expect("our paths are text");
        preload_environment(&[
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_TIMESTAMP_FILE", file),
        ])
    }

    /// Returns the environment of a process all of whose clocks run `speed` times as fast, from its
    /// start.
    pub fn environment_at_speed(speed: f64) -> Vec<(String, String)> {
        preload_environment(&[("FAKETIME", &format!("+0 x{speed}"))])
    }
}

fn preload_environment(variables: &[(&str, &str)]) -> Vec<(String, String)> {
    let library = library().expect("it was there before");
    let library = library.to_str().expect("its path is text");
    let environment = [&[("LD_PRELOAD", library)], variables].concat();
    environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn library() -> Option<PathBuf> {
    let architectures = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    architectures
        .map(|architecture| architecture.path().join(LIBRARY))
        .find(|path: &PathBuf| Path::new(path).is_file())
}
