//! Transaction log: recovery, verification and readers over files that were damaged anywhere, and
//! over frames that were made up with valid checksums.
//!
//! The frames are made here once more, from `docs/inside/file-format.md` alone.

use crate::input::InputReader;
use base::codec::checksum;
use std::sync::Arc;
use store::disk::{Disk, Honesty, MemoryDisk};
use store::log::verify;
use store::{Log, LogSettings, OwnedRecord, Owner, RecordKind, SpareWorker, StoreError};

const SETTINGS: LogSettings =
    LogSettings { segment_bytes: 16 * 1024, log_id: 0x1D, spare_worker: SpareWorker::Inline };
/// Most steps of one kind in an input.
const STEPS_MAX: usize = 48;
const HEADER_PAGE_BYTES: usize = 4096;
const KINDS: [RecordKind; 8] = [
    RecordKind::Accept,
    RecordKind::Truncate,
    RecordKind::Promise,
    RecordKind::Decided,
    RecordKind::Vnode,
    RecordKind::Reset,
    RecordKind::Checkpoint,
    RecordKind::Stage,
];

/// Writes a log, damages its files, and opens it.
pub fn run(input: &[u8]) {
    let mut input = InputReader::new(input);
    let disk = MemoryDisk::new(Honesty::Honest);
    let written = write(&disk, &mut input);
    let damage = damage(&disk, &mut input);
    let is_sound = verify(&disk, &mut |_| {}).map(|report| report.is_sound());
    past_damage(&disk.copy(Honesty::Honest));
    match open(&disk) {
        Ok((log, found)) => {
            if damage != LogDamage::MadeUp {
                assert!(written.starts_with(&found), "a record is made up, or lost in the middle");
            }
            if damage == LogDamage::None {
                assert_eq!(found.len(), written.len(), "a whole log lost records");
            }
            if damage != LogDamage::MadeUp {
                assert_eq!(is_sound.ok(), Some(true), "the check finds damage where there is none");
            }
            go_on(&disk, log, found);
        }
        Err(StoreError::Corrupt { .. } | StoreError::Version { .. }) => {
            assert!(damage != LogDamage::None, "a whole log is refused");
        }
        Err(other) => panic!("{other}"),
    }
}

/// Opens a log and reads all of it, by recovery and by a reader.
fn open(disk: &MemoryDisk) -> Result<(Log, Vec<OwnedRecord>), StoreError> {
    let (log, mut replay) = Log::open(Arc::new(disk.clone()), SETTINGS)?;
    let (mut records, mut before) = (Vec::new(), log.start());
    for step in replay.by_ref() {
        let (position, record) = step?;
        assert!(before < position && position <= log.end(), "positions go up");
        before = position;
        records.push(record);
    }
    let found = replay.finish()?;
    assert_eq!(found.records, records.len() as u64);
    let read: Vec<_> = log.reader().read_from(log.start()).map_while(Result::ok).collect();
    assert!(read.iter().map(|(_, record)| record).eq(&records), "a reader sees something else");
    Ok((log, records))
}

/// Opens a damaged log past its damage: what can be read is read, and nothing else happens.
fn past_damage(disk: &MemoryDisk) {
    let Ok((log, mut replay)) = Log::open_past_damage(Arc::new(disk.clone()), SETTINGS) else {
        return;
    };
    let mut before = log.start();
    while let Some(Ok((position, _))) = replay.next() {
        assert!(before < position && position <= log.end(), "positions go up");
        before = position;
    }
}

/// Goes on with a log that was opened: what was found is found again, with what is added.
fn go_on(disk: &MemoryDisk, mut log: Log, mut records: Vec<OwnedRecord>) {
    for index in 0..3 {
        let record = record(RecordKind::Accept, index, &[7; 100]);
        if log.append(&record.as_record()).is_err() {
            return; // No number is left for another segment.
        }
        records.push(record);
    }
    if log.commit(true).is_err() {
        return;
    }
    drop(log);
    let (log, found) = open(disk).expect("a log that was opened opens again");
    assert_eq!(found, records);
    log.close().expect("memory takes it");
}

fn record(kind: RecordKind, index: u64, payload: &[u8]) -> OwnedRecord {
    OwnedRecord {
        kind,
        owner: Owner { group: (index % 3) as u32, generation: 0 },
        configuration: 1,
        ballot: (index / 4, index % 2),
        index,
        decided: index / 2,
        payload: bytes::Bytes::copy_from_slice(payload),
    }
}

/// Writes a log in several runs. Returns the records that are in its files.
fn write(disk: &MemoryDisk, input: &mut InputReader<'_>) -> Vec<OwnedRecord> {
    let (mut log, mut written) = open(disk).expect("a new log");
    let mut committed = 0;
    for _ in 0..input.below(STEPS_MAX) {
        match input.below(16) {
            0 => {
                drop(log);
                let (opened, found) = open(disk).expect("it is sound");
                assert!(found.starts_with(&written[..committed]), "a commit is lost");
                assert!(written.starts_with(&found), "a record is made up");
                (log, written) = (opened, found);
                committed = written.len();
            }
            1 | 2 => {
                log.commit(input.bool()).expect("memory takes it");
                committed = written.len();
            }
            3 => {
                log.begin_segment().expect("memory takes it");
                committed = written.len();
            }
            _ => {
                let kind = input.choose(&KINDS);
                let payload = vec![input.u8(); usize::from(input.u8()) * 8];
                let record = record(kind, written.len() as u64 + 1, &payload);
                log.append(&record.as_record()).expect("memory takes it");
                written.push(record);
            }
        }
    }
    log.commit(true).expect("memory takes it");
    if input.bool() {
        log.close().expect("memory takes it");
    }
    written
}

/// Damage that was done to the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LogDamage {
    None,
    /// Bytes that no checksum covers any more.
    Bytes,
    /// Frames or headers with valid checksums, which no log wrote.
    MadeUp,
}

fn damage(disk: &MemoryDisk, input: &mut InputReader<'_>) -> LogDamage {
    let mut done = LogDamage::None;
    for _ in 0..STEPS_MAX {
        if input.is_empty() {
            break;
        }
        let names = disk.list().expect("memory can be read");
        let segments: Vec<_> = names.into_iter().filter(|name| name.ends_with(".log")).collect();
        let name = &segments[input.below(segments.len())];
        let before = disk.bytes(name).expect("it is listed");
        let mut bytes = before.clone();
        let at = input.u32() as usize % bytes.len().max(1);
        if !bytes.is_empty() {
            done = done.max(change(&mut bytes, at, input));
        }
        if bytes != before {
            disk.remove(name).expect("it is there");
            disk.create_durable(name, bytes);
        }
    }
    done
}

fn change(bytes: &mut Vec<u8>, at: usize, input: &mut InputReader<'_>) -> LogDamage {
    match input.below(8) {
        0 | 1 => bytes[at] ^= input.u8() | 1,
        2 => {
            let end = (at + usize::from(input.u8())).min(bytes.len());
            bytes[at..end].fill(0);
        }
        3 => bytes.truncate(at),
        4 => {
            // Bytes of another place, as a misdirected write leaves them.
            let (from, length) = (input.u32() as usize % bytes.len(), usize::from(input.u8()) * 8);
            let moved = bytes[from..(from + length).min(bytes.len())].to_vec();
            let room = bytes[at..].iter_mut().zip(moved);
            room.for_each(|(byte, new)| *byte = new);
        }
        5 if bytes.len() >= HEADER_PAGE_BYTES => {
            let field = 8 + input.below(40);
            bytes[field] = input.u8();
            let sum = checksum(&bytes[..HEADER_PAGE_BYTES - 8], 0).to_le_bytes();
            bytes[HEADER_PAGE_BYTES - 8..HEADER_PAGE_BYTES].copy_from_slice(&sum);
            return LogDamage::MadeUp;
        }
        6 | 7 if at >= HEADER_PAGE_BYTES => return put_frame(bytes, at / 8 * 8, input),
        _ => {}
    }
    LogDamage::Bytes
}

/// Puts a frame with a valid checksum at this offset, where it has room.
fn put_frame(bytes: &mut [u8], at: usize, input: &mut InputReader<'_>) -> LogDamage {
    let base =
        bytes.get(32..40).and_then(|base| base.try_into().ok()).map_or(0, u64::from_le_bytes);
    let generation = if input.below(4) == 0 { input.u32() } else { 1 + u32::from(input.u8() % 3) };
    let shape = 1 + input.u8() % 4;
    let kind = input.choose(&[1, 2, 3, 4, 5, 6, 7, 8, 32, 33, 34]);
    let body = input.block();
    let mut frame = vec![0; 8];
    frame.extend_from_slice(&generation.to_le_bytes());
    frame.extend_from_slice(&(body.len() as u16).to_le_bytes());
    frame.extend_from_slice(&[shape, kind]);
    frame.extend_from_slice(body);
    frame.resize(frame.len().next_multiple_of(8), 0);
    let position = base.wrapping_add(at as u64);
    let salt = SETTINGS.log_id ^ position.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let sum = checksum(&frame[8..], salt);
    frame[..8].copy_from_slice(&sum.to_le_bytes());
    if let Some(room) = bytes.get_mut(at..at + frame.len()) {
        room.copy_from_slice(&frame);
    }
    LogDamage::MadeUp
}
