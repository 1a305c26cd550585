//! Checkpoint of the trees: a second store with hard links to the table files, which never change.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use lsm_tree::AbstractTree;

use super::LsmTrees;
use super::manifest::{CURRENT, Manifest, TABLES};
use crate::StoreError;
use crate::failpoint::{Point, reach};

impl LsmTrees {
    /// Links the current tables into `target`. Writes `current` last: until then the target is no
    /// store, and opening it is refused.
    pub(super) fn link_into(&self, target: &Path) -> Result<(), StoreError> {
        self.check_usable()?;
        let (manifest, tables) = loop {
            let manifest = {
                // No flush or compaction changes the list while this lock is held; readers do not
                // need it.
                let _lists = self.tree.get_version_history_lock();
                Manifest::read(&self.settings.path)?
            };
            let manifest = manifest.ok_or(StoreError::Closed)?;
            let version = self.tree.current_version();
            // Otherwise a flush or merge happened between the two reads: repeat both.
            if version.id() == manifest.id {
                // The table handles keep the files, despite later flushes and compactions.
                break (manifest, version.iter_tables().cloned().collect::<Vec<_>>());
            }
        };
        let failed = |error| StoreError::io(format!("checkpoint into {}", target.display()), error);
        link_all(target, &manifest, tables.iter().map(|table| table.path.as_path()))
            .map_err(failed)?;
        reach(Point::CheckpointAfter);
        Ok(())
    }
}

fn link_all<'a>(
    target: &Path,
    manifest: &Manifest,
    tables: impl Iterator<Item = &'a Path>,
) -> io::Result<()> {
    let folder = target.join(TABLES);
    let mut builder = DirBuilder::new();
    builder.mode(0o700).recursive(true).create(target)?;
    if fs::read_dir(target)?.next().is_some() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "the directory is not empty"));
    }
    builder.create(&folder)?;
    for table in tables {
        let name = table.file_name().expect("a table has a name");
        fs::hard_link(table, folder.join(name))?;
    }
    sync_directory(&folder)?;
    reach(Point::CheckpointLinked);
    let list = manifest.path.file_name().expect("a list has a name");
    write_synced(&target.join(list), &manifest.list)?;
    sync_directory(target)?;
    write_synced(&target.join(CURRENT), &manifest.current)?;
    sync_directory(target)?;
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_directory(parent),
        _ => sync_directory(Path::new(".")),
    }
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
