//! File that keeps the dead spans of durable rows for the next start.
//!
//! It is only a hint. It names the list of tables that it belongs to, so it is never applied after
//! another flush, merge, installation or drop. A file that is old, torn or absent costs a walk.
//! Hence it is not synced. It does not cover rows that only the log has.
//!
//! `spans`: `CSPANS01`, list id u64, count u32, and for each its start, end, first and last dead
//! row (length u32, bytes) and the number of dead rows u64; then the xxh3-128 of all these bytes
//! u128. Little endian.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128;

use super::archive::ArchiveFields;
use super::span::DeadStretch;

const FILE: &str = "spans";
const TEMPORARY: &str = "spans.unfinished";
const MAGIC: &[u8] = b"CSPANS01";

/// Writes the spans that belong to this list of tables. A failure, such as a full disk, leaves no
/// file.
pub(super) fn write(folder: &Path, list: u64, stretches: &[DeadStretch]) {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&list.to_le_bytes());
    bytes.extend_from_slice(&(stretches.len() as u32).to_le_bytes());
    for DeadStretch { start, end, first, last, dead } in stretches {
        for key in [start, end, first, last] {
            bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
            bytes.extend_from_slice(key);
        }
        bytes.extend_from_slice(&dead.to_le_bytes());
    }
    bytes.extend_from_slice(&xxh3_128(&bytes).to_le_bytes());
    let (temporary, target) = (folder.join(TEMPORARY), folder.join(FILE));
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary);
    let result = file
        .and_then(|mut file| file.write_all(&bytes))
        .and_then(|()| fs::rename(&temporary, &target));
    if result.is_err() {
        // An older file that remains names another list of tables: it is ignored.
        let _ = fs::remove_file(&temporary);
    }
}

/// Reads the spans that belong to this list of tables. Empty: the file is absent, damaged, or of
/// another list.
pub(super) fn read(folder: &Path, list: u64) -> Vec<DeadStretch> {
    let bytes = fs::read(folder.join(FILE)).unwrap_or_default();
    parse(&bytes, list).unwrap_or_default()
}

fn parse(bytes: &[u8], list: u64) -> Option<Vec<DeadStretch>> {
    let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(16)?)?;
    if xxh3_128(body).to_le_bytes() != sum {
        return None;
    }
    let mut fields = ArchiveFields(body);
    if fields.take(MAGIC.len())? != MAGIC || fields.u64()? != list {
        return None;
    }
    let mut stretches = Vec::new();
    for _ in 0..fields.u32()? {
        let mut key = || {
            let length = fields.u32()? as usize;
            fields.take(length).map(Bytes::copy_from_slice)
        };
        let (start, end, first, last) = (key()?, key()?, key()?, key()?);
        let dead = fields.u64()?;
        if start >= end || first > last {
            return None;
        }
        stretches.push(DeadStretch { start, end, first, last, dead });
    }
    Some(stretches)
}

#[cfg(test)]
mod tests;
