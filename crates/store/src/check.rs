//! Verification of the trees, which repairs nothing: every checksum, the order of all rows, the
//! tables' own figures. For a directory that no process has open.

use std::path::Path;
use std::sync::Arc;

use lsm_tree::{Cache, Checksum, Table};

use crate::StoreError;
use crate::panics::spared;
use crate::trees::archive;
use crate::trees::manifest::{Listed, Manifest, panic_words};

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
    /// Description of the damage, in words.
    pub what: String,
}

/// Checks the trees in a directory. `progress` gets the bytes done and the bytes in all. The report
/// holds the damage. An error means that the check itself could not go on.
pub fn check_trees(
    path: &Path,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<TreeReport, StoreError> {
    let mut report = TreeReport::default();
    let manifest = report.note(Manifest::read(path))?.flatten();
    let listed = manifest.map(|manifest| report.note(manifest.tables())).transpose()?.flatten();
    let tables = listed.unwrap_or_default();
    let bytes_of = |table: &Listed| std::fs::metadata(&table.path).map_or(0, |file| file.len());
    let total = tables.iter().map(bytes_of).sum();
    let mut before: Option<(usize, Vec<u8>)> = None;
    for table in &tables {
        let range = report.check(table)?;
        if let Some((low, high)) = range {
            let overlaps = |(run, last): &(usize, Vec<u8>)| *run == table.run && *last >= low;
            if before.as_ref().is_some_and(overlaps) {
                report.add(&table.path, 0, "the table overlaps the one before it in its run");
            }
            before = Some((table.run, high));
        }
        report.tables += 1;
        report.bytes += bytes_of(table);
        progress(report.bytes, total);
    }
    Ok(report)
}

/// The lowest and the highest key of a table.
type KeyRange = (Vec<u8>, Vec<u8>);

impl TreeReport {
    fn add(&mut self, path: &Path, offset: u64, what: impl Into<String>) {
        let file = path.display().to_string();
        self.damage.push(Damage { file, offset, what: what.into() });
    }

    /// Damage becomes part of the report.
    fn note<T>(&mut self, result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
        match result {
            Ok(found) => Ok(Some(found)),
            Err(StoreError::Corrupt { file, offset, what }) => {
                self.damage.push(Damage { file, offset, what });
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    fn check(&mut self, table: &Listed) -> Result<Option<KeyRange>, StoreError> {
        let path = &table.path;
        if !path.exists() {
            self.add(path, 0, "the file is missing");
            return Ok(None);
        }
        let Some(sections) = self.note(archive::sections(path))? else { return Ok(None) };
        let walk = archive::walk(path, &sections)?;
        self.blocks += walk.blocks;
        if !walk.damage.is_empty() {
            walk.damage.into_iter().for_each(|(offset, what)| self.add(path, offset, what));
            return Ok(None);
        }
        if walk.checksum != table.checksum {
            self.add(path, 0, "the file's checksum does not match, though all its blocks' do");
            return Ok(None);
        }
        match spared(|| read_rows(table)) {
            Ok(Ok(CheckContent { rows, tombstones, range })) => {
                self.rows += rows;
                self.tombstones += tombstones;
                Ok(Some(range))
            }
            Ok(Err(what)) => {
                self.add(path, 0, what);
                Ok(None)
            }
            Err(panic) => {
                self.add(path, 0, panic_words(&*panic));
                Ok(None)
            }
        }
    }
}

struct CheckContent {
    rows: u64,
    tombstones: u64,
    range: KeyRange,
}

/// Reads all rows of a table whose blocks are sound. An error describes a contradiction in it.
fn read_rows(listed: &Listed) -> Result<CheckContent, String> {
    let words = |error: lsm_tree::Error| error.to_string();
    let nothing = Arc::new(Cache::with_capacity_bytes(0));
    let checksum = Checksum::from_raw(listed.checksum);
    let table = Table::recover(listed.path.clone(), checksum, 0, 0, nothing, None, false, false);
    let table = table.map_err(words)?;
    let mut tombstones = 0;
    let mut count = 0;
    let mut first = None;
    let mut last: Option<lsm_tree::InternalValue> = None;
    for row in table.scan().map_err(words)? {
        let row = row.map_err(words)?;
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
    let known = &table.metadata;
    if *known.key_range.min() != low || *known.key_range.max() != high {
        return Err("the lowest or highest key is not the one noted".into());
    }
    if known.item_count != count || known.tombstone_count != tombstones {
        return Err("the rows are not as many as noted".into());
    }
    Ok(CheckContent { rows: count - tombstones, tombstones, range: (low, high) })
}
