//! Tests of the log's promises.
//!
//! Promises: the tests cover every byte of the format, every call that can fail, and every state
//! that a power cut may leave.
//! Never: waits for time; draws random numbers without a seed.

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

/// Settings of a small log without a thread of its own.
pub(super) const SMALL: LogSettings =
    LogSettings { segment_bytes: 16 * 1024, log_id: 0x1D, spare_worker: SpareWorker::Inline };

pub(super) fn memory() -> MemoryDisk {
    MemoryDisk::new(Honesty::Honest)
}

/// Returns a unique record: `number` determines its content, the payload has `bytes` bytes.
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
        let filler = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ payload.len() as u64;
        payload.extend_from_slice(&filler.to_le_bytes());
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

/// Opens the log and replays it.
pub(super) fn open(
    disk: &MemoryDisk,
    settings: LogSettings,
) -> Result<(Log, Vec<OwnedRecord>, RecoverySummary), StoreError> {
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
