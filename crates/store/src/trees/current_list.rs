//! The current list of runs on disk: opened with its tables, and changed durably.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use lsm_tree::{Table, TableId};

use super::manifest::{self, CURRENT_UNFINISHED, Manifest, TABLES, TableEntry, damage};
use super::run_list::{DiskRun, RunList};
use super::table_writer::{NewTables, TableCaches};
use super::{LsmTrees, TreeSettings};
use crate::StoreError;
use crate::panics::catch_panic;

/// Opens the newest list and its tables, or creates an empty one. Returns it with the number of the
/// next table. Removes files that no list names, but only if all that it names are sound.
pub(super) fn open_list(
    settings: &TreeSettings,
    caches: &TableCaches,
) -> Result<(RunList, TableId), StoreError> {
    let path = &settings.path;
    let failed = |error| StoreError::io(format!("open {}", path.display()), error);
    let unmerged_bytes_max = settings.merge_policy().unmerged_bytes_max;
    let Some(manifest) = Manifest::read(path)? else {
        create_empty(path).map_err(failed)?;
        return Ok((RunList::new(0, Vec::new(), unmerged_bytes_max), 0));
    };
    let entries = manifest.tables()?;
    entries.iter().try_for_each(TableEntry::is_sound)?;
    let mut runs = Vec::new();
    for entries in entries.chunk_by(|one, other| one.run == other.run) {
        let tables = entries.iter().map(|entry| open_table(caches, entry));
        let run = DiskRun::new(tables.collect::<Result<_, StoreError>>()?);
        if !run.is_ordered() {
            return Err(damage(&manifest.path, "tables of a run are not in the order of keys"));
        }
        runs.push(Arc::new(run));
    }
    let list = RunList::new(manifest.id, runs, unmerged_bytes_max);
    let ids: BTreeSet<TableId> = list.tables().map(Table::id).collect();
    if ids.len() < entries.len() {
        return Err(damage(&manifest.path, "a table is listed twice"));
    }
    let next_table_id = remove_leftovers(path, list.id, &ids).map_err(failed)?;
    Ok((list, next_table_id))
}

fn create_empty(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path.join(TABLES))?;
    manifest::sync_directory(&path.join(TABLES))?;
    Manifest::write(path, 0, &[])
}

fn open_table(caches: &TableCaches, entry: &TableEntry) -> Result<Table, StoreError> {
    match catch_panic(|| caches.open(&entry.path, entry.checksum)) {
        Ok(Ok(table)) if table.id() == entry.id => Ok(table),
        Ok(Ok(_)) => Err(damage(&entry.path, "the table has another number than its file")),
        Ok(Err(error)) => Err(manifest::error(&entry.path, error)),
        Err(panic) => Err(damage(&entry.path, manifest::panic_message(&*panic))),
    }
}

/// Removes what a crash left: tables that are not listed, and lists that are not in force. Returns
/// a number above that of every table.
fn remove_leftovers(path: &Path, list_id: u64, listed: &BTreeSet<TableId>) -> io::Result<TableId> {
    let mut next = listed.last().map_or(0, |id| id + 1);
    fs::create_dir_all(path.join(TABLES))?;
    for file in fs::read_dir(path.join(TABLES))? {
        let file = file?;
        let id = file.file_name().to_str().and_then(|name| name.parse::<TableId>().ok());
        if let Some(id) = id.filter(|id| !listed.contains(id)) {
            fs::remove_file(file.path())?;
            next = next.max(id + 1);
        }
    }
    for file in fs::read_dir(path)? {
        let file = file?;
        let name = file.file_name();
        let id = name.to_str().and_then(|name| name.strip_prefix('v')?.parse::<u64>().ok());
        if id.is_some_and(|id| id != list_id) || name == CURRENT_UNFINISHED {
            fs::remove_file(file.path())?;
        }
    }
    Ok(next)
}

impl LsmTrees {
    /// Returns the newest list. A view that readers use may still have an older one.
    pub(super) fn list(&self) -> Arc<RunList> {
        Arc::clone(&self.list.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the runs that `next` returns the current list, durably. It receives the current list,
    /// the tables that merges read, and the new tables. Returns false if it returns `None`. The
    /// caller then calls `refresh`.
    ///
    /// After `Full` nothing has changed. After another error the trees are closed: which list the
    /// next start finds is uncertain, so the files of the new tables stay.
    pub(super) fn change_list(
        &self,
        new: &mut NewTables,
        next: impl FnOnce(&RunList, &BTreeSet<TableId>, Vec<Table>) -> Option<Vec<Arc<DiskRun>>>,
    ) -> Result<bool, StoreError> {
        self.check_usable()?;
        let busy = self.busy_tables.lock().map_err(|_| StoreError::Closed)?;
        let current = self.list();
        let Some(runs) = next(&current, &busy, new.tables().to_vec()) else { return Ok(false) };
        let id = current.id + 1;
        let entry = |table: &Table| (table.id(), table.checksum().into_u128());
        let entries: Vec<Vec<_>> =
            runs.iter().map(|run| run.tables().iter().map(entry).collect()).collect();
        let path = &self.settings.path;
        let written = Manifest::write(path, id, &entries).map_err(|error| {
            StoreError::io(format!("write list {id} in {}", path.display()), error)
        });
        match written {
            Err(StoreError::Full) => return Err(StoreError::Full),
            Err(error) => {
                new.keep();
                self.closed.store(true, Ordering::Release);
                return Err(error);
            }
            Ok(()) => new.keep(),
        }
        // A list that remains is removed when the trees are opened.
        let _ = fs::remove_file(path.join(format!("v{}", current.id)));
        let list = RunList::new(id, runs, self.settings.merge_policy().unmerged_bytes_max);
        let kept: BTreeSet<TableId> = list.tables().map(Table::id).collect();
        for table in current.tables().filter(|table| !kept.contains(&table.id())) {
            // The file is removed with the table's last reader.
            table.is_deleted.store(true, Ordering::Release);
        }
        *self.list.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(list);
        Ok(true)
    }
}
