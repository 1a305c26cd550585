//! The cluster's secret in the data directory (file SECRET), so that a node can greet the others
//! before it has applied anything of the directory that keeps it.
//!
//! Promises: there whole or not at all; readable by its owner alone, as everything here.

use super::DataDir;
use super::atomic_file::AtomicFile;
use crate::StoreError;
use crate::disk::Disk;
use base::ClusterSecret;
use std::path::Path;

pub(super) const FILE: AtomicFile =
    AtomicFile { name: "SECRET", beside: "SECRET.new", head: "credenza secret 1", bytes_max: 4096 };
/// Greetings without a MAC are refused, or not yet.
const REQUIRED: &str = "required";
const OFFERED: &str = "offered";

impl DataDir {
    /// The cluster's secret, and whether greetings must be signed with it; none: the cluster has
    /// none, or this node never learnt it. `Corrupt` if the file is damaged.
    pub fn secret(&self) -> Result<Option<(ClusterSecret, bool)>, StoreError> {
        let Some(lines) = FILE.read(&self.disk()?, &self.path)? else { return Ok(None) };
        let read = match &lines[..] {
            [line] => parse(line),
            _ => None,
        };
        read.map(Some).ok_or_else(|| {
            let what = "its line can't be read, and nothing else here tells the secret: replace \
                        the node";
            FILE.damaged(&self.path, what)
        })
    }

    /// Writes the cluster's secret down, durably, and whether greetings must be signed with it.
    pub fn write_secret(
        &self,
        secret: &ClusterSecret,
        is_required: bool,
    ) -> Result<(), StoreError> {
        write(&self.disk()?, &self.path, secret, is_required)
    }
}

pub(super) fn write(
    disk: &dyn Disk,
    path: &Path,
    secret: &ClusterSecret,
    is_required: bool,
) -> Result<(), StoreError> {
    let word = if is_required { REQUIRED } else { OFFERED };
    FILE.replace(disk, path, &format!("secret {} {word}\n", secret.to_hex()))
}

fn parse(line: &str) -> Option<(ClusterSecret, bool)> {
    let (digits, word) = line.strip_prefix("secret ")?.split_once(' ')?;
    let is_required = match word {
        REQUIRED => true,
        OFFERED => false,
        _ => return None,
    };
    Some((ClusterSecret::from_hex(digits).ok()?, is_required))
}
