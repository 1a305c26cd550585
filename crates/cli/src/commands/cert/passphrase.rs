//! Passphrase of an authority's key: from a file, or typed at the terminal without being shown.

use base::Kind;
use program::{Failure, Outcome};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::PathBuf;
use zeroize::Zeroizing;

/// Shortest passphrase: a shorter one could be guessed.
const BYTES_MIN: usize = 8;
/// Longest file of a passphrase.
const BYTES_MAX: u64 = 1_024;

/// Source of a passphrase.
#[derive(clap::Args)]
pub struct PassphraseSource {
    /// File with the passphrase of the authority's key, instead of typing it
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,
}

impl PassphraseSource {
    /// Reads the passphrase of an existing key.
    pub fn read(&self, prompt: &str) -> Outcome<Zeroizing<String>> {
        match &self.passphrase_file {
            Some(path) => {
                let io_failure = |error| Failure::file("read", path, &error);
                let file = std::fs::File::open(path).map_err(io_failure)?;
                // In one piece: a text that grows would leave parts of it behind.
                let mut text = Zeroizing::new(String::with_capacity(BYTES_MAX as usize + 1));
                file.take(BYTES_MAX).read_to_string(&mut text).map_err(io_failure)?;
                Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_string()))
            }
            None => type_in(prompt),
        }
    }

    /// Reads the passphrase of a new key: typed ones twice.
    pub fn choose(&self, prompt: &str) -> Outcome<Zeroizing<String>> {
        let passphrase = self.read(prompt)?;
        if passphrase.len() < BYTES_MIN {
            let text = format!("a passphrase needs {BYTES_MIN} bytes at least; or use --plain");
            return Err(Failure::invalid(text));
        }
        if self.passphrase_file.is_none() && type_in("the same again")? != passphrase {
            return Err(Failure::invalid("the passphrases differ"));
        }
        Ok(passphrase)
    }
}

fn type_in(prompt: &str) -> Outcome<Zeroizing<String>> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        let text = "there is no terminal to type the passphrase at: use --passphrase-file, or \
                    --plain for a new authority";
        return Err(Failure::invalid(text));
    }
    let unreadable = |error: std::io::Error| {
        Failure::new(Kind::Unavailable, format!("the passphrase can't be read: {error}"))
    };
    let modes = tcgetattr(&stdin).map_err(|error| unreadable(error.into()))?;
    let mut silent = modes.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    eprint!("{prompt}: ");
    let _ = std::io::stderr().flush();
    tcsetattr(&stdin, OptionalActions::Flush, &silent).map_err(|error| unreadable(error.into()))?;
    let mut text = Zeroizing::new(String::with_capacity(BYTES_MAX as usize));
    let read = stdin.lock().take(BYTES_MAX).read_line(&mut text);
    // Shown again whatever was typed.
    let _ = tcsetattr(&stdin, OptionalActions::Flush, &modes);
    eprintln!();
    read.map_err(unreadable)?;
    Ok(Zeroizing::new(text.trim_end_matches(['\r', '\n']).to_string()))
}
