//! The data directory: one process at a time, one format, permanent ids.
//!
//! `docs/inside/file-format.md` draws its files. Opening creates missing files at the first start,
//! and refuses a directory with foreign files, a foreign format, and a symbolic link among its
//! entries.

use crate::StoreError;
use crate::disk::{Disk, FileDisk};
use crate::failpoint::{Point, reach};
use base::{ClusterDescription, FeatureLevel, GroupId};
use identity::{Identity, damaged};
use lock::Lock;
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

mod atomic_file;
mod checkpoints;
mod identity;
mod incarnation;
mod incarnations;
mod joiner;
mod level;
mod lock;
mod members;
mod quarantine;
mod reading;
mod rebootstrap;
mod secret;
mod staging;

pub use checkpoints::{StoredCheckpoint, checkpoints, remove_checkpoint};
pub use joiner::{Joiner, Opening};
pub use quarantine::Rejoin;
pub use staging::StagingFolder;
use staging::is_unfinished;

const LOCK: &str = "LOCK";
/// More bytes than a process id takes.
const LOCK_BYTES_MAX: usize = 64;
const FOLDERS: [&str; 3] = ["log", "store", "crash"];

/// An open data directory. It stays locked until this is dropped.
#[derive(Debug)]
pub struct DataDir {
    /// Path of the directory.
    pub path: PathBuf,
    /// The cluster's durable id, never 0.
    pub cluster: u64,
    /// The node's durable id, never 0.
    pub node: u64,
    /// Feature level with which the directory was marked when it was opened.
    pub level: FeatureLevel,
    /// True if this call created the directory.
    pub is_fresh: bool,
    directory: OwnedFd,
    /// `None`: a directory that is only read, and has no lock file.
    _lock: Option<Lock>,
}

impl DataDir {
    /// Opens a data directory. Creates it if there is nothing, or an empty directory.
    ///
    /// `Locked` if another process has it, `Level` if it may hold what only a later program knows
    /// (nothing in it is changed then), `Corrupt` if its identity is damaged or missing, `Io` for
    /// everything the system refuses, in words.
    pub fn open(path: &Path) -> Result<DataDir, StoreError> {
        refuse_unfinished(path)?;
        DataDir::open_as(path, None)
    }

    /// Returns true if no node has started here: the directory is absent or empty. Creates an
    /// absent directory. Errors: as for [`DataDir::open`].
    pub fn is_fresh(path: &Path) -> Result<bool, StoreError> {
        refuse_unfinished(path)?;
        let directory = make_or_open(path)?;
        let dir = OpenDirectory { path, directory: &directory };
        let _lock = dir.acquire_lock()?;
        Ok(dir.read_identity()?.is_none() && joiner::read(&dir.disk()?, path)?.is_none())
    }

    /// Opens a data directory of a node that is to join a cluster. An absent or empty directory, or
    /// one whose join was interrupted, gets only the node's id.
    pub fn open_or_join(path: &Path) -> Result<Opening, StoreError> {
        refuse_unfinished(path)?;
        let directory = make_or_open(path)?;
        let dir = OpenDirectory { path, directory: &directory };
        let lock = dir.acquire_lock()?;
        if dir.read_identity()?.is_some() {
            // It is opened like any other directory.
            drop((lock, directory));
            return DataDir::open(path).map(Opening::Open);
        }
        let node = joiner::begin(&dir.disk()?, path)?;
        Ok(Opening::Joining(Joiner { path: path.to_owned(), node, directory, lock }))
    }

    /// Reads the last known members. `None`: this node never had peers. A node that joined a
    /// cluster always has such a list, so a missing list is `Corrupt`.
    pub fn members(&self) -> Result<Option<ClusterDescription>, StoreError> {
        let disk = self.disk()?;
        let description = members::read(&disk, &self.path)?;
        if description.is_none() && joiner::read(&disk, &self.path)?.is_some() {
            return Err(members::missing_list(&self.path));
        }
        Ok(description)
    }

    /// Returns the highest group number that this node ever recorded. 0: none.
    pub fn highest_group(&self) -> Result<GroupId, StoreError> {
        members::highest_group(&self.disk()?, &self.path)
    }

    /// Writes the list of known members, durably.
    pub fn write_members(&self, description: &ClusterDescription) -> Result<(), StoreError> {
        members::write(&self.disk()?, &self.path, description)
    }

    /// Creates a data directory of the same cluster and node, for a checkpoint. Only one of the two
    /// may serve. The copy counts its incarnations from the beginning.
    pub fn copy_identity_to(&self, path: &Path) -> Result<DataDir, StoreError> {
        let identity = self.identity()?;
        let copy = DataDir::open_as(path, Some(identity))?;
        if let Some(description) = self.members()? {
            copy.write_members(&description)?;
        }
        if let Some((secret, is_required)) = self.secret()? {
            copy.write_secret(&secret, is_required)?;
        }
        if let Some(node) = joiner::read(&self.disk()?, &self.path)? {
            joiner::write(&copy.disk()?, path, node)?;
        }
        Ok(copy)
    }

    fn open_as(path: &Path, new: Option<Identity>) -> Result<DataDir, StoreError> {
        let directory = make_or_open(path)?;
        let dir = OpenDirectory { path, directory: &directory };
        let lock = dir.acquire_lock()?;
        let stored = dir.read_identity()?;
        let is_fresh = stored.is_none();
        if is_fresh && joiner::read(&dir.disk()?, path)?.is_some() {
            let reason = "this directory was created to join a cluster, but has not joined yet: \
                       repeat --join with the address of a member, or remove the directory";
            return Err(dir.refused(joiner::FILE.name, reason));
        }
        let identity = match stored {
            Some(identity) => identity,
            None => dir.write_identity(match new {
                Some(identity) => identity,
                None => Identity::new(random_id()?, random_id()?),
            })?,
        };
        dir.create_folders()?;
        if is_fresh {
            reach(Point::FirstStartAfter);
        }
        Ok(DataDir::of(path.to_owned(), identity, is_fresh, directory, Some(lock)))
    }

    fn of(
        path: PathBuf,
        identity: Identity,
        is_fresh: bool,
        directory: OwnedFd,
        lock: Option<Lock>,
    ) -> DataDir {
        let Identity { cluster, node, level } = identity;
        DataDir { path, cluster, node, level, is_fresh, directory, _lock: lock }
    }

    fn disk(&self) -> Result<FileDisk, StoreError> {
        OpenDirectory { path: &self.path, directory: &self.directory }.disk()
    }

    /// Begins the next incarnation of this node. Returns its number, 1 for the first, once that is
    /// durable. The caller opens the log first, see `check_log`. `Corrupt` if the stored number is
    /// damaged.
    pub fn increment_incarnation(&self) -> Result<u64, StoreError> {
        incarnation::increment(&self.disk()?, &self.path)
    }

    /// Checks that the log which earlier incarnations wrote is present. Without it the node would
    /// start empty under its old id and break its promises to the group: `Corrupt`.
    pub fn check_log(&self) -> Result<(), StoreError> {
        let dir = OpenDirectory { path: &self.path, directory: &self.directory };
        let failed = |error| StoreError::io(format!("can't list {}", self.log().display()), error);
        let files = FileDisk::open(&self.log())?.list().map_err(failed)?;
        if incarnation::last_number(&dir.disk()?, &self.path)? == 0 || !files.is_empty() {
            return Ok(());
        }
        let text = "this node has run before, but its log is missing: restore the log, or start \
                    with an empty data directory (in a cluster: replace this member)";
        let file = self.log().display().to_string();
        Err(StoreError::Corrupt { file, offset: 0, description: text.into() })
    }

    /// Path of the transaction log.
    pub fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// Path of the ordered trees.
    pub fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Path of crash reports.
    pub fn crash(&self) -> PathBuf {
        self.path.join("crash")
    }
}

fn refuse_unfinished(path: &Path) -> Result<(), StoreError> {
    if !is_unfinished(path) {
        return Ok(());
    }
    let description = format!("{} is refused", path.display());
    let reason = "it is an incomplete copy, and can be removed";
    Err(StoreError::io(description, io::Error::new(io::ErrorKind::InvalidInput, reason)))
}

/// An open directory and its path, which need not be locked yet.
struct OpenDirectory<'a> {
    path: &'a Path,
    directory: &'a OwnedFd,
}

fn make_or_open(path: &Path) -> Result<OwnedFd, StoreError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let failed = |description: &str, error: Errno| {
        StoreError::io(
            format!("can't {description} the data directory {}", path.display()),
            error.into(),
        )
    };
    match fs::mkdir(path, Mode::RWXU) {
        Ok(()) => {
            // The name of the new directory must be as durable as the data acknowledged inside it.
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            fs::open(parent, flags, Mode::empty())
                .and_then(fs::fsync)
                .map_err(|error| failed("make the name durable of", error))?;
        }
        Err(Errno::EXIST) => {}
        Err(error) => return Err(failed("make", error)),
    }
    fs::open(path, flags, Mode::empty()).map_err(|error| failed("open", error))
}

impl OpenDirectory<'_> {
    fn failed(&self, verb: &str, name: &str) -> impl Fn(Errno) -> StoreError + use<> {
        let description = format!("can't {verb} {}", self.path.join(name).display());
        move |error| StoreError::io(description.clone(), error.into())
    }

    fn refused(&self, name: &str, reason: &str) -> StoreError {
        let description = format!("{} is refused", self.path.join(name).display());
        StoreError::Io {
            description,
            source: io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned()),
        }
    }

    /// Refuses a directory with files and without a lock: it was never a data directory. Changes
    /// nothing there, not even permissions.
    fn refuse_foreign(&self) -> Result<(), StoreError> {
        let mut is_data_dir = false;
        let mut has_other_files = false;
        let failed = self.failed("list", "");
        for entry in fs::Dir::read_from(self.directory).map_err(&failed)? {
            match entry.map_err(&failed)?.file_name().to_bytes() {
                b"." | b".." | b"lost+found" => {}
                b"LOCK" | b"IDENTITY" => is_data_dir = true,
                _ => has_other_files = true,
            }
        }
        if has_other_files && !is_data_dir {
            let reason = "it holds other files and is not a data directory; choose an empty or new \
                       one";
            return Err(self.refused("", reason));
        }
        Ok(())
    }

    /// Locks the directory, after checks that it is a data directory. `Locked` if another process
    /// has it.
    fn acquire_lock(&self) -> Result<Lock, StoreError> {
        self.refuse_foreign()?;
        self.refuse_later_level()?;
        let lock = Lock::acquire(self)?;
        fs::fchmod(self.directory, Mode::RWXU)
            .map_err(self.failed("set the permissions of", ""))?;
        Ok(lock)
    }

    /// Opens a regular file among the entries, never through a link.
    fn open(&self, name: &str, flags: OFlags) -> Result<OwnedFd, StoreError> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(self.directory, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => file,
            Err(Errno::LOOP) => return Err(self.refused(name, "it is a symbolic link")),
            Err(error) => return Err(self.failed("open", name)(error)),
        };
        let kind = fs::fstat(&file).map_err(self.failed("look at", name))?.st_mode;
        if FileType::from_raw_mode(kind) != FileType::RegularFile {
            return Err(self.refused(name, "it is not a regular file"));
        }
        Ok(file)
    }

    /// Creates the folders within, durably.
    fn create_folders(&self) -> Result<(), StoreError> {
        for folder in FOLDERS {
            self.create_folder(folder)?;
        }
        fs::fsync(self.directory).map_err(self.failed("sync", ""))
    }

    fn create_folder(&self, name: &str) -> Result<(), StoreError> {
        match fs::mkdirat(self.directory, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(self.failed("make", name)(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(self.directory, name, flags, Mode::empty()) {
            Ok(folder) => fs::fchmod(folder, Mode::RWXU).map_err(self.failed("set up", name)),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(self.refused(name, "it is a symbolic link, or not a directory"))
            }
            Err(error) => Err(self.failed("open", name)(error)),
        }
    }

    /// Reads the identity. `None`: this is a first start.
    fn read_identity(&self) -> Result<Option<Identity>, StoreError> {
        let identity = Identity::read(&self.disk()?, self.path)?;
        // An interrupted first start leaves no log; a directory with a log has lost its identity.
        let has_log = fs::statat(self.directory, "log", AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if identity.is_none() && has_log {
            return Err(damaged(self.path, "it is missing, though the directory was in use"));
        }
        Ok(identity)
    }

    fn write_identity(&self, identity: Identity) -> Result<Identity, StoreError> {
        identity.write(&self.disk()?, self.path)?;
        Ok(identity)
    }

    fn disk(&self) -> Result<FileDisk, StoreError> {
        let descriptor = self.directory.try_clone();
        let failed = |error| StoreError::io(format!("can't open {}", self.path.display()), error);
        Ok(FileDisk::from_descriptor(descriptor.map_err(failed)?))
    }
}

fn read_lock_file(file: impl AsFd) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; LOCK_BYTES_MAX];
    let count = rustix::io::pread(file, &mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// Draws a random id other than 0 from the operating system.
fn random_id() -> Result<u64, StoreError> {
    let mut bytes = [0; 8];
    loop {
        let flags = rustix::rand::GetRandomFlags::empty();
        let count = rustix::rand::getrandom(&mut bytes, flags)
            .map_err(|error| StoreError::io("can't draw an id", error.into()))?;
        let number = u64::from_le_bytes(bytes);
        if count == bytes.len() && number != 0 {
            return Ok(number);
        }
    }
}

#[cfg(test)]
mod tests;
