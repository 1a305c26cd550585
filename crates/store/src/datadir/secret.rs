//! The cluster's secret in the data directory (file SECRET), so that a node can greet its peers
//! before it has applied the cluster directory that holds it.
//!
//! Promises: replaced atomically; readable by its owner alone, as all files here.

use super::DataDir;
use super::atomic_file::AtomicFile;
use crate::StoreError;
use crate::disk::Disk;
use base::ClusterSecret;
use std::path::Path;

pub(super) const FILE: AtomicFile = AtomicFile {
    name: "SECRET",
    temporary: "SECRET.new",
    header: "credenza secret 1",
    bytes_max: 4096,
};
/// Mode in which greetings without a MAC are refused.
const REQUIRED: &str = "required";
/// Mode in which they are still accepted.
const OFFERED: &str = "offered";

impl DataDir {
    /// Reads the cluster's secret, and true if greetings must be signed with it. `None`: the
    /// cluster has none, or this node never received it. `Corrupt` if the file is damaged.
    pub fn secret(&self) -> Result<Option<(ClusterSecret, bool)>, StoreError> {
        let Some(lines) = FILE.read(&self.disk()?, &self.path)? else { return Ok(None) };
        let read = match &lines[..] {
            [line] => parse(line),
            _ => None,
        };
        read.map(Some).ok_or_else(|| {
            let description = "its line can't be read, and the secret is stored nowhere else here: \
                        replace the node";
            FILE.damaged(&self.path, description)
        })
    }

    /// Stores the cluster's secret, durably. `is_required`: greetings must be signed with it.
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
    FILE.replace(disk, path, &format!("secret {} {word}\n", *secret.to_hex()))
}

fn parse(line: &str) -> Option<(ClusterSecret, bool)> {
    let (digits, mode) = line.strip_prefix("secret ")?.split_once(' ')?;
    let is_required = match mode {
        REQUIRED => true,
        OFFERED => false,
        _ => return None,
    };
    Some((ClusterSecret::from_hex(digits).ok()?, is_required))
}
