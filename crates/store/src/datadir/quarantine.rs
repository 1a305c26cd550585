//! Quarantine of a member's damaged data: everything of the node is moved aside, and the directory
//! joins the cluster again, as another node.
//!
//! The promises and accepted entries of the node are unknown, so it must never speak under its id
//! again. Moving is renaming, so it costs nothing; nothing is deleted.
//!
//! The file REJOIN records the progress: its first state is written before anything is moved, its
//! second when all is. After a crash the next start continues from there.
//!
//! Promises: nothing is cut and nothing deleted; a directory is never half of one node and half of
//! another when it opens.
//! Never: moves anything that the cluster has not released before (the caller sees to that).

use super::atomic_file::AtomicFile;
use super::identity;
use super::{
    DataDir, OpenDirectory, incarnation, incarnations, joiner, make_or_open, members, secret,
};
use crate::StoreError;
use rustix::fs::{self, AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

pub(super) const FILE: AtomicFile = AtomicFile {
    name: "REJOIN",
    beside: "REJOIN.new",
    head: "credenza rejoin 1",
    bytes_max: 65_536,
};
/// Reason for which the last incarnation ended, if it found damage while the node ran.
const DAMAGE: AtomicFile = AtomicFile {
    name: "DAMAGE",
    beside: "DAMAGE.new",
    head: "credenza damage 1",
    bytes_max: 65_536,
};

/// Line that records that the node was a witness.
const WITNESS: &str = "witness";

/// A joining that takes the place of damaged data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejoin {
    /// Path of the damaged data.
    pub aside: PathBuf,
    /// Client addresses of members that may let the node join.
    pub members: Vec<String>,
    /// True if the node was a witness. It rejoins as one.
    pub witness: bool,
}

struct State {
    /// True once all files are moved.
    moved: bool,
    folder: String,
    members: Vec<String>,
    witness: bool,
}

impl State {
    fn lines(&self) -> String {
        let state = if self.moved { "moved" } else { "moving" };
        let mut lines = format!("{state} {}\n", self.folder);
        if self.witness {
            lines.push_str(WITNESS);
            lines.push('\n');
        }
        for member in &self.members {
            lines.push_str(&format!("member {member}\n"));
        }
        lines
    }

    fn read(at: &OpenDirectory) -> Result<Option<State>, StoreError> {
        let Some(lines) = FILE.read(&at.disk()?, at.path)? else { return Ok(None) };
        let parsed = State::parse(&lines);
        parsed.map(Some).ok_or_else(|| FILE.damaged(at.path, "a line of it can't be read"))
    }

    fn parse(lines: &[String]) -> Option<State> {
        let (first, rest) = lines.split_first()?;
        let (state, folder) = first.split_once(' ')?;
        let moved = match state {
            "moved" => true,
            "moving" => false,
            _ => return None,
        };
        let digits = folder.strip_prefix("damaged-")?;
        let is_ours = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let witness = rest.first().is_some_and(|line| line == WITNESS);
        let rest = &rest[usize::from(witness)..];
        let members = rest.iter().map(|line| line.strip_prefix("member ").map(String::from));
        let members = members.collect::<Option<_>>()?;
        is_ours.then(|| State { moved, folder: folder.into(), members, witness })
    }
}

impl DataDir {
    /// Sets everything of this node aside; the directory is then one that is to join, with the help
    /// of these members. The lock is given back.
    pub fn set_aside(self, members: &[String], witness: bool) -> Result<Rejoin, StoreError> {
        let at = OpenDirectory { path: &self.path, directory: &self.directory };
        let folder = format!("damaged-{:016x}", self.node);
        let state = State { moved: false, folder, members: members.to_vec(), witness };
        FILE.replace(&at.disk()?, at.path, &state.lines())?;
        go_on(&at, state)
    }

    /// Continues a `set_aside` that an earlier incarnation began. `None`: there was none, or the
    /// node has joined since.
    pub fn rejoins(path: &Path) -> Result<Option<Rejoin>, StoreError> {
        if !path.join(FILE.name).exists() {
            return Ok(None);
        }
        let directory = make_or_open(path)?;
        let at = OpenDirectory { path, directory: &directory };
        let _lock = at.enter()?;
        let Some(state) = State::read(&at)? else { return Ok(None) };
        // Until all is moved, an identity that is found is the old node's.
        let joined = state.moved && identity::Identity::read(&at.disk()?, path)?.is_some();
        if !joined {
            return go_on(&at, state).map(Some);
        }
        let failed = at.failed("remove", FILE.name);
        fs::unlinkat(&directory, FILE.name, AtFlags::empty()).map_err(&failed)?;
        fs::fsync(&directory).map_err(failed)?;
        Ok(None)
    }

    /// Writes down that damage was found while the node ran, for its next start.
    pub fn note_damage(path: &Path, words: &str) -> Result<(), StoreError> {
        let directory = make_or_open(path)?;
        let at = OpenDirectory { path, directory: &directory };
        let words = words.replace('\n', " ");
        DAMAGE.replace(&at.disk()?, path, &format!("{words}\n"))
    }

    /// That damage is mended.
    pub fn forget_damage(&self) -> Result<(), StoreError> {
        let at = OpenDirectory { path: &self.path, directory: &self.directory };
        let failed = at.failed("remove", DAMAGE.name);
        match fs::unlinkat(&self.directory, DAMAGE.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
        fs::fsync(&self.directory).map_err(failed)
    }

    /// Returns true if an earlier incarnation recorded damage. Checks that the file exists; opens
    /// nothing.
    pub fn has_noted_damage(path: &Path) -> bool {
        path.join(DAMAGE.name).exists()
    }

    /// Reads the damage that an earlier incarnation recorded. `None`: it recorded none.
    pub fn noted_damage(&self) -> Result<Option<String>, StoreError> {
        let at = OpenDirectory { path: &self.path, directory: &self.directory };
        Ok(DAMAGE.read(&at.disk()?, &self.path)?.map(|lines| lines.join(" ")))
    }
}

/// Moves the remaining files. The identity goes last: until then the directory is the old node's.
fn go_on(at: &OpenDirectory, mut state: State) -> Result<Rejoin, StoreError> {
    let aside = at.path.join(&state.folder);
    if !state.moved {
        move_all(at, &state.folder)?;
        state.moved = true;
        FILE.replace(&at.disk()?, at.path, &state.lines())?;
    }
    let State { members, witness, .. } = state;
    Ok(Rejoin { aside, members, witness })
}

fn move_all(at: &OpenDirectory, folder: &str) -> Result<(), StoreError> {
    match fs::mkdirat(at.directory, folder, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(at.failed("make", folder)(error)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = fs::openat(at.directory, folder, flags, Mode::empty())
        .map_err(at.failed("open", folder))?;
    let names = [
        "log",
        "store",
        members::FILE.name,
        joiner::FILE.name,
        secret::FILE.name,
        incarnation::INCARNATION,
        incarnations::FILE.name,
        incarnations::OUTDATED.name,
        DAMAGE.name,
        identity::IDENTITY,
    ];
    for name in names {
        match fs::renameat(at.directory, name, &target, name) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(at.failed("set aside", name)(error)),
        }
    }
    fs::fsync(&target).map_err(at.failed("sync", folder))?;
    fs::fsync(at.directory).map_err(at.failed("sync", ""))
}
