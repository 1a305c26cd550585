//! Boundaries: frames at the ends of blocks, and units at the transition from one run of the log to
//! the next.

use super::super::frame::{self, BLOCK_BYTES, COMMIT, FrameShape};
use super::super::segment::{HEADER_BYTES, Segment};
use super::super::walk::{BadUnit, FrameWalk, WalkStep};
use super::*;
use crate::disk::{Access, crash_states};

/// Four blocks in a segment.
const WIDE: LogSettings = LogSettings { segment_bytes: 4 * BLOCK_BYTES, ..SMALL };
const FILE: &str = "0000000000000001.log";

/// Returns a log whose first block ends with `left` bytes that are too few for a frame.
fn log_with_padding(left: u64) -> MemoryDisk {
    let disk = memory();
    let (mut log, ..) = open(&disk, WIDE).expect("begins");
    let room = (BLOCK_BYTES - HEADER_BYTES - left) as usize;
    log.append(&record(1, 8000).as_record()).expect("appends");
    let second = room - 64 - 8000 - 64;
    log.append(&record(2, second).as_record()).expect("appends");
    assert_eq!(BLOCK_BYTES - log.end().0, left);
    log.append(&record(3, 100).as_record()).expect("appends");
    log.commit(true).expect("commits");
    log.close().expect("closes");
    disk
}

#[test]
fn bit_flip_in_block_padding_is_detected() {
    for left in [8, 16, 24, 32] {
        let disk = log_with_padding(left);
        assert_eq!(open(&disk, WIDE).expect("sound").1.len(), 3);
        for offset in BLOCK_BYTES - left - 16..BLOCK_BYTES + 16 {
            let damaged = disk.copy(Honesty::Honest);
            damaged.damage(FILE, offset, |byte| byte ^ 0x10);
            let refused = open(&damaged, WIDE).err().expect("damage");
            assert!(matches!(refused, StoreError::Corrupt { .. }), "{left} {offset}: {refused}");
        }
    }
}

#[test]
fn zeroed_hole_longer_than_a_block_is_still_corruption() {
    let disk = memory();
    let (mut log, ..) = open(&disk, WIDE).expect("begins");
    let mut ends = Vec::new();
    for number in 1..=20 {
        log.append(&record(number, 5000).as_record()).expect("appends");
        ends.push(log.commit(true).expect("commits").0);
    }
    drop(log);
    for last in 0..20_usize {
        let damaged = disk.copy(Honesty::Honest);
        for offset in ends[0]..ends[last] {
            damaged.damage(FILE, offset, |_| 0);
        }
        match open(&damaged, WIDE) {
            Ok((_, found, _)) if last == 0 => assert_eq!(found.len(), 20),
            Ok((_, found, _)) => assert_eq!((found.len(), last), (1, 19), "nothing is behind it"),
            Err(StoreError::Corrupt { offset, .. }) => assert_eq!(offset, ends[0]),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn damaged_opening_frame_is_corruption_even_without_later_commit() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    log.append(&record(1, 100).as_record()).expect("appends");
    log.commit(true).expect("commits");
    drop(log);
    let (mut log, ..) = open(&disk, SMALL).expect("opens");
    let opening = log.end().0;
    log.append(&record(2, 100).as_record()).expect("appends");
    log.commit(false).expect("writes");
    drop(log);
    for offset in opening..opening + 32 {
        let damaged = disk.copy(Honesty::Honest);
        damaged.damage(FILE, offset, |byte| byte ^ 2);
        let refused = open(&damaged, SMALL).err().expect("damage");
        assert!(matches!(refused, StoreError::Corrupt { offset, .. } if offset == opening));
    }
}

/// Returns a tail with so many owners that its footer spans blocks, and no space left for an
/// opening.
fn wide_footer() -> (MemoryDisk, usize) {
    let disk = memory();
    let (mut log, ..) = open(&disk, WIDE).expect("begins");
    let mut records = 0;
    loop {
        let before = disk.copy(Honesty::Honest);
        let group = (records % 1100) as u32;
        let owner = Owner { group, generation: 0 };
        let record = OwnedRecord { owner, ..record(records as u64 + 1, 0) };
        log.append(&record.as_record()).expect("appends");
        log.commit(true).expect("commits");
        if log.segments() == 2 {
            return (before, records);
        }
        records += 1;
    }
}

#[test]
fn torn_footer_at_the_start_of_a_run_is_a_torn_tail() {
    let (initial, records) = wide_footer();
    let (mut states, mut torn) = (0, 0);
    for calls in 0.. {
        let disk = initial.copy(Honesty::Honest);
        let opened = Log::open(Arc::new(disk.clone()), WIDE).expect("opens");
        let (mut log, _) = opened;
        disk.power_off_after(calls);
        let appended = log.append(&record(5000, 0).as_record());
        let mut coin = calls;
        let mut toss = |n: usize| {
            coin = coin.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (coin >> 33) as usize % n
        };
        for state in crash_states(&disk, 40, &mut toss) {
            let (_, found, recovered) = open(&state, WIDE).expect("a torn tail at most");
            assert_eq!(found.len(), records);
            states += 1;
            torn += u32::from(recovered.torn_bytes > 0);
        }
        if appended.is_ok() {
            break;
        }
    }
    assert!(states > 100 && torn > 10, "{states} states, {torn} torn");
}

/// A forged frame: generation, shape, kind, and length of the body.
type Forged = (u32, FrameShape, u8, usize);

/// Returns a walk through a valid segment with these frames, one behind the other.
fn forge(frames: &[Forged]) -> FrameWalk {
    let disk = memory();
    drop(open(&disk, WIDE).expect("begins"));
    let mut bytes = Vec::new();
    for (generation, shape, kind, length) in frames {
        let start = bytes.len();
        frame::begin(&mut bytes, *generation, *length, *shape, *kind);
        bytes.resize(bytes.len() + length, 0);
        frame::end(&mut bytes, start, frame::salt(WIDE.log_id, HEADER_BYTES + start as u64));
    }
    let segment = Segment::open(&disk, 1, Access::Write).expect("opens");
    segment.file.write_at(&bytes, HEADER_BYTES).expect("writes");
    FrameWalk::new(segment)
}

#[test]
fn valid_frames_in_an_impossible_order_are_rejected() {
    use FrameShape::{First, Last, Middle, Whole};
    let rest = (BLOCK_BYTES - HEADER_BYTES) as usize - 16;
    let cases: [(&[Forged], u64, &str); 9] = [
        (&[(1, Last, 1, 60)], 0, "the first piece is missing"),
        (&[(1, Middle, 1, 60)], 0, "the first piece is missing"),
        (&[(1, First, 1, 60), (1, Last, 1, 60)], 80, "a piece ends before its block"),
        (&[(1, First, 1, rest), (1, Whole, 1, 60)], 28_672, "a piece is missing"),
        (&[(1, First, 1, rest), (1, Last, 2, 60)], 28_672, "a piece is missing"),
        (&[(1, First, 1, rest), (2, Last, 1, 60)], 28_672, "a piece is missing"),
        (&[(2, Whole, 1, 60)], 0, "a frame of another generation of the log"),
        (&[(1, Whole, frame::OPENING, 16)], 0, "a frame of another generation of the log"),
        (&[(1, Whole, 1, 47)], 0, "decided index"),
    ];
    for (frames, distance, reason) in cases {
        let Ok(WalkStep::Bad(bad)) = forge(frames).next() else { panic!("{frames:?}") };
        let found = (bad.start, bad.reason);
        assert_eq!(found, (HEADER_BYTES, reason), "{frames:?}");
        let place = BadUnit { start: HEADER_BYTES, offset: bad.offset, reason };
        assert_eq!(bad, place);
        assert!(bad.offset <= HEADER_BYTES + distance, "{frames:?}: {}", bad.offset);
    }
    assert!(matches!(forge(&[(1, Whole, COMMIT, 16)]).next(), Ok(WalkStep::Unit(..))));
}
