//! Incarnations of this node that the cluster may have on record, and the mark that the directory
//! was found to be an old copy.
//!
//! Each life has a number, which goes up, and a token, which is drawn: two lives of one number, or
//! a higher life that does not come from the one on record, are told apart by it. A life stands
//! here before it says a word to a peer, and goes only when it can't be the one on record any more;
//! so a directory that lacks the recorded life is not the one that lived it.
//!
//! Promises: what `begin` returned is here after any crash.
//! Never: lets go of a life to make room for another; is copied into a checkpoint.

use super::atomic_file::{AtomicFile, id};
use super::{DataDir, chance};
use crate::StoreError;
use crate::disk::Disk;
use base::Lived;
use base::limits::PEER_LIVES_MAX;
use std::io;
use std::path::Path;

pub(super) const FILE: AtomicFile =
    AtomicFile { name: "LIVES", beside: "LIVES.new", head: "credenza lives 1", bytes_max: 8_192 };
/// Why the others don't let this directory in.
pub(super) const OUTDATED: AtomicFile = AtomicFile {
    name: "OUTDATED",
    beside: "OUTDATED.new",
    head: "credenza outdated 1",
    bytes_max: 65_536,
};

impl DataDir {
    /// Begins the life of this number: gives all that the cluster may have on record, this one
    /// last, once that is durable. While as many as a greeting tells may be on record, this one is
    /// not among them, and is known by its number alone.
    pub fn begin_lived(&self, number: u64) -> Result<Vec<Lived>, StoreError> {
        let mut lives = self.lives()?;
        if lives.len() < PEER_LIVES_MAX {
            lives.push(Lived { number, token: chance()? });
            self.keep_lives(&lives)?;
        }
        Ok(lives)
    }

    /// The lives that the cluster may have on record.
    pub fn lives(&self) -> Result<Vec<Lived>, StoreError> {
        let lines = FILE.read(&self.disk()?, &self.path)?.unwrap_or_default();
        let lives = lines.iter().map(|line| parse(line)).collect::<Option<Vec<_>>>();
        let lives = lives.filter(|lives| lives.len() <= PEER_LIVES_MAX);
        lives.ok_or_else(|| FILE.damaged(&self.path, "a line of it can't be read"))
    }

    /// No other life can be on record, now or later.
    pub fn keep_lives(&self, lives: &[Lived]) -> Result<(), StoreError> {
        let line = |lived: &Lived| format!("life {:016x} {:016x}\n", lived.number, lived.token);
        let lines = lives.iter().map(line).collect::<String>();
        FILE.replace(&self.disk()?, &self.path, &lines)
    }

    /// Writes down, for every later start, that the others don't let this directory in: it is an
    /// old copy.
    pub fn note_outdated(&self, words: &str) -> Result<(), StoreError> {
        let words = words.replace('\n', " ");
        OUTDATED.replace(&self.disk()?, &self.path, &format!("{words}\n"))
    }

    /// Why the others did not let this directory in, if an earlier life was told so.
    pub fn outdated(&self) -> Result<Option<String>, StoreError> {
        let words = OUTDATED.read(&self.disk()?, &self.path)?;
        Ok(words.map(|lines| lines.join(" ")))
    }
}

/// What others said of the directory counts no more.
pub(super) fn forgive(disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
    match disk.remove(OUTDATED.name).and_then(|()| disk.sync_directory()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let what = format!("can't remove {}", path.join(OUTDATED.name).display());
            Err(StoreError::io(what, error))
        }
        _ => Ok(()),
    }
}

fn parse(line: &str) -> Option<Lived> {
    let (number, token) = line.strip_prefix("life ")?.split_once(' ')?;
    let token = id(token).filter(|token| *token != 0)?;
    Some(Lived { number: id(number)?, token })
}
