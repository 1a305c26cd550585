//! Incarnation counter of a node, by which its peers distinguish an older incarnation from a newer
//! one.
//!
//! Two slots of 64 bytes in one small file, written in turn and in place, so that a full disk does
//! not keep a node from starting and a torn write leaves the other slot.
//!
//! Promises: what `raise` returned is higher than all it ever returned for this directory, also
//! after any crash.
//! Never: goes back; a copy of the directory begins anew, so that an old copy is known for one.

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

/// Begins the next incarnation. Returns its number once that is durable.
pub(super) fn raise(disk: &dyn Disk, path: &Path) -> Result<u64, StoreError> {
    let (file, before) = match disk.open(INCARNATION, Access::Write) {
        Ok(file) => {
            let before = read(&*file, path)?;
            let whole = file.size().map_err(failed("look at", path))? >= BYTES;
            // A first start was cut short while it was made.
            let file = if whole { file } else { make(disk).map_err(failed("make", path))? };
            (file, before)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (make(disk).map_err(failed("make", path))?, 0)
        }
        Err(error) => return Err(failed("open", path)(error)),
    };
    let number = before.checked_add(1).ok_or_else(|| damaged(path, "it can't be raised"))?;
    let place = number % SLOTS * SLOT_BYTES as u64;
    file.write_at(slot(number).as_bytes(), place)
        .and_then(|()| file.sync_data())
        .map_err(failed("write", path))?;
    Ok(number)
}

/// Number of incarnations begun. 0 also if the file is absent.
pub(super) fn begun(disk: &dyn Disk, path: &Path) -> Result<u64, StoreError> {
    match disk.open(INCARNATION, Access::Read) {
        Ok(file) => read(&*file, path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(failed("open", path)(error)),
    }
}

fn make(disk: &dyn Disk) -> io::Result<Arc<dyn DiskFile>> {
    match disk.remove(INCARNATION) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = disk.create(INCARNATION, BYTES)?;
    file.sync_data()?;
    disk.sync_directory()?;
    Ok(file)
}

/// The highest number in a sound slot. A slot of zeros was never written; one slot may be torn.
fn read(file: &dyn DiskFile, path: &Path) -> Result<u64, StoreError> {
    let mut bytes = [0; BYTES as usize];
    let given = file.read_at(&mut bytes, 0).map_err(failed("read", path))?;
    let slots = bytes[..given].chunks(SLOT_BYTES);
    let sound = slots.clone().filter_map(parse).max();
    match sound {
        Some(number) => Ok(number),
        None if slots.filter(|slot| slot.iter().any(|byte| *byte != 0)).count() < 2 => Ok(0),
        None => Err(damaged(path, "neither of its two numbers is sound")),
    }
}

/// A line of text: the number, its checksum, and blanks.
fn slot(number: u64) -> String {
    let front = format!("incarnation {number:016x}");
    let sum = checksum(front.as_bytes(), 0);
    format!("{:<63}\n", format!("{front} checksum {sum:016x}"))
}

fn parse(bytes: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(bytes).ok()?;
    let number = text.strip_prefix("incarnation ")?.get(..16)?;
    let number = u64::from_str_radix(number, 16).ok()?;
    (slot(number) == text).then_some(number)
}

fn damaged(path: &Path, what: &str) -> StoreError {
    let file = path.join(INCARNATION).display().to_string();
    let what = format!("{what}; a node that is alone may have it removed, in a cluster replace it");
    StoreError::Corrupt { file, offset: 0, what }
}

fn failed(verb: &str, path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let what = format!("can't {verb} {}", path.join(INCARNATION).display());
    move |error| StoreError::io(what.clone(), error)
}
