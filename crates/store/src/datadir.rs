//! The data directory: one process at a time, one format, ids that last.
//!
//! `docs/inside/file-format.md` draws its files. Opening makes what is missing at first start, and
//! refuses what is not its own: a directory with strangers' files, a foreign format, a link planted
//! among its entries.

use crate::StoreError;
use crate::disk::{Disk, FileDisk};
use crate::failpoint::{Point, reach};
use base::{ClusterDescription, GroupId};
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
mod lock;
mod members;
mod quarantine;
mod rebootstrap;
mod secret;
mod staging;

pub use checkpoints::{StoredCheckpoint, checkpoints, remove_checkpoint};
pub use joiner::{Joiner, Opening};
pub use quarantine::Rejoin;
pub use staging::StagedFile;
use staging::is_unfinished;

/// Version of everything that this program writes into a data directory. Version 2 packs large
/// values in the trees.
pub const FORMAT: u32 = 2;
/// The first version that it reads; it makes the present one of it.
const FORMAT_FIRST: u32 = 1;

const LOCK: &str = "LOCK";
/// More than a process id takes.
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
    /// True if this call created the directory.
    pub fresh: bool,
    directory: OwnedFd,
    _lock: Lock,
}

impl DataDir {
    /// Opens a data directory. Creates it if there is nothing, or an empty directory.
    ///
    /// `Locked` if another process has it, `Version` if another format wrote it, `Corrupt` if its
    /// identity is damaged or missing, `Io` for everything the system refuses, in words.
    pub fn open(path: &Path) -> Result<DataDir, StoreError> {
        refuse_unfinished(path)?;
        DataDir::open_as(path, None)
    }

    /// Returns true if no node has started here: the directory is absent or empty. Creates an
    /// absent directory. Errors: as for [`DataDir::open`].
    pub fn is_fresh(path: &Path) -> Result<bool, StoreError> {
        refuse_unfinished(path)?;
        let directory = make_or_open(path)?;
        let at = OpenDirectory { path, directory: &directory };
        let _lock = at.enter()?;
        Ok(at.read_identity()?.is_none() && joiner::read(&at.disk()?, path)?.is_none())
    }

    /// Opens a data directory of a node that is to join a cluster. If there is nothing, an empty
    /// directory, or one whose joining was cut short, it gets only the node's id.
    pub fn open_or_join(path: &Path) -> Result<Opening, StoreError> {
        refuse_unfinished(path)?;
        let directory = make_or_open(path)?;
        let at = OpenDirectory { path, directory: &directory };
        let lock = at.enter()?;
        if at.read_identity()?.is_some() {
            // It is opened as any other.
            drop((lock, directory));
            return DataDir::open(path).map(Opening::Open);
        }
        let node = joiner::begin(&at.disk()?, path)?;
        Ok(Opening::Joining(Joiner { path: path.to_owned(), node, directory, lock }))
    }

    /// Reads the members that this node last knew. `None`: it never had peers. A node that joined a
    /// cluster always has such a list, so a missing list is `Corrupt`.
    pub fn members(&self) -> Result<Option<ClusterDescription>, StoreError> {
        let disk = self.disk()?;
        let known = members::read(&disk, &self.path)?;
        if known.is_none() && joiner::read(&disk, &self.path)?.is_some() {
            return Err(members::lost(&self.path));
        }
        Ok(known)
    }

    /// The highest group number that this node has ever known. 0: it knew no group.
    pub fn made_upto(&self) -> Result<GroupId, StoreError> {
        members::made_upto(&self.disk()?, &self.path)
    }

    /// Writes the list of known members, durably.
    pub fn write_members(&self, known: &ClusterDescription) -> Result<(), StoreError> {
        members::write(&self.disk()?, &self.path, known)
    }

    /// Creates a data directory of the same cluster and node, for a checkpoint. Only one of the two
    /// may serve. The copy counts its incarnations from the beginning.
    pub fn twin(&self, path: &Path) -> Result<DataDir, StoreError> {
        let identity = Identity::of(self.cluster, self.node);
        let twin = DataDir::open_as(path, Some(identity))?;
        if let Some(known) = self.members()? {
            twin.write_members(&known)?;
        }
        if let Some((secret, is_required)) = self.secret()? {
            twin.write_secret(&secret, is_required)?;
        }
        if let Some(node) = joiner::read(&self.disk()?, &self.path)? {
            joiner::write(&twin.disk()?, path, node)?;
        }
        Ok(twin)
    }

    fn open_as(path: &Path, new: Option<Identity>) -> Result<DataDir, StoreError> {
        let directory = make_or_open(path)?;
        let at = OpenDirectory { path, directory: &directory };
        let lock = at.enter()?;
        let known = at.read_identity()?;
        let fresh = known.is_none();
        if fresh && joiner::read(&at.disk()?, path)?.is_some() {
            let why = "this directory was to join a cluster and has not yet: name a member with \
                       --join again, or remove the directory";
            return Err(at.refused(joiner::FILE.name, why));
        }
        let identity = match known {
            Some(identity) if identity.format == FORMAT => identity,
            // Before anything is written that an earlier program would read wrongly.
            Some(Identity { cluster, node, .. }) => {
                at.write_identity(Identity::of(cluster, node))?
            }
            None => at.write_identity(match new {
                Some(identity) => identity,
                None => Identity::of(chance()?, chance()?),
            })?,
        };
        at.folders()?;
        if fresh {
            reach(Point::FirstStartAfter);
        }
        Ok(DataDir::of(path.to_owned(), identity, fresh, directory, lock))
    }

    fn of(
        path: PathBuf,
        identity: Identity,
        fresh: bool,
        directory: OwnedFd,
        lock: Lock,
    ) -> DataDir {
        let Identity { cluster, node, .. } = identity;
        DataDir { path, cluster, node, fresh, directory, _lock: lock }
    }

    fn disk(&self) -> Result<FileDisk, StoreError> {
        OpenDirectory { path: &self.path, directory: &self.directory }.disk()
    }

    /// Begins the next incarnation of this node. Returns its number, 1 for the first, once that is
    /// durable. The caller opens the log first, see `check_log`. `Corrupt` if the stored number is
    /// damaged.
    pub fn begin_life(&self) -> Result<u64, StoreError> {
        incarnation::raise(&self.disk()?, &self.path)
    }

    /// Checks that the log which earlier incarnations wrote is present. Without it the node would
    /// start empty under its old id and break its promises to the group: `Corrupt`.
    pub fn check_log(&self) -> Result<(), StoreError> {
        let at = OpenDirectory { path: &self.path, directory: &self.directory };
        let failed = |error| StoreError::io(format!("can't list {}", self.log().display()), error);
        let files = FileDisk::open(&self.log())?.list().map_err(failed)?;
        if incarnation::begun(&at.disk()?, &self.path)? == 0 || !files.is_empty() {
            return Ok(());
        }
        let what = "this node has lived, and its log is gone: put the log back, or begin with an \
                    empty data directory (as a member of a cluster: replace this one)";
        let file = self.log().display().to_string();
        Err(StoreError::Corrupt { file, offset: 0, what: what.into() })
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
    let what = format!("{} is refused", path.display());
    let why = "it is a copy that was cut short, and can be removed";
    Err(StoreError::io(what, io::Error::new(io::ErrorKind::InvalidInput, why)))
}

struct OpenDirectory<'a> {
    path: &'a Path,
    directory: &'a OwnedFd,
}

fn make_or_open(path: &Path) -> Result<OwnedFd, StoreError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let failed = |what: &str, error: Errno| {
        StoreError::io(format!("can't {what} the data directory {}", path.display()), error.into())
    };
    match fs::mkdir(path, Mode::RWXU) {
        Ok(()) => {
            // The name of the new directory must last as long as what is acknowledged inside it.
            let above = match path.parent() {
                Some(above) if !above.as_os_str().is_empty() => above,
                _ => Path::new("."),
            };
            fs::open(above, flags, Mode::empty())
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
        let what = format!("can't {verb} {}", self.path.join(name).display());
        move |error| StoreError::io(what.clone(), error.into())
    }

    fn refused(&self, name: &str, why: &str) -> StoreError {
        let what = format!("{} is refused", self.path.join(name).display());
        StoreError::Io { what, source: io::Error::new(io::ErrorKind::InvalidInput, why.to_owned()) }
    }

    /// Refuses a directory with files and without a lock: it was never a data directory. Changes
    /// nothing there, not even permissions.
    fn refuse_strangers(&self) -> Result<(), StoreError> {
        let mut ours = false;
        let mut others = false;
        let failed = self.failed("list", "");
        for entry in fs::Dir::read_from(self.directory).map_err(&failed)? {
            match entry.map_err(&failed)?.file_name().to_bytes() {
                b"." | b".." | b"lost+found" => {}
                b"LOCK" | b"IDENTITY" => ours = true,
                _ => others = true,
            }
        }
        if others && !ours {
            let why = "it holds other files and is no data directory; name an empty or new one";
            return Err(self.refused("", why));
        }
        Ok(())
    }

    /// Locks the directory, after checks that it is a data directory. `Locked` if another process
    /// has it.
    fn enter(&self) -> Result<Lock, StoreError> {
        self.refuse_strangers()?;
        let lock = Lock::take(self)?;
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

    /// Makes the folders within, durably.
    fn folders(&self) -> Result<(), StoreError> {
        for folder in FOLDERS {
            self.folder(folder)?;
        }
        fs::fsync(self.directory).map_err(self.failed("sync", ""))
    }

    fn folder(&self, name: &str) -> Result<(), StoreError> {
        match fs::mkdirat(self.directory, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(self.failed("make", name)(error)),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match fs::openat(self.directory, name, flags, Mode::empty()) {
            Ok(folder) => fs::fchmod(folder, Mode::RWXU).map_err(self.failed("set up", name)),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(self.refused(name, "it is a symbolic link or no directory"))
            }
            Err(error) => Err(self.failed("open", name)(error)),
        }
    }

    /// None: this is a first start.
    fn read_identity(&self) -> Result<Option<Identity>, StoreError> {
        let known = Identity::read(&self.disk()?, self.path)?;
        // A first start that was cut short left no log; anything else has lost its identity.
        let begun = fs::statat(self.directory, "log", AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if known.is_none() && begun {
            return Err(damaged(self.path, "it is missing, though the directory was in use"));
        }
        Ok(known)
    }

    fn write_identity(&self, identity: Identity) -> Result<Identity, StoreError> {
        identity.write(&self.disk()?, self.path)?;
        Ok(identity)
    }

    fn disk(&self) -> Result<FileDisk, StoreError> {
        let same = self.directory.try_clone();
        let failed = |error| StoreError::io(format!("can't open {}", self.path.display()), error);
        Ok(FileDisk::of(same.map_err(failed)?))
    }
}

fn read(file: impl AsFd) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; LOCK_BYTES_MAX];
    let given = rustix::io::pread(file, &mut bytes, 0)?;
    bytes.truncate(given);
    Ok(bytes)
}

/// A number of the system's chance, not 0.
fn chance() -> Result<u64, StoreError> {
    let mut bytes = [0; 8];
    loop {
        let flags = rustix::rand::GetRandomFlags::empty();
        let given = rustix::rand::getrandom(&mut bytes, flags)
            .map_err(|error| StoreError::io("can't draw an id", error.into()))?;
        let number = u64::from_le_bytes(bytes);
        if given == bytes.len() && number != 0 {
            return Ok(number);
        }
    }
}

#[cfg(test)]
mod tests;
