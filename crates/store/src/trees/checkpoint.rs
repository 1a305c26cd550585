//! Checkpoint of the trees: a second store with hard links to the table files, which never change.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use super::LsmTrees;
use super::manifest::{CURRENT, Manifest, TABLES, sync_directory, write_synced};
use crate::StoreError;
use crate::failpoint::{Point, reach};

impl LsmTrees {
    /// Links the current tables into `target`. Writes `current` last: until then the target is no
    /// store, and opening it is refused.
    pub(super) fn link_into(&self, target: &Path) -> Result<(), StoreError> {
        self.check_usable()?;
        let (manifest, tables) = {
            // No flush or merge changes the list while this lock is held; readers do not need it.
            let _no_change = self.busy_tables.lock().map_err(|_| StoreError::Closed)?;
            let manifest = Manifest::read(&self.settings.path)?.ok_or(StoreError::Closed)?;
            // The table handles keep the files, despite later flushes and merges.
            (manifest, self.list().tables().cloned().collect::<Vec<_>>())
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
