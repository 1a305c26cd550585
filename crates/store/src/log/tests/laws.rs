//! Laws of the format: every record reads back, no unit takes more space than computed, and
//! arbitrary bytes are read without harm.

use super::super::frame::{BLOCK_BYTES, unit_bytes_max};
use super::super::record::Owners;
use super::super::segment::Segment;
use super::super::walk::FrameWalk;
use super::*;
use crate::disk::Access;
use base::limits::LOG_RECORD_BYTES_MAX;
use proptest::prelude::*;

/// Lengths of payloads around each boundary of pieces.
fn payload_bytes() -> impl Strategy<Value = usize> {
    let block = BLOCK_BYTES as usize;
    prop_oneof![0..200_usize, block - 200..block + 100, 2 * block - 200..2 * block + 100]
}

/// Counts the records that end at or below a position.
fn count_ended(
    written: &[OwnedRecord],
    disk: &MemoryDisk,
    settings: LogSettings,
    position: Position,
) -> usize {
    let (_, replay) = Log::open(Arc::new(disk.copy(Honesty::Honest)), settings).expect("opens");
    let below = replay.map(|step| step.expect("sound")).take_while(|entry| entry.0 <= position);
    below.zip(written).filter(|(found, written)| found.1 == **written).count()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn records_round_trip_at_any_block_offset(
        before in 0..33_000_usize,
        sizes in proptest::collection::vec(payload_bytes(), 1..4),
    ) {
        let settings = LogSettings { segment_bytes: 1 << 20, ..SMALL };
        let disk = memory();
        let (mut log, ..) = open(&disk, settings).expect("begins");
        let sizes = std::iter::once(before).chain(sizes);
        let written: Vec<_> = (1..).zip(sizes).map(|(number, size)| record(number, size)).collect();
        for record in &written {
            let start = log.end().0;
            log.append(&record.as_record()).expect("appends");
            let used_bytes = log.end().0 - start;
            prop_assert!(used_bytes <= unit_bytes_max(48 + record.payload.len()));
        }
        log.commit(true).expect("commits");
        drop(log);
        let found = open(&disk, settings).expect("opens").1;
        prop_assert_eq!(found, written);
    }

    #[test]
    fn bit_flip_is_an_error_or_loses_no_record_stated_durable(
        steps in proptest::collection::vec((payload_bytes(), 0..3_u8), 1..12),
        place in any::<prop::sample::Index>(),
        bit in 0..8_u8,
    ) {
        let settings = LogSettings { segment_bytes: 128 * 1024, ..SMALL };
        let disk = memory();
        let (mut log, ..) = open(&disk, settings).expect("begins");
        // `stated`: number of records durable before the last sync, according to its commit frame.
        let (mut written, mut stated) = (Vec::new(), 0);
        for (number, (size, commit)) in (1..).zip(steps) {
            let record = record(number, size);
            log.append(&record.as_record()).expect("appends");
            written.push(record);
            if commit > 0 {
                let durable = log.durable();
                log.commit(commit == 2).expect("commits");
                if log.durable() > durable {
                    stated = count_ended(&written, &disk, settings, durable);
                }
            }
        }
        log.commit(false).expect("writes");
        drop(log);
        let report = verify(&disk, &mut |_| {}).expect("reads");
        let used: u64 = report.segments.iter().map(|segment| segment.used_bytes).sum();
        let mut offset = place.index(used as usize) as u64;
        let segment = report.segments.iter().find(|segment| {
            let within = offset < segment.used_bytes;
            if !within {
                offset -= segment.used_bytes;
            }
            within
        });
        disk.damage(&segment.expect("within").file, offset, |byte| byte ^ (1 << bit));
        match open(&disk, settings) {
            Err(StoreError::Corrupt { .. }) => {}
            Err(other) => panic!("{other}"),
            Ok((_, found, _)) => {
                prop_assert!(written.starts_with(&found), "no record is made up");
                prop_assert!(found.len() >= stated, "{} of {stated} found", found.len());
            }
        }
    }

    #[test]
    fn segment_footers_round_trip_and_truncated_ones_are_rejected(
        records in proptest::collection::vec((0..5_u32, 0..3_u32, any::<u64>()), 0..40),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut owners = Owners::default();
        for (group, generation, index) in records {
            owners.add(Owner { group, generation }, index);
        }
        let bytes = owners.encode();
        prop_assert_eq!(bytes.len(), owners.footer_bytes(0));
        prop_assert_eq!(Owners::decode(&bytes), Ok(owners));
        prop_assert!(Owners::decode(&bytes[..cut.index(bytes.len())]).is_err());
    }

    #[test]
    fn arbitrary_bytes_behind_a_segment_header_are_a_torn_tail(
        noise in proptest::collection::vec(any::<u8>(), 4096..12_288),
        plausible in any::<bool>(),
    ) {
        let disk = memory();
        drop(open(&disk, SMALL).expect("begins"));
        let name = "0000000000000001.log";
        for (at, byte) in noise.iter().enumerate() {
            // Half of the time headers are plausible, so that they pass the first checks.
            let shaped = match at % 16 {
                8 => 1,
                9..=11 | 13 => 0,
                14 => byte % 5,
                15 => [1, 32, 33, 34][usize::from(byte % 4)],
                _ => *byte,
            };
            let byte = if plausible { shaped } else { *byte };
            disk.damage(name, 4096 + at as u64, |_| byte);
        }
        let segment = Segment::open(&disk, 1, Access::Read).expect("its header is whole");
        let mut walk = FrameWalk::new(segment);
        prop_assert!(walk.find_frame(0).expect("reads").is_none());
        let (_, found, _) = open(&disk, SMALL).expect("no frame is valid: a torn tail");
        prop_assert!(found.is_empty());
    }
}

#[test]
fn largest_record_gets_its_own_segment_and_reads_back() {
    let disk = memory();
    let (mut log, ..) = open(&disk, SMALL).expect("begins");
    let largest = record(2, LOG_RECORD_BYTES_MAX);
    for record in [&record(1, 10), &largest, &record(3, 9000)] {
        log.append(&record.as_record()).expect("appends");
    }
    log.commit(true).expect("commits");
    assert_eq!(log.segments(), 3);
    drop(log);
    let found = read(&disk).expect("sound");
    assert!(found == [record(1, 10), largest, record(3, 9000)]);
}

#[test]
fn new_log_segments_double_from_small_to_full_size() {
    let disk = memory();
    let settings = LogSettings { segment_bytes: 16 << 20, ..SMALL };
    let (mut log, ..) = open(&disk, settings).expect("begins");
    let large = record(1, 3 << 20);
    let mut lengths = vec![log.bytes()];
    while log.segments() < 4 {
        let (segments, bytes) = (log.segments(), log.bytes());
        log.append(&large.as_record()).expect("appends");
        if log.segments() > segments {
            lengths.push(log.bytes() - bytes);
        }
    }
    assert_eq!(lengths, [4 << 20, 8 << 20, 16 << 20, 16 << 20]);
}
