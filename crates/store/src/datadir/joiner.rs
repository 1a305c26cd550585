//! A directory that is to join a cluster: it has the node's id before it has the cluster's.
//!
//! The file JOINER holds the id and stays for good, so that a directory that joined and lost its
//! list of members is detected. The list is written before the identity: a directory with an
//! identity has joined, one without can be joined again, under the same id.

use super::atomic_file::{AtomicFile, parse_id};
use super::identity::Identity;
use super::lock::Lock;
use super::{DataDir, OpenDirectory, members, random_id, secret};
use crate::StoreError;
use crate::disk::Disk;
use base::{ClusterDescription, ClusterSecret};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

pub(super) const FILE: AtomicFile = AtomicFile {
    name: "JOINER",
    temporary: "JOINER.new",
    header: "credenza joiner 1",
    bytes_max: 4096,
};

/// State of a directory of a node that is to join a cluster.
#[derive(Debug)]
pub enum Opening {
    /// The directory belongs to a cluster.
    Open(DataDir),
    /// The directory has yet to join.
    Joining(Joiner),
}

/// A directory that has yet to join. It stays locked until this is dropped.
#[derive(Debug)]
pub struct Joiner {
    /// Path of the directory.
    pub path: PathBuf,
    /// The node's durable id, never 0.
    pub node: u64,
    pub(super) directory: OwnedFd,
    pub(super) lock: Lock,
}

impl Joiner {
    /// Completes the join: stores the cluster's members, the secret with which they sign their
    /// greetings (`None`: they do not), and the node's cluster and id.
    pub fn join(
        self,
        description: &ClusterDescription,
        secret: Option<&ClusterSecret>,
    ) -> Result<DataDir, StoreError> {
        let Joiner { path, node, directory, lock } = self;
        let dir = OpenDirectory { path: &path, directory: &directory };
        if let Some(key) = secret {
            // A join returns the secret only if it is required: this node refuses unsigned
            // greetings from the start.
            secret::write(&dir.disk()?, &path, key, true)?;
        }
        members::write(&dir.disk()?, &path, description)?;
        // A lower level than this program's: its node may be exchanged for an older one.
        let (cluster, level) = (description.cluster.0, description.level);
        let identity = dir.write_identity(Identity { cluster, node, level })?;
        dir.create_folders()?;
        Ok(DataDir::of(path, identity, true, directory, Some(lock)))
    }
}

/// Reads the id in the file. `None`: there is no file.
pub(super) fn read(disk: &dyn Disk, path: &Path) -> Result<Option<u64>, StoreError> {
    let Some(lines) = FILE.read(disk, path)? else { return Ok(None) };
    let node = match &lines[..] {
        [line] => line.strip_prefix("node ").and_then(parse_id).filter(|node| *node != 0),
        _ => None,
    };
    node.map(Some).ok_or_else(|| FILE.damaged(path, "its id is missing"))
}

/// Returns the id under which this directory joins. A new id is stored durably first.
pub(super) fn begin(disk: &dyn Disk, path: &Path) -> Result<u64, StoreError> {
    if let Some(node) = read(disk, path)? {
        return Ok(node);
    }
    let node = random_id()?;
    write(disk, path, node)?;
    Ok(node)
}

/// Stores the id, durably.
pub(super) fn write(disk: &dyn Disk, path: &Path, node: u64) -> Result<(), StoreError> {
    FILE.replace(disk, path, &format!("node {node:016x}\n"))
}
