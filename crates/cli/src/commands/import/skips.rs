//! Records that are left out: their messages, and their file.
//!
//! The file holds the rejected records as they are in the input, so that it can be corrected and
//! imported in the same way. Beside it `FILE.reasons` holds a line for each of them, in the same
//! order: its line in the input, and the reason. After a kill some records may be there twice.

use base::codec::printable;
use indicatif::ProgressBar;
use program::{Failure, Outcome};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Treatment of records that are left out.
pub struct Skips {
    bar: ProgressBar,
    rejects: Option<Mutex<Rejects>>,
}

/// The file of rejected records, and that of their reasons. Both are created with the first record.
struct Rejects {
    path: PathBuf,
    reasons_path: PathBuf,
    head: Vec<u8>,
    files: Option<(File, File)>,
}

impl Skips {
    /// Reports on standard error, around the bar; with a path, into that file instead. Only a
    /// resumed import accepts an existing file.
    pub fn new(bar: ProgressBar, path: Option<&Path>, is_resumed: bool) -> Outcome<Skips> {
        let Some(path) = path else { return Ok(Skips { bar, rejects: None }) };
        let mut reasons_path = path.to_path_buf().into_os_string();
        reasons_path.push(".reasons");
        let reasons_path = PathBuf::from(reasons_path);
        for existing in [path, &reasons_path] {
            if !is_resumed && existing.exists() {
                let text = format!("{} exists: name another file", existing.display());
                return Err(Failure::invalid(text));
            }
        }
        let path = path.to_path_buf();
        let rejects = Rejects { path, reasons_path, head: Vec::new(), files: None };
        Ok(Skips { bar, rejects: Some(Mutex::new(rejects)) })
    }

    /// Returns true if records must be kept as they are in the input.
    pub fn needs_texts(&self) -> bool {
        self.rejects.is_some()
    }

    /// Sets the head that every file of such records begins with.
    pub fn set_head(&self, head: &[u8]) {
        if let Some(rejects) = &self.rejects {
            rejects.lock().unwrap_or_else(PoisonError::into_inner).head = head.to_vec();
        }
    }

    /// Reports a record that is left out.
    pub fn report(&self, line: u64, why: &str, text: &[u8]) -> Outcome {
        let Some(rejects) = &self.rejects else {
            self.bar.suspend(|| eprintln!("credenza: line {line}: {why}: skipped"));
            return Ok(());
        };
        let mut rejects = rejects.lock().unwrap_or_else(PoisonError::into_inner);
        let written = rejects.write(line, why, text);
        written.map_err(|error| Failure::file("write", &rejects.path, &error))
    }
}

impl Rejects {
    fn write(&mut self, line: u64, why: &str, text: &[u8]) -> io::Result<()> {
        if self.files.is_none() {
            let open = |path| OpenOptions::new().append(true).create(true).mode(0o600).open(path);
            let (mut file, reasons) = (open(&self.path)?, open(&self.reasons_path)?);
            if file.metadata()?.len() == 0 {
                file.write_all(&self.head)?;
            }
            self.files = Some((file, reasons));
        }
        let Some((file, reasons)) = &mut self.files else { return Ok(()) };
        file.write_all(text)?;
        writeln!(reasons, "{line}\t{}", printable(why.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_records_and_reasons_are_written_to_two_files() {
        let folder = std::env::temp_dir().join(format!("credenza-rejects-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a temporary directory");
        let file = folder.join("bad.csv");
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("written");
        let skips = Skips::new(ProgressBar::hidden(), Some(&file), false).expect("a new file");
        skips.set_head(b"key,value\n");
        assert!(!file.exists(), "nothing was rejected yet");
        skips.report(3, "the key is\nempty", b",1\n").expect("written");
        skips.report(7, "too few", b"x\n").expect("written");
        assert_eq!(read("bad.csv"), "key,value\n,1\nx\n");
        assert_eq!(read("bad.csv.reasons"), "3\tthe key is\\x0aempty\n7\ttoo few\n");
        assert!(Skips::new(ProgressBar::hidden(), Some(&file), false).is_err());
        let skips = Skips::new(ProgressBar::hidden(), Some(&file), true).expect("it goes on");
        skips.set_head(b"key,value\n");
        skips.report(9, "too few", b"y\n").expect("written");
        assert_eq!(read("bad.csv"), "key,value\n,1\nx\ny\n");
        std::fs::remove_dir_all(folder).expect("ours");
    }
}
