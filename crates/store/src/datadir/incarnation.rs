//! Incarnation counter of a node, by which its peers distinguish an older incarnation from a newer
//! one.
//!
//! Two slots of 64 bytes in one small file, written in turn and in place, so that a node can start
//! on a full disk, and a torn write leaves the other slot.
//!
//! Promises: `increment` returns a higher number than ever before for this directory, also after
//! any crash.
//! Never: goes back. A copy of the directory counts from the beginning, so that an old copy can be
//! detected.

use crate::StoreError;
use crate::disk::{Access, Disk, DiskFile};
use base::codec::checksum;
use std::io;
use std::path::Path;
use std::sync::Arc;

pub(super) const INCARNATION: &str = "INCARNATION";
const SLOT_BYTES: usize = 64;
const SLOTS: u64 = 2;
const BYTES: u64 = SLOTS * SLOT_BYTES as u64;

/// Increments the counter for the next incarnation. Returns its number once that is durable.
pub(super) fn increment(disk: &dyn Disk, path: &Path) -> Result<u64, StoreError> {
    let (file, last) = match disk.open(INCARNATION, Access::Write) {
        Ok(file) => {
            let last = read(&*file, path)?;
            let is_complete = file.size().map_err(failed("look at", path))? >= BYTES;
            // A first start was interrupted while it created the file.
            let file =
                if is_complete { file } else { create_file(disk).map_err(failed("make", path))? };
            (file, last)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (create_file(disk).map_err(failed("make", path))?, 0)
        }
        Err(error) => return Err(failed("open", path)(error)),
    };
    let number = last.checked_add(1).ok_or_else(|| damaged(path, "it can't be raised"))?;
    let offset = number % SLOTS * SLOT_BYTES as u64;
    file.write_at(encode_slot(number).as_bytes(), offset)
        .and_then(|()| file.sync_data())
        .map_err(failed("write", path))?;
    Ok(number)
}

/// Returns the number of the last incarnation. 0: there was none, or the file is absent.
pub(super) fn last_number(disk: &dyn Disk, path: &Path) -> Result<u64, StoreError> {
    match disk.open(INCARNATION, Access::Read) {
        Ok(file) => read(&*file, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(failed("open", path)(error)),
    }
}

fn create_file(disk: &dyn Disk) -> io::Result<Arc<dyn DiskFile>> {
    match disk.remove(INCARNATION) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(INCARNATION, BYTES)?;
    file.sync_data()?;
    disk.sync_directory()?;
    Ok(file)
}

/// Returns the highest number in a valid slot. A slot of zeros was never written; one slot may be
/// torn.
fn read(file: &dyn DiskFile, path: &Path) -> Result<u64, StoreError> {
    let mut bytes = [0; BYTES as usize];
    let count = file.read_at(&mut bytes, 0).map_err(failed("read", path))?;
    let slots = bytes[..count].chunks(SLOT_BYTES);
    let sound = slots.clone().filter_map(parse_slot).max();
    match sound {
        Some(number) => Ok(number),
        None if slots.filter(|slot| slot.iter().any(|byte| *byte != 0)).count() < 2 => Ok(0),
        None => Err(damaged(path, "both of its numbers are damaged")),
    }
}

/// Encodes a slot as a line of text: the number, its checksum, and spaces.
fn encode_slot(number: u64) -> String {
    let front = format!("incarnation {number:016x}");
    let sum = checksum(front.as_bytes(), 0);
    format!("{:<63}\n", format!("{front} checksum {sum:016x}"))
}

fn parse_slot(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number = text.strip_prefix("incarnation ")?.get(..16)?;
    let number = u64::from_str_radix(number, 16).ok()?;
    (encode_slot(number) == text).then_some(number)
}

fn damaged(path: &Path, description: &str) -> StoreError {
    let file = path.join(INCARNATION).display().to_string();
    let description = format!(
        "{description}; remove the file on a single node; in a cluster, replace the member"
    );
    StoreError::Corrupt { file, offset: 0, description }
}

fn failed(verb: &str, path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let description = format!("can't {verb} {}", path.join(INCARNATION).display());
    move |error| StoreError::io(description.clone(), error)
}
