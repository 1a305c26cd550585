//! Verification of the trees, which repairs nothing: every checksum, the order of all rows, the
//! tables' own statistics. For a directory that no process has open.

use std::path::Path;
use std::sync::Arc;

use lsm_tree::{Cache, Checksum, Table};

use crate::StoreError;
use crate::panics::catch_panic;
use crate::trees::archive;
use crate::trees::manifest::{Manifest, TableEntry, panic_message};

/// Result of a check of the trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeReport {
    /// Tables read.
    pub tables: u64,
    /// Blocks whose checksums match.
    pub blocks: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Rows, superseded ones included, tombstones not.
    pub rows: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Every damaged place. Empty: the trees are sound.
    pub damage: Vec<Damage>,
}

/// A bad place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Name of the damaged file.
    pub file: String,
    /// Offset in the file at which the damaged block begins, in bytes.
    pub offset: u64,
    /// Description of the damage.
    pub description: String,
}

/// Checks the trees in a directory. `progress` receives the bytes read and the bytes in all. The
/// report holds the damage. An error means that the check itself could not continue.
pub fn check_trees(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<TreeReport, StoreError> {
    let mut report = TreeReport::default();
    let manifest = report.collect_damage(Manifest::read(path))?.flatten();
    let entries =
        manifest.map(|manifest| report.collect_damage(manifest.tables())).transpose()?.flatten();
    let tables = entries.unwrap_or_default();
    let bytes_of = |table: &TableEntry| std::fs::metadata(&table.path).map_or(0, |file| file.len());
    let total = tables.iter().map(bytes_of).sum();
    let mut previous: Option<(usize, Vec<u8>)> = None;
    for table in &tables {
        let range = report.check_table(table)?;
        if let Some((low, high)) = range {
            let overlaps = |(run, last): &(usize, Vec<u8>)| *run == table.run && *last >= low;
            if previous.as_ref().is_some_and(overlaps) {
                report.add_damage(
                    &table.path,
                    0,
                    "the table overlaps the one before it in its run",
                );
            }
            previous = Some((table.run, high));
        }
        report.tables += 1;
        report.bytes += bytes_of(table);
        progress(report.bytes, total);
    }
    Ok(report)
}

/// Lowest and highest key of a table.
type KeyRange = (Vec<u8>, Vec<u8>);

impl TreeReport {
    fn add_damage(&mut self, path: &Path, offset: u64, description: impl Into<String>) {
        let file = path.display().to_string();
        self.damage.push(Damage { file, offset, description: description.into() });
    }

    /// Adds damage to the report and returns `None` for it.
    fn collect_damage<T>(
        &mut self,
        result: Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::Corrupt { file, offset, description }) => {
                self.damage.push(Damage { file, offset, description });
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Checks a table. Returns its keys' range, or `None` if it is damaged.
    fn check_table(&mut self, table: &TableEntry) -> Result<Option<KeyRange>, StoreError> {
        let path = &table.path;
        if !path.exists() {
            self.add_damage(path, 0, "the file is missing");
            return Ok(None);
        }
        let Some(sections) = self.collect_damage(archive::sections(path))? else { return Ok(None) };
        let walk = archive::walk(path, &sections)?;
        self.blocks += walk.blocks;
        if !walk.damage.is_empty() {
            walk.damage
                .into_iter()
                .for_each(|(offset, description)| self.add_damage(path, offset, description));
            return Ok(None);
        }
        if walk.checksum != table.checksum {
            self.add_damage(
                path,
                0,
                "the file's checksum does not match, though all its blocks' do",
            );
            return Ok(None);
        }
        match catch_panic(|| read_rows(table)) {
            Ok(Ok(CheckContent { rows, tombstones, range })) => {
                self.rows += rows;
                self.tombstones += tombstones;
                Ok(Some(range))
            }
            Ok(Err(description)) => {
                self.add_damage(path, 0, description);
                Ok(None)
            }
            Err(panic) => {
                self.add_damage(path, 0, panic_message(&*panic));
                Ok(None)
            }
        }
    }
}

/// Content of a table, as counted.
struct CheckContent {
    rows: u64,
    tombstones: u64,
    range: KeyRange,
}

/// Reads all rows of a table whose blocks are valid. An error describes an inconsistency.
fn read_rows(entry: &TableEntry) -> Result<CheckContent, String> {
    let to_text = |error: lsm_tree::Error| error.to_string();
    let no_cache = Arc::new(Cache::with_capacity_bytes(0));
    let checksum = Checksum::from_raw(entry.checksum);
    let table = Table::recover(entry.path.clone(), checksum, 0, 0, no_cache, None, false, false);
    let table = table.map_err(to_text)?;
    let mut tombstones = 0;
    let mut count = 0;
    let mut first = None;
    let mut last: Option<lsm_tree::InternalValue> = None;
    for row in table.scan().map_err(to_text)? {
        let row = row.map_err(to_text)?;
        if last.as_ref().is_some_and(|last| last.key >= row.key) {
            return Err(format!("row {count} is out of order"));
        }
        count += 1;
        tombstones += u64::from(row.is_tombstone());
        first.get_or_insert_with(|| row.key.user_key.to_vec());
        last = Some(row);
    }
    let low = first.unwrap_or_default();
    let high = last.map(|row| row.key.user_key.to_vec()).unwrap_or_default();
    let metadata = &table.metadata;
    if *metadata.key_range.min() != low || *metadata.key_range.max() != high {
        return Err("the lowest or highest key differs from the recorded one".into());
    }
    if metadata.item_count != count || metadata.tombstone_count != tombstones {
        return Err("the number of rows differs from the recorded one".into());
    }
    Ok(CheckContent { rows: count - tombstones, tombstones, range: (low, high) })
}
