//! The log's promises, each held by a test that can fail.
//!
//! Promises: every byte of the format, every call that can fail, every state a power cut may leave
//! is tried.
//! Never: waits for time; uses chance without a seed.

mod blocks;
mod crash;
mod damage;
mod faults;
mod golden;
mod laws;
mod model;
mod reader;
mod sweeps;

use super::*;
use crate::StoreError;
use crate::disk::{Disk, Honesty, MemoryDisk};
use bytes::Bytes;
use std::sync::Arc;

/// A small log whose every step happens in the caller.
pub(super) const SMALL: LogSettings =
    LogSettings { segment_bytes: 16 * 1024, id: 0x1D, ahead: Ahead::Inline };

pub(super) fn memory() -> MemoryDisk {
    MemoryDisk::new(Honesty::Honest)
}

/// A record that no other looks like: `number` decides everything, the payload has `bytes` bytes.
pub(super) fn record(number: u64, bytes: usize) -> OwnedRecord {
    let kinds = [
        RecordKind::Accept,
        RecordKind::Truncate,
        RecordKind::Promise,
        RecordKind::Decided,
        RecordKind::Vnode,
    ];
    let mut payload: Vec<u8> = Vec::with_capacity(bytes + 8);
    while payload.len() < bytes {
        let word = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ payload.len() as u64;
        payload.extend_from_slice(&word.to_le_bytes());
    }
    payload.truncate(bytes);
    OwnedRecord {
        kind: kinds[(number % 5) as usize],
        owner: Owner { group: (number % 3) as u32, generation: (number % 7 / 6) as u32 },
        configuration: (number % 4) as u32,
        ballot: (number / 10, number % 2),
        index: number,
        decided: number.saturating_sub(1),
        payload: Bytes::from(payload),
    }
}

/// Opens and replays.
pub(super) fn open(
    disk: &MemoryDisk,
    settings: LogSettings,
) -> Result<(Log, Vec<OwnedRecord>, Recovered), StoreError> {
    let (log, mut replay) = Log::open(Arc::new(disk.clone()), settings)?;
    let mut records = Vec::new();
    let mut before = log.start();
    for step in replay.by_ref() {
        let (position, record) = step?;
        assert!(before < position && position <= log.end(), "positions go up");
        before = position;
        records.push(record);
    }
    let found = replay.finish()?;
    assert_eq!(found.records, records.len() as u64);
    Ok((log, records, found))
}

/// Opens the log and returns its records only.
pub(super) fn read(disk: &MemoryDisk) -> Result<Vec<OwnedRecord>, StoreError> {
    open(disk, SMALL).map(|(_, records, _)| records)
}

pub(super) fn names(disk: &MemoryDisk) -> Vec<String> {
    disk.list().expect("lists")
}
