//! Identity of a node: its permanent ids, in a file that is written atomically.
//!
//! Promises: once `write` returned, the identity is read after any crash; a crash before that
//! leaves no file that counts as an identity.

use super::atomic_file::verify_checksum;
use crate::StoreError;
use crate::disk::{Access, Disk};
use crate::failpoint::{Point, reach};
use base::FeatureLevel;
use base::codec::checksum;
use std::io;
use std::path::Path;

pub(super) const IDENTITY: &str = "IDENTITY";
const TEMPORARY: &str = "IDENTITY.new";
const BYTES_MAX: usize = 4096;
/// Prefix of the line with the version of the first program that knows the level.
const PROGRAM: &str = "program ";
/// Longest name of a program's version that an error repeats.
const VERSION_BYTES_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub cluster: u64,
    pub node: u64,
    /// Feature level up to which the directory may have been written. The number is the version of
    /// the directory's format, too.
    pub level: FeatureLevel,
}

impl Identity {
    /// Creates an identity of the highest level.
    pub fn new(cluster: u64, node: u64) -> Identity {
        Identity { cluster, node, level: FeatureLevel::HIGHEST }
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
        let found: u32 = parsed.ok_or_else(|| damaged("it has no version"))?;
        let known = FeatureLevel::FIRST.0..=FeatureLevel::HIGHEST.0;
        let Some(level) = u16::try_from(found).ok().filter(|level| known.contains(level)) else {
            // Later levels may add lines, but this one stays.
            let program = lines.find_map(|line| line.strip_prefix(PROGRAM)).unwrap_or_default();
            return Err(StoreError::Level { found, program: program_text(program) });
        };
        let level = FeatureLevel(level);
        let mut parse_id = |name| field(name).and_then(|text| u64::from_str_radix(text, 16).ok());
        let ids = (parse_id("cluster"), parse_id("node"));
        let rest: Vec<_> = lines.collect();
        // The first builds of level 2 named no program.
        let is_whole = rest.is_empty() || matches!(&rest[..], [line] if line.starts_with(PROGRAM));
        match ids {
            (Some(cluster), Some(node)) if is_whole => Ok(Identity { cluster, node, level }),
            _ => Err(damaged("its ids are missing")),
        }
    }

    fn text(&self) -> String {
        let Identity { cluster, node, level } = self;
        let mut front = format!("credenza {level}\ncluster {cluster:016x}\nnode {node:016x}\n");
        if let Some(program) = level.program() {
            front.push_str(&format!("{PROGRAM}{program}\n"));
        }
        let sum = checksum(front.as_bytes(), 0);
        format!("{front}checksum {sum:016x}\n")
    }
}

/// Returns the program to run for a directory, in words. `version`: as the directory names it.
fn program_text(version: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-+".contains(&byte);
    let is_version = (1..=VERSION_BYTES_MAX).contains(&version.len());
    match is_version && version.bytes().all(is_plain) {
        true => format!("credenza {version} or later"),
        false => "a later version of credenza".into(),
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
