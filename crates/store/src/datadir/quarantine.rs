//! Quarantine of a member's damaged data: everything of the node is moved aside, and the directory
//! joins the cluster again, as another node.
//!
//! The promises and accepted entries of the node are unknown, so it must never send under its id
//! again. Moving means renaming, so it costs nothing; nothing is deleted.
//!
//! The file REJOIN records the progress: its first state is written before the first move, its
//! second after the last one. After a crash the next start continues from there.
//!
//! Promises: nothing is truncated and nothing deleted; a directory is never half of one node and
//! half of another when it opens.
//! Never: moves data before the cluster has released the node (the caller ensures that).

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
    temporary: "REJOIN.new",
    header: "credenza rejoin 1",
    bytes_max: 65_536,
};
/// Reason for which the last incarnation ended, if it found damage while the node ran.
const DAMAGE: AtomicFile = AtomicFile {
    name: "DAMAGE",
    temporary: "DAMAGE.new",
    header: "credenza damage 1",
    bytes_max: 65_536,
};

/// Line that records that the node was a witness.
const WITNESS: &str = "witness";

/// A join that replaces damaged data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejoin {
    /// Path of the damaged data.
    pub damaged_path: PathBuf,
    /// Client addresses of members that may let the node join.
    pub members: Vec<String>,
    /// True if the node was a witness. It rejoins as one.
    pub is_witness: bool,
}

/// Content of the file REJOIN.
struct State {
    /// True once all files are moved.
    is_moved: bool,
    /// Name of the folder for the damaged data.
    folder: String,
    /// Client addresses of members that may let the node join.
    members: Vec<String>,
    is_witness: bool,
}

impl State {
    fn encode(&self) -> String {
        let state = if self.is_moved { "moved" } else { "moving" };
        let mut lines = format!("{state} {}\n", self.folder);
        if self.is_witness {
            lines.push_str(WITNESS);
            lines.push('\n');
        }
        for member in &self.members {
            lines.push_str(&format!("member {member}\n"));
        }
        lines
    }

    fn read(dir: &OpenDirectory) -> Result<Option<State>, StoreError> {
        let Some(lines) = FILE.read(&dir.disk()?, dir.path)? else { return Ok(None) };
        let parsed = State::parse(&lines);
        parsed.map(Some).ok_or_else(|| FILE.damaged(dir.path, "a line of it can't be read"))
    }

    fn parse(lines: &[String]) -> Option<State> {
        let (first, rest) = lines.split_first()?;
        let (state, folder) = first.split_once(' ')?;
        let is_moved = match state {
            "moved" => true,
            "moving" => false,
            _ => return None,
        };
        let digits = folder.strip_prefix("damaged-")?;
        let is_valid = digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        let is_witness = rest.first().is_some_and(|line| line == WITNESS);
        let rest = &rest[usize::from(is_witness)..];
        let members = rest.iter().map(|line| line.strip_prefix("member ").map(String::from));
        let members = members.collect::<Option<_>>()?;
        is_valid.then(|| State { is_moved, folder: folder.into(), members, is_witness })
    }
}

impl DataDir {
    /// Moves all data of this node aside. The directory then has to join the cluster, through these
    /// members. Releases the lock.
    pub fn set_aside(self, members: &[String], is_witness: bool) -> Result<Rejoin, StoreError> {
        let dir = OpenDirectory { path: &self.path, directory: &self.directory };
        let folder = format!("damaged-{:016x}", self.node);
        let state = State { is_moved: false, folder, members: members.to_vec(), is_witness };
        FILE.replace(&dir.disk()?, dir.path, &state.encode())?;
        resume(&dir, state)
    }

    /// Continues a `set_aside` that an earlier incarnation began. `None`: there was none, or the
    /// node has joined since.
    pub fn resume_set_aside(path: &Path) -> Result<Option<Rejoin>, StoreError> {
        if !path.join(FILE.name).exists() {
            return Ok(None);
        }
        let directory = make_or_open(path)?;
        let dir = OpenDirectory { path, directory: &directory };
        let _lock = dir.acquire_lock()?;
        let Some(state) = State::read(&dir)? else { return Ok(None) };
        // Until all files are moved, an identity in the directory is the old node's.
        let joined = state.is_moved && identity::Identity::read(&dir.disk()?, path)?.is_some();
        if !joined {
            return resume(&dir, state).map(Some);
        }
        let failed = dir.failed("remove", FILE.name);
        fs::unlinkat(&directory, FILE.name, AtFlags::empty()).map_err(&failed)?;
        fs::fsync(&directory).map_err(failed)?;
        Ok(None)
    }

    /// Records damage that was found while the node ran, for its next start.
    pub fn record_damage(path: &Path, reason: &str) -> Result<(), StoreError> {
        let directory = make_or_open(path)?;
        let dir = OpenDirectory { path, directory: &directory };
        let reason = reason.replace('\n', " ");
        DAMAGE.replace(&dir.disk()?, path, &format!("{reason}\n"))
    }

    /// Removes the record of damage, which is repaired.
    pub fn clear_damage(&self) -> Result<(), StoreError> {
        let dir = OpenDirectory { path: &self.path, directory: &self.directory };
        let failed = dir.failed("remove", DAMAGE.name);
        match fs::unlinkat(&self.directory, DAMAGE.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(failed(error)),
        }
        fs::fsync(&self.directory).map_err(failed)
    }

    /// Returns true if an earlier incarnation recorded damage. Checks that the file exists; opens
    /// nothing.
    pub fn has_damage_record(path: &Path) -> bool {
        path.join(DAMAGE.name).exists()
    }

    /// Reads the damage that an earlier incarnation recorded. `None`: it recorded none.
    pub fn damage_record(&self) -> Result<Option<String>, StoreError> {
        let dir = OpenDirectory { path: &self.path, directory: &self.directory };
        Ok(DAMAGE.read(&dir.disk()?, &self.path)?.map(|lines| lines.join(" ")))
    }
}

/// Moves the remaining files. The identity is moved last: until then the directory is the old
/// node's.
fn resume(dir: &OpenDirectory, mut state: State) -> Result<Rejoin, StoreError> {
    let damaged_path = dir.path.join(&state.folder);
    if !state.is_moved {
        move_all(dir, &state.folder)?;
        state.is_moved = true;
        FILE.replace(&dir.disk()?, dir.path, &state.encode())?;
    }
    let State { members, is_witness, .. } = state;
    Ok(Rejoin { damaged_path, members, is_witness })
}

fn move_all(dir: &OpenDirectory, folder: &str) -> Result<(), StoreError> {
    match fs::mkdirat(dir.directory, folder, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(dir.failed("make", folder)(error)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = fs::openat(dir.directory, folder, flags, Mode::empty())
        .map_err(dir.failed("open", folder))?;
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
        match fs::renameat(dir.directory, name, &target, name) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(dir.failed("set aside", name)(error)),
        }
    }
    fs::fsync(&target).map_err(dir.failed("sync", folder))?;
    fs::fsync(dir.directory).map_err(dir.failed("sync", ""))
}
