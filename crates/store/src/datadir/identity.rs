//! Identity of a node: its permanent ids, in a file that is written atomically.
//!
//! Promises: once `write` returned, the identity is read after any crash; a crash before that
//! leaves no file that counts as an identity.

use super::atomic_file::verify_checksum;
use super::{FORMAT, FORMAT_FIRST};
use crate::StoreError;
use crate::disk::{Access, Disk};
use crate::failpoint::{Point, reach};
use base::codec::checksum;
use std::io;
use std::path::Path;

pub(super) const IDENTITY: &str = "IDENTITY";
const TEMPORARY: &str = "IDENTITY.new";
const BYTES_MAX: usize = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub cluster: u64,
    pub node: u64,
    /// Format version of the data directory when it was written.
    pub format: u32,
}

impl Identity {
    /// Creates an identity of the current format.
    pub fn new(cluster: u64, node: u64) -> Identity {
        Identity { cluster, node, format: FORMAT }
    }

    /// Reads the identity in the directory `disk`, which is at `path`. `None`: there is no such
    /// file.
    pub fn read(disk: &dyn Disk, path: &Path) -> Result<Option<Identity>, StoreError> {
        let failed = failed("read", path);
        let file = match disk.open(IDENTITY, Access::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error)),
        };
        let mut bytes = vec![0; BYTES_MAX];
        let count = file.read_at(&mut bytes, 0).map_err(failed)?;
        bytes.truncate(count);
        Identity::parse(&bytes, path).map(Some)
    }

    /// Writes the identity under a temporary name, syncs it, and renames it, durably.
    pub fn write(&self, disk: &dyn Disk, path: &Path) -> Result<(), StoreError> {
        self.write_to(disk).map_err(failed("write", path))
    }

    fn write_to(&self, disk: &dyn Disk) -> io::Result<()> {
        match disk.remove(TEMPORARY) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let text = self.text();
        let file = disk.create(TEMPORARY, text.len() as u64)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync_data()?;
        reach(Point::FirstStartWritten);
        disk.rename(TEMPORARY, IDENTITY)?;
        reach(Point::FirstStartNamed);
        disk.sync_directory()
    }

    fn parse(bytes: &[u8], path: &Path) -> Result<Identity, StoreError> {
        let damaged = |description| damaged(path, description);
        let mut lines = verify_checksum(bytes).map_err(damaged)?.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let parsed = field("credenza").and_then(|text| text.parse().ok());
        let format = parsed.ok_or_else(|| damaged("it has no version"))?;
        if !(FORMAT_FIRST..=FORMAT).contains(&format) {
            return Err(StoreError::Version { found: format, known: FORMAT });
        }
        let mut parse_id = |name| field(name).and_then(|text| u64::from_str_radix(text, 16).ok());
        match (parse_id("cluster"), parse_id("node"), lines.next()) {
            (Some(cluster), Some(node), None) => Ok(Identity { cluster, node, format }),
            _ => Err(damaged("its ids are missing")),
        }
    }

    fn text(&self) -> String {
        let Identity { cluster, node, format } = self;
        let front = format!("credenza {format}\ncluster {cluster:016x}\nnode {node:016x}\n");
        let sum = checksum(front.as_bytes(), 0);
        format!("{front}checksum {sum:016x}\n")
    }
}

pub(super) fn damaged(path: &Path, description: &str) -> StoreError {
    let file = path.join(IDENTITY).display().to_string();
    StoreError::Corrupt { file, offset: 0, description: description.into() }
}

fn failed(verb: &str, path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let description = format!("can't {verb} {}", path.join(IDENTITY).display());
    move |error| StoreError::io(description.clone(), error)
}
