//! Manifest: the two files that list the tables on disk. `current` names the newest list and its
//! checksum, `v{id}` is that list.
//!
//! `current`: list id u64, xxh3-128 of the list file u128, checksum kind u8 (0); little endian. The
//! list is an archive (`archive.rs`); its section `tables` holds: levels u8, for each the runs u8,
//! for each the tables u32, for each its id u64, checksum kind u8 (0), xxh3-128 of its file u128,
//! and a number u64 that is always 0 here. The format is that of the LSM library. Earlier versions
//! merged by levels and wrote the runs of each; the runs of all levels in order are the list, and
//! now the first levels hold as many runs as fit into the byte.
//!
//! Order of a change: the new tables are synced, the list is written and synced under its own name,
//! then `current` under a temporary name, which is renamed. Each step syncs the directory. So after
//! any crash `current` names a complete list of complete tables.

use std::any::Any;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_128;

use super::archive::{self, ArchiveFields};
use crate::StoreError;
use crate::failpoint::{Point, reach};

/// The directory of table files.
pub(crate) const TABLES: &str = "tables";
/// The file that names the newest list.
pub(crate) const CURRENT: &str = "current";
/// The newest format of the library that this program reads.
const FORMAT: u32 = 3;
/// Version of the library whose format the lists have.
const LIBRARY_VERSION: &[u8] = b"3.1.10";
/// Number of levels in a list.
const LEVELS: usize = 7;
/// Maximum number of runs in a level of a list: their number has one byte.
const LEVEL_RUNS_MAX: usize = u8::MAX as usize;
/// Name of `current` while it is written.
pub(crate) const CURRENT_UNFINISHED: &str = "current.unfinished";

/// Content of both files, verified to belong together.
pub(crate) struct Manifest {
    /// Number of the list.
    pub id: u64,
    /// The list's file.
    pub path: PathBuf,
    /// Bytes of `current`.
    pub current: Vec<u8>,
    /// Bytes of the list.
    pub list: Vec<u8>,
}

/// Entry of a table in the list.
#[derive(Clone, Debug)]
pub(crate) struct TableEntry {
    /// Number of the table, its file's name.
    pub id: u64,
    /// The table's file.
    pub path: PathBuf,
    /// xxh3-128 of the whole file.
    pub checksum: u128,
    /// Number of its run, counted over all levels. Tables of one run do not overlap.
    pub run: usize,
}

impl TableEntry {
    /// Checks that the file exists and its contents are valid. Its blocks are checked when they are
    /// read.
    pub fn is_sound(&self) -> Result<(), StoreError> {
        if !self.path.exists() {
            return Err(damage(&self.path, "the file is missing"));
        }
        archive::sections(&self.path).map(drop)
    }
}

impl Manifest {
    /// Reads and checks both files. `None`: there is no tree here yet. Tables without a list are
    /// damage: opening would begin a new tree and delete them.
    pub fn read(path: &Path) -> Result<Option<Manifest>, StoreError> {
        let current_path = path.join(CURRENT);
        if !current_path.try_exists().map_err(|source| read_error(&current_path, source))? {
            return match has_files(&path.join(TABLES))? {
                true => Err(damage(&current_path, "the file is missing")),
                false => Ok(None),
            };
        }
        let current = read(&current_path)?;
        let mut fields = ArchiveFields(&current);
        let numbers = (fields.u64(), fields.u128(), fields.take(1), fields.0);
        let (Some(id), Some(sum), Some([0]), []) = numbers else {
            return Err(damage(&current_path, "the file is malformed"));
        };
        let list_path = path.join(format!("v{id}"));
        if !list_path.try_exists().map_err(|source| read_error(&list_path, source))? {
            return Err(damage(&list_path, "the file is missing, or `current` is damaged"));
        }
        let list = read(&list_path)?;
        if xxh3_128(&list) != sum {
            return Err(damage(&list_path, "the checksum in `current` does not match"));
        }
        Ok(Some(Manifest { id, path: list_path, current, list }))
    }

    /// Writes a list, and makes it the newest one: durably, or not at all. `runs`: ids and
    /// checksums of the tables of each run, the newest run first.
    pub fn write(path: &Path, id: u64, runs: &[Vec<(u64, u128)>]) -> io::Result<()> {
        let list = encode_list(runs);
        let mut current = id.to_le_bytes().to_vec();
        current.extend_from_slice(&xxh3_128(&list).to_le_bytes());
        current.push(0);
        let (list_path, unfinished) = (path.join(format!("v{id}")), path.join(CURRENT_UNFINISHED));
        let written = write_list(&list_path, &list)
            .and_then(|()| write_file(&unfinished, &current))
            .and_then(|file| {
                reach(Point::CurrentWritten);
                file.sync_all()
            });
        if written.is_err() {
            // Nothing names these files; a full disk needs their space.
            let _ = fs::remove_file(&list_path);
            let _ = fs::remove_file(&unfinished);
            return written;
        }
        // After an error here the reference may be on disk: its list stays.
        fs::rename(&unfinished, path.join(CURRENT))?;
        reach(Point::CurrentNamed);
        // From here on the list may be in force, so no error may count as a full disk, after which
        // nothing has changed.
        sync_directory(path).map_err(io::Error::other)
    }

    /// The tables, level by level from the top. These trees have no files of values beside them: a
    /// list that claims some is malformed.
    pub fn tables(&self) -> Result<Vec<TableEntry>, StoreError> {
        let sections = archive::sections(&self.path)?;
        let content = |name: &[u8]| {
            let section = sections.iter().find(|section| section.name == name)?;
            self.list.get(section.offset as usize..)
        };
        let format = content(b"format_version").and_then(|bytes| bytes.first().copied());
        if let Some(found) = format.map(u32::from).filter(|found| *found > FORMAT) {
            return Err(StoreError::Version { found, known: FORMAT });
        }
        let folder = self.path.parent().map(|parent| parent.join(TABLES));
        let listed = content(b"tables").zip(folder);
        let listed = listed.and_then(|(bytes, folder)| parse(bytes, &folder));
        let value_files = content(b"blob_files").and_then(|bytes| ArchiveFields(bytes).u32());
        listed
            .filter(|_| value_files == Some(0))
            .ok_or_else(|| damage(&self.path, "the list of tables is malformed"))
    }
}

fn encode_list(runs: &[Vec<(u64, u128)>]) -> Vec<u8> {
    let mut tables = vec![LEVELS as u8];
    let mut levels = runs.chunks(LEVEL_RUNS_MAX);
    for _ in 0..LEVELS {
        let level = levels.next().unwrap_or_default();
        tables.push(level.len() as u8);
        for run in level {
            tables.extend_from_slice(&(run.len() as u32).to_le_bytes());
            for (id, checksum) in run {
                tables.extend_from_slice(&id.to_le_bytes());
                tables.push(0);
                tables.extend_from_slice(&checksum.to_le_bytes());
                tables.extend_from_slice(&0_u64.to_le_bytes());
            }
        }
    }
    archive::encode(&[
        ("format_version", vec![FORMAT as u8]),
        ("crate_version", LIBRARY_VERSION.to_vec()),
        ("tree_type", vec![0]),
        ("level_count", vec![LEVELS as u8]),
        ("filter_hash_type", vec![0]),
        ("tables", tables),
        ("blob_files", 0_u32.to_le_bytes().to_vec()),
        ("blob_gc_stats", 0_u32.to_le_bytes().to_vec()),
    ])
}

/// Writes a list and syncs it, with its name.
fn write_list(path: &Path, list: &[u8]) -> io::Result<()> {
    let file = write_file(path, list)?;
    reach(Point::ListWritten);
    file.sync_all()?;
    sync_directory(path.parent().unwrap_or(Path::new(".")))?;
    reach(Point::ListSynced);
    Ok(())
}

/// Writes a new file, or replaces a leftover, and syncs it.
pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_file(path, bytes)?.sync_all()
}

fn write_file(path: &Path, bytes: &[u8]) -> io::Result<File> {
    #[cfg(test)]
    super::tests::full_disk::take_space()?;
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

/// Syncs a directory: the names in it.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

fn parse(bytes: &[u8], folder: &Path) -> Option<Vec<TableEntry>> {
    let mut fields = ArchiveFields(bytes);
    let mut tables = Vec::new();
    let mut run = 0;
    for _ in 0..fields.u8()? {
        for _ in 0..fields.u8()? {
            for _ in 0..fields.u32()? {
                let (id, _kind, checksum) = (fields.u64()?, fields.u8()?, fields.u128()?);
                let _number = fields.u64()?;
                tables.push(TableEntry { id, path: folder.join(id.to_string()), checksum, run });
            }
            run += 1;
        }
    }
    Some(tables)
}

/// Returns an error for damage at the beginning of a file, or at an unknown offset.
pub(crate) fn damage(path: &Path, description: &str) -> StoreError {
    StoreError::Corrupt {
        file: path.display().to_string(),
        offset: 0,
        description: description.into(),
    }
}

/// Converts an error of the LSM library. If a table is damaged, it is read once more to find the
/// offset.
pub(crate) fn error(path: &Path, error: lsm_tree::Error) -> StoreError {
    match error {
        lsm_tree::Error::Io(source) if source.kind() != std::io::ErrorKind::UnexpectedEof => {
            StoreError::io(path.display().to_string(), source)
        }
        lsm_tree::Error::InvalidVersion(found) => {
            StoreError::Version { found: found.into(), known: FORMAT }
        }
        other => {
            let table = archive::sections(path).and_then(|s| archive::walk(path, &s));
            let place = table.ok().and_then(|walk| walk.damage.into_iter().next());
            let (offset, description) = place.unwrap_or_else(|| (0, other.to_string()));
            StoreError::Corrupt { file: path.display().to_string(), offset, description }
        }
    }
}

/// Returns the message of a panic of the LSM library, which invalid bytes cause.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no words")
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|source| read_error(path, source))
}

fn read_error(path: &Path, source: std::io::Error) -> StoreError {
    StoreError::io(format!("read {}", path.display()), source)
}

fn has_files(path: &Path) -> Result<bool, StoreError> {
    match std::fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_some()),
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(read_error(path, source)),
    }
}
