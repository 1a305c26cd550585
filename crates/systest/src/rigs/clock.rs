//! Clocks of one process that jump or run at another speed, through libfaketime.
//!
//! The machine's own clock is never touched: a library between the process and libc changes what
//! that one process is told.

use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian puts it, below a folder named after the machine's kind.
const LIBRARY: &str = "faketime/libfaketime.so.1";

/// The clock of one process.
#[derive(Debug)]
pub struct NodeClock {
    /// Where the library looks, at every question, how wrong the clock is.
    file: PathBuf,
}

impl NodeClock {
    /// Why there can be none, in words.
    pub fn missing() -> Option<String> {
        library().is_none().then(|| super::not_installed("libfaketime"))
    }

    /// A clock that is right, and whose wall time can be moved; monotonic time never is.
    pub fn new(file: PathBuf) -> NodeClock {
        let clock = NodeClock { file };
        clock.wrong_by(0);
        clock
    }

    /// From now on the process is told a wall time that is so many seconds wrong.
    pub fn wrong_by(&self, seconds: i64) {
        // By rename: a file that is being written would be read half.
        let fresh = self.file.with_extension("fresh");
        fs::write(&fresh, format!("{seconds:+}\n")).expect("the scratch folder can be written");
        fs::rename(&fresh, &self.file).expect("both are in one folder");
    }

    /// What the process' environment must hold from its start.
    pub fn environment(&self) -> Vec<(String, String)> {
        let file = self.file.to_str().expect("our paths are text");
        named(&[
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_TIMESTAMP_FILE", file),
        ])
    }

    /// The environment of a process all of whose clocks run so many times as fast, from its start.
    pub fn running_at(speed: f64) -> Vec<(String, String)> {
        named(&[("FAKETIME", &format!("+0 x{speed}"))])
    }
}

fn named(words: &[(&str, &str)]) -> Vec<(String, String)> {
    let library = library().expect("it was there before");
    let library = library.to_str().expect("its path is text");
    let all = [&[("LD_PRELOAD", library)], words].concat();
    all.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn library() -> Option<PathBuf> {
    let kinds = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    kinds.map(|kind| kind.path().join(LIBRARY)).find(|path: &PathBuf| Path::new(path).is_file())
}
