//! Ordered trees: files that were damaged anywhere, and lists of tables that were made up with
//! valid checksums.

use crate::input::InputReader;
use crate::scratch;
use bytes::Bytes;
use std::fs;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use store::{LsmTrees, RowChange, StoreError, TreeRow, TreeSettings, Trees, check_trees};
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_128;

/// Most places that an input damages.
const PLACES_MAX: usize = 8;

/// Trees without damage, and a folder for a damaged copy.
struct Sound {
    folder: TempDir,
    rows: Vec<TreeRow>,
}

impl Sound {
    fn path(&self) -> PathBuf {
        self.folder.path().join("sound")
    }

    fn copy_path(&self) -> PathBuf {
        self.folder.path().join("damaged")
    }
}

/// Damages a copy of sound trees, and reads it.
pub fn run(input: &[u8]) {
    static SOUND: OnceLock<Sound> = OnceLock::new();
    let sound = SOUND.get_or_init(make);
    let (path, mut input) = (sound.copy_path(), InputReader::new(input));
    scratch::copy(&sound.path(), &path);
    let is_made_up = damage(&path, &mut input);
    let report = check_trees(&path, &mut |_, _| {});
    match read(&path) {
        Ok(rows) if !is_made_up => {
            assert_eq!(rows, sound.rows, "a wrong row, or none, without an error");
        }
        Ok(_) => {}
        Err(StoreError::Corrupt { .. } | StoreError::Version { .. }) => {
            let is_found = report.map_or(true, |report| !report.damage.is_empty());
            assert!(is_found || is_made_up, "the check does not find what a reader finds");
        }
        Err(StoreError::Io { description, source }) => {
            assert!(is_made_up, "{description}: {source}");
        }
        Err(other) => panic!("{other}"),
    }
}

/// Creates trees with a table on each of two levels, an older row below a newer one, dead rows and
/// a large value.
fn make() -> Sound {
    let folder = scratch::folder();
    let trees = open(&folder.path().join("sound")).expect("new trees");
    let put = |key: String, value: Vec<u8>| RowChange::Put(key.into(), value.into());
    let to_disk = || {
        trees.rotate().expect("it has room");
        trees.flush().expect("it has room");
    };
    let first = (0..60).map(|n| put(format!("key {n:03}"), format!("value {n}").into_bytes()));
    trees.apply(&mut first.chain([put("large".into(), vec![b'v'; 9_000])])).expect("it has room");
    to_disk();
    while trees.compact().expect("it has room") {}
    let removed = (20..40).map(|n| RowChange::Remove(Bytes::from(format!("key {n:03}"))));
    trees.apply(&mut removed.chain([put("key 007".into(), b"newer".to_vec())])).expect("room");
    to_disk();
    let rows = read_all(&trees).expect("it is sound");
    drop(trees);
    Sound { folder, rows }
}

fn open(path: &Path) -> Result<LsmTrees, StoreError> {
    LsmTrees::open(TreeSettings { memory_bytes_max: 8 << 20, ..TreeSettings::new(path) })
}

fn read(path: &Path) -> Result<Vec<TreeRow>, StoreError> {
    let trees = open(path)?;
    let rows = read_all(&trees)?;
    for (key, value) in rows.iter().step_by(7) {
        assert_eq!(trees.get(key)?.as_ref(), Some(value), "a range and a key differ");
    }
    Ok(rows)
}

fn read_all(trees: &LsmTrees) -> Result<Vec<TreeRow>, StoreError> {
    let snapshot = trees.snapshot();
    snapshot.range(Bound::Unbounded, Bound::Unbounded, false).collect()
}

/// Damages files. Returns true if one of them has a valid checksum all the same.
fn damage(path: &Path, input: &mut InputReader<'_>) -> bool {
    let mut is_made_up = false;
    for _ in 0..PLACES_MAX {
        if input.is_empty() {
            break;
        }
        let files = scratch::files(path);
        let Some(file) = files.get(input.below(files.len())) else { break };
        let file = path.join(file);
        let mut bytes = fs::read(&file).expect("it is there");
        if bytes.is_empty() {
            continue;
        }
        let at = input.u32() as usize % bytes.len();
        let kind = input.below(8);
        match kind {
            0..=3 => bytes[at] ^= input.u8() | 1,
            4 => bytes.truncate(at),
            5 => {
                let new = input.block();
                bytes[at..].iter_mut().zip(new).for_each(|(byte, new)| *byte = *new);
            }
            6 => bytes.extend_from_slice(input.block()),
            _ => {
                bytes[at] ^= input.u8() | 1;
                is_made_up |= seal(path, &file, &mut bytes);
            }
        }
        fs::write(&file, &bytes).expect("memory takes it");
    }
    is_made_up
}

/// Gives changed bytes a valid checksum: the list of tables, or the dead spans.
fn seal(path: &Path, file: &Path, bytes: &mut [u8]) -> bool {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    if name == "spans" {
        let Some((body, sum)) = bytes.split_last_chunk_mut::<16>() else { return false };
        *sum = xxh3_128(body).to_le_bytes();
        return true;
    }
    let current = path.join("current");
    let (true, Ok(mut head)) = (name.starts_with('v'), fs::read(&current)) else { return false };
    if let Some(sum) = head.get_mut(8..24) {
        sum.copy_from_slice(&xxh3_128(bytes).to_le_bytes());
        let _ = fs::write(&current, head);
    }
    true
}
